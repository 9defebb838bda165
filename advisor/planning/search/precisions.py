"""From a case to priced options: which precisions to try, on which systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.configuration import check_context
from advisor.estimate.serving.times import cache_format, serves_in, stored_format
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.estimate.training.step_time import model_flops_per_token
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.workload import Pretraining, Serving
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.options import Configuration, Option, Price, priced_options
from advisor.planning.search.out_of_reach import within_reach
from advisor.planning.search.serving import replica_table, search_serving
from advisor.planning.search.systems import System, by_host_memory
from advisor.planning.search.training import search_training
from advisor.planning.spot import interruptions_of
from advisor.planning.time_ranges import TimeSpreads

PROVEN_RECIPES = ("bf16_mixed", "fp16_mixed", "fp32")
"""Tried in this order; a card uses the first that it has."""
SAMPLE_RECIPES = ("bf16_amp", "fp16_amp", "fp32")
"""The same for networks that take images or samples: loops of frameworks train by autocast."""
LOW_PRECISION_RECIPES = ("fp8",)
"""Searched as well, but only advised: the user has to accept another numeric regime."""
LOW_PRECISION_WEIGHTS = ("fp8", "w4a16")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Options of the proven precisions, those of lower ones, and the nearest misses."""

    options: tuple[Option, ...]
    alternatives: tuple[Option, ...]
    searched: int
    least_memory_bytes: dict[str, float]
    """Accelerator -> smallest need of any layout, where none fits. [bytes]"""
    with_format: frozenset[str]
    """Accelerators that have one of the asked number formats."""
    formats: tuple[str, ...]
    runs: dict[str, TrainingRun]
    """Resolved training workloads by recipe; empty for serving."""


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
    case : Case
    architecture : ModelArchitecture
    systems : sequence of System
    calibration : Calibration
    hosted : bool, optional
        Train with something in the host's memory: what is tried where nothing fits without.

    Returns
    -------
    SearchResult
    """
    if isinstance(case.workload, Serving):
        return _search_serving(case, case.workload, architecture, systems, calibration)
    return _search_training(case, architecture, systems, calibration, hosted=hosted)


def search_and_host(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> tuple[Sequence[System], SearchResult]:
    """Evaluate a case on all systems; training that fits none, also with their hosts' memory.

    Returns
    -------
    sequence of System, SearchResult
        What was searched: where the host helps, the systems by the memory of their machines.
    """
    result = search(case, architecture, systems, calibration)
    serving = isinstance(case.workload, Serving)
    if serving or result.options or architecture.unit is not Unit.TOKEN:
        return systems, result
    parted = by_host_memory(systems)
    hosted = search(case, architecture, parted, calibration, hosted=True)
    if not hosted.options:
        return systems, result
    # The cards that still do not fit are told what they need without a host.
    return parted, replace(hosted, least_memory_bytes=result.least_memory_bytes)


def proven_recipes(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the recipes to try for a network, the usual first."""
    return PROVEN_RECIPES if architecture.unit is Unit.TOKEN else SAMPLE_RECIPES


def _search_training(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    *,
    hosted: bool,
) -> SearchResult:
    workload = case.workload
    if isinstance(workload, Serving):
        msg = "a serving workload has no training search"
        raise TypeError(msg)
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
    options: list[Option] = []
    alternatives: list[Option] = []
    least: dict[str, float] = {}
    searched = 0
    served: set[int] = set()
    interruptions = interruptions_of(case, calibration)
    prices = [Price.of(system, case.limits.price_kind, interruptions) for system in systems]
    frozen = next(iter(runs.values())).frozen
    spreads = TimeSpreads(architecture, calibration, serving=False, frozen=frozen)
    for name, run in runs.items():
        indices = [
            index
            for index, system in enumerate(systems)
            if matmul_peak(system.accelerator, run.recipe.compute) is not None
            and (name in lower or index not in served)
        ]
        counts = frozenset(count for index in indices for count in systems[index].counts)
        if counts not in spaces:
            spaces[counts] = LayoutSpace(architecture, run, counts, calibration, hosted=hosted)
        space = spaces[counts]
        flops = model_flops_per_token(architecture, run) * run.tokens
        reachable = [
            within_reach(systems[index], run, flops, case.limits, space.has_layouts)
            for index in indices
        ]
        result = search_training(architecture, run, reachable, space, calibration)
        searched += result.searched
        target = alternatives if name in lower else options
        located = [(indices[found.system], found) for found in result.found]
        misses = {indices[place]: need for place, need in result.least_memory_bytes.items()}
        # A card that was left with counts that do not fit is searched whole, so that it is
        # rejected for the limit it misses and not for memory.
        solved = {index for index, _ in located}
        again = [
            index
            for index, tried in zip(indices, reachable, strict=True)
            if name not in lower and index not in solved and tried.counts != systems[index].counts
        ]
        if again:
            rest = search_training(
                architecture, run, [systems[index] for index in again], space, calibration
            )
            searched += rest.searched
            located += [(again[found.system], found) for found in rest.found]
            for index in again:
                misses.pop(index, None)
            misses |= {again[place]: need for place, need in rest.least_memory_bytes.items()}
        target += priced_options(
            [
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
                for index, found in located
            ],
            prices,
        )
        if name not in lower:
            served.update(indices)
            for index, value in misses.items():
                key = systems[index].accelerator.key
                least[key] = min(least.get(key, float("inf")), value)
    return SearchResult(
        options=tuple(options),
        alternatives=tuple(alternatives),
        searched=searched,
        least_memory_bytes=least,
        with_format=frozenset(systems[index].accelerator.key for index in served),
        formats=tuple(dict.fromkeys(RECIPES[name].compute for name in proven)),
        runs=runs,
    )


def served_format(
    workload: Serving, architecture: ModelArchitecture, accelerator: Accelerator
) -> str:
    """Return the weight format to serve in: the asked one, or the model's own on this card."""
    return workload.weight_format or stored_format(accelerator, architecture.weight_format)


def _search_serving(
    case: Case,
    workload: Serving,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> SearchResult:
    check_context(workload, architecture)
    # Networks that answer batches are compute-bound: narrower weights alone do not help them.
    lower = () if workload.weight_format or not generates(architecture) else LOW_PRECISION_WEIGHTS
    own = [served_format(workload, architecture, system.accelerator) for system in systems]
    caches = [cache_format(workload, system.accelerator) for system in systems]
    # Formats of one size are one search: bf16 and fp16 differ in name alone.
    groups: dict[tuple[float, float], list[int]] = {}
    for index, system in enumerate(systems):
        if serves_in(system.accelerator, own[index]):
            sizes = WEIGHT_FORMATS[own[index]].bytes_per_parameter, KV_CACHE_FORMATS[caches[index]]
            groups.setdefault(sizes, []).append(index)
    options: list[Option] = []
    alternatives: list[Option] = []
    least: dict[str, float] = {}
    searched = 0
    prices = [Price.of(system, case.limits.price_kind) for system in systems]
    spreads = TimeSpreads(architecture, calibration, serving=True)
    for (size, _), indices in groups.items():
        members = [systems[index] for index in indices]
        table = replica_table(architecture, members, workload.concurrency)
        smaller = [name for name in lower if WEIGHT_FORMATS[name].bytes_per_parameter < size]
        for name in (own[indices[0]], *smaller):
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
            searched += result.searched
            target = alternatives if name in smaller else options
            located = [(indices[found.system], found) for found in result.found]
            target += priced_options(
                [
                    Configuration(
                        index,
                        found.count,
                        name if name in smaller else own[index],
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
                    for index, found in located
                ],
                prices,
            )
            if name not in smaller:
                for place, value in result.least_memory_bytes.items():
                    key = members[place].accelerator.key
                    least[key] = min(least.get(key, float("inf")), value)
    able = {index for indices in groups.values() for index in indices}
    return SearchResult(
        options=tuple(options),
        alternatives=tuple(alternatives),
        searched=searched,
        least_memory_bytes=least,
        with_format=frozenset(systems[index].accelerator.key for index in able),
        formats=tuple(dict.fromkeys(WEIGHT_FORMATS[name].compute for name in own)),
        runs={},
    )
