"""Units: SI inside, human units only at the doors.

Inside the engine every quantity is in bytes, FLOPs (a count, never a rate), seconds,
bytes per second, FLOPs per second, watts or USD per hour, and its name shows the unit. Data files
and the screen use the human units below. Each value is converted once, where it enters or leaves.
"""

import math
from collections.abc import Callable
from typing import Final, Literal

MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
KIB: Final = 2.0**10
MIB: Final = 2.0**20
GIB: Final = 2.0**30

TFLOP: Final = 1e12
MILLION: Final = 1e6
BILLION: Final = 1e9

MICROSECOND: Final = 1e-6
MILLISECOND: Final = 1e-3
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
HOURS_PER_MONTH: Final = 730.0
"""Average hours in a month: 365 days x 24 h / 12. [h]"""

MONTHS_PER_YEAR: Final = 12

BITS_PER_BYTE: Final = 8.0
GIGABIT_PER_S: Final = 1e9 / BITS_PER_BYTE
"""One gigabit per second. [bytes/s]"""


Rounding = Literal["nearest", "down", "up"]
_ROUND: dict[Rounding, Callable[[float], int]] = {
    "nearest": round,
    "down": math.floor,
    "up": math.ceil,
}


def round_significant(value: float, digits: int, rounding: Rounding = "nearest") -> float:
    """Round to significant digits.

    >>> round_significant(29.4, 1)
    30.0
    >>> round_significant(21.2, 2, "up")
    22.0
    """
    if value == 0:
        return 0.0
    return round_place(value, exponent(value) - digits + 1, rounding)


def plain(value: float, digits: int, rounding: Rounding = "nearest") -> str:
    """Return ``value`` with significant digits and thousands separators, no exponent.

    >>> plain(1234.5, 2)
    '1,200'
    >>> plain(0.0123, 2)
    '0.012'
    """
    rounded = round_significant(value, digits, rounding)
    if rounded == 0:
        return "0"
    return f"{rounded:,.{max(0, digits - 1 - exponent(rounded))}f}"


def trimmed(value: float, digits: int) -> str:
    """Return ``value`` as `plain` does, without zeros at the end of its decimals.

    >>> trimmed(5.0, 3), trimmed(12345.6, 4), trimmed(0.25, 3)
    ('5', '12,350', '0.25')
    """
    text = plain(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def exponent(value: float) -> int:
    """Return the power of ten of the first significant digit."""
    return math.floor(math.log10(abs(value)) + 1e-12)


def round_place(value: float, place: int, rounding: Rounding) -> float:
    """Round to a multiple of 10 ** ``place``, ignoring noise in the last bits."""
    scaled = round(value / 10.0**place, 9)
    whole = int(_ROUND[rounding](scaled))
    return whole * 10.0**place if place >= 0 else whole / 10.0**-place


def at_place(value: float, place: int, rounding: Rounding) -> str:
    """Return a number with the digits of a decimal place and thousands separators."""
    return f"{round_place(value, place, rounding):,.{max(0, -place)}f}"
