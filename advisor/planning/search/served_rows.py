"""Estimates of rows of a table of replicas: served text, at a rate or a concurrency, or batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.arrivals import batches_under_arrivals
from advisor.estimate.batch.forward import batch_times
from advisor.estimate.candidates import Candidates, Columns, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.arrivals import arrivals_of, engine_curves
from advisor.estimate.serving.demand import ServedModel, ServingLoad, served_on
from advisor.estimate.serving.memory import serving_capacity
from advisor.estimate.serving.queue import EngineCurve, queued
from advisor.estimate.serving.times import serving_times
from advisor.estimate.serving.together import together
from advisor.estimate.serving.unlike import working_card
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import CHUNK
from advisor.planning.search.replicas import ALL_LAYERS, Table
from advisor.planning.search.simple import Indices
from advisor.planning.search.systems import System

IDLE: Final = 0.03
"""Load under which further replicas are no plan."""


@record
class Strain:
    """What the limits are compared with, over the expected time. One element each system."""

    later: Floats
    """Of the time per output token."""
    first: Floats
    """Of the time to the first token."""


@record
class Figures(Columns):
    """Estimates of the rows of a table, one element each."""

    tpot: Floats
    ttft: Floats
    throughput: Floats
    fits: NDArray[np.bool_]
    need: Floats
    usable: Floats


@record
class ServedWork:
    """What is served, in one weight format, and the limits that judge it."""

    architecture: ModelArchitecture
    workload: Serving
    weight_format: WeightFormat
    card: Accelerator
    """One of those on which the cache has the same format."""
    limits: Constraints
    """Their latency targets."""
    calibration: Calibration
    strain: Strain
    """Of each system."""

    @property
    def served(self) -> ServedModel:
        """The network as an engine holds it."""
        return served_on(self.card, self.architecture, self.workload, self.weight_format)

    def hardware(self, systems: Sequence[System]) -> HardwareArrays:
        """Return the rates of systems in this format."""
        given = self.architecture, self.workload, self.weight_format, self.calibration
        cards = {system.accelerator.key: system.accelerator for system in systems}
        known = {key: working_card(card, *given) for key, card in cards.items()}
        rows = []
        for system in systems:
            card, kernels, _ = known[system.accelerator.key]
            compute = compute_format(card, self.weight_format)
            rows.append((card, system.node, kernels, compute))
        return HardwareArrays.stack(rows)

    def met(self, table: Table, figures: Figures) -> NDArray[np.bool_]:
        """Return the rows that fit and meet the latency targets."""
        systems, limits = table[:, 0], self.limits
        met = figures.fits & np.isfinite(figures.tpot)
        if limits.max_tpot_ms is not None:
            later = self.strain.later[systems]
            met &= figures.tpot * later / MILLISECOND <= limits.max_tpot_ms
        if limits.max_ttft_ms is not None:
            first = self.strain.first[systems]
            met &= figures.ttft * first / MILLISECOND <= limits.max_ttft_ms
        return met


def evaluator(work: ServedWork, systems: Sequence[System]) -> Callable[[Table], Figures]:
    """Return what estimates rows of a table.

    Offers of equal machines, and numbers of replicas that leave each as many requests, are one
    estimate.
    """
    hardware = work.hardware(systems)
    rates = np.column_stack([getattr(hardware, item.name) for item in fields(hardware)])
    names: dict[bytes, int] = {}
    machines = np.array([names.setdefault(row.tobytes(), len(names)) for row in rates])
    rate = work.workload.requests_per_s
    if rate is not None and work.architecture.generates:
        return _UnderArrivals(work, hardware, machines).evaluate
    estimate = _text(work) if work.architecture.generates else _batches(work)
    if rate is not None:
        estimate = _arriving_batches(work, rate)

    def evaluate(table: Table) -> Figures:
        replicas = table[:, 2]
        each = -(-work.workload.concurrency // replicas) if rate is None else replicas
        first, alike = _alike(machines[table[:, 0]], each, *table[:, 3:].T)
        parts = []
        for begin in range(0, len(first), CHUNK):
            rows = table[first[begin : begin + CHUNK]]
            parts.append(estimate(Candidates(layouts_of(rows), hardware.take(rows[:, 0]))))
        found = Figures.joined(parts).take(alike)
        if rate is None:
            return found
        load = rate / np.maximum(found.throughput, 1e-300)
        strained = load * work.strain.later[table[:, 0]]
        fits = found.fits & (strained <= 1) & ((load > IDLE) | (replicas == 1))
        # Without a latency, a row misses the rate, not the memory.
        tpot, ttft = (np.where(strained <= 1, each, np.inf) for each in (found.tpot, found.ttft))
        throughput = rate / np.maximum(strained, 1.0)
        return replace(found, tpot=tpot, ttft=ttft, fits=fits, throughput=throughput)

    return evaluate


BLOCK = 256
"""Engines evaluated at once; each is evaluated in all its states."""
QUEUES = 512
"""Queues evaluated at once."""
FACTOR: Final = 0x9E3779B97F4A7C15
"""Odd; its powers turn a row of small integers into one, and two rows seldom share 64 bits."""


def _alike(*columns: Indices) -> tuple[Indices, Indices]:
    """Return the first row of each combination of values, and the place of each row among them."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key = (key + column.astype(np.uint64)) * np.uint64(FACTOR)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


@dataclass(slots=True)
class _UnderArrivals:
    """Estimates under a rate of requests.

    Each engine is evaluated once, in all states; its queue for each number of replicas.
    """

    work: ServedWork
    hardware: HardwareArrays
    machines: Indices
    """Number of each system's kind of machine."""
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)
    _curves: EngineCurve | None = None

    def _engines(self, rows: Table) -> tuple[EngineCurve, Indices]:
        """Return all engines and the place of each row's; evaluate those that are new."""
        keys = [(int(self.machines[row[0]]), *row[3:]) for row in rows.tolist()]
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        curves = self._curves
        if new or curves is None:
            places = np.array(list(new.values()), dtype=np.intp)
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            blocks = [
                self._evaluated(rows[places[first : first + BLOCK]])
                for first in range(0, max(len(places), 1), BLOCK)
            ]
            first_block, *others = blocks if curves is None else (curves, *blocks)
            self._curves = curves = first_block.beside(others)
        return curves, np.array([known[key] for key in keys], dtype=np.intp)

    def _evaluated(self, rows: Table) -> EngineCurve:
        candidates = Candidates(layouts_of(rows), self.hardware.take(rows[:, 0]))
        work = self.work
        return engine_curves(work.served, work.workload, candidates, work.calibration)

    def evaluate(self, table: Table) -> Figures:
        """Return the estimate of rows of a table."""
        workload, rate = self.work.workload, float(self.work.workload.requests_per_s or 0.0)
        first, alike = _alike(self.machines[table[:, 0]], *table[:, 3:].T)
        curves, places = self._engines(table[first])
        engine = places[alike]
        pairs, same = _alike(engine, table[:, 2])
        ranks = table[pairs, 2].astype(np.float64)
        # Only engines that keep up are copied for each number of replicas.
        row = engine[pairs]
        limit, usable = curves.limit[row], curves.usable_bytes[row]
        load = rate / ranks / np.maximum(curves.most_per_s[row], 1e-300)
        # The low end of what an engine completes keeps up; many replicas without work are no plan.
        strained = load * self.work.strain.later[table[pairs, 0]]
        keeps_up = strained <= 1
        worth = np.flatnonzero(keeps_up & (limit >= 1) & ((load > IDLE) | (ranks == 1)))
        times = np.full((2, len(pairs)), np.inf)
        stable = np.zeros(len(pairs), dtype=bool)
        # Like numbers in flight reach like states, and a block of them stays in the cache.
        alone_per_s = curves.completions_per_s[row[worth], 0]
        worth = worth[np.argsort(alone_per_s * ranks[worth])]
        for begin in range(0, len(worth), QUEUES):
            some = worth[begin : begin + QUEUES]
            found = queued(curves.take(row[some]), arrivals_of(workload, ranks[some]))
            times[:, some] = found.latencies(self.work.limits.at)
            stable[some] = found.stable
        return Figures(
            tpot=times[0],
            ttft=times[1],
            throughput=rate * workload.output_tokens / np.maximum(strained, 1.0),
            fits=stable,
            need=np.where(limit >= 1, 0.0, curves.need_bytes[row]),
            usable=usable,
        ).take(same)


def _batches(work: ServedWork) -> Callable[[Candidates], Figures]:
    """Return the estimate of a network that processes batches."""

    def estimate(candidates: Candidates) -> Figures:
        times = batch_times(
            work.architecture, work.workload, work.weight_format, candidates, work.calibration
        )
        latency = times.latency_s
        need, usable = times.high_bytes, times.usable_bytes
        return Figures(latency, latency, times.per_s, times.feasible, need, usable)

    return estimate


def _arriving_batches(work: ServedWork, rate: float) -> Callable[[Candidates], Figures]:
    """Return the estimate of such a network under a rate: what it completes, and its latency."""

    def estimate(candidates: Candidates) -> Figures:
        found = batches_under_arrivals(
            work.architecture, work.workload, work.weight_format, candidates, work.calibration
        )
        full, queued = found.full, found.queued
        latency, _ = queued.latencies(work.limits.at)
        most = rate / np.maximum(queued.load, 1e-300)
        fits = queued.stable & full.feasible
        return Figures(latency, latency, most, fits, full.high_bytes, full.usable_bytes)

    return estimate


def _text(work: ServedWork) -> Callable[[Candidates], Figures]:
    """Return the estimate of a network with a cache."""
    served, load = work.served, ServingLoad.of(work.workload)
    return lambda candidates: _text_figures(served, load, candidates, work.calibration)


@together
def _text_figures(
    served: ServedModel, load: ServingLoad, candidates: Candidates, calibration: Calibration
) -> Figures:
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
        times = serving_times(
            served, load.take(kept), candidates.take(kept), calibration, capacity=room.take(kept)
        )
        tpot[kept], ttft[kept] = times.tpot_s, times.ttft_s
        rate[kept], fits[kept] = times.output_tokens_per_s, times.feasible
    return Figures(tpot, ttft, rate, fits, need, usable)


def layouts_of(table: Table) -> LayoutArrays:
    """Return the layouts of rows of a table."""
    replicas, tensor, pipeline, expert, on_cards, experts_on_host = table.T[2:].astype(np.float64)
    plain = LayoutArrays.of(ParallelLayout(sequence_parallel=False))
    return replace(
        plain.take(np.zeros(len(table), dtype=np.intp)),
        data=replicas,
        tensor=tensor,
        pipeline=pipeline,
        expert=expert,
        gpu_layers=np.where(on_cards < ALL_LAYERS, on_cards, np.inf),
        cpu_expert_layers=experts_on_host,
    )
