"""Each workload on each machine: hours of a run, and the load that a replica serves.

All numbers come from the search that ``recommend`` uses.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Final

from advisor.architecture.resolve import resolve_model
from advisor.errors import refusal
from advisor.fleet.machines import mark
from advisor.fleet.modes import (
    awaited,
    by_platform,
    doubt,
    growth_of,
    hosted_mode,
    levels,
    quicker,
    rented_replicas,
    rented_runs,
    replica_mode,
    run_mode,
    serverless,
    worthwhile,
)
from advisor.fleet.portfolio import FleetWorkload, Hours
from advisor.fleet.searches import AS_STATED, EIGHT_BIT_SAVES, Searches, ServedWay, large
from advisor.fleet.solving.problem import OFFICE, QUIET, Job, Mode, by_slot
from advisor.nouns.hardware import Offer, PriceKind
from advisor.nouns.workload import Serving
from advisor.planning.search.options import Option
from advisor.planning.search.ranking import best_option
from advisor.planning.search.systems import System
from advisor.planning.usual_limits import Pace

MORE: Final = (8, 4, 2)
"""Multiples of the peak that a replica is tried with where more work is asked about."""
SERVER_CARDS: Final = 8
"""Fewest cards of rented machines of which one run takes several for a term."""


@dataclass
class Demand:
    """Finds the modes of workloads."""

    searches: Searches
    committed: Sequence[tuple[int, Offer]]
    tuned: Collection[str] = ()
    """Presets that the portfolio fine-tunes: nobody else hosts the weights that it serves."""
    coarse: bool = False
    """Whether to try fewer sizes of a replica."""
    growing: bool = False
    """Whether to find how far beyond the peak the cards of a replica carry."""

    def job(self, workload: FleetWorkload, months: Sequence[int]) -> Job:
        """Return a workload as a job.

        Raise ``InputError`` if no machine and no rental can do it.
        """
        growth = growth_of(workload, months)
        asked: dict[str, Any] = {}
        if workload.runs_per_month is not None:
            modes = self._batch_modes(workload)
            asked["runs"] = tuple(workload.runs_per_month * factor for factor in growth)
            asked["deadline_h"] = workload.case.limits.deadline_hours
        elif workload.people is not None:
            modes = self._seat_modes(workload)
            asked["load"] = tuple((workload.people * factor, 0.0) for factor in growth)
        elif workload.sites > 1:
            quiet = float(workload.hours is Hours.ALWAYS)
            sites = [workload.sites * factor for factor in growth]
            asked["load"] = tuple((number, number * quiet) for number in sites)
            modes = tuple(  # one machine, or one rental, for each site
                mode if mode.supply is None else replace(mode, cards=self._cards[mode.supply])
                for mode in self._seat_modes(workload)
            )
        else:
            serving = workload.case.workload
            peak = float(serving.concurrency) if isinstance(serving, Serving) else 0.0
            quiet = workload.quiet_share if workload.hours is Hours.ALWAYS else 0.0
            slots = by_slot(workload.week) if workload.week else ((1.0,), (quiet,))
            busy, calm = max(slots[OFFICE]), max(slots[QUIET])
            asked["load"] = tuple((peak * one * busy, peak * one * calm) for one in growth)
            if workload.week:
                asked["curve"] = tuple(
                    tuple(share / most for share in each) if (most := max(each)) else ()
                    for each in slots
                )
            least = peak * min(growth) * min(one for each in slots for one in each if one > 0)
            modes = self._service_modes(workload, peak * max(growth), least)
            own = workload.case.model.preset in self.tuned  # no provider hosts a tuned model
            may = self.searches.means.api and self.searches.rents(workload) and not own
            each_s = self._answer_s(workload, math.ceil(peak * max(growth))) if may else None
            if may and (hosted := hosted_mode(workload, each_s)) is not None:
                modes += (hosted,)
        weight, spares = 10.0 ** (5 - workload.priority), workload.spare_machines
        job = Job(workload.name, modes, weight=weight, spares=spares, **asked)
        if not job.modes:
            where = (
                "on premises"
                if workload.on_premises or not self.searches.means.rent
                else "anywhere"
            )
            raise refusal(
                "no_machine_for_work", value=workload.name, workload=workload, where=where
            )
        return job

    def _batch_modes(self, workload: FleetWorkload) -> tuple[Mode, ...]:
        modes = []
        options, systems = self.searches.options(workload)
        rented = {place for place, _ in self.committed}
        for place, there in self._by_supply(options, systems).items():
            cards = self._cards[place]
            alone = [option for option in there if option.count <= cards]
            if not alone and place in rented and cards < SERVER_CARDS:
                continue
            best = min(
                alone or there, key=lambda item: (item.count * item.time * doubt(item), item.count)
            )
            modes.append(run_mode(place, best, cards))
            quick = min(alone or there, key=lambda item: (item.time * doubt(item), item.count))
            if not self.coarse and 2 * quick.time * doubt(quick) <= best.time * doubt(best):
                modes.append(run_mode(place, quick, cards))
        rentals = by_platform(options, systems)
        modes += rented_runs(rentals)
        if not self.coarse:
            modes += rented_runs({name: quicker(there) for name, there in rentals.items()})
        if self.searches.means.spot and workload.preemptible and self.searches.rents(workload):
            modes += rented_runs(
                by_platform(*self.searches.options(workload, kind=PriceKind.SPOT)), "spot "
            )
        return tuple(modes)

    def _seat_modes(self, workload: FleetWorkload) -> tuple[Mode, ...]:
        """Cards that each person needs: the fewest that hold the work."""
        modes = []
        options, systems = self.searches.options(workload, way=self._way(workload, (None,)))
        if workload.people is not None and workload.case.limits.deadline_hours is None:
            options = awaited(options)
        for place, there in self._by_supply(options, systems).items():
            alone = [option for option in there if option.count <= self._cards[place]]
            if alone:
                best = min(alone, key=lambda item: (item.count, item.time))
                modes.append(replica_mode(place, best, 1.0))
        return (*modes, *rented_replicas(by_platform(options, systems), lambda _: 1.0))

    def _service_modes(
        self, workload: FleetWorkload, peak: float, least: float
    ) -> tuple[Mode, ...]:
        """Replicas of several sizes on each supply, and rented ones.

        ``least`` is the smallest load: below one request in flight, a serverless replica stops.
        """
        by_supply: dict[int | str, list[Mode]] = {}
        carried: dict[tuple[int, float, str], int] = {}
        loads = levels(peak, coarse=self.coarse, even=self.searches.single)
        way = self._way(workload, loads)
        for level in (math.ceil(peak * times) for times in MORE if self.growing):
            options, systems = self.searches.options(workload, concurrency=level, way=way)
            for place, there in self._by_supply(options, systems).items():
                for option in there:
                    if self.searches.part(systems[option.system]) is None:
                        mode = replica_mode(place, option, level)
                        carried.setdefault((place, mode.cards, mode.detail), level)
        stops = self.searches.means.serverless and self.searches.rents(workload) and least < 1
        stops = stops and workload.case.limits.max_ttft_ms is None
        without: frozenset[str] = frozenset()
        own, roomy = self._published(workload), set[int | None]()
        for level in loads:
            options, systems = self.searches.options(
                workload, concurrency=level, way=way, without=without
            )
            serves = partial(_served, workload, level)
            for place, there in self._by_supply(options, systems).items():
                # Two machines hold a replica together where one is too small.
                alone = [option for option in there if option.count <= self._cards[place]] or there
                if alone := _as_asked(own, alone, place, roomy):
                    parts = {id(item): self.searches.part(systems[item.system]) for item in alone}
                    uses = {at: 1 / part.instances for at, part in parts.items() if part}
                    best = min(
                        alone,
                        key=lambda item: (uses.get(id(item), item.count) / serves(item), item.time),
                    )
                    mode = replica_mode(place, best, level, self._cards[place])
                    if part := parts[id(best)]:
                        mode = replace(mode, cards=1 / part.instances, detail=part.title)
                    same = carried.get((place, mode.cards, mode.detail), level)
                    mode = replace(mode, serves=serves(best) * max(1.0, same / level))
                    by_supply.setdefault(place, []).append(mode)
            rented = [option for option in options if option.offer is not None]
            rented = _as_asked(own, rented, None, roomy)
            for mode in rented_replicas(by_platform(rented, systems), serves):
                by_supply.setdefault(mode.platform, []).append(mode)
            for mode in serverless(options, systems, workload.case, serves) if stops else ():
                by_supply.setdefault(f"serverless {mode.platform}", []).append(mode)
            if not self.growing:  # a smaller replica that needs a whole card too is no use
                whole = {place for place, modes in by_supply.items() if modes[-1].cards == 1}
                without = frozenset(self._marks[place] for place in whole & self._marks.keys())
        return tuple(mode for modes in by_supply.values() for mode in worthwhile(modes))

    def _published(self, workload: FleetWorkload) -> str | None:
        """Return the format of a model's weights; None where a plan may take any."""
        serving = workload.case.workload
        if self.searches.single or not isinstance(serving, Serving) or serving.weight_format:
            return None
        return resolve_model(workload.case.model).weight_format

    def _answer_s(self, workload: FleetWorkload, level: int) -> float | None:
        """Return an answer's time on ``recommend``'s plan; None unless it is the question. [s]"""
        serving = workload.case.workload
        if not self.searches.single or not isinstance(serving, Serving):
            return None
        way = self._way(workload, (level,))
        options, _ = self.searches.options(workload, concurrency=level, way=way)
        rented = [option for option in options if option.offer is not None]
        best = best_option(rented, workload.case.objective)
        if best is None or not best.tokens_per_s:
            return None
        return level * serving.output_tokens / best.tokens_per_s

    def _way(self, workload: FleetWorkload, levels: Iterable[int | None]) -> ServedWay:
        """Return how to serve, by the largest replica that some machine or rental holds."""
        serving = workload.case.workload
        opened = isinstance(serving, Serving) and serving.weight_format is None
        opened = opened and not self.searches.single
        for pace, level in product(Pace, levels):
            ways = [ServedWay(pace, narrow) for narrow in (False, True)[: 1 + opened]]
            ask = partial(self.searches.options, workload, concurrency=level, also=ways[-1])
            found = (ask(way=way) for way in ways)
            usd = [self._least_usd(*each) for each in found]
            if min(usd) < math.inf:
                return ways[-1] if usd[-1] <= (1 - EIGHT_BIT_SAVES) * usd[0] else ways[0]
        return AS_STATED

    def _least_usd(self, options: Sequence[Option], systems: Sequence[System]) -> float:
        """Return the least bill of rentals; where there are none, the least price of cards."""
        usd = {
            mark(machine): machine.usd / machine.row.cards for _, machine in self.searches.machines
        }
        rented = [option.cost_high_usd for option in options if option.offer is not None]
        bought = [
            option.count * usd.get(systems[option.system].node.assumptions[0], math.inf)
            for option in options
            if option.offer is None
        ]
        return min(rented or bought, default=math.inf)

    def _by_supply(
        self, options: Iterable[Option], systems: Sequence[System]
    ) -> dict[int, list[Option]]:
        """Group options by the supply that they run on."""
        places: dict[str, list[int]] = {}
        for place, machine in self.searches.machines:
            places.setdefault(mark(machine), []).append(place)
            for key in self.searches.parts:
                if key.startswith(f"{machine.card.key} "):
                    places.setdefault(key, []).append(place)
        offers: dict[str, list[int]] = {}
        for place, offer in self.committed:
            offers.setdefault(offer.key, []).append(place)
        found: dict[int, list[Option]] = {}
        for option in options:
            system = systems[option.system]
            if option.offer is None:
                for place in places.get(system.node.assumptions[0], ()):
                    found.setdefault(place, []).append(option)
                continue
            for offer in system.offers:
                for place in offers.get(offer.key, ()):
                    found.setdefault(place, []).append(option)
        return dict(sorted(found.items()))

    @cached_property
    def _marks(self) -> dict[int | str, str]:
        """What names each machine in a search."""
        return {place: mark(one) for place, one in self.searches.machines}

    @cached_property
    def _cards(self) -> dict[int, int]:
        """Cards of one machine of each supply."""
        there = {place: machine.row.cards for place, machine in self.searches.machines}
        return there | {place: offer.accelerators for place, offer in self.committed}


def _as_asked(
    own: str | None, options: list[Option], place: int | None, roomy: set[int | None]
) -> list[Option]:
    """Return options without small weights that nobody asked for, where larger ones have room.

    ``own``: the published format; None: any. ``roomy``: supplies (None: what is rented) on which
    they had room at some load.
    """
    found = [one for one in options if own is None or one.precision == own or large(one.precision)]
    if found:
        roomy.add(place)
    return found if place in roomy else options


def _served(workload: FleetWorkload, level: int, option: Option) -> float:
    """Requests in flight that a replica with ``level`` of them counts as."""
    pace = workload.output_per_s
    return option.tokens_per_s / pace if pace and option.tokens_per_s else level
