"""The search of workloads: equal cases once, weights and pace where their cases leave them open."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from advisor.architecture.resolve import resolve_model
from advisor.catalog import Catalog
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.serving_formats import Way
from advisor.estimate.tools.software import ToolRules
from advisor.fleet.machines import Machine, Slice, machine_system, slices
from advisor.fleet.portfolio import FleetWorkload, Means
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.serving_defaults import for_few
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.quality import loses_little
from advisor.nouns.workload import Serving
from advisor.planning.prepared import resolved
from advisor.planning.search.options import Option, in_time
from advisor.planning.search.software import search_and_host
from advisor.planning.search.systems import System, find_systems
from advisor.planning.search.tries import Tried
from advisor.planning.spanning import spanning
from advisor.planning.usual_limits import Pace, usual_limits

MOST_PER_REPLICA: Final = 16
"""Most cards of one replica of a service."""
SMALLEST_BYTES: Final = 1.0
"""Smallest weights that a machine serves unasked: published comparisons of 8 bits with 16 find
little loss (quality_loss.csv), those of 4 bits some. [bytes/parameter]"""
EIGHT_BIT_SAVES: Final = 0.25
"""Share of a service's cost that weights of 8 bits save at least where a plan takes them although
larger ones fit. Assumed: less is not worth a second look at the model's answers."""


def large(weights: str) -> bool:
    """Whether a plan takes a format although nobody asked for it."""
    return WEIGHT_FORMATS[weights].bytes_per_parameter >= SMALLEST_BYTES


class LargeWeights(ToolRules):
    """Rules of a case without small weights that nobody asked for, and without hosts' memory."""

    def _found_ways(self, card: Accelerator, many: bool) -> tuple[Way, ...]:
        found = super()._found_ways(card, many)
        return tuple(
            one for one in found if one.usual or (large(one.weight_format) and not one.hosted)
        )


class ServedWay(NamedTuple):
    """How a service runs where its case leaves that open."""

    pace: Pace = Pace.STATED
    """How fast it answers."""
    narrow: bool = False
    """Weights of 8 bits come first."""


AS_STATED: Final = ServedWay()
"""As the case says."""


class EightBits(LargeWeights):
    """The same with weights of 8 bits first, where their published loss is next to none."""

    def _found_ways(self, card: Accelerator, many: bool) -> tuple[Way, ...]:
        found = super()._found_ways(card, many)
        narrow = [one._replace(usual=True) for one in found if loses_little(one.weight_format)]
        return (*narrow, *(one for one in found if not loses_little(one.weight_format)))


@dataclass
class Searches:
    """Searches workloads on the machines and rentals that they may use."""

    catalog: Catalog
    calibration: Calibration
    machines: Sequence[tuple[int, Machine]]
    """Machines with the place of their supply."""
    means: Means
    single: bool = False
    """Whether services have the weights that ``recommend`` takes."""
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

        ``also``: the way of the next search, which shares this one. ``without``: machines that
        need no search.
        """
        rate = self._rate(workload, concurrency)
        case, limits = _asked(workload.case, kind, concurrency, rate), workload.case.limits
        if limits.deadline_hours is not None and limits.deadline_hours <= HOURS_PER_MONTH:
            # What is late is left out below: runs that differ in this alone are searched once.
            case = case.changed(limits=case.limits.changed(deadline_hours=None))
        rents, many = self.rents(workload), workload.sites > 1
        alike = way.pace, rents, many, without, case.model_dump_json(exclude_unset=True)
        key = way.narrow, *alike
        if key not in self._found:
            if self._asked is None or self._asked.key != alike:
                case, architecture = resolved(case)
                whole = workload.case.workload
                usual = usual_limits(case, architecture, way.pace, whole=whole)
                case = case.changed(limits=usual)
                training = not isinstance(case.workload, Serving)
                owned = [] if kind is PriceKind.SPOT else self._owned_systems(case, training, many)
                systems = [item for item in owned if item.node.assumptions[0] not in without]
                if rents:
                    systems += find_systems(self.catalog, case.limits, training=training)
                asked = ResolvedCase(case, architecture, self.calibration)
                then = () if also is None else self._rules_of(asked, also, workload)[:1]
                self._asked = _Asked(alike, asked, systems, Tried(then))
            rules = self._rules_of(self._asked.asked, way, workload)
            self._found[key] = self._asked.options(rules, way)
        options, searched = self._found[key]
        return in_time(options, limits), searched

    def _rate(self, workload: FleetWorkload, concurrency: int | None) -> float | None:
        """Return the rate of so many requests in flight of the one question that was asked.

        Ranges then go through the queue, as ``recommend`` judges them; this takes longer. None
        where they stay in flight. [requests/s]
        """
        serving, pace = workload.case.workload, workload.output_per_s
        if not self.single or concurrency is None or pace is None:
            return None
        if not isinstance(serving, Serving) or not resolve_model(workload.case.model).generates:
            return None
        return concurrency * pace / serving.output_tokens

    def _rules_of(
        self, asked: ResolvedCase, way: ServedWay, workload: FleetWorkload
    ) -> tuple[ToolRules, ...]:
        """Return what a case asks of its software: the same whatever its load and its lengths.

        First without weights that a plan takes only where nothing larger fits on any system. A
        replica for a few of a service's many users runs what serves many.
        """
        case, whole = asked.case, workload.case.workload
        if isinstance(whole, Serving) and isinstance(case.workload, Serving):
            load = case.workload.changed(concurrency=whole.concurrency)
            case = case.changed(workload=load)
        work = {"concurrency", "input_tokens", "output_tokens"}
        few = isinstance(case.workload, Serving) and for_few(case.workload)
        limits = {"deadline_hours", "max_tpot_ms", "max_ttft_ms"}
        shared = case.model_dump_json(exclude={"workload": work, "limits": limits})
        key = f"{few}{way.narrow}{shared}"
        if key not in self._rules:
            first = EightBits if way.narrow else LargeWeights
            kinds = (ToolRules,) if self.single else (first, ToolRules)
            self._rules[key] = tuple(kind.of(case, asked.architecture) for kind in kinds)
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


@dataclass
class _Asked:
    """A case on all systems that may run it."""

    key: Hashable
    asked: ResolvedCase
    systems: Sequence[System]
    tried: Tried
    """What is known, for the next search."""

    def options(
        self, ways: Sequence[ToolRules], way: ServedWay
    ) -> tuple[list[Option], Sequence[System]]:
        """Return options by the first rules that give one with the usual weights, and systems."""
        case = self.asked.case
        searched, options = self.systems, []
        for rules in ways if self.systems else ():
            searched, result = search_and_host(
                self.asked, self.systems, advising=False, rules=rules, tried=self.tried
            )
            options = [*result.options]
            if isinstance(rules, LargeWeights):  # what a plan takes though a case leaves it open
                smaller = (one for one in result.smaller if large(one.precision))
                options += (one for one in smaller if not one.layout.host_options)
            if not isinstance(case.workload, Serving) or (result.options and not result.lowered):
                break
        options = spanning(self.asked, searched, options, fewer=True)
        if way.pace is not Pace.STATED:
            options = in_time(options, case.limits)
        return options, searched


def _asked(
    case: Case, kind: PriceKind, concurrency: int | None, requests_per_s: float | None = None
) -> Case:
    update: dict[str, object] = {}
    if kind is not case.limits.price_kind:
        update["limits"] = case.limits.changed(price_kind=kind)
    if concurrency is not None:
        most = min(case.limits.max_accelerators, MOST_PER_REPLICA)
        update["limits"] = case.limits.changed(max_accelerators=most)
        update["workload"] = (
            case.workload.changed(concurrency=concurrency)
            if requests_per_s is None
            else case.workload.changed(requests_per_s=requests_per_s)
        )
    return case.changed(**update) if update else case
