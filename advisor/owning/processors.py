"""Processors that do the same work, and cards with the machines around them that they replace."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.economy import Economy
from advisor.catalog.machine_kinds import groups_of, host_default
from advisor.catalog.nodes import owned_node
from advisor.equations import Number
from advisor.equations.energy import WATTS_PER_KW, carbon_kg, rated_kw
from advisor.equations.owning import capital_usd
from advisor.equations.pricing import instances_needed
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.foundation import cents
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH
from advisor.nouns.case import Hardware
from advisor.nouns.hardware import Accelerator, PriceKind, Segment
from advisor.nouns.money import Owning
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import tariff_usd_per_kwh
from advisor.owning.results import ProcessorOption
from advisor.planning.energy_use import Power
from advisor.planning.prepared import PricedCase
from advisor.planning.search.precisions import search
from advisor.planning.search.systems import LADDER, System
from advisor.planning.stated import best_placement

MOST_EXTRA: Final = 4
"""The largest timed cluster, as a multiple of the number that perfect scaling needs."""
ROUNDING: Final = 1e-9


@record
class Machine:
    """Machines and network around packs of cards; small packs share a machine."""

    packs: int
    machines: int
    host_share: float
    """Price of the rest of the machines over the price of their cards."""
    host_usd: float
    """Minimum price of the rest of one machine. [USD]"""
    network_share: float
    """Network between machines over the price of the cards; 0 if one machine is enough."""


@record
class Kind:
    """One kind of card in the machines of its estimate, at the expected inputs."""

    card: Accelerator
    owning: Owning
    economy: Economy

    @property
    def purchase_usd(self) -> float:
        """Price of one card; raises ``ValueError`` if it is unknown. [USD]"""
        price = self.owning.purchase_usd or self.card.purchase_usd
        if price is None:
            msg = f"{self.card.key} has no price"
            raise ValueError(msg)
        return price

    def machine(self, count: int) -> Machine:
        """Return the machines that packs of ``count`` cards need; small packs share one."""
        per_machine = owned_node(self.card, count).accelerators
        alone = int(instances_needed(accelerators=count, per_instance=per_machine))
        return Machine(
            packs=max(1, per_machine // count),
            machines=alone,
            host_share=self.input("host_share"),
            host_usd=self._host_usd(per_machine),
            network_share=self.input("network_share") if alone > 1 else 0.0,
        )

    def usd(self, count: int, packs: Number = 1.0) -> Number:
        """Price of packs of ``count`` cards with their machines. [USD]"""
        machine = self.machine(count)
        shared = instances_needed(accelerators=packs, per_instance=machine.packs)
        return capital_usd(
            accelerators=count * packs,
            purchase_usd=self.purchase_usd,
            host_share=machine.host_share,
            network_share=machine.network_share,
            machines=machine.machines * shared,
            host_usd=machine.host_usd,
        )

    def rated_w(self, count: float) -> float:
        """Rated power of a number of cards with their machines. [W]

        Raises ``ValueError`` if it is unknown.
        """
        if self.card.board_power_w is None:
            msg = f"{self.card.key} has no board power"
            raise ValueError(msg)
        kw = rated_kw(
            accelerators=count,
            board_power_w=self.card.board_power_w,
            host_power_share=self.input("host_power_share"),
        )
        return float(kw) * WATTS_PER_KW

    def input(self, field: str) -> float:
        """Return the user's value of an input, or the expected default for the card's machines."""
        return self.economy.stated(self.owning, field, *groups_of(self.card))

    def _host_usd(self, per_machine: int) -> float:
        """Return the minimum price of the rest of a machine; 0 if the user gave its share."""
        if self.owning.host_usd is not None:
            return self.owning.host_usd
        if self.owning.host_share is not None:
            return 0.0
        return host_default(self.economy, self.card, per_machine).expected


def compare_processors(
    asked: PricedCase, estimate: Estimate, economy: Economy
) -> tuple[ProcessorOption, ...]:
    """Estimate a case on processors and scale them to equal throughput.

    The compared hardware comes first, then the processors that can do the work, fewest first. The
    same engine estimates all of them; training clusters include their network.
    """
    catalog, owning = asked.catalog, asked.case.owning
    processors = [card for card in catalog.accelerators if card.segment is Segment.CPU]
    hardware = catalog.accelerator(estimate.accelerator)
    singles = []
    for card in processors:
        single = _estimated(asked, card)
        if single is not None and single.memory.fits:
            singles.append((card, single, _slower(single, estimate)))
    counts = _clusters(asked, estimate, singles)
    first = _option(hardware, estimate, estimate, owning, economy, Range.exact(1.0), estimate.count)
    found = [
        _option(card, single, estimate, owning, economy, slower, number)
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
    card: Accelerator,
    found: Estimate,
    reference: Estimate,
    owning: Owning,
    economy: Economy,
    slower: Range,
    together: int | None,
) -> ProcessorOption:
    same = found is reference
    count = together or math.ceil(slower.expected * found.count - ROUNDING)
    kind = Kind(card, owning if same else owning.changed(purchase_usd=None), economy)
    drawn = Power.of(card, owning, economy)
    priced = card.purchase_usd or (same and owning.purchase_usd)
    bought = (together, 1.0) if together else (1, float(count))
    power = kind.rated_w(count) / WATTS_PER_KW if card.board_power_w else None
    monthly = owning.hours_per_month or HOURS_PER_MONTH
    hours = reference.time.run_hours.expected if reference.time else monthly
    draw = power * drawn.load_share if power is not None else None
    energy = drawn.kwh(card, count, hours) if power is not None else None
    tariff = tariff_usd_per_kwh(groups_of(card), owning, economy)
    intensity = economy.carbon_g_per_kwh(owning)
    return ProcessorOption(
        accelerator=card.key,
        accelerator_name=card.name,
        hours=found.time.run_hours if found.time else None,
        tokens_per_s=found.serving.output_tokens_per_s if found.serving else None,
        slower=slower,
        count=count,
        scaling=min(1.0, slower.expected * found.count / count) if not same else None,
        apart=together is None,
        purchase_usd=cents.rounded(float(kind.usd(*bought))) if priced else None,
        rated_kw=power,
        draw_kw=draw,
        cooling_kw=draw * (drawn.pue - 1) if draw is not None else None,
        energy_kwh=energy,
        energy_usd=energy * tariff if energy is not None else None,
        cooling_usd=energy * tariff * (1 - 1 / drawn.pue) if energy is not None else None,
        carbon_kg=(
            float(carbon_kg(energy_kwh=energy, g_per_kwh=intensity)) if energy is not None else None
        ),
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
        msg = "both estimates must be of the same kind of work"
        raise ValueError(msg)
    middle = (longer.expected - startup) / (shorter.expected - startup)
    usual = longer.expected / shorter.expected
    evidence = longer.evidence.weakest(shorter.evidence)
    return Range(
        low=middle * longer.low / shorter.high / usual,
        expected=middle,
        high=middle * longer.high / shorter.low / usual,
        evidence=evidence,
    )
