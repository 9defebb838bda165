"""Numbers as people read them: units, precision and ranges.

Estimates show two significant digits, or one where the range spans more than a factor of two;
prices from a list show three and more. Bounds are rounded outward.
"""

from __future__ import annotations

import math
from typing import Literal

from advisor.quantities import Range
from advisor.units import BILLION, DAY_S, GB, GIB, HOUR_S, MILLION, MINUTE_S

Value = float | Range
Rounding = Literal["nearest", "down", "up"]

EN_DASH = "\u2013"
WIDE_SPAN = 2.0
"""A range wider than this factor shows one significant digit."""


def round_significant(value: float, digits: int, rounding: Rounding = "nearest") -> float:
    """Round to significant digits.

    Examples
    --------
    >>> round_significant(29.4, 1)
    30.0
    >>> round_significant(21.2, 2, "up")
    22.0
    """
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    scaled = value / 10.0**exponent
    rounded = {"nearest": round, "down": math.floor, "up": math.ceil}[rounding](round(scaled, 9))
    return float(rounded) * 10.0**exponent


def plain(value: float, digits: int, rounding: Rounding = "nearest") -> str:
    """Return ``value`` with significant digits and thousands separators, no exponent.

    Examples
    --------
    >>> plain(1234.5, 2)
    '1,200'
    >>> plain(0.0123, 2)
    '0.012'
    """
    rounded = round_significant(value, digits, rounding)
    if rounded == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded)) + 1e-12))
    return f"{rounded:,.{decimals}f}"


def _digits(value: Value) -> int:
    if isinstance(value, Range) and value.low > 0 and value.high / value.low > WIDE_SPAN:
        return 1
    return 2


def _expected(value: Value) -> float:
    return value.expected if isinstance(value, Range) else value


def _with_bounds(value: Value, text: str, low: str, high: str, *, with_range: bool) -> str:
    if not with_range or not isinstance(value, Range) or value.low == value.high:
        return text
    return f"{text} ({low}{EN_DASH}{high})"


def _scaled(value: Value, factor: float, unit: str, *, with_range: bool) -> str:
    digits = _digits(value)
    text = f"{plain(_expected(value) * factor, 2)} {unit}"
    if not isinstance(value, Range):
        return text
    return _with_bounds(
        value,
        text,
        plain(value.low * factor, digits, "down"),
        plain(value.high * factor, digits, "up"),
        with_range=with_range,
    )


def memory(size_bytes: Value, *, with_range: bool = False) -> str:
    """Return memory in GiB.

    Examples
    --------
    >>> memory(29 * 2**30)
    '29 GiB'
    """
    expected = _expected(size_bytes) / GIB
    if expected >= 100:
        text = f"{expected:,.0f} GiB"
    elif expected >= 10:
        text = f"{expected:.0f} GiB"
    else:
        text = f"{expected:.1f} GiB"
    if not isinstance(size_bytes, Range):
        return text
    return _with_bounds(
        size_bytes,
        text,
        plain(size_bytes.low / GIB, 2, "down"),
        plain(size_bytes.high / GIB, 2, "up"),
        with_range=with_range,
    )


def memory_against(needed_bytes: float, usable_bytes: float) -> tuple[str, str]:
    """Return both figures in GiB with as many digits as keep them apart.

    Examples
    --------
    >>> memory_against(24.03 * 2**30, 23.99 * 2**30)
    ('24.03 GiB', '23.99 GiB')
    >>> memory_against(29.1 * 2**30, 23.99 * 2**30)
    ('29 GiB', '24 GiB')
    """
    for decimals in range(4):
        needed = f"{needed_bytes / GIB:,.{decimals}f}"
        usable = f"{usable_bytes / GIB:,.{decimals}f}"
        if needed != usable or needed_bytes == usable_bytes:
            break
    return f"{needed} GiB", f"{usable} GiB"


def _duration_unit(seconds: float) -> tuple[float, str]:
    if seconds < 90:
        return 1.0, "s"
    if seconds < 90 * MINUTE_S:
        return MINUTE_S, "min"
    if seconds < 72 * HOUR_S:
        return HOUR_S, "h"
    return DAY_S, "days"


def duration(seconds: Value, *, with_range: bool = False) -> str:
    """Return a time: seconds under 90 s, minutes under 90 min, hours under 72 h, then days.

    Examples
    --------
    >>> duration(9 * 3600)
    '9 h'
    >>> duration(4.2 * 86400)
    '4.2 days'
    """
    size, unit = _duration_unit(_expected(seconds))
    text = _trimmed(_scaled(seconds, 1 / size, unit, with_range=False))
    if not isinstance(seconds, Range):
        return text
    digits = _digits(seconds)
    return _with_bounds(
        seconds,
        text,
        _trimmed(plain(seconds.low / size, digits, "down")),
        _trimmed(plain(seconds.high / size, digits, "up")),
        with_range=with_range,
    )


def _trimmed(text: str) -> str:
    number, _, unit = text.partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number} {unit}".rstrip()


def _dollars(usd: float, rounding: Rounding = "nearest") -> str:
    if abs(usd) < 10:
        cents = usd * 100
        whole = {"nearest": round, "down": math.floor, "up": math.ceil}[rounding](cents)
        return f"${whole / 100:,.2f}"
    whole = {"nearest": round, "down": math.floor, "up": math.ceil}[rounding](usd)
    return f"${whole:,}"


def money(usd: Value, *, with_range: bool = False) -> str:
    """Return US dollars: cents under $10, else whole dollars.

    Examples
    --------
    >>> money(1.2)
    '$1.20'
    >>> money(299_999.6)
    '$300,000'
    """
    if not isinstance(usd, Range):
        return _dollars(usd)
    return _with_bounds(
        usd,
        _dollars(usd.expected),
        _dollars(usd.low, "down"),
        _dollars(usd.high, "up"),
        with_range=with_range,
    )


def hourly_price(usd_per_hour: float) -> str:
    """Return a price per hour with two decimals.

    Examples
    --------
    >>> hourly_price(2.5)
    '$2.50/h'
    """
    return f"${usd_per_hour:,.2f}/h"


def milliseconds(seconds: Value, *, with_range: bool = False) -> str:
    """Return a latency in milliseconds, or in seconds from one second on.

    Examples
    --------
    >>> milliseconds(0.0213)
    '21 ms'
    """
    if _expected(seconds) >= 1:
        return _scaled(seconds, 1.0, "s", with_range=with_range)
    return _scaled(seconds, 1e3, "ms", with_range=with_range)


def percent(fraction: Value, *, with_range: bool = False) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.42)
    '42 %'
    """
    return _scaled(fraction, 100.0, "%", with_range=with_range)


def count(number: float) -> str:
    """Return a whole number with thousands separators.

    Examples
    --------
    >>> count(8030261248)
    '8,030,261,248'
    """
    return f"{number:,.0f}"


def tokens(number: float) -> str:
    """Return a number of tokens in the usual multiple.

    Examples
    --------
    >>> tokens(50e6)
    '50 M tokens'
    """
    for size, suffix in ((1e12, " T"), (BILLION, " B"), (MILLION, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.4g}{suffix} tokens"
    return f"{number:,.0f} tokens"


def rate(per_s: Value, unit: str, *, with_range: bool = False) -> str:
    """Return a rate, e.g. tokens per second.

    Examples
    --------
    >>> rate(12345.0, "tokens/s")
    '12,000 tokens/s'
    """
    return _scaled(per_s, 1.0, unit, with_range=with_range)


def bandwidth(bytes_per_s: float) -> str:
    """Return a bandwidth in GB/s.

    Examples
    --------
    >>> bandwidth(3.35e12)
    '3,350 GB/s'
    """
    return f"{bytes_per_s / GB:,.0f} GB/s"


def flops(number: float) -> str:
    """Return operations in the usual multiple.

    Examples
    --------
    >>> flops(6.3e22)
    '63,000 EFLOP'
    """
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G")):
        if number >= size:
            return f"{plain(number / size, 2)} {prefix}FLOP"
    return f"{plain(number, 2)} FLOP"
