"""Rent or buy as tables."""

from typing import Final

import pandas as pd

from advisor.foundation.dates import marked
from advisor.foundation.formatting import hourly_price, money, with_minus, years
from advisor.foundation.units import round_significant
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.owning.results import Effect, Ownership, RentCost, Strip
from advisor.owning.sentences import (
    NEVER,
    UPKEEP,
    alone_text,
    amount,
    bought_cells,
    break_even_text,
    input_text,
    processors_text,
)

LARGE_BILL_USD: Final = 1_000.0
"""From this total on, cents only look exact. [USD]"""


@tabled
def timeline_frame(found: Ownership) -> Rows:
    """Return cumulative cost by month, low, expected and high. [USD]"""
    for item in found.timeline:
        yield {
            "month": item.month,
            "own_low_usd": item.own_usd.low,
            "own_usd": item.own_usd.expected,
            "own_high_usd": item.own_usd.high,
            "rent_low_usd": item.rent_usd.low,
            "rent_usd": item.rent_usd.expected,
            "rent_high_usd": item.rent_usd.high,
        }


@tabled
def timeline_table(found: Ownership) -> Rows:
    """Return the cumulative cost at the end of each year and at the start, as text."""
    for item in found.timeline:
        if item.month % 6 == 0 or item.month == found.months:
            yield {
                "After": f"{item.month} months",
                "Owning": money(item.own_usd, with_range=True),
                "Renting": money(item.rent_usd, with_range=True),
            }


@columns("title", "low_text", "high_text", "low_usd", "high_usd", "expected_usd")
def effects_frame(found: Ownership) -> Cells:
    """Return the effect of each uncertain input on the saving, largest first."""
    last = found.timeline[-1] if found.timeline else None
    base = last.rent_usd.expected - last.own_usd.expected if last else 0.0
    for item in found.effects:
        if item.low < item.high:
            yield (
                item.title,
                with_minus(input_text(item.low, item.unit)),
                with_minus(input_text(item.high, item.unit)),
                item.saving_at_low_usd,
                item.saving_at_high_usd,
                base,
            )


@tabled
def effects_table(found: Ownership) -> Rows:
    """Return inputs with bounds, and break-even at the bounds."""
    for item in found.effects:
        yield {
            "Input": item.title,
            "From": input_text(item.low, item.unit),
            "Buy above": _hours(item.hours_at_low),
            "To": input_text(item.high, item.unit),
            "Buy above ": _hours(item.hours_at_high),
        }


@tabled
def flips_table(found: Ownership) -> Rows:
    """Return the value of each input that turns the answer, the smallest change first."""
    for item, now, at in _flips(found):
        yield {
            "Input": item.title,
            "Now": input_text(now, item.unit),
            "Turns at": f"{'above' if at > now else 'below'} {input_text(at, item.unit)}",
        }


def flips_sentence(found: Ownership) -> str:
    """Return which input turns the answer with the smallest change."""
    owning = found.saving_usd is not None and found.saving_usd.expected >= 0
    less, more = ("Owning", "renting") if owning else ("Renting", "owning")
    now = f"{less} costs less than {more} now."
    nearest = next(iter(_flips(found)), None)
    if nearest is None:
        return f"{now} No plausible value of one input alone turns this."
    item, value, at = nearest
    return (
        f"{now} The smallest change that turns this: {item.title.lower()} "
        f"{'above' if at > value else 'below'} {input_text(at, item.unit)} instead of "
        f"{input_text(value, item.unit)}. Each value in the table does so alone."
    )


def _flips(found: Ownership) -> list[tuple[Effect, float, float]]:
    """Return each input that can turn the answer, its value and that value; nearest first."""
    expected = {item.field: item.value.expected for item in found.inputs}
    flips = [
        (item, expected.get(item.field, item.low), item.flips_at)
        for item in found.effects
        if item.flips_at is not None
    ]
    return sorted(flips, key=lambda each: abs(each[2] - each[1]) / (abs(each[1]) or 1.0))


def owned_sentence(found: Ownership) -> str:
    """Return what a machine costs who has it already, beside the cheapest rent; then all else."""
    upkeep = sum(line.usd for line in found.own.lines if line.name in UPKEEP)
    rent = None if found.against is None else found.rents[found.against].total_usd
    text = "Use what you have" if rent is None or upkeep <= rent.expected else "Rent all the same"
    text += f": it costs its upkeep alone, {money(round_significant(upkeep, 2))} over "
    text += years(found.months) + ("" if rent is None else f"; renting costs {money(rent)}")
    return f"{text}. To buy it anew is another question: {found.answer}"


def bill_table(found: Ownership) -> pd.DataFrame:
    """Return the lines of owning with their total; large ones whole, so that they still add up."""
    rows = [(line.title, line.usd) for line in found.own.lines if line.usd]
    total = found.own.total_usd.expected
    cells, sum_usd, places = [], 0.0, 2 if total < LARGE_BILL_USD else 0
    for title, usd in rows:
        before, sum_usd = sum_usd, sum_usd + usd
        cells.append((title, f"{round(sum_usd, places) - round(before, places):,.{places}f}"))
    cells.append(("Total", f"{round(sum_usd, places):,.{places}f}"))
    return pd.DataFrame(cells, columns=["Owning, money of today", "USD"])


@tabled
def rents_table(found: Ownership) -> Rows:
    """Return the ways of renting, cheapest first."""
    for item in found.rents:
        yield {
            "Offer": item.title,
            "Rent": hourly_price(item.usd_per_hour),
            "In all": money(item.total_usd, with_range=True),
            "One run": money(item.usd_per_run) if item.usd_per_run else "-",
            f"A million {found.unit}s": money(item.usd_per_million)
            if item.usd_per_million
            else "-",
            **_apart(item),
            "Buy above, h a month": break_even_text(item),
            "From month": f"{item.break_even.month}" if item.break_even.month else "-",
            "Price of": marked(item.price_date) if item.price_date else "you",
        }


def _apart(item: RentCost) -> dict[str, str]:
    """Return the columns of served text: a million tokens of prompts and of answers alone."""
    prompt, answer = item.usd_per_million_input, item.usd_per_million_output
    if prompt is None or answer is None:
        return {}
    return {"Of them, prompts alone": money(prompt), "Answers alone": money(answer)}


@tabled
def processors_table(found: Ownership) -> Rows:
    """Return the same work on processors, with the compared hardware first."""
    for item in found.processors:
        yield {
            "Hardware": item.accelerator_name,
            "One alone": alone_text(item, found.unit, with_range=True),
            "As fast": processors_text(item),
            "Price": money(item.purchase_usd) if item.purchase_usd else "unknown",
            "Draw": amount(item.draw_kw, "kW"),
            "Cooling": amount(item.cooling_kw, "kW"),
            "Energy": amount(item.energy_kwh, "kWh"),
            "Its bill": "unknown" if item.energy_usd is None else money(item.energy_usd),
            "Cooling in it": "unknown" if item.cooling_usd is None else money(item.cooling_usd),
            "Carbon": amount(item.carbon_kg, "kg"),
        }


@tabled
def budget_table(found: Ownership) -> Rows:
    """Return what a budget buys: the best mix, then the best with one kind of machine."""
    mixed = len(found.budget.best) if found.budget else 0
    for place, cells in enumerate(bought_cells(found)):
        yield {"": "Best mix" if place < mixed else "Alone", **cells}


@tabled
def inputs_table(found: Ownership) -> Rows:
    """Return every input with its bounds and source."""
    for item in found.inputs:
        yield {
            "Input": item.title,
            "Value": input_text(item.value.expected, item.unit),
            "Range": (
                "given"
                if item.given
                else "-"
                if item.value.low == item.value.high
                else f"{input_text(item.value.low, item.unit)} to "
                f"{input_text(item.value.high, item.unit)}"
            ),
            "Source": item.source,
        }


def strip_frame(strip: Strip) -> pd.DataFrame:
    """Return ``value, hours`` of a strip; hours are missing if owning never pays."""
    return pd.DataFrame({"value": strip.values, "hours": strip.hours}).astype(float)


def _hours(value: float | None) -> str:
    return NEVER if value is None else f"{value:,.0f} h"
