"""From a case to priced options: which precisions to try, on which systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.refusals import check_context
from advisor.estimate.serving.times import cache_format, serves_in, stored_format
from advisor.estimate.training.flops import model_flops_per_token
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.workload import Pretraining, Serving, Training
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.layouts import stated_values
from advisor.planning.search.options import Configuration, Miss, Option, Price, priced_options
from advisor.planning.search.out_of_reach import within_reach
from advisor.planning.search.serving import replica_table, search_serving
from advisor.planning.search.systems import System, by_host_memory
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
    runs: dict[str, TrainingRun]
    """Resolved training workloads by recipe; empty for serving."""


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
        self, able: Iterable[int], formats: Iterable[str], runs: dict[str, TrainingRun]
    ) -> SearchResult:
        """Return the result; ``able`` are the systems that have one of the asked formats."""
        return SearchResult(
            options=tuple(self.options),
            alternatives=tuple(self.alternatives),
            searched=self.searched,
            misses=self.misses,
            with_format=frozenset(self.systems[index].accelerator.key for index in able),
            formats=tuple(dict.fromkeys(formats)),
            runs=runs,
        )


def search(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    hosted: bool = False,
) -> SearchResult:
    """Evaluate a case on all systems, in every precision worth trying.

    Parameters
    ----------
    hosted : bool, optional
        Use layouts with the host's memory; tried if nothing fits without it.
    """
    if isinstance(case.workload, Serving):
        return _search_serving(case, case.workload, architecture, systems, calibration)
    return _search_training(case, case.workload, architecture, systems, calibration, hosted=hosted)


def search_and_host(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> tuple[Sequence[System], SearchResult]:
    """Evaluate a case on all systems; if training fits none, use the hosts' memory too.

    Returns
    -------
    sequence of System, SearchResult
        The searched systems and the result. If the host's memory is used, systems are separate
        for each host memory size.
    """
    result = search(case, architecture, systems, calibration)
    serving = isinstance(case.workload, Serving)
    refused = case.layout and case.layout.states("offload") and not case.layout.offload
    if serving or result.options or refused or architecture.unit is not Unit.TOKEN:
        return systems, result
    parted = by_host_memory(systems)
    hosted = search(case, architecture, parted, calibration, hosted=True)
    if not hosted.options:
        return systems, result
    # Cards that still do not fit show their need without host memory.
    return parted, replace(hosted, misses=result.misses)


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
) -> SearchResult:
    asked = workload.precision
    proven = (asked,) if asked else proven_recipes(architecture)
    # Stacks for 8-bit training are made for language models.
    text = architecture.unit is Unit.TOKEN
    lower = LOW_PRECISION_RECIPES if text and isinstance(workload, Pretraining) else ()
    lower = () if asked or hosted else lower
    runs = {
        name: resolve_training(workload, architecture, RECIPES[name]) for name in (*proven, *lower)
    }
    # Recipes that few cards need have few numbers of accelerators, so small spaces.
    spaces: dict[frozenset[int], LayoutSpace] = {}
    served: set[int] = set()
    interruptions = interruptions_of(case, calibration)
    prices = [Price.of(system, case.limits.price_kind, interruptions) for system in systems]
    findings = _Findings(systems, prices)
    frozen = next(iter(runs.values())).frozen
    spreads = TimeSpreads(architecture, calibration, serving=False, frozen=frozen)
    for name, run in runs.items():
        advised = name in lower
        indices = [
            index
            for index, system in enumerate(systems)
            if matmul_peak(system.accelerator, run.recipe.compute) is not None
            and (advised or index not in served)
        ]
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
        findings.price(
            (
                Configuration(
                    index,
                    found.count,
                    found.precision,
                    found.layouts,
                    found.row,
                    found.hours,
                    found.hours
                    * spreads.of(
                        systems[index].accelerator, precision=name, count=found.count
                    ).high,
                )
                for index, found in recipe.found
            ),
            advised=advised,
        )
    return findings.result(served, (RECIPES[name].compute for name in proven), runs)


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


def served_format(
    workload: Serving, architecture: ModelArchitecture, accelerator: Accelerator
) -> str:
    """Return the weight format to serve in: the asked one, or the model's on this card."""
    return workload.weight_format or stored_format(accelerator, architecture.weight_format)


def _search_serving(
    case: Case,
    workload: Serving,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> SearchResult:
    check_context(workload, architecture)
    # Networks that process batches are compute-bound: narrower weights alone do not help.
    lower = () if workload.weight_format or not generates(architecture) else LOW_PRECISION_WEIGHTS
    own = [served_format(workload, architecture, system.accelerator) for system in systems]
    caches = [cache_format(workload, system.accelerator) for system in systems]
    # Formats of equal size share a search: bf16 and fp16 differ only in name.
    groups: dict[tuple[float, float], list[int]] = {}
    for index, system in enumerate(systems):
        if serves_in(system.accelerator, own[index]):
            sizes = WEIGHT_FORMATS[own[index]].bytes_per_parameter, KV_CACHE_FORMATS[caches[index]]
            groups.setdefault(sizes, []).append(index)
    prices = [Price.of(system, case.limits.price_kind) for system in systems]
    findings = _Findings(systems, prices)
    spreads = TimeSpreads(architecture, calibration, serving=True)
    for (size, _), indices in groups.items():
        members = [systems[index] for index in indices]
        table = replica_table(
            architecture, members, workload.concurrency, stated_values(case.layout)
        )
        smaller = [name for name in lower if WEIGHT_FORMATS[name].bytes_per_parameter < size]
        for name in (own[indices[0]], *smaller):
            advised = name in smaller
            result = search_serving(
                architecture,
                workload,
                WEIGHT_FORMATS[name],
                caches[indices[0]],
                members,
                table,
                case.limits,
                calibration,
            )
            findings.searched += result.searched
            findings.price(
                (
                    Configuration(
                        index,
                        found.count,
                        name if advised else own[index],
                        found.layouts,
                        found.row,
                        found.tpot_s,
                        found.tpot_s
                        * spreads.of(
                            systems[index].accelerator, precision=name, count=found.count
                        ).high,
                        found.ttft_s,
                        found.tokens_per_s,
                    )
                    for found in result.found
                    for index in [indices[found.system]]
                ),
                advised=advised,
            )
            if not advised:
                findings.miss({indices[at]: miss for at, miss in result.misses.items()})
    able = (index for indices in groups.values() for index in indices)
    return findings.result(able, (WEIGHT_FORMATS[name].compute for name in own), {})
