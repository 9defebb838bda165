"""The comparison in words: what the terminal and the tables share."""

from __future__ import annotations

from advisor.foundation.formatting import count, plain
from advisor.owning.results import ProcessorOption, RentCost, RentKind

NEVER = "never"
ROUNDED_UP = 0.95
"""Scaling above this is perfect up to a whole number of processors."""


def break_even_text(rent: RentCost) -> str:
    """Return break-even hours with their range, in words where no use pays."""
    if rent.kind is RentKind.COMMITTED:
        return "all hours are paid"
    even = rent.break_even
    value = even.hours_per_month
    if value is None:
        return NEVER if even.hours_at_best is None else f"never (at best {even.hours_at_best:,.0f})"
    high = NEVER if even.may_never else f"{value.high:,.0f}"
    return f"{value.expected:,.0f} ({value.low:,.0f} to {high})"


def input_text(value: float, unit: str) -> str:
    """Return an input as people write it: shares in percent, amounts as they are.

    Examples
    --------
    >>> input_text(0.38, "of the accelerators' price")
    '38.0%'
    >>> input_text(0.145, "USD/kWh")
    '0.145 USD/kWh'
    """
    if unit.startswith("of ") or unit == "per year":
        return f"{value:.1%}"
    return f"{plain(value, 3)} {unit}".rstrip()


def amount(value: float | None, unit: str) -> str:
    """Return an estimate with its unit, or that it is unknown."""
    return "unknown" if value is None else f"{plain(value, 2)} {unit}"


def processors_text(item: ProcessorOption) -> str:
    """Return how many are as fast, and how: with losses, or each with a run of its own."""
    number = f"{count(item.count)}x"
    if item.apart:
        return f"{number} apart"
    if item.scaling is None or item.count == 1 or item.scaling >= ROUNDED_UP:
        return number
    return f"{number} ({item.scaling:.0%})"
