"""The answer in sentences, and the words of the comparison for terminal and tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date

from advisor.architecture.resolve import resolve_model
from advisor.catalog.nodes import sold_together
from advisor.estimate.configuration import unused_words
from advisor.estimate.results import Estimate
from advisor.foundation.dates import STALE_DAYS
from advisor.foundation.formatting import (
    count,
    duration,
    hourly_price,
    memory,
    money,
    percent,
    rate,
    years,
)
from advisor.foundation.formatting import count as whole
from advisor.foundation.quantities import Evidence
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH, plain, round_significant, trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.money import Owning
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.quality import loses_little, quality_words
from advisor.owning.assumptions import OFF, Size
from advisor.owning.compare import Comparison
from advisor.owning.results import (
    Assumption,
    BudgetAnswer,
    Line,
    Ownership,
    ProcessorOption,
    Purchase,
    RentCost,
    RentKind,
)

NEVER = "never"
EIGHT_BITS = "fp8"
UPKEEP = {"electricity": "power", "colocation": "place", "staff": "staff"}
"""Lines of a bill that go on after the purchase, in words."""
ROUNDED_UP = 0.95
"""Above this share, only rounding to whole processors separates the scaling from perfect."""


def answer(
    estimate: Estimate,
    compared: list[Comparison],
    rents: tuple[RentCost, ...],
    main: Comparison | None,
    count: int,
) -> str:
    """Return which is cheaper at the stated hours, and above how many hours buying pays."""
    cards = f"{whole(count)}x {estimate.accelerator_name}"
    if main is None:
        none = f"No offer in the catalog rents {cards} on demand under your limits"
        return (
            f"{none}: compare with the other ways below."
            if rents
            else f"{none}: only owning is priced."
        )
    even = rents[compared.index(main)].break_even
    value = even.hours_per_month
    against = f"{main.tenancy.title} at {hourly_price(main.tenancy.usd_per_hour)}"
    if value is not None and round(value.expected) == 0:
        use = f"Owning costs less than {against} at any use."
    elif value is None:
        use = f"Against {against}, buying never pays"
        if even.hours_at_best is not None:
            use += f" (at best above {even.hours_at_best:,.0f} hours a month)"
        use += "."
    else:
        worst = "never" if even.may_never else f"above {value.high:,.0f}"
        use = (
            f"Against {against}, buying pays above {value.expected:,.0f} hours a month (at best "
            f"above {value.low:,.0f}, at worst {worst})."
        )
    asked = f"{main.hours:,.0f} hours a month for {years(main.months)}"
    verdict = _verdict(main, cards, asked)
    parts = [verdict, use, _cheaper(compared, main)]
    if hosted := next((item for item in rents if item.kind is RentKind.API), None):
        rent = float(main.rent(main.spread.base, hours=main.hours))
        own = rent - float(main.saving(main.spread.base))
        if hosted.total_usd.expected < min(rent, own):
            without = f"Without it: {verdict[0].lower()}{verdict[1:]}"
            parts[:1] = [_api(hosted, least=years(main.months)), without]
        else:
            parts.append(_api(hosted))
    return " ".join(filter(None, parts))


def in_host(estimate: Estimate, inputs: Sequence[Assumption]) -> Iterator[str]:
    """Yield what the work keeps in the host's memory, and whether the price has it."""
    held = estimate.memory.host_bytes
    if held.expected:
        counted = any("32 GB more" in item.source for item in inputs)
        price = "includes it" if counted else "is of one with the usual memory"
        yield (
            f"The work fits with {memory(held.high)} in the host's memory for each card: see that "
            f"the machine has it. The price here {price}."
        )


def upkeep_words(lines: Iterable[Line]) -> Iterator[str]:
    """Yield what of owning is power, place and staff."""
    parts = [
        f"{money(round_significant(line.usd, 2))} for {UPKEEP[line.name]}"
        for line in lines
        if line.name in UPKEEP and line.usd >= 1
    ]
    if parts:
        *first, last = parts
        yield f"Owning includes {' and '.join(filter(None, (', '.join(first), last)))}."


def narrower(
    case: Case,
    estimate: Estimate,
    narrow: Callable[[], Purchase | None],
    bought: Purchase | None,
) -> Iterator[str]:
    """Yield what weights of 8 bits need, if it is less than a service's 16 that nobody stated."""
    workload, served = case.workload, estimate.serving
    if served is None or not served.streams or getattr(workload, "weight_format", None):
        return
    formats = (estimate.precision, resolve_model(case.model).weight_format)
    wide = all(WEIGHT_FORMATS[name].bytes_per_parameter > 1 for name in formats)
    least = narrow() if wide and loses_little(EIGHT_BITS) else None
    if least is not None and (bought is None or least.usd < bought.usd):
        yield (
            f"Its weights have 16 bits, as published. In {EIGHT_BITS}, "
            f"{whole(least.machines)} x {least.machine_name} would do the work for "
            f"{money(least.usd)} (published loss: {quality_words(EIGHT_BITS)}): choose "
            f"{EIGHT_BITS} to compare."
        )


def billed_part(bought: Purchase | None, budget: BudgetAnswer | None) -> Iterator[str]:
    """Yield the machines of the bill, or which part of a mixed purchase it is of."""
    best = budget.best if budget else ()
    if bought is None or best == (bought,):
        return
    machines = f"{whole(bought.machines)} x {bought.machine_name} for {money(bought.usd)}"
    if bought in best:
        yield f"The bill is of the largest part of what the budget buys, {machines}."
    else:
        runs = bought.runs_per_month
        more = f", for {plain(runs, 3)} runs a month" if runs else ""
        if budget and bought.usd > budget.budget_usd:
            more += "; nothing within the budget does this work as fast as it is asked for"
        yield f"The machines: {machines}, {bought.rated_w:,.0f} W rated{more}."


def _cheaper(compared: list[Comparison], main: Comparison) -> str:
    """Return the cheapest commitment or spot offer, if it costs less than the compared one."""
    base = main.spread.base
    kinds = {RentKind.COMMITTED, RentKind.SPOT} - {main.tenancy.kind}
    first = next((item for item in compared if item.tenancy.kind in kinds), main)
    amount = float(main.rent(base, hours=main.hours) - first.rent(base, hours=main.hours))
    if amount <= 0:
        return ""
    catch = "every hour of the term is paid" if first.tenancy.committed else "it can be taken back"
    saved = money(round_significant(amount, 2))
    return f"{first.tenancy.title} would cost {saved} less to rent, but {catch}."


def _api(item: RentCost, *, least: str = "") -> str:
    """Return a hosted model with its bill and break-even; where it costs the ``least``, how long.

    A plan of a fleet begins alike then.
    """
    total = money(round_significant(item.total_usd.expected, 2))
    text = f"{item.title} would bill {total} for the same work"
    if least:
        text = f"Call the {item.title}: {total} over {least}, less than buying or renting"
    requests = item.break_even_requests_per_day
    if requests is not None:
        text += (
            f"; owning costs less above {whole(int(round_significant(requests, 2)))} requests a day"
        )
    return f"{text} ({item.note})." if item.note else f"{text}."


def _verdict(main: Comparison, cards: str, use: str) -> str:
    """Return which is cheaper at the stated use, or that the range leaves it open."""
    saving, rent, other = main.saving_range(), main.tenancy.title, main.tenancy.cards
    amount = money(round_significant(abs(saving.expected), 2))
    if saving.low < 0 < saving.high:
        side = "less" if saving.expected >= 0 else "more"
        return (
            f"Too close to call: at {use}, buying {cards} costs {amount} {side} than renting "
            f"({rent}), but the range includes both answers."
        )
    if saving.expected >= 0:
        return f"Buy {cards}: at {use}, this costs {amount} less than renting ({rent})."
    if other:
        where = rent.removesuffix(f", {other}")
        return f"Rent {other} ({where}): at {use}, this costs {amount} less than buying {cards}."
    return f"Rent {cards} ({rent}): at {use}, this costs {amount} less than buying."


def assumptions(
    case: Case,
    estimate: Estimate,
    accelerator: Accelerator,
    inputs: Sequence[Assumption],
    hours: float,
    rents: tuple[RentCost, ...],
    processors: tuple[ProcessorOption, ...],
    *,
    groups: int,
    today: date,
) -> tuple[str, ...]:
    """Return what the answer assumes, as short notes."""
    found = [
        *_hardware_notes(case.owning, accelerator, estimate.count, hours, groups, today),
        *(OFF for item in inputs if item.source == OFF and hours < HOURS_PER_MONTH),
        "all amounts are present values: money of today, before tax",
        "the bounds of an input are its 80 % interval; inputs are independent of each other",
        "the owned machines run the work as fast as the rented ones",
        "the machines' worth counts only at the end of the horizon",
    ]
    found += [
        f"rates of {accelerator.name} from the {item.measured.kernels.source}"
        for item in case.limits.owned
        if item.measured and item.accelerator == accelerator.key
    ]
    if any(item.slower.evidence is Evidence.ASSUMED for item in processors):
        found.append("processors: their kernels were not measured, their times are assumptions")
    if any(item.kind is RentKind.SPOT for item in rents):
        found.append("spot: the lowest of three recorded interruption rates; markets differ widely")
    found += [
        f"the price of {item.title} dates from {item.price_date}: {item.price_age_days} days old"
        for item in rents
        if (item.price_age_days or 0) > STALE_DAYS
    ]
    return tuple(dict.fromkeys([*found, *estimate.assumptions]))


def _hardware_notes(
    owning: Owning, accelerator: Accelerator, count: int, hours: float, groups: int, today: date
) -> Iterator[str]:
    """Yield how the bought cards are priced and used."""
    if accelerator.at_launch_price(today=today) and owning.purchase_usd is None:
        yield (
            f"{accelerator.name} at its {accelerator.price_words(today=today)}: shops may ask "
            "another price, look it up and enter it (--purchase-price)"
        )
    if groups > 1:
        yield (
            f"the bill is of all {groups} groups of {count}; processors are compared with one group"
        )
    if owning.hours_per_month is None:
        yield f"{hours:,.0f} hours in use each month"


def machines_words(size: Size, stated: int) -> Iterator[str]:
    """Yield the machines of the bill, if several cards were stated."""
    if 1 < stated <= size.accelerators:
        most, machines = size.cards_in_one, f"one machine that holds all {whole(size.accelerators)}"
        if size.machines > 1:
            machines = f"{whole(size.machines)} machines with {'up to ' * (most > 1)}{most} in each"
        yield f"They stand in {machines}."


def unused(accelerator: Accelerator, bought: int, estimate: Estimate, stated: int) -> Iterator[str]:
    """Yield why more cards are on the bill than stated, or than the work uses."""
    if 0 < stated < bought:
        uses = f"the bill is of {whole(bought)}, and the work uses {whole(estimate.cards)} of them"
        yield f"{accelerator.name} is sold in machines of {sold_together(accelerator)}: {uses}."
        return
    for words in unused_words(estimate, stated):
        yield f"{words[0].upper()}{words[1:]}."


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

    >>> input_text(0.38, "of the accelerators' price")
    '38 %'
    >>> input_text(10.241, "per year"), input_text(-0.644, "per year"), input_text(0.0, "per year")
    ('1,020 %', '-64.4 %', '0 %')
    >>> input_text(0.145, "USD/kWh")
    '$0.145/kWh'
    >>> input_text(3517.8, "USD")
    '$3,520'
    >>> input_text(18.32, "USD/h"), input_text(60.0, "USD per machine and month")
    ('$18.32/h', '$60 per machine and month')
    """
    if unit == "USD/h" and value >= 1:  # cents would say too little of less
        return hourly_price(value)
    if unit.startswith("of ") or unit == "per year":
        return f"{trimmed(100 * value, 3)} %"
    money, _, per = unit.partition("USD")
    if unit and not money:
        return f"${plain(value, 3).removesuffix('.0')}{per}"
    return f"{plain(value, 3)} {unit}".rstrip()


def amount(value: float | None, unit: str) -> str:
    """Return an estimate with its unit, or *unknown*."""
    return "unknown" if value is None else f"{plain(value, 2)} {unit}"


def alone_text(item: ProcessorOption, unit: str, *, with_range: bool = False) -> str:
    """Return the time of a run on one processor, or its speed."""
    if item.hours:
        return duration(item.hours.scaled(HOUR_S), with_range=with_range)
    return (
        rate(item.tokens_per_s, f"{unit}s/s", with_range=with_range) if item.tokens_per_s else "-"
    )


def bought_cells(found: Ownership) -> Iterator[dict[str, str]]:
    """Yield what a budget buys, column by column: the best mix, then one kind of machine."""
    budget = found.budget
    for item in (*budget.best, *budget.alternatives) if budget else ():
        speed = item.tokens_per_s
        yield {
            "Buy": f"{item.machines:,} x {item.machine_name}",
            "Price": money(item.usd),
            "Cards' price": item.price_of,
            "Rated": f"{item.rated_w:,.0f} W",
            "One run": duration(item.hours * HOUR_S) if item.hours else "-",
            "Together": rate(speed, f"{found.unit}s/s") if speed else "-",
        }


def processors_text(item: ProcessorOption) -> str:
    """Return how many match the speed, with their scaling; *apart* if each does its own run."""
    number = f"{count(item.count)}x"
    if item.apart:
        return f"{number} apart"
    if item.scaling is None or item.count == 1 or item.scaling >= ROUNDED_UP:
        return number
    return f"{number} ({percent(item.scaling)})"
