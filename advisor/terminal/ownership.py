"""Rent or buy, in text."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from advisor.foundation.dates import dated
from advisor.foundation.formatting import count, money, rate, signed_money, term_value
from advisor.foundation.quantities import Range
from advisor.owning import results
from advisor.owning.sentences import (
    alone_text,
    amount,
    bought_cells,
    break_even_text,
    input_text,
    processors_text,
)
from advisor.terminal.console import Report, Screen, listed, of_cells, table

SHOWN_EFFECTS: Final = 6
FIRST_EFFECTS: Final = 3
SHOWN_RENTS: Final = 3
SHOWN_PROCESSORS: Final = 5


def show_ownership(console: Report, found: results.Ownership, *, everything: bool = False) -> None:
    """Print the answer on one screen; ``everything`` opens bills, inputs, terms and processors."""
    if not everything:
        _short(console, found, owning=_owning_sentence(found))
        return
    console.print(found.answer, style="bold")
    _budget(console, found)
    years = f"{found.months} months at {found.hours_per_month:,.0f} h, {found.place}"
    owning = f"Owning {count(found.count)}x {found.accelerator_name}: {years}"
    console.tabled(owning, ["Present value", "USD"], _bill(found, ()), right=[1])
    console.paragraph(_owning_sentence(found))
    console.tabled(
        "Renting",
        ["Offer", "USD/h", "Total", "Buy above h/month", "From month", "Price of"],
        map(_rent_row, found.rents),
        right=[1, 2],
    )
    console.tabled(
        "What matters most: rent minus owning, at both ends of each input",
        ["Input", "Low end", "High end", "Equal at"],
        map(_effect_row, found.effects[:SHOWN_EFFECTS]),
        right=[1, 2, 3],
    )
    if len(found.processors) > 1:
        span = "a run" if found.processors[0].hours else "a month"
        console.tabled(
            "The same work on processors: number for equal speed; energy, its bill and the "
            f"cooling in it, of {span}",
            ["Hardware", "One alone", "Needed", "Price", "Power", "Energy", "Bill", "Cooling"],
            [_processor_row(item, found.unit) for item in found.processors[: SHOWN_PROCESSORS + 1]],
            right=range(1, 8),
        )
    _explain(console, found)
    console.bullets("Assumed", found.assumptions)
    console.bullets("Data", found.attributions)


def _bill(found: results.Ownership, prices: Sequence[str]) -> list[tuple[str, str]]:
    bill = [
        (", ".join([line.title, *prices[: line.name == "accelerators"]]), f"{line.usd:,.2f}")
        for line in found.own.lines
        if line.usd
    ]
    return [*bill, ("Total", f"{found.own.total_usd.expected:,.2f}")]


def _short(console: Report, found: results.Ownership, *, owning: str) -> None:
    """Print the answer, both bills, and the inputs that decide."""
    screen = Screen(console, "--explain shows every input, term, processor and source.")
    screen.add(0, Text(found.answer, style="bold"))
    if found.budget is not None:
        screen.say(0, found.budget.sentence, title=f"What {money(found.budget.budget_usd)} buys")
    prices = [item.source for item in found.inputs if item.field == "purchase_usd"]
    title = f"Owning {found.count:,}x {found.accelerator_name}, present value"
    screen.add(1, table([title, "USD"], _bill(found, prices), right=[1]))
    screen.say(1, owning)
    rents = [
        (rent.title, f"{rent.usd_per_hour:,.2f}", money(rent.total_usd), break_even_text(rent))
        for place, rent in enumerate(found.rents)
        if place < SHOWN_RENTS or place == found.against
    ]
    if rents:
        screen.add(
            1, table(["Renting", "USD/h", "Total", "Buy above h/month"], rents, right=[1, 2])
        )
    effects = "; ".join(
        f"{item.title} ({input_text(item.low, item.unit)} to {input_text(item.high, item.unit)})"
        for item in found.effects[:FIRST_EFFECTS]
    )
    screen.say(2, effects and f"{effects}.", title="What matters most")
    slower = "; ".join(
        f"{processors_text(item)} {item.accelerator_name}" for item in found.processors[1:3]
    )
    screen.say(4, slower and f"{slower}.", title="Processors of equal speed")
    screen.say(3, listed(found.assumptions), title="Assumed")
    screen.say(0, " ".join(found.attributions), title="Data")
    screen.show()


def _owning_sentence(found: results.Ownership) -> str:
    own = found.own
    parts = [
        f"{money(own.total_usd, with_range=True)} in total",
        f"{money(own.usd_per_hour, with_range=True)} for each hour in use",
        f"{money(own.usd_per_run, with_range=True)} for a run" if own.usd_per_run else "",
        _million(own, found.unit),
    ]
    energy = rate(own.energy_kwh, "kWh", with_range=True)
    carbon = rate(own.carbon_kg, "kg CO2", with_range=True)
    run = own.energy_kwh_per_run
    each = f" ({rate(run, 'kWh')} for a run)" if run else ""
    return (
        f"{'; '.join(part for part in parts if part)}. Energy {energy} in all with idle hours and "
        f"cooling{each}, carbon {carbon}."
    )


def _million(own: results.OwningCost, unit: str) -> str:
    """Return what a million tokens cost; of served text, in the prompt and in the answer."""
    if own.usd_per_million is None:
        return ""
    text = f"{money(own.usd_per_million, with_range=True)} for a million {unit}s"
    if own.usd_per_million_input is None or own.usd_per_million_output is None:
        return text
    return (
        f"{text} of answers with their prompts ({money(own.usd_per_million_input)} for prompts and "
        f"{money(own.usd_per_million_output)} for answers alone)"
    )


def _rent_row(rent: results.RentCost) -> tuple[str, ...]:
    even = rent.break_even
    return (
        rent.title,
        f"{rent.usd_per_hour:,.2f}",
        money(rent.total_usd),
        break_even_text(rent),
        f"{even.month}" if even.month else "-",
        dated(rent.price_date) or "by you",
    )


def _effect_row(effect: results.Effect) -> tuple[str, ...]:
    share = input_text(effect.low, effect.unit).endswith("%")
    # With a unit at every figure, the name would not fit.
    unit = effect.unit if share else ""
    return (
        effect.title if share or not effect.unit else f"{effect.title}, {effect.unit}",
        f"{input_text(effect.low, unit)}: {signed_money(effect.saving_at_low_usd)}",
        f"{input_text(effect.high, unit)}: {signed_money(effect.saving_at_high_usd)}",
        "-" if effect.flips_at is None else input_text(effect.flips_at, unit),
    )


def _processor_row(item: results.ProcessorOption, unit: str) -> tuple[str, ...]:
    return (
        item.accelerator_name,
        alone_text(item, unit),
        processors_text(item),
        money(item.purchase_usd) if item.purchase_usd else "unknown",
        amount(item.draw_kw, "kW"),
        amount(item.energy_kwh, "kWh"),
        "unknown" if item.energy_usd is None else money(item.energy_usd),
        "unknown" if item.cooling_usd is None else money(item.cooling_usd),
    )


def _budget(console: Report, found: results.Ownership) -> None:
    budget = found.budget
    if budget is None:
        return
    console.heading(f"What {money(budget.budget_usd)} buys")
    if not budget.best:
        console.paragraph(budget.sentence)
        return
    console.print(of_cells([*bought_cells(found)], right=(1, 3, 4, 5)))
    console.paragraph(f"{budget.sentence} The other rows are the best with one kind of machine.")


def _explain(console: Report, found: results.Ownership) -> None:
    console.heading("Inputs")
    for item in found.inputs:
        console.paragraph(f"{item.title}: {input_range(item)}")
        console.definitions(("source", item.source))
    console.heading("Terms")
    terms = [*found.own.terms, *(term for rent in found.rents for term in rent.terms)]
    for term in terms:
        console.paragraph(f"{term.title}: {term_value(term)}")
        console.definitions(("formula", term.formula), ("values", term.substituted))


def input_range(item: results.Assumption) -> str:
    """Return an input with its bounds."""
    value: Range = item.value
    text = input_text(value.expected, item.unit)
    if value.low == value.high:
        return text
    low, high = input_text(value.low, item.unit), input_text(value.high, item.unit)
    return f"{text} ({low} to {high})"
