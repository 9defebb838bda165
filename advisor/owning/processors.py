"""Processors that do the same work, and cards with the machines around them that they replace."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.economy import Economy
from advisor.catalog.nodes import owned_node
from advisor.equations.energy import carbon_kg
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.foundation import cents
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH
from advisor.nouns.case import Case, Hardware
from advisor.nouns.hardware import Accelerator, PriceKind, Segment
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Bought, size_of
from advisor.owning.costs import bought_usd, machine_kw
from advisor.owning.results import ProcessorOption
from advisor.planning.prepared import PricedCase
from advisor.planning.search.precisions import search
from advisor.planning.search.systems import LADDER, System
from advisor.planning.stated import best_placement

MOST_EXTRA: Final = 4
"""The largest timed cluster, as a multiple of the number that perfect scaling needs."""
ROUNDING: Final = 1e-9


def compare_processors(
    asked: PricedCase, estimate: Estimate, economy: Economy
) -> tuple[ProcessorOption, ...]:
    """Estimate a case on processors and scale them to equal throughput.

    The compared hardware comes first, then the processors that can do the work, fewest first. The
    same engine estimates all of them; training clusters include their network.
    """
    catalog = asked.catalog
    processors = [card for card in catalog.accelerators if card.segment is Segment.CPU]
    hardware = catalog.accelerator(estimate.accelerator)
    singles = []
    for card in processors:
        single = _estimated(asked, card)
        if single is not None and single.memory.fits:
            singles.append((card, single, _slower(single, estimate)))
    counts = _clusters(asked, estimate, singles)
    case = asked.case
    first = _option(case, hardware, estimate, estimate, economy, Range.exact(1.0), estimate.count)
    found = [
        _option(case, card, single, estimate, economy, slower, number)
        for (card, single, slower), number in zip(singles, counts, strict=True)
    ]
    found.sort(key=lambda item: (item.apart, item.count, item.accelerator))
    return (first, *found)


def _clusters(
    asked: ResolvedCase, estimate: Estimate, singles: Sequence[tuple[Accelerator, Estimate, Range]]
) -> list[int | None]:
    """Return how many of each processor match the estimate's speed; None if no number does.

    Served requests are spread over independent processors. The engine times a training run on
    growing clusters with their network.
    """
    perfect = [
        math.ceil(slower.expected * single.count - ROUNDING) for _, single, slower in singles
    ]
    case, workload = asked.case, asked.case.workload
    if estimate.time is None or isinstance(workload, Serving):
        return list(perfect)
    systems = [
        System(
            card,
            owned_node(card, MOST_EXTRA * least + 1),
            (),
            tuple(sorted({least, *(n for n in LADDER if least < n <= MOST_EXTRA * least)})),
            owned=True,
        )
        for (card, _, _), least in zip(singles, perfect, strict=True)
    ]
    limits = case.limits.changed(
        price_kind=PriceKind.ON_DEMAND,
        deadline_hours=None,
        budget_usd=None,
        max_accelerators=max([1, *(system.counts[-1] for system in systems)]),
    )
    alone = case.changed(hardware=None, layout=None, limits=limits)
    options = search(asked.of(alone), workload, systems).options
    startup = estimate.time.startup_s.expected / HOUR_S
    target = estimate.time.run_hours.expected - startup
    return [
        _enough(
            {item.count: item.time - startup for item in options if item.system == place}, target
        )
        for place in range(len(systems))
    ]


def _enough(hours: Mapping[int, float], target: float) -> int | None:
    """Return the number that needs ``target`` hours, interpolated between timed numbers."""
    slower: tuple[int, float] | None = None
    for number, time in sorted(hours.items()):
        if time <= target * (1 + ROUNDING):
            if slower is None:
                return number
            below, rate = slower[0], 1 / slower[1]
            share = (1 / target - rate) / (1 / time - rate)
            return math.ceil(below + share * (number - below) - ROUNDING)
        slower = (number, time)
    return None


def _estimated(asked: PricedCase, card: Accelerator) -> Estimate | None:
    """Estimate a case on one processor; None if it has no rate in the asked format."""
    case = asked.case
    limits = case.limits.changed(price_kind=PriceKind.ON_DEMAND, software=(), frameworks=())
    # Software that was chosen for another card seldom runs on a processor.
    usual = "engine" if isinstance(case.workload, Serving) else "software"
    alone = case.changed(
        hardware=Hardware(accelerator=card.key),
        layout=None,
        limits=limits,
        workload=case.workload.model_copy(update={usual: None}),
    )
    try:
        return estimate_configuration(asked.of(alone), best_placement(asked.of(alone)))
    except InputError:
        return None


def _option(
    case: Case,
    card: Accelerator,
    found: Estimate,
    reference: Estimate,
    economy: Economy,
    slower: Range,
    together: int | None,
) -> ProcessorOption:
    same, owning = found is reference, case.owning
    count = together or math.ceil(slower.expected * found.count - ROUNDING)
    usd = (same and owning.purchase_usd) or card.purchase_usd
    option = ProcessorOption(
        accelerator=card.key,
        accelerator_name=card.name,
        hours=found.time.run_hours if found.time else None,
        tokens_per_s=found.serving.output_tokens_per_s if found.serving else None,
        slower=slower,
        count=count,
        scaling=min(1.0, slower.expected * found.count / count) if not same else None,
        apart=together is None,
    )
    if card.board_power_w is None:
        return option
    size = size_of(card, together) if together else size_of(card, 1, count)
    priced = case.changed(owning=owning.changed(purchase_usd=usd or 1.0))
    factors = Bought(priced, card, size, economy).expected(owning.months)
    rated = float(machine_kw(factors, size))
    hours = owning.hours_per_month or HOURS_PER_MONTH
    if reference.time:
        hours = reference.time.run_hours.expected
    draw, pue = rated * factors.load_share, factors.pue
    energy = draw * pue * hours
    energy_usd = energy * factors.electricity_usd_per_kwh
    return option.changed(
        purchase_usd=cents.rounded(float(bought_usd(factors, size))) if usd else None,
        rated_kw=rated,
        draw_kw=draw,
        cooling_kw=draw * (pue - 1),
        energy_kwh=energy,
        energy_usd=energy_usd,
        cooling_usd=energy_usd * (1 - 1 / pue),
        carbon_kg=float(carbon_kg(energy_kwh=energy, g_per_kwh=factors.carbon_g_per_kwh)),
    )


def _slower(found: Estimate, reference: Estimate) -> Range:
    """Time of the work on ``found`` over the time on ``reference``, without start-up."""
    startup = 0.0
    if found.time is not None and reference.time is not None:
        longer, shorter = found.time.run_hours, reference.time.run_hours
        startup = reference.time.startup_s.expected / HOUR_S
    elif found.serving is not None and reference.serving is not None:
        longer, shorter = (reference.serving.output_tokens_per_s, found.serving.output_tokens_per_s)
    else:
        raise ValueError("both estimates must be of the same kind of work")
    middle = (longer.expected - startup) / (shorter.expected - startup)
    usual = longer.expected / shorter.expected
    evidence = longer.evidence.weakest(shorter.evidence)
    return Range(
        low=middle * longer.low / shorter.high / usual,
        expected=middle,
        high=middle * longer.high / shorter.low / usual,
        evidence=evidence,
    )
