"""The search of workloads: equal cases once, and rentals as far as they can be the cheapest."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from advisor.catalog import Catalog
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.software import ToolRules, for_few
from advisor.fleet.machines import Machine, Slice, machine_system, platform_of, slices
from advisor.fleet.modes import by_platform, hourly
from advisor.fleet.portfolio import FleetWorkload, Means
from advisor.fleet.weights import AS_STATED, EightBits, LargeWeights, ServedWay, large
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import Constraints
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.prepared import resolved
from advisor.planning.search.options import Option, Price, meets_time
from advisor.planning.search.precisions import search_and_host
from advisor.planning.search.systems import RENTED_BY, System, find_systems
from advisor.planning.search.tries import Tried
from advisor.planning.serving_defaults import at_reading_speed
from advisor.planning.spanning import spanning

MOST_PER_REPLICA: Final = 16
"""Most cards of one replica of a service."""
Found = tuple[Sequence[System], list[Option], bool]
Rented = tuple[System, float]
"""Machines to rent, and the high end of the price of one. [USD/month]"""


@dataclass
class Searches:
    """Searches workloads on the machines and rentals that they may use."""

    catalog: Catalog
    calibration: Calibration
    machines: Sequence[tuple[int, Machine]]
    """Machines with the place of their supply."""
    shared: Collection[str]
    """Offers that can be rented for a term: their machines are wanted whatever others cost."""
    means: Means
    sharing: bool = False
    """Whether several services may share one card."""
    kits: Collection[str] = ()
    """Edge kits for work of any kind; others are for work at many sites: a service of one place
    runs on a computer."""
    parts: dict[str, Slice] = field(default_factory=dict)
    """Slices of cards by the mark of their systems."""
    _found: dict[Hashable, tuple[list[Option], Sequence[System]]] = field(default_factory=dict)
    _rules: dict[str, tuple[ToolRules, ...]] = field(default_factory=dict)
    _asked: "_Asked | None" = None
    """The last search."""
    _owned: dict[Hashable, list[System]] = field(default_factory=dict)
    _rented: dict[Hashable, list[Rented]] = field(default_factory=dict)
    _won: set[Hashable] = field(default_factory=set)
    """Rentals that were the cheapest of a search: the next one starts with them."""

    def rents(self, workload: FleetWorkload) -> bool:
        """Whether a workload may be rented for."""
        return self.means.rent and not workload.on_premises

    def part(self, system: System) -> Slice | None:
        """The slice of a card that a system is; None for whole cards."""
        return self.parts.get(next(iter(system.node.assumptions), ""))

    def options(
        self,
        workload: FleetWorkload,
        *,
        kind: PriceKind = PriceKind.ON_DEMAND,
        concurrency: int | None = None,
        way: ServedWay = AS_STATED,
        also: ServedWay | None = None,
        without: frozenset[str] = frozenset(),
    ) -> tuple[list[Option], Sequence[System]]:
        """Search a workload on all machines and rentals that it may use.

        Rentals of a service that cannot be the cheapest of their platform are left out.

        ``also``: the way of the next search, which shares this one. ``without``: machines, and
        offers for a term, that need no search.
        """
        case, limits = _asked(workload.case, kind, concurrency), workload.case.limits
        if limits.deadline_hours is not None and limits.deadline_hours <= HOURS_PER_MONTH:
            # What is late is left out below: runs that differ in this alone are searched once.
            case = case.changed(limits=case.limits.changed(deadline_hours=None))
        # A rate prices replicas by their pace, which no price bounds.
        bounded = isinstance(case.workload, Serving) and workload.output_per_s is None
        rents, many = self.rents(workload), workload.sites > 1
        alike = way.paced, rents, many, bounded, without, case.model_dump_json(exclude_unset=True)
        key = way.narrow, *alike
        if key not in self._found:
            if self._asked is None or self._asked.key != alike:
                case, architecture = resolved(case)
                if way.paced:
                    case = at_reading_speed(case, architecture)
                training = not isinstance(case.workload, Serving)
                owned = [] if kind is PriceKind.SPOT else self._owned_systems(case, training, many)
                owned = [item for item in owned if item.node.assumptions[0] not in without]
                offered = self._offered(case.limits, training) if rents else []
                at_once = [not bounded or self._first(item, without) for item, _ in offered]
                first = [item for (item, _), now in zip(offered, at_once, strict=True) if now]
                later = [pair for pair, now in zip(offered, at_once, strict=True) if not now]
                asked = ResolvedCase(case, architecture, self.calibration)
                then = () if also is None else self._rules_of(asked, also)[:1]
                self._asked = _Asked(alike, asked, (*owned, *first), later, then)
            known = self._asked
            for rules in self._rules_of(known.asked, way):
                searched, found, usual = known.searched(rules)
                if usual or not bounded:
                    break
            options = spanning(known.asked, searched, found, fewer=True)
            if way.paced:
                options = known.timely(options)
            for option in known.cheapest(options, searched).values():
                self._won.add(_kind(searched[option.system]))
            self._found[key] = options, searched
        options, searched = self._found[key]
        return [item for item in options if meets_time(item, limits)], searched

    def _first(self, system: System, without: Collection[str]) -> bool:
        """Whether a rental is searched whatever others cost."""
        return _kind(system) in self._won or any(
            (offer.key in self.shared and offer.key not in without)
            or offer.billing.kept_s is not None
            for offer in system.offers
        )

    def _offered(self, limits: Constraints, training: bool) -> list[Rented]:
        names = (*RENTED_BY, "max_accelerators")
        key = training, *(getattr(limits, name) for name in names)
        if key not in self._rented:
            found = find_systems(self.catalog, limits, training=training)
            prices = (Price.of(item, limits.price_kind) for item in found)
            usd = [one.usd_per_hour * one.factor * HOURS_PER_MONTH for one in prices]
            self._rented[key] = list(zip(found, usd, strict=True))
        return self._rented[key]

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
                    self.parts[name] = part
        return self._owned.setdefault(key, list(systems.values()))


def _kind(system: System) -> Hashable:
    return system.accelerator.key, system.node.accelerators


@dataclass
class _Asked:
    """A case on the systems that are wanted in any case, then on rentals that can be cheaper."""

    key: Hashable
    asked: ResolvedCase
    systems: Sequence[System]
    later: list[Rented]
    then: tuple[ToolRules, ...]
    """Rules of later searches."""
    _tried: dict[tuple[int, ...], Tried] = field(default_factory=dict)
    """What is known, by the further rentals."""

    def searched(self, rules: ToolRules) -> Found:
        """Return systems with their tools, options, and whether some have the usual weights."""
        found = self._found(self.systems, (), rules)
        if not self.later:
            return found
        systems, options, usual = found
        if not usual:  # which formats a plan takes depends on all rentals
            return self._found([*self.systems, *(item for item, _ in self.later)], (-1,), rules)
        least = {name: one.cost_high_usd for name, one in self.cheapest(options, systems).items()}
        able = tuple(
            at
            for at, (system, month) in enumerate(self.later)
            if month <= least.get(platform_of(system.accelerator), inf)
        )
        others, more, usual = self._found([self.later[at][0] for at in able], able, rules)
        for option in more:
            option.system += len(systems)
        kept = [one for one in more if usual or _unasked(one)]
        return [*systems, *others], [*options, *kept], True

    def timely(self, options: Iterable[Option]) -> list[Option]:
        """Return the options that meet the limits on latency."""
        return [option for option in options if meets_time(option, self.asked.case.limits)]

    def cheapest(self, options: Iterable[Option], systems: Sequence[System]) -> dict[str, Option]:
        """Return the cheapest timely rental by the hour on each platform."""
        found = by_platform(hourly(self.timely(options)), systems).items()
        return {name: min(some, key=lambda one: one.cost_high_usd) for name, some in found}

    def _found(
        self,
        systems: Sequence[System],
        key: tuple[int, ...],
        rules: ToolRules,
    ) -> Found:
        if not systems:
            return systems, [], False
        tried = self._tried.setdefault(key, Tried(self.then))
        searched, result = search_and_host(
            self.asked, systems, advising=False, rules=rules, tried=tried
        )
        found = [*result.options, *filter(_unasked, result.smaller)]
        return searched, found, bool(result.options) and not result.lowered


def _unasked(option: Option) -> bool:
    """Whether a plan takes an option's weights although a case leaves them open."""
    return large(option.precision) and not option.layout.host_options


def _asked(case: Case, kind: PriceKind, concurrency: int | None) -> Case:
    update: dict[str, object] = {}
    if kind is not case.limits.price_kind:
        update["limits"] = case.limits.changed(price_kind=kind)
    if concurrency is not None:
        most = min(case.limits.max_accelerators, MOST_PER_REPLICA)
        update["limits"] = case.limits.changed(max_accelerators=most)
        update["workload"] = case.workload.changed(concurrency=concurrency)
    return case.changed(**update) if update else case
