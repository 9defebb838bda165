"""The comparison in words, for the terminal and the tables."""

from __future__ import annotations

from advisor.foundation.formatting import count, percent
from advisor.foundation.rounding import plain
from advisor.owning.results import ProcessorOption, RentCost, RentKind

NEVER = "never"
ROUNDED_UP = 0.95
"""Above this share, only rounding to whole processors separates the scaling from perfect."""


def break_even_text(rent: RentCost) -> str:
    """Return break-even hours with their range, or words if buying never pays."""
    if rent.kind is RentKind.COMMITTED:
        return "all hours are paid"
    even = rent.break_even
    value = even.hours_per_month
    if value is None:
        return NEVER if even.hours_at_best is None else f"never (at best {even.hours_at_best:,.0f})"
    high = NEVER if even.may_never else f"{value.high:,.0f}"
    return f"{value.expected:,.0f} ({value.low:,.0f} to {high})"


def input_text(value: float, unit: str) -> str:
    """Return an input as text: a share in percent, money with its sign, an amount with its unit.

    Examples
    --------
    >>> input_text(0.38, "of the accelerators' price")
    '38 %'
    >>> input_text(0.145, "USD/kWh")
    '$0.145/kWh'
    >>> input_text(3517.8, "USD")
    '$3,520'
    """
    if unit.startswith("of ") or unit == "per year":
        return f"{f'{100 * value:.1f}'.removesuffix('.0')} %"
    money, _, per = unit.partition("USD")
    if unit and not money:
        return f"${plain(value, 3)}{per}"
    return f"{plain(value, 3)} {unit}".rstrip()


def amount(value: float | None, unit: str) -> str:
    """Return an estimate with its unit, or *unknown*."""
    return "unknown" if value is None else f"{plain(value, 2)} {unit}"


def processors_text(item: ProcessorOption) -> str:
    """Return how many match the speed, with their scaling; *apart* if each does its own run."""
    number = f"{count(item.count)}x"
    if item.apart:
        return f"{number} apart"
    if item.scaling is None or item.count == 1 or item.scaling >= ROUNDED_UP:
        return number
    return f"{number} ({percent(item.scaling)})"
