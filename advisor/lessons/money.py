"""Lessons about money and energy: tokens, owning, the wrong card, heat."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from advisor import api
from advisor.catalog.economy import load_economy
from advisor.equations.energy import WATTS_PER_KW, carbon_kg
from advisor.estimate.results import Estimate
from advisor.foundation.formatting import memory, money, rate
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import plain, trimmed
from advisor.lessons.asked import Asked
from advisor.lessons.results import Bar, Figures
from advisor.nouns.limits import Objective
from advisor.owning.results import RentKind
from advisor.planning.results import Candidate, RejectionCode

LOADS: Final = (1, 4, 16, 64, 256)
"""Requests at once."""
MOST_CARDS: Final = 10
PLACES: Final = ("swe", "fra", "usa", "deu", "pol", "ind")
HEATER_KW: Final = 1.5
"""A usual electric heater. [kW]"""


def token(asked: Asked) -> Figures:
    """Return what a token costs."""
    paid = _per_million(asked.plan)
    plan, work = asked.plan, asked.case.workload
    unit = "token" if getattr(work, "tokens", None) else "sample"
    if plan.serving is not None:
        unit = f"answer {plan.serving.unit}" if plan.serving.streams else plan.serving.unit
        axis, bars = f"USD per million {unit}s, by requests at once", _by_load(asked)
    else:
        axis = "USD for the run, cheapest offer of each card"
        bars = tuple(_bar(item, item.label, plan) for item in _cheapest(asked)[:MOST_CARDS])
    said = () if paid is None else (f"The plan pays {money(paid)} for a million {unit}s.",)
    return Figures(sentences=said, axis=axis, bars=bars)


def _per_million(found: Estimate) -> Range | None:
    return found.cost.usd_per_million_output_tokens or found.cost.usd_per_million_tokens


def _by_load(asked: Asked) -> tuple[Bar, ...]:
    bars = []
    for load in LOADS:
        found = asked.variant(concurrency=load, requests_per_s=None)
        if found is None or found.serving is None or not found.memory.fits:
            continue
        if (price := _per_million(found)) is not None:
            speed = rate(found.serving.output_tokens_per_s.expected, f"{found.serving.unit}s/s")
            bars.append(Bar.of(f"{load:,} at once", price, f"{money(price)}, {speed} in all"))
    return tuple(bars)


def _cost(item: Candidate) -> float:
    return item.cost_usd.expected if item.cost_usd else 0.0


def _cheapest(asked: Asked) -> list[Candidate]:
    """Return the cheapest priced candidate of each card, the cheapest first."""
    priced = [item for item in asked.recommendation.candidates if item.cost_usd is not None]
    first: dict[str, Candidate] = {}
    for item in sorted(priced, key=_cost):
        first.setdefault(item.accelerator, item)
    return list(first.values())


def _bar(item: Candidate, label: str, plan: Estimate) -> Bar:
    """Return the cost of a candidate, and whether runs on its card are unknown."""
    assert item.cost_usd is not None
    time = item.hours or item.tpot_ms
    unproven = time is not None and time.evidence is Evidence.ASSUMED
    text = f"{money(item.cost_usd, with_range=True)}{', no run published' if unproven else ''}"
    return Bar.of(label, item.cost_usd, text, chosen=item.accelerator == plan.accelerator)


def _surer(asked: Asked, bars: Iterable[Bar]) -> Iterator[str]:
    """Say why the cheapest plan is not the card with the lowest expected cost."""
    paid, aims = asked.plan.cost.rent_usd, asked.recommendation.rankings
    if paid is None or not aims or aims[0].objective is not Objective.CHEAPEST:
        return
    if any(bar.value.expected < paid.expected for bar in bars):
        yield (
            "A card that is expected to cost less than the plan may cost more: its price is old or "
            "a marketplace's, or no run on it is published. The plan has the lowest upper end."
        )


def own(asked: Asked) -> Figures:
    """Return renting against owning, as ``own`` answers the case."""
    found = api.own(asked.case, catalog=asked.catalog)
    rents: dict[RentKind, Bar] = {}
    for rent in sorted(found.rents, key=lambda item: item.total_usd.expected):
        rents.setdefault(rent.kind, Bar.of(rent.title, rent.total_usd, money(rent.total_usd)))
    total = found.own.total_usd
    use = f"{found.hours_per_month:,.0f} hours of use a month for {found.months} months"
    return Figures(
        sentences=(found.answer, f"Counted: {use}."),
        axis=f"USD over {found.months} months",
        bars=(Bar.of("Owning", total, money(total), chosen=True), *rents.values()),
    )


def any_card(asked: Asked) -> Figures:
    """Return how many cards of the catalog do the work, and why the others do not."""
    answer = asked.recommendation
    lost = Counter(item.code for item in answer.rejections)
    reasons = [code for code in RejectionCode if code is not RejectionCode.DOMINATED and lost[code]]
    total = len(asked.catalog.accelerators)
    return Figures(
        sentences=(
            (
                f"{answer.able} of the {total} accelerators in the catalog can be had and do this "
                "work within your limits."
            ),
        ),
        axis="Accelerators of the catalog",
        bars=(
            Bar.of("does the work", answer.able, f"{answer.able}", chosen=True),
            *(Bar.of(code.label, lost[code], f"{lost[code]}") for code in reasons),
        ),
    )


def more_memory(asked: Asked) -> Figures:
    """Return what cards with more memory cost for the same work."""
    plan, what = asked.plan, "a month" if asked.serves else "the run"
    sizes = {card.key: card.memory_reported_bytes for card in asked.catalog.accelerators}
    best = _cheapest(asked)
    need, has = memory(plan.memory.total_bytes), memory(plan.memory.usable_bytes)
    sentences = [f"The plan needs {need} of the {has} on each card."]
    paid = plan.cost.rent_usd
    if best and paid is not None:
        most = max(best, key=lambda item: sizes[item.accelerator])
        has_most = f"{most.accelerator_name} has the most memory of the cards that do the work"
        if most.accelerator != plan.accelerator:
            has_most += f" and costs {money(_cost(most))} for {what}; the plan costs {money(paid)}"
        sentences.append(f"{has_most}.")
    ordered = sorted(best[:MOST_CARDS], key=lambda item: sizes[item.accelerator])
    bars = [
        _bar(item, f"{memory(sizes[item.accelerator])}: {item.label}", plan) for item in ordered
    ]
    return Figures(
        sentences=(*sentences, *_surer(asked, bars)),
        axis=f"USD for {what}, least memory first",
        bars=tuple(bars),
    )


def energy(asked: Asked) -> Figures:
    """Return energy, heat and carbon of the work."""
    plan, sentences, bars = asked.plan, [], []
    if plan.cost.energy_kwh is not None:
        kwh = plan.cost.energy_kwh.expected
        taken = rate(plan.cost.energy_kwh, "kWh")
        sentences.append(f"The plan takes {taken} {'a month' if asked.serves else 'a run'}.")
        for place in map(load_economy().place, PLACES):
            kg = float(carbon_kg(energy_kwh=kwh, g_per_kwh=place.carbon_g_per_kwh))
            bars.append(Bar.of(place.name, kg, f"{plain(kg, 2)} kg"))
    card = asked.catalog.accelerator(plan.accelerator)
    if card.board_power_w:
        kw = plan.count * card.board_power_w / WATTS_PER_KW
        sentences.append(
            f"At full load the cards draw up to {trimmed(kw, 2)} kW: "
            f"the heat of {kw / HEATER_KW:,.1f} "
            f"electric heaters of {HEATER_KW:g} kW."
        )
    return Figures(
        sentences=tuple(sentences),
        axis="kg of CO₂, by where it runs",
        bars=tuple(sorted(bars, key=lambda bar: bar.value.expected)),
    )
