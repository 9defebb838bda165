"""Exact decimal arithmetic for money, without the rounding errors of binary floats."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Final

CENT: Final = Decimal("0.01")
_WIDE: Final = Context(prec=400)
"""Room for the cents of any float: the usual 28 digits end at 10**26 USD."""


@lru_cache(maxsize=16_384)
def times(usd: float, number: float) -> float:
    """Return a price times a number, computed in exact decimal arithmetic.

    >>> 3 * 1.1, times(1.1, 3)
    (3.3000000000000003, 3.3)
    """
    return float(Decimal(repr(usd)) * Decimal(repr(number)))


def rounded(usd: float) -> float:
    """Return an amount in whole cents, halves away from zero.

    >>> rounded(0.125)
    0.13
    """
    return float(_cents(usd))


def total(amounts: Iterable[float]) -> float:
    """Return the exact sum of amounts in whole cents, so that the lines of a bill add up.

    >>> sum([0.1] * 3), total([0.1] * 3)
    (0.30000000000000004, 0.3)
    """
    return float(sum((_cents(usd) for usd in amounts), Decimal(0)))


def _cents(usd: float) -> Decimal:
    return Decimal(repr(float(usd))).quantize(CENT, ROUND_HALF_UP, _WIDE)
