"""The search for serving: every system, count, replica layout and weight format in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import batch_times, generates
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.times import compute_format, serving_times
from advisor.nouns.efficiency import Calibration
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import KV_CACHE_FORMATS, WeightFormat
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import CHUNK
from advisor.planning.search.layouts import Stated
from advisor.planning.search.options import Miss
from advisor.planning.search.systems import System

Table = NDArray[np.intp]
"""Columns: system, count, replicas, tensor, pipeline, expert, layers on the cards, layers whose
experts the host holds."""
Indices = NDArray[np.intp]
Evaluated = tuple[Floats, Floats, Floats, NDArray[np.bool_], Floats, Floats]
"""Time per output, time to the first, outputs per second, whether it fits, needed and usable
memory."""

TENSOR_DEGREES = (1, 2, 4, 8, 16)
PIPELINE_DEGREES = (1, 2, 4)
LAYER_DEGREES = (1, 2, 3, 4, 5, 6, 7, 8)
"""Cards among which an engine divides whole layers."""
ALL_LAYERS = 2**31
"""More layers than a model has."""
WIDE_EXPERTS = 8
"""Experts are kept whole, spread over one machine of this size, or over all replicas."""


@dataclass(slots=True)
class FoundServing:
    """One fitting configuration that no other beats; not frozen, like `Configuration`."""

    system: int
    count: int
    precision: str
    layouts: LayoutArrays
    row: int
    """The layout is element ``row`` of ``layouts``."""
    tpot_s: float
    ttft_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class ServingSearch:
    """Results of the search, and the nearest misses."""

    found: tuple[FoundServing, ...]
    searched: int
    misses: dict[int, Miss]
    """Smallest need of any layout by system, for those on which none fits. [bytes]"""


def replica_table(
    architecture: ModelArchitecture,
    systems: Sequence[System],
    concurrency: int,
    stated: Stated | None = None,
    *,
    by_layers: bool = False,
    hosted: bool = False,
) -> Table:
    """Return every way to divide every number of accelerators into equal replicas.

    A replica answers at least one request at a time. If the replicas leave accelerators of the
    last instance idle, the count is the number of accelerators in use. Degrees in ``stated`` keep
    their values.

    Parameters
    ----------
    by_layers : bool, optional
        The engine divides a model by whole layers alone.
    hosted : bool, optional
        The host's memory holds some layers or experts.
    """
    stated = stated or {}
    by_tensor = TENSOR_DEGREES if not by_layers else (1,)
    by_stages = PIPELINE_DEGREES if not by_layers else LAYER_DEGREES
    parts = _parts(architecture, stated, hosted=hosted)

    def tried(name: str, degrees: Iterable[int]) -> Iterable[int]:
        return (stated[name],) if name in stated else degrees

    heads, layers = architecture.num_attention_heads, architecture.num_hidden_layers
    divided = generates(architecture)
    rows: set[tuple[int, ...]] = set()
    for index, system in enumerate(systems):
        reach = max(system.node.accelerators, system.node.intra_domain)
        tensors = by_tensor if divided and system.divides("tensor") else (1,)
        pipelines = by_stages if divided and system.divides("pipeline") else (1,)
        for count in system.counts:
            for tensor in tried("tensor", tensors):
                if heads % tensor or (tensor > reach and "tensor" not in stated):
                    continue
                for pipeline in tried("pipeline", pipelines):
                    replica = tensor * pipeline
                    replicas = min(count // replica, concurrency)
                    if replicas != stated.get("data", replicas):
                        continue
                    used = replicas * replica
                    if pipeline > layers or used <= max(0, count - system.node.accelerators):
                        continue
                    spread = {1, min(WIDE_EXPERTS, replicas), replicas}
                    degrees = tried("expert", spread if system.divides("expert") else (1,))
                    rows.update(
                        (index, used, replicas, tensor, pipeline, expert, *part)
                        for expert in degrees
                        if replicas % expert == 0 and architecture.num_experts % expert == 0
                        for part in parts
                    )
    return np.array(sorted(rows), dtype=np.intp).reshape(-1, 8)


def _parts(
    architecture: ModelArchitecture, stated: Stated, *, hosted: bool
) -> tuple[tuple[int, int], ...]:
    """Return layers on the cards, and layers whose experts the host holds, to try.

    Experts move to the host first, which reads few of them for each token, then whole layers.
    """
    layers = architecture.num_hidden_layers
    whole, experts = stated.get("gpu_layers"), stated.get("cpu_expert_layers")
    if whole is not None or experts is not None or not hosted:
        return ((ALL_LAYERS if whole is None else whole, experts or 0),)
    routed = layers if architecture.num_experts > 1 else 0
    by_experts = [(ALL_LAYERS, moved) for moved in range(1, routed + 1)]
    return (*by_experts, *((kept, routed) for kept in range(layers, -1, -1)))


def search_serving(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    kv_cache_format: str,
    systems: Sequence[System],
    table: Table,
    limits: Constraints,
    calibration: Calibration,
) -> ServingSearch:
    """Evaluate one weight format on all systems.

    Parameters
    ----------
    kv_cache_format : str
        Key into ``precision.KV_CACHE_FORMATS``.
    table : ndarray
        Of :func:`replica_table`.
    limits : Constraints
        Its latency targets.

    Returns
    -------
    ServingSearch
        For each system and count: the configuration with the least of each latency, and the one
        nearest to both targets.
    """
    if not len(table):
        return ServingSearch(found=(), searched=0, misses={})
    cards = {system.accelerator.key: system.accelerator for system in systems}
    kernels = {
        key: calibration.served_kernels(card, weight_format)[0] for key, card in cards.items()
    }
    stacked = HardwareArrays.stack(
        [
            (
                system.accelerator,
                system.node,
                kernels[system.accelerator.key],
                compute_format(system.accelerator, weight_format),
            )
            for system in systems
        ]
    )
    evaluate = _evaluator(architecture, workload, weight_format, kv_cache_format, calibration)
    layouts = _layouts(table)
    tpot, ttft, throughput, fits, need, usable = (np.empty(len(table)) for _ in range(6))
    for begin in range(0, len(table), CHUNK):
        part = slice(begin, begin + CHUNK)
        candidates = Candidates(layout=layouts.take(part), hardware=stacked.take(table[part, 0]))
        found = evaluate(candidates)
        tpot[part], ttft[part], throughput[part], fits[part], need[part], usable[part] = found
    places = np.flatnonzero(fits > 0)
    merits = [tpot, ttft]
    if limits.max_tpot_ms is not None and limits.max_ttft_ms is not None:
        # If any layout meets both targets, the one with the smallest worse miss does.
        merits.append(np.maximum(tpot / limits.max_tpot_ms, ttft / limits.max_ttft_ms))
    kept = tuple(
        FoundServing(
            system=int(table[place, 0]),
            count=int(table[place, 1]),
            precision=weight_format.name,
            layouts=layouts,
            row=place,
            tpot_s=float(tpot[place]),
            ttft_s=float(ttft[place]),
            tokens_per_s=float(throughput[place]),
        )
        for place in _best_places(table, places, merits)
    )
    fitting = set(table[places, 0].tolist())
    # A missing link or format excludes a layout, whatever memory it needs.
    running = np.flatnonzero(np.isfinite(tpot))
    leanest = running[np.lexsort((need[running], table[running, 0]))]
    misses = {
        index: Miss(float(need[place]), float(usable[place]))
        for place, index in reversed(list(zip(leanest, table[leanest, 0].tolist(), strict=True)))
        if index not in fitting
    }
    return ServingSearch(found=kept, searched=len(table), misses=misses)


def _evaluator(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    kv_cache_format: str,
    calibration: Calibration,
) -> Callable[[Candidates], Evaluated]:
    """Return the estimate of one weight format, for text with a cache or for batches."""
    if not generates(architecture):

        def batches(candidates: Candidates) -> Evaluated:
            times = batch_times(architecture, workload, weight_format, candidates, calibration)
            latency = times.latency_s
            need, usable = times.high_bytes, times.usable_bytes
            return latency, latency, times.per_s, times.feasible, need, usable

        return batches
    served = ServedModel.of(
        architecture,
        weight_format=weight_format,
        cache_bytes=KV_CACHE_FORMATS[kv_cache_format],
    )
    load = ServingLoad.of(workload)

    def text(candidates: Candidates) -> Evaluated:
        times = serving_times(served, load, candidates, calibration)
        rate, room = times.output_tokens_per_s, times.capacity
        need, usable = room.high_bytes, room.usable_bytes
        return times.tpot_s, times.ttft_s, rate, times.feasible, need, usable

    return text


def _best_places(table: Table, places: Indices, merits: Sequence[Floats]) -> list[int]:
    """Return, for each system and count, the rows with the least value of each figure."""
    kept: set[int] = set()
    for merit in merits:
        order = places[np.lexsort((merit[places], table[places, 1], table[places, 0]))]
        keys = table[order, :2]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        kept.update(order[first].tolist())
    return sorted(kept)


def _layouts(table: Table) -> LayoutArrays:
    columns: list[Floats] = [table[:, place].astype(np.float64) for place in range(2, 8)]
    replicas, tensor, pipeline, expert, gpu_layers, cpu_expert_layers = columns
    one = np.ones_like(replicas)
    return LayoutArrays(
        data=replicas,
        tensor=tensor,
        pipeline=pipeline,
        context=one,
        expert=expert,
        sharding=0 * one,
        micro_batch=one,
        recompute=0 * one,
        sequence_parallel=0 * one,
        virtual_stages=one,
        offload=0 * one,
        schedule=0 * one,
        gpu_layers=np.where(gpu_layers < ALL_LAYERS, gpu_layers, np.inf),
        cpu_expert_layers=cpu_expert_layers,
    )
