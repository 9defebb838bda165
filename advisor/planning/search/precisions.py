"""From a case to priced options: which precisions to try, on which systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.refusals import check_context
from advisor.estimate.serving.times import cache_format, serves_in
from advisor.estimate.software import ToolRules, engine_of, served_format, serves
from advisor.estimate.training.flops import model_flops_per_token
from advisor.estimate.training.run import TrainingRun, resolve_training, software_of
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import (
    KV_CACHE_FORMATS,
    RECIPES,
    WEIGHT_FORMATS,
    PrecisionRecipe,
)
from advisor.nouns.stacks import Work
from advisor.nouns.tools import Tool
from advisor.nouns.workload import Pretraining, Serving, Training
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.layouts import stated_values
from advisor.planning.search.options import Configuration, Miss, Option, Price, priced_options
from advisor.planning.search.out_of_reach import within_reach
from advisor.planning.search.replicas import replica_table
from advisor.planning.search.serving import ServingSearch, Strain, most_replicas, search_serving
from advisor.planning.search.systems import System, by_host_memory, serving_hosts, with_host
from advisor.planning.search.training import Found, search_training
from advisor.planning.spot import interruptions_of
from advisor.planning.time_ranges import TimeSpreads

PROVEN_RECIPES = ("bf16_mixed", "fp16_mixed", "fp32")
"""Tried in this order; a card uses the first that it supports."""
SAMPLE_RECIPES = ("bf16_amp", "fp16_amp", "fp32")
"""The same for networks that take images or samples, which frameworks train in autocast."""
LOW_PRECISION_RECIPES = ("fp8",)
"""Searched too, but only as advice: the user has to accept the lower precision."""
LOW_PRECISION_WEIGHTS = ("fp8", "w4a16")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Options in proven precisions, options in lower ones, and the nearest misses."""

    options: tuple[Option, ...]
    alternatives: tuple[Option, ...]
    searched: int
    misses: dict[str, Miss]
    """Smallest need by accelerator, for those on which nothing fits."""
    with_format: frozenset[str]
    """Accelerators that have one of the asked number formats."""
    formats: tuple[str, ...]
    runs: tuple[TrainingRun, ...]
    """Resolved training workloads, the usual first; empty for serving."""


@dataclass(slots=True)
class _Findings:
    """Collects the results of the searches of a case."""

    systems: Sequence[System]
    prices: Sequence[Price]
    options: list[Option] = field(default_factory=list)
    alternatives: list[Option] = field(default_factory=list)
    misses: dict[str, Miss] = field(default_factory=dict)
    searched: int = 0

    def price(self, configurations: Iterable[Configuration], *, advised: bool) -> None:
        """Add priced configurations; those that are only advice go to the alternatives."""
        target = self.alternatives if advised else self.options
        target += priced_options(list(configurations), self.prices)

    def miss(self, misses: Mapping[int, Miss]) -> None:
        """Add the smallest need of each system on which nothing fits."""
        for index, miss in misses.items():
            key = self.systems[index].accelerator.key
            self.misses[key] = min(self.misses.get(key, miss), miss)

    def result(
        self, able: Iterable[int], formats: Iterable[str], runs: Iterable[TrainingRun] = ()
    ) -> SearchResult:
        """Return the result; ``able`` are the systems that have one of the asked formats."""
        return SearchResult(
            options=tuple(self.options),
            alternatives=tuple(self.alternatives),
            searched=self.searched,
            misses=self.misses,
            with_format=frozenset(self.systems[index].accelerator.key for index in able),
            formats=tuple(dict.fromkeys(formats)),
            runs=tuple(runs),
        )


def search(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    hosted: bool = False,
    advising: bool = True,
) -> SearchResult:
    """Evaluate a case on all systems, in every precision worth trying.

    Parameters
    ----------
    hosted : bool, optional
        Use layouts with the host's memory; tried if nothing fits without it.
    advising : bool, optional
        Also try lower precisions, as ``alternatives``.
    """
    asked = architecture, systems, calibration
    if isinstance(case.workload, Serving):
        return _search_serving(case, case.workload, *asked, hosted=hosted, advising=advising)
    return _search_training(case, case.workload, *asked, hosted=hosted, advising=advising)


def search_and_host(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    advising: bool = True,
) -> tuple[Sequence[System], SearchResult]:
    """Evaluate a case on all systems; if nothing fits, use the hosts' memory too.

    Parameters
    ----------
    advising : bool, optional
        Also try lower precisions, as ``alternatives``.

    Returns
    -------
    sequence of System, SearchResult
        The searched systems, each with its tool, and the result. If the host's memory is used,
        systems are separate for each host memory size.
    """
    systems = equipped(case, architecture, with_host(systems, case.host))
    result = search(case, architecture, systems, calibration, advising=advising)
    refused = case.layout and case.layout.states("offload") and not case.layout.offload
    if result.options or refused or architecture.unit is not Unit.TOKEN:
        return systems, result
    if isinstance(case.workload, Serving):
        able = _offloading(case.workload, architecture, systems, calibration)
        parted = serving_hosts(able, case.host)
    else:
        parted = by_host_memory(systems)
    hosted = search(case, architecture, parted, calibration, hosted=True, advising=advising)
    if not hosted.options:
        return systems, result
    # Cards that still do not fit show their need without host memory.
    return parted, replace(hosted, misses=result.misses)


def _offloading(
    workload: Serving,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> list[System]:
    """Return the systems whose serving engine keeps layers in the host's memory."""

    def offloads(system: System) -> bool:
        card, tool = system.accelerator, system.tool
        form = WEIGHT_FORMATS[served_format(workload, architecture, card, tool)]
        return calibration.under(engine_of(tool, card)).engine_for(form).host is not None

    return [system for system in systems if offloads(system)]


def equipped(
    case: Case, architecture: ModelArchitecture, systems: Sequence[System]
) -> list[System]:
    """Return the systems on which a tool does the work, each with it."""
    rules = ToolRules.of(case, architecture)
    chosen = [(system, rules.choose(system.accelerator)) for system in systems]
    return [replace(system, tool=tool) for system, tool in chosen if isinstance(tool, Tool)]


def proven_recipes(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the recipes to try for a network, the usual first."""
    return PROVEN_RECIPES if architecture.unit is Unit.TOKEN else SAMPLE_RECIPES


def _search_training(
    case: Case,
    workload: Training,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    hosted: bool,
    advising: bool,
) -> SearchResult:
    asked = workload.precision
    proven = (asked,) if asked else proven_recipes(architecture)
    # The usual stack for pretraining language models is made for 8-bit training.
    text = architecture.unit is Unit.TOKEN and isinstance(workload, Pretraining)
    advising = advising and text and not asked and not hosted
    interruptions = interruptions_of(case, calibration)
    prices = [Price.of(system, case.limits.price_kind, interruptions) for system in systems]
    findings = _Findings(systems, prices)
    runs: dict[tuple[str, str], TrainingRun] = {}
    served: set[int] = set()
    spreads: TimeSpreads | None = None
    for members in _alike(workload, architecture, systems):
        alike = [systems[index] for index in members]
        # Recipes that few cards need have few numbers of accelerators, so small spaces.
        spaces: dict[frozenset[int], LayoutSpace] = {}
        stack = software_of(workload, architecture.unit, alike[0].tool)
        lower = LOW_PRECISION_RECIPES if advising and Work.PRETRAINING in stack.default_for else ()
        for name in (*proven, *lower):
            advised = name in lower
            run = _run_of_all(workload, architecture, RECIPES[name], alike)
            indices = [
                index
                for index in members
                if computes(systems[index], run.recipe) and (advised or index not in served)
            ]
            if not indices and runs:
                continue
            counts = frozenset(count for index in indices for count in systems[index].counts)
            if counts not in spaces:
                spaces[counts] = LayoutSpace(
                    architecture, run, counts, calibration, stated=case.layout, hosted=hosted
                )
            recipe = _RecipeSearch(case, architecture, run, spaces[counts], calibration)
            recipe.try_reachable(systems, indices)
            if not advised:
                recipe.try_left_out(systems, indices)
                served.update(indices)
                findings.miss(recipe.misses)
            findings.searched += recipe.searched
            for index in indices or members[:1]:
                tool = systems[index].tool
                key = name, "" if tool is None else tool.name
                if key not in runs:
                    runs[key] = resolve_training(workload, architecture, RECIPES[name], tool)
            spreads = spreads or TimeSpreads(
                architecture, calibration, serving=False, frozen=run.frozen
            )
            findings.price(_trained(recipe, systems, runs, spreads), advised=advised)
    if not runs:
        runs["", ""] = resolve_training(workload, architecture, RECIPES[proven[0]])
    return findings.result(served, (RECIPES[name].compute for name in proven), runs.values())


def _alike(
    workload: Training, architecture: ModelArchitecture, systems: Sequence[System]
) -> list[list[int]]:
    """Group systems by the stack that estimates their tool: they share layouts and their memory."""
    groups: dict[str, list[int]] = {}
    for index, system in enumerate(systems):
        stack = software_of(workload, architecture.unit, system.tool).name
        groups.setdefault(stack, []).append(index)
    return list(groups.values())


def _run_of_all(
    workload: Training,
    architecture: ModelArchitecture,
    recipe: PrecisionRecipe,
    members: Sequence[System],
) -> TrainingRun:
    """Return the workload with what any of the tools of some systems offers."""
    run = resolve_training(workload, architecture, recipe, members[0].tool)
    offers = (None if one.tool is None else one.tool.training for one in members)
    return replace(run, offers=tuple(dict.fromkeys(one for one in offers if one is not None)))


def computes(system: System, recipe: PrecisionRecipe) -> bool:
    """Return whether card and tool have the format of a recipe."""
    offer = None if system.tool is None else system.tool.training
    offered = offer is None or recipe.compute in offer.computes
    return offered and matmul_peak(system.accelerator, recipe.compute) is not None


def _trained(
    recipe: _RecipeSearch,
    systems: Sequence[System],
    runs: Mapping[tuple[str, str], TrainingRun],
    spreads: TimeSpreads,
) -> Iterator[Configuration]:
    """Yield what the search of one recipe found, with the run of each system's tool."""
    name = recipe.run.recipe.name
    for index, found in recipe.found:
        system = systems[index]
        spread = spreads.of(system.accelerator, precision=name, count=found.count)
        yield Configuration(
            index,
            found.count,
            found.precision,
            found.layouts,
            found.row,
            found.hours,
            found.hours * spread.high,
            run=runs[name, "" if system.tool is None else system.tool.name],
            proven=spreads.proven(system.accelerator),
        )


@dataclass(slots=True)
class _RecipeSearch:
    """Search of one recipe: its results, and the need of systems on which nothing fits."""

    case: Case
    architecture: ModelArchitecture
    run: TrainingRun
    space: LayoutSpace
    calibration: Calibration
    found: list[tuple[int, Found]] = field(default_factory=list)
    """System and its fastest layout at one count."""
    misses: dict[int, Miss] = field(default_factory=dict)
    searched: int = 0
    cut: set[int] = field(default_factory=set)
    """Systems that were tried only at some of their counts."""

    def try_reachable(self, systems: Sequence[System], indices: Sequence[int]) -> None:
        """Search the counts that can meet the limits at the data sheet's peak."""
        flops = model_flops_per_token(self.architecture, self.run) * self.run.tokens
        reachable = [
            within_reach(systems[index], self.run, flops, self.case.limits, self.space.has_layouts)
            for index in indices
        ]
        self._try(reachable, indices)
        self.cut = {
            index
            for index, tried in zip(indices, reachable, strict=True)
            if tried.counts != systems[index].counts
        }

    def try_left_out(self, systems: Sequence[System], indices: Sequence[int]) -> None:
        """Search all counts of a card if the tried ones do not fit.

        The card is then rejected for the limit that it misses, not for memory.
        """
        solved = {index for index, _ in self.found}
        again = [index for index in indices if index in self.cut and index not in solved]
        if again:
            for index in again:
                self.misses.pop(index, None)
            self._try([systems[index] for index in again], again)

    def _try(self, systems: Sequence[System], indices: Sequence[int]) -> None:
        result = search_training(self.architecture, self.run, systems, self.space, self.calibration)
        self.searched += result.searched
        self.found += [(indices[found.system], found) for found in result.found]
        self.misses |= {indices[at]: miss for at, miss in result.misses.items()}


def _search_serving(
    case: Case,
    workload: Serving,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    hosted: bool,
    advising: bool,
) -> SearchResult:
    check_context(workload, architecture)
    # Networks that process batches are compute-bound: narrower weights alone do not help.
    lowers = advising and not workload.weight_format and generates(architecture)
    lower = LOW_PRECISION_WEIGHTS if lowers else ()
    own = [
        served_format(workload, architecture, system.accelerator, system.tool) for system in systems
    ]
    caches = [cache_format(workload, system.accelerator) for system in systems]
    # Formats of equal size share a search: bf16 and fp16 differ only in name.
    groups: dict[tuple[float, float, str | None], list[int]] = {}
    for index, system in enumerate(systems):
        if serves_in(system.accelerator, own[index]):
            sizes = WEIGHT_FORMATS[own[index]].bytes_per_parameter, KV_CACHE_FORMATS[caches[index]]
            engine = engine_of(system.tool, system.accelerator)
            groups.setdefault((*sizes, engine), []).append(index)
    prices = [Price.of(system, case.limits.price_kind) for system in systems]
    findings = _Findings(systems, prices)
    spreads = TimeSpreads(architecture, calibration, serving=True)
    for (size, _, engine), indices in groups.items():
        members = [systems[index] for index in indices]
        table = replica_table(
            architecture,
            members,
            most_replicas(workload),
            stated_values(case.layout),
            by_layers=calibration.under(engine)
            .engine_for(WEIGHT_FORMATS[own[indices[0]]])
            .divides_layers,
            hosted=hosted,
        )
        smaller = [name for name in lower if WEIGHT_FORMATS[name].bytes_per_parameter < size]
        for name in (own[indices[0]], *smaller):
            advised = name in smaller
            if advised and not any(_serves(system, name) for system in members):
                continue
            strain = _strain(members, name, spreads, case.limits)
            result = search_serving(
                architecture,
                workload,
                WEIGHT_FORMATS[name],
                caches[indices[0]],
                members,
                table,
                case.limits,
                calibration.under(engine),
                prices=[prices[index] for index in indices],
                strain=strain,
                free=not (case.layout and case.layout.states("data")),
            )
            findings.searched += result.searched
            findings.price(
                _served(
                    systems,
                    indices,
                    result,
                    spreads,
                    name if advised else None,
                    own,
                    strain,
                ),
                advised=advised,
            )
            if not advised:
                findings.miss({indices[at]: miss for at, miss in result.misses.items()})
    able = (index for indices in groups.values() for index in indices)
    return findings.result(able, (WEIGHT_FORMATS[name].compute for name in own))


def _strain(
    systems: Sequence[System], name: str, spreads: TimeSpreads, limits: Constraints
) -> Strain:
    """Return at which point of their ranges the limits judge the latencies of each system."""
    share = 1.0 - limits.risk
    later = [spreads.of(one.accelerator, precision=name, count=1).at(share) for one in systems]
    first = [spreads.first(one.accelerator, precision=name).at(share) for one in systems]
    return Strain(later=np.array(later), first=np.array(first))


def _serves(system: System, name: str) -> bool:
    """Return whether a system's tool serves a weight format there."""
    return system.tool is None or serves(system.tool, system.accelerator, name)


def _served(
    systems: Sequence[System],
    indices: Sequence[int],
    result: ServingSearch,
    spreads: TimeSpreads,
    advised: str | None,
    own: Sequence[str],
    strain: Strain,
) -> Iterator[Configuration]:
    """Yield what the search of one weight format found, where the tool serves the format.

    Parameters
    ----------
    advised : str or None
        The format, if it is only advice; None takes each system's own.
    own : sequence of str
        Format of each system.
    strain : Strain
        Of the searched systems.
    """
    able = {index: advised is None or _serves(systems[index], advised) for index in indices}
    later, first = strain.later.tolist(), strain.first.tolist()
    for found in result.found:
        index = indices[found.system]
        system = systems[index]
        name = advised or own[index]
        if not able[index]:
            continue
        spread = spreads.of(system.accelerator, precision=name, count=found.count)
        yield Configuration(
            index,
            found.count,
            name,
            found.layouts,
            found.row,
            found.tpot_s,
            found.tpot_s * spread.high,
            found.ttft_s,
            found.tokens_per_s,
            judged=(found.tpot_s * later[found.system], found.ttft_s * first[found.system]),
            proven=spreads.proven(system.accelerator),
        )
