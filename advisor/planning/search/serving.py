"""The search for serving: every system, count, replica layout and weight format in arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import batch_times, generates
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.card_formats import compute_format
from advisor.estimate.serving.arrivals import arrivals_of, engine_curves
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import serving_capacity
from advisor.estimate.serving.queue import EngineCurve, queued
from advisor.estimate.serving.times import serving_times
from advisor.foundation.units import MILLISECOND
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import KV_CACHE_FORMATS, WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import CHUNK
from advisor.planning.search.options import Miss, Price
from advisor.planning.search.replicas import ALL_LAYERS, Table, fewest_replicas
from advisor.planning.search.systems import System

Indices = NDArray[np.intp]
Evaluated = tuple[Floats, Floats, Floats, NDArray[np.bool_], Floats, Floats]
"""Time per output, time to the first, outputs per second, whether it fits, needed and usable
memory."""


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


IDLE = 0.03
"""Load under which further replicas are no plan."""
MOST_REPLICAS = 10**6
"""More than a search reaches."""


def most_replicas(workload: Serving) -> int:
    """Return how many replicas have work: a request at a time for each of them."""
    return workload.concurrency if workload.requests_per_s is None else MOST_REPLICAS


@dataclass(frozen=True, slots=True)
class Strain:
    """What the limits are compared with, over the expected time. One element each system."""

    later: Floats
    """Of the time per output token."""
    first: Floats
    """Of the time to the first token."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """Estimates of the rows of a table, one element each."""

    tpot: Floats
    ttft: Floats
    throughput: Floats
    fits: NDArray[np.bool_]
    need: Floats
    usable: Floats

    def meets(self, systems: Indices, limits: Constraints, strain: Strain) -> NDArray[np.bool_]:
        """Return the rows that fit and meet the latency targets."""
        met = self.fits & np.isfinite(self.tpot)
        if limits.max_tpot_ms is not None:
            met &= self.tpot * strain.later[systems] / MILLISECOND <= limits.max_tpot_ms
        if limits.max_ttft_ms is not None:
            met &= self.ttft * strain.first[systems] / MILLISECOND <= limits.max_ttft_ms
        return met

    def beside(self, other: _Figures) -> _Figures:
        """Return these rows with others after them."""
        return _Figures(
            *(
                np.concatenate([getattr(self, item.name), getattr(other, item.name)])
                for item in fields(self)
            )
        )


def search_serving(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    kv_cache_format: str,
    systems: Sequence[System],
    table: Table,
    limits: Constraints,
    calibration: Calibration,
    *,
    prices: Sequence[Price],
    strain: Strain,
    free: bool = True,
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
    prices : sequence of Price
        Of each system.
    strain : Strain
        Of each system.
    free : bool, optional
        The number of replicas is open: between the searched numbers, the fewest are looked for.

    Returns
    -------
    ServingSearch
        For each system and count: the configuration with the least of each latency, and the one
        nearest to both targets.
    """
    if not len(table):
        return ServingSearch(found=(), searched=0, misses={})
    evaluate = _evaluator(
        architecture, workload, weight_format, kv_cache_format, calibration, systems, limits, strain
    )
    figures = evaluate(table)
    enough = figures.meets(table[:, 0], limits, strain)
    searched = len(table)
    if free and enough.any():
        more = fewest_replicas(
            table,
            enough,
            systems,
            prices,
            most_replicas(workload),
            lambda rows: evaluate(rows).meets(rows[:, 0], limits, strain),
        )
        if len(more):
            table, figures = np.vstack([table, more]), figures.beside(evaluate(more))
    layouts = _layouts(table)
    tpot, ttft = figures.tpot, figures.ttft
    places = np.flatnonzero(figures.fits)
    merits = [tpot, ttft]
    if limits.max_tpot_ms is not None and limits.max_ttft_ms is not None:
        # If any layout meets both targets, the one with the smallest worse miss does.
        later, first = (part[table[:, 0]] for part in (strain.later, strain.first))
        merits.append(
            np.maximum(tpot * later / limits.max_tpot_ms, ttft * first / limits.max_ttft_ms)
        )
    kept = tuple(
        FoundServing(
            system=int(table[place, 0]),
            count=int(table[place, 1]),
            precision=weight_format.name,
            layouts=layouts,
            row=place,
            tpot_s=float(tpot[place]),
            ttft_s=float(ttft[place]),
            tokens_per_s=float(figures.throughput[place]),
        )
        for place in _best_places(table, places, merits)
    )
    return ServingSearch(found=kept, searched=searched, misses=_misses(table, figures))


def _misses(table: Table, figures: _Figures) -> dict[int, Miss]:
    """Return the smallest need of each system on which nothing fits."""
    need, usable = figures.need, figures.usable
    # A missing link or format excludes a layout that would fit.
    running = np.flatnonzero(np.isfinite(figures.tpot) | (need > usable))
    leanest = running[np.lexsort((need[running], table[running, 0]))]
    names, first = np.unique(table[leanest, 0], return_index=True)
    short = ~np.isin(names, table[figures.fits, 0])
    return {
        index: Miss(float(need[place]), float(usable[place]))
        for index, place in zip(names[short].tolist(), leanest[first[short]], strict=True)
    }


def _evaluator(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    kv_cache_format: str,
    calibration: Calibration,
    systems: Sequence[System],
    limits: Constraints,
    strain: Strain,
) -> Callable[[Table], _Figures]:
    """Return the estimate of rows of a table.

    Offers of equal machines, and numbers of replicas that leave each as many requests, are one
    estimate.
    """
    kernels = {
        system.accelerator.key: calibration.served_kernels(system.accelerator, weight_format)[0]
        for system in systems
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
    rates = np.column_stack([getattr(stacked, item.name) for item in fields(stacked)])
    names: dict[bytes, int] = {}
    machines = np.array([names.setdefault(row.tobytes(), len(names)) for row in rates])
    if workload.requests_per_s is not None:
        served = _served_model(architecture, weight_format, kv_cache_format)
        return _under_arrivals(served, workload, calibration, stacked, machines, limits, strain)
    estimate = _estimator(architecture, workload, weight_format, kv_cache_format, calibration)

    def evaluate(table: Table) -> _Figures:
        each = -(-workload.concurrency // table[:, 2])
        first, alike = _alike(machines[table[:, 0]], each, *table[:, 3:].T)
        rows = table[first]
        layouts = _layouts(rows)
        columns = [np.empty(len(rows)) for _ in fields(_Figures)]
        for begin in range(0, len(rows), CHUNK):
            part = slice(begin, begin + CHUNK)
            candidates = Candidates(layout=layouts.take(part), hardware=stacked.take(rows[part, 0]))
            for column, values in zip(columns, estimate(candidates), strict=True):
                column[part] = values
        tpot, ttft, throughput, fits, need, usable = (column[alike] for column in columns)
        return _Figures(tpot, ttft, throughput, fits > 0, need, usable)

    return evaluate


HASHES = np.random.default_rng(18).integers(1, 2**62, 16, dtype=np.int64) * 2 + 1
"""Odd numbers that turn a row of small integers into one; two rows seldom share 64 bits."""


def _alike(*columns: Indices) -> tuple[Indices, Indices]:
    """Return the first row of each combination of values, and the place of each row among them."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column, factor in zip(columns, HASHES, strict=False):
        key += column * factor
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


def _served_model(
    architecture: ModelArchitecture, weight_format: WeightFormat, kv_cache_format: str
) -> ServedModel:
    return ServedModel.of(
        architecture,
        weight_format=weight_format,
        cache_bytes=KV_CACHE_FORMATS[kv_cache_format],
    )


def _under_arrivals(
    served: ServedModel,
    workload: Serving,
    calibration: Calibration,
    stacked: HardwareArrays,
    machines: Indices,
    limits: Constraints,
    strain: Strain,
) -> Callable[[Table], _Figures]:
    """Return the estimate of rows of a table under a rate of requests.

    Each engine is evaluated once, in all states; its queue for each number of replicas.
    """
    known: dict[tuple[int, ...], int] = {}
    curves: list[EngineCurve] = []
    rate = float(workload.requests_per_s or 0.0)

    def engines(rows: Table) -> Indices:
        """Return the place of each row's engine; evaluate those that are new."""
        keys = [(int(machines[row[0]]), *row[3:]) for row in rows.tolist()]
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            places = np.array(list(new.values()))
            candidates = Candidates(_layouts(rows[places]), stacked.take(rows[places, 0]))
            found = engine_curves(served, workload, candidates, calibration)
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            curves[:] = [curves[0].beside(found) if curves else found]
        return np.array([known[key] for key in keys], dtype=np.intp)

    def evaluate(table: Table) -> _Figures:
        first, alike = _alike(machines[table[:, 0]], *table[:, 3:].T)
        engine = engines(table[first])[alike]
        pairs, same = _alike(engine, table[:, 2])
        ranks = table[pairs, 2].astype(np.float64)
        curve = curves[0].take(engine[pairs])
        load = rate / ranks / np.maximum(curve.most_per_s, 1e-300)
        # The low end of what an engine completes keeps up; many replicas without work are no plan.
        keeps_up = load * strain.later[table[pairs, 0]] <= 1
        worth = np.flatnonzero(keeps_up & (curve.limit >= 1) & ((load > IDLE) | (ranks == 1)))
        found = queued(curve.take(worth), arrivals_of(workload, ranks[worth]))
        figures = np.full((2, len(pairs)), np.inf)
        figures[:, worth] = found.latencies(limits.at)
        stable = np.zeros(len(pairs), dtype=bool)
        stable[worth] = found.stable
        need = np.where(curve.limit >= 1, 0.0, curve.need_bytes)
        throughput = np.full(len(table), rate * workload.output_tokens)
        return _Figures(
            figures[0][same],
            figures[1][same],
            throughput,
            stable[same],
            need[same],
            curve.usable_bytes[same],
        )

    return evaluate


def _estimator(
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
    served = _served_model(architecture, weight_format, kv_cache_format)
    load = ServingLoad.of(workload)

    def text(candidates: Candidates) -> Evaluated:
        hardware = candidates.hardware
        room = serving_capacity(
            served,
            load,
            candidates.layout,
            hardware.served_memory_bytes,
            calibration,
            hardware.host_memory_bytes,
        )
        need, usable = room.high_bytes, room.usable_bytes
        tpot, ttft, rate = (np.zeros_like(need) for _ in range(3))
        fits = room.fits.copy()
        # Only layouts that fit are timed.
        if (kept := np.flatnonzero(fits)).size:
            times = serving_times(served, load, candidates.take(kept), calibration)
            tpot[kept], ttft[kept] = times.tpot_s, times.ttft_s
            rate[kept], fits[kept] = times.output_tokens_per_s, times.feasible
        return tpot, ttft, rate, fits, need, usable

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
