"""Each workload on each machine: hours of a run, and the load that a replica serves.

All numbers come from the search that ``recommend`` uses.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Final

from advisor.catalog import Catalog
from advisor.errors import InputError
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.software import ToolRules, for_few
from advisor.fleet.machines import Machine, Slice, machine_system, mark, slices
from advisor.fleet.modes import (
    awaited,
    by_platform,
    doubt,
    growth_of,
    hosted_mode,
    levels,
    rented_replicas,
    rented_runs,
    replica_mode,
    run_mode,
    serverless,
    worthwhile,
)
from advisor.fleet.portfolio import FleetWorkload, Hours, Means
from advisor.fleet.solving.problem import Job, Mode
from advisor.fleet.weights import (
    AS_STATED,
    EIGHT_BIT_SAVES,
    EightBits,
    LargeWeights,
    ServedWay,
    large,
)
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.hardware import Offer, PriceKind
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.prepared import resolved
from advisor.planning.search.options import Option, meets_time
from advisor.planning.search.precisions import search_and_host
from advisor.planning.search.systems import System, find_systems
from advisor.planning.search.tries import Tried
from advisor.planning.serving_defaults import at_reading_speed
from advisor.planning.spanning import spanning

MORE: Final = (8, 4, 2)
"""Multiples of the peak that a replica is tried with where more work is asked about."""
MOST_PER_REPLICA: Final = 16
"""Most cards of one replica of a service."""
SERVER_CARDS: Final = 8
"""Fewest cards of rented machines of which one run takes several for a term."""


@dataclass
class Demand:
    """Finds the modes of workloads; equal cases are searched once."""

    catalog: Catalog
    calibration: Calibration
    machines: Sequence[tuple[int, Machine]]
    """Machines with the place of their supply."""
    committed: Sequence[tuple[int, Offer]]
    means: Means
    tuned: Collection[str] = ()
    """Presets that the portfolio fine-tunes: nobody else hosts the weights that it serves."""
    sharing: bool = False
    """Whether several services may share one card."""
    coarse: bool = False
    """Whether to try fewer sizes of a replica."""
    growing: bool = False
    """Whether to find how far beyond the peak the cards of a replica carry."""
    kits: Collection[str] = ()
    """Edge kits for work of any kind; others are for work at many sites: a service of one place
    runs on a computer."""
    _found: dict[str, tuple[list[Option], Sequence[System]]] = field(default_factory=dict)
    _rules: dict[str, tuple[ToolRules, ...]] = field(default_factory=dict)
    _asked: Any = (None,)
    """The last search: its key, case, systems, and what it tried."""
    _owned: dict[Hashable, list[System]] = field(default_factory=dict)
    _parts: dict[str, Slice] = field(default_factory=dict)
    """Slices of cards by the mark of their systems."""

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
            load = asked["load"] = tuple((peak * one, peak * one * quiet) for one in growth)
            least = min((one for each in load for one in each if one > 0), default=peak)
            modes = self._service_modes(workload, peak * max(growth), least)
            own = workload.case.model.preset in self.tuned  # no provider hosts a tuned model
            may = self.means.api and self._rents(workload) and not own
            if may and (hosted := hosted_mode(workload)) is not None:
                modes += (hosted,)
        weight, spares = 10.0 ** (5 - workload.priority), workload.spare_machines
        job = Job(workload.name, modes, weight=weight, spares=spares, **asked)
        if not job.modes:
            where = "on premises" if workload.on_premises or not self.means.rent else "anywhere"
            raise InputError(
                f"nothing can do {workload.name!r} {where} within its limits",
                value=workload.name,
                allowed="work that some machine of the list or some rental can do",
                remedy="Loosen its deadline or latency, or the limits of the place; "
                "'gpu-advisor recommend' with this case shows what is missing.",
                field="workloads",
            )
        return job

    def _batch_modes(self, workload: FleetWorkload) -> tuple[Mode, ...]:
        modes = []
        options, systems = self._options(workload)
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
        modes += rented_runs(by_platform(options, systems))
        if self.means.spot and workload.preemptible and self._rents(workload):
            modes += rented_runs(
                by_platform(*self._options(workload, kind=PriceKind.SPOT)), "spot "
            )
        return tuple(modes)

    def _seat_modes(self, workload: FleetWorkload) -> tuple[Mode, ...]:
        """Cards that each person needs: the fewest that hold the work."""
        modes = []
        options, systems = self._options(workload, way=self._way(workload, (None,)))
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
        way = self._way(workload, levels(peak, coarse=self.coarse))
        for level in (math.ceil(peak * times) for times in MORE if self.growing):
            options, systems = self._options(workload, concurrency=level, way=way)
            for place, there in self._by_supply(options, systems).items():
                for option in there:
                    if self._part(systems[option.system]) is None:
                        mode = replica_mode(place, option, level)
                        carried.setdefault((place, mode.cards, mode.detail), level)
        stops = self.means.serverless and self._rents(workload) and least < 1
        stops = stops and workload.case.limits.max_ttft_ms is None
        for level in levels(peak, coarse=self.coarse):
            options, systems = self._options(workload, concurrency=level, way=way)
            serves = partial(_served, workload, level)
            for place, there in self._by_supply(options, systems).items():
                alone = [option for option in there if option.count <= self._cards[place]]
                if alone:
                    parts = {id(item): self._part(systems[item.system]) for item in alone}
                    uses = {at: 1 / part.instances for at, part in parts.items() if part}
                    best = min(
                        alone,
                        key=lambda item: (uses.get(id(item), item.count) / serves(item), item.time),
                    )
                    mode = replica_mode(place, best, level)
                    if part := parts[id(best)]:
                        mode = replace(mode, cards=1 / part.instances, detail=part.title)
                    same = carried.get((place, mode.cards, mode.detail), level)
                    mode = replace(mode, serves=serves(best) * max(1.0, same / level))
                    by_supply.setdefault(place, []).append(mode)
            for mode in rented_replicas(by_platform(options, systems), serves):
                by_supply.setdefault(mode.platform, []).append(mode)
            for mode in serverless(options, systems, workload.case, serves) if stops else ():
                by_supply.setdefault(f"serverless {mode.platform}", []).append(mode)
        return tuple(mode for modes in by_supply.values() for mode in worthwhile(modes))

    def _way(self, workload: FleetWorkload, levels: Iterable[int | None]) -> ServedWay:
        """Return how to serve, by the largest replica that some machine or rental holds."""
        serving = workload.case.workload
        opened = isinstance(serving, Serving) and serving.weight_format is None
        for paced, level in product((True, False), levels):
            ways = [ServedWay(paced, narrow) for narrow in (False, True)[: 1 + opened]]
            ask = partial(self._options, workload, concurrency=level, also=ways[-1])
            found = (ask(way=way) for way in ways)
            usd = [self._least_usd(*each) for each in found]
            if min(usd) < math.inf:
                return ways[-1] if usd[-1] <= (1 - EIGHT_BIT_SAVES) * usd[0] else ways[0]
        return AS_STATED

    def _least_usd(self, options: Sequence[Option], systems: Sequence[System]) -> float:
        """Return the least bill of rentals; where there are none, the least price of cards."""
        usd = {mark(machine): machine.usd / machine.row.cards for _, machine in self.machines}
        rented = [option.cost_high_usd for option in options if option.offer is not None]
        bought = [
            option.count * usd.get(systems[option.system].node.assumptions[0], math.inf)
            for option in options
            if option.offer is None
        ]
        return min(rented or bought, default=math.inf)

    def _options(
        self,
        workload: FleetWorkload,
        *,
        kind: PriceKind = PriceKind.ON_DEMAND,
        concurrency: int | None = None,
        way: ServedWay = AS_STATED,
        also: ServedWay | None = None,
    ) -> tuple[list[Option], Sequence[System]]:
        """Search a workload on all machines and rentals that it may use.

        ``also``: the way of the next search, which shares this one.
        """
        case, limits = _asked(workload.case, kind, concurrency), workload.case.limits
        if limits.deadline_hours is not None and limits.deadline_hours <= HOURS_PER_MONTH:
            # What is late is left out below: runs that differ in this alone are searched once.
            case = case.changed(limits=case.limits.changed(deadline_hours=None))
        rents = self._rents(workload)
        many = workload.sites > 1
        alike = f"{way.paced}{rents}{many}{case.model_dump_json(exclude_unset=True)}"
        key = f"{way.narrow}{alike}"
        if key not in self._found:
            training = not isinstance(case.workload, Serving)
            if self._asked[0] != alike:
                case, architecture = resolved(case)
                if way.paced:
                    case = at_reading_speed(case, architecture)
                owned = [] if kind is PriceKind.SPOT else self._owned_systems(case, training, many)
                offered = (
                    find_systems(self.catalog, case.limits, training=training) if rents else ()
                )
                asked = ResolvedCase(case, architecture, self.calibration)
                then = () if also is None else self._rules_of(asked, also)[:1]
                self._asked = alike, asked, (*owned, *offered), Tried(then)
            _, asked, systems, tried = self._asked
            for rules in self._rules_of(asked, way):
                searched, result = search_and_host(
                    asked, systems, advising=False, rules=rules, tried=tried
                )
                if training or (result.options and not result.lowered):
                    break
            found = [*result.options]
            found += [  # formats that a plan takes unasked
                option
                for option in result.smaller
                if large(option.precision) and not option.layout.host_options
            ]
            options = spanning(asked, searched, found, fewer=True)
            if way.paced:
                options = [item for item in options if meets_time(item, asked.case.limits)]
            self._found[key] = options, searched
        options, searched = self._found[key]
        return [item for item in options if meets_time(item, limits)], searched

    def _rules_of(self, asked: ResolvedCase, way: ServedWay) -> tuple[ToolRules, ...]:
        """Return what a case asks of its software: the same whatever its load and its lengths.

        First without weights that a plan takes only where nothing larger fits on any system.
        """
        case = asked.case
        work = {"concurrency", "input_tokens", "output_tokens"}
        few = isinstance(case.workload, Serving) and for_few(case.workload)
        limits = {"deadline_hours", "max_tpot_ms", "max_ttft_ms"}
        shared = case.model_dump_json(exclude={"workload": work, "limits": limits})
        key = f"{few}{way.narrow}{shared}"
        if key not in self._rules:
            first = EightBits if way.narrow else LargeWeights
            self._rules[key] = tuple(
                kind.of(case, asked.architecture) for kind in (first, ToolRules)
            )
        return self._rules[key]

    def _rents(self, workload: FleetWorkload) -> bool:
        return self.means.rent and not workload.on_premises

    def _owned_systems(self, case: Case, training: bool, many: bool) -> list[System]:
        vendors = case.limits.vendors
        key = case.limits.accelerators, vendors, training, many
        if key in self._owned:
            return self._owned[key]
        allowed = {self.catalog.accelerator(key).key for key in case.limits.accelerators}
        systems = {}
        for _, machine in self.machines:
            card = machine.card
            unwanted = bool(allowed) and card.key not in allowed
            unwanted |= bool(vendors) and card.vendor not in vendors
            unwanted |= machine.row.kind == "edge" and not many and machine.key not in self.kits
            if unwanted or (training and (card.inference_only or machine.row.serves_only)):
                continue
            systems[machine.key] = machine_system(machine, training=training)
            if training or not self.sharing:
                continue
            for part in slices():
                name = f"{card.key} {part.title}"
                if name not in systems and (small := part.card(card, self.catalog)):
                    node = machine.node.changed(
                        accelerators=1, intra_domain=1, inter_bytes_per_s=None, assumptions=(name,)
                    )
                    systems[name] = System(small, node, (), (1,), owned=True)
                    self._parts[name] = part
        return self._owned.setdefault(key, list(systems.values()))

    def _part(self, system: System) -> Slice | None:
        """The slice of a card that a system is; None for whole cards."""
        return self._parts.get(next(iter(system.node.assumptions), ""))

    def _by_supply(
        self, options: Iterable[Option], systems: Sequence[System]
    ) -> dict[int, list[Option]]:
        """Group options by the supply that they run on."""
        places: dict[str, list[int]] = {}
        for place, machine in self.machines:
            places.setdefault(mark(machine), []).append(place)
            for key in self._parts:
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
        return found

    @cached_property
    def _cards(self) -> dict[int, int]:
        """Cards of one machine of each supply."""
        there = {place: machine.row.cards for place, machine in self.machines}
        return there | {place: offer.accelerators for place, offer in self.committed}


def _served(workload: FleetWorkload, level: int, option: Option) -> float:
    """Requests in flight that a replica with ``level`` of them counts as."""
    pace = workload.output_per_s
    return option.tokens_per_s / pace if pace and option.tokens_per_s else level


def _asked(case: Case, kind: PriceKind, concurrency: int | None) -> Case:
    update: dict[str, object] = {}
    if kind is not case.limits.price_kind:
        update["limits"] = case.limits.changed(price_kind=kind)
    if concurrency is not None:
        most = min(case.limits.max_accelerators, MOST_PER_REPLICA)
        update["limits"] = case.limits.changed(max_accelerators=most)
        update["workload"] = case.workload.changed(concurrency=concurrency)
    return case.changed(**update) if update else case
