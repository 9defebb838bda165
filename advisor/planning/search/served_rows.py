"""Estimates of rows of a table of replicas: served text, at a rate or a concurrency, or batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from advisor.estimate.serving.unlike import working_card
from advisor.estimate.together import together
from advisor.foundation.quantities import way_to_end
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.kernels import KernelEfficiency
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import CHUNK
from advisor.planning.search.replicas import ALL_LAYERS, Table
from advisor.planning.search.simple import Indices
from advisor.planning.search.systems import System

IDLE: Final = 0.03
"""Load under which further replicas are no plan."""


PLAIN: Final = LayoutArrays.of(ParallelLayout.model_construct(sequence_parallel=False))

LINKS: Final = ("intra_bytes_per_s", "intra_domain", "node_accelerators", "inter_bytes_per_s")
"""Columns of hardware that matter to replicas of several cards alone."""

Kind = tuple[str, str, str | None]
"""An accelerator, and the formats of weights and cache on it."""


@record
class Strain:
    """High ends of ranges over their expected values. One element each system."""

    later: Floats
    """Of the time per output token."""
    first: Floats
    """Of the time to the first token."""


@record
class Figures(Columns):
    """Estimates of the rows of a table, one element each."""

    tpot: Floats
    ttft: Floats
    tpot_high: Floats
    ttft_high: Floats
    """High ends of their ranges."""
    throughput: Floats
    fits: NDArray[np.bool_]
    need: Floats
    usable: Floats

    def timed(self, each: tuple[Floats, Floats]) -> Figures:
        """Return the same with these times per token and to the first, without ranges."""
        return replace(self, tpot=each[0], ttft=each[1], tpot_high=each[0], ttft_high=each[1])

    def spread(self, strain: Strain, systems: Indices) -> Figures:
        """Return the same with high ends that no queue narrows."""
        return replace(
            self,
            tpot_high=np.maximum(self.tpot_high, self.tpot * strain.later[systems]),
            ttft_high=np.maximum(self.ttft_high, self.ttft * strain.first[systems]),
        )


@dataclass(frozen=True)
class ServedWork:
    """What is served, in weight formats of one kind, and the limits that judge it."""

    architecture: ModelArchitecture
    workload: Serving
    systems: Sequence[System]
    """Each with the format of its cache, if a plan chose one."""
    forms: Sequence[WeightFormat]
    """Of each system."""
    limits: Constraints
    """Their latency targets."""
    calibration: Calibration
    strain: Strain
    """Of each system."""

    @cached_property
    def kinds(self) -> list[Kind]:
        """Each system's accelerator and formats."""
        pairs = zip(self.systems, self.forms, strict=True)
        return [(one.accelerator.key, form.name, one.cache) for one, form in pairs]

    @cached_property
    def _known(self) -> dict[Kind, tuple[ServedModel, Accelerator, KernelEfficiency, str]]:
        """The network as an engine holds it, the card, its kernels and its format by kind."""
        known = {}
        for kind, system, form in zip(self.kinds, self.systems, self.forms, strict=True):
            if kind not in known:
                cache, workload, card = system.cache, self.workload, system.accelerator
                workload = workload.changed(kv_cache_format=cache) if cache else workload
                given = self.architecture, workload, form
                working, kernels, _ = working_card(card, *given, self.calibration)
                compute = compute_format(working, form)
                known[kind] = served_on(card, *given), working, kernels, compute
        return known

    @cached_property
    def served(self) -> ServedModel:
        """The network as an engine holds it on each system."""
        models = [self._known[kind][0] for kind in self.kinds]
        return ServedModel.joined(models, [1] * len(models))

    @cached_property
    def hardware(self) -> HardwareArrays:
        """The rates of the systems, each in its format."""
        rows = []
        for kind, system in zip(self.kinds, self.systems, strict=True):
            _, card, kernels, compute = self._known[kind]
            rows.append((card, system.node, kernels, compute))
        return HardwareArrays.stack(rows)

    @cached_property
    def _linked(self) -> Floats:
        """Accelerators of each system's machine in one link domain."""
        return np.minimum(self.hardware.node_accelerators, self.hardware.intra_domain)

    @cached_property
    def _twins(self) -> NDArray[np.intp]:
        """For each reach of a replica (:meth:`twins`), the largest system like each system."""
        codes = dict[Kind, int]()
        kinds = [codes.setdefault(kind, len(codes)) for kind in self.kinds]
        smallest = np.lexsort((self.hardware.node_accelerators, self._linked)).tolist()
        names = HardwareArrays.__match_args__
        columns: list[Sequence[int] | Floats] = [kinds]
        columns += [getattr(self.hardware, name) for name in names if name not in LINKS]
        links = [getattr(self.hardware, name) for name in LINKS]
        found: list[list[int]] = []
        for used in (0, 1, 2, 4):
            rows = [row.tobytes() for row in np.column_stack([*columns, *links[:used]])]
            largest = {rows[place]: place for place in smallest}
            found.append([largest[row] for row in rows])
            columns = [found[0]]
        return np.array(found)

    def twins(self, rows: Table) -> Table:
        """Return rows of a table with a system on which their replicas run alike, the same for all.

        One card uses no link, cards of one domain use its link, and those of one machine what the
        domains of that size have. Replicas need no link to each other.
        """
        systems, cards = rows[:, 0], rows[:, 3:6].prod(axis=1)
        beyond = [1.0, self._linked[systems], self.hardware.node_accelerators[systems]]
        reach = np.sum([cards > most for most in beyond], axis=0)
        return np.column_stack([self._twins[reach, systems], rows[:, 1:]])

    def candidates(self, rows: Table) -> tuple[ServedModel, Candidates]:
        """Return the configurations of rows of a table, and the model in their formats."""
        systems = rows[:, 0]
        return self.served.take(systems), Candidates(layouts_of(rows), self.hardware.take(systems))

    @cached_property
    def way(self) -> float:
        """How far the limits judge a latency towards the high end of its range."""
        return way_to_end(1.0 - self.limits.risk)

    def judged(self, figures: Figures) -> tuple[Floats, Floats]:
        """Return both latencies where the limits judge them. [s]"""
        with np.errstate(invalid="ignore"):
            return (
                figures.tpot * (figures.tpot_high / figures.tpot) ** self.way,
                figures.ttft * (figures.ttft_high / figures.ttft) ** self.way,
            )

    def met(self, figures: Figures) -> NDArray[np.bool_]:
        """Return the rows that fit and meet the latency targets."""
        limits = self.limits
        met = figures.fits & np.isfinite(figures.tpot)
        pairs = zip(self.judged(figures), (limits.max_tpot_ms, limits.max_ttft_ms), strict=True)
        for seconds, most in pairs:
            if most is not None:
                met &= seconds / MILLISECOND <= most
        return met


def evaluator(work: ServedWork) -> Callable[[Table], Figures]:
    """Return what estimates rows of a table."""
    rate = work.workload.requests_per_s
    if rate is not None and work.architecture.generates:
        return _UnderArrivals(work).evaluate
    estimate = _text if work.architecture.generates else _batches
    if rate is not None:
        estimate = _arriving_batches

    def evaluate(table: Table) -> Figures:
        starts = range(0, len(table), CHUNK)
        parts = [estimate(work, table[begin : begin + CHUNK]) for begin in starts]
        found = Figures.joined(parts).spread(work.strain, table[:, 0])
        if rate is None:
            return found
        replicas = table[:, 2]
        load = rate / np.maximum(found.throughput, 1e-300)
        strained = load * work.strain.later[table[:, 0]] ** work.way
        fits = found.fits & (strained <= 1) & ((load > IDLE) | (replicas == 1))
        # Without a latency, a row misses the rate, not the memory.
        tpot, ttft = (np.where(strained <= 1, each, np.inf) for each in (found.tpot, found.ttft))
        throughput = rate / np.maximum(strained, 1.0)
        return replace(found, tpot=tpot, ttft=ttft, fits=fits, throughput=throughput)

    return evaluate


BLOCK = 512
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
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)
    _curves: EngineCurve | None = None

    def _engines(self, rows: Table) -> tuple[EngineCurve, Indices]:
        """Return all engines and the place of each row's; evaluate those that are new."""
        keys = [(row[0], *row[3:]) for row in rows.tolist()]
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
        served, candidates = self.work.candidates(rows)
        return engine_curves(served, self.work.workload, candidates, self.work.calibration)

    def evaluate(self, table: Table) -> Figures:
        """Return the estimate of rows of a table."""
        workload, rate = self.work.workload, float(self.work.workload.requests_per_s or 0.0)
        twins = self.work.twins(table)
        first, alike = _alike(twins[:, 0], *twins[:, 3:].T)
        curves, places = self._engines(twins[first])
        engine = places[alike]
        pairs, same = _alike(engine, table[:, 2])
        ranks = table[pairs, 2].astype(np.float64)
        # Only engines that keep up are copied for each number of replicas.
        row, systems = engine[pairs], table[pairs, 0]
        limit, load = curves.limit[row], rate / ranks / np.maximum(curves.most_per_s[row], 1e-300)
        # The low end of what an engine completes keeps up; many replicas without work are no plan.
        high = self.work.strain.later[systems]
        strained = load * high**self.work.way
        worth = np.flatnonzero((strained <= 1) & (limit >= 1) & ((load > IDLE) | (ranks == 1)))
        tpot, ttft, tpot_high, ttft_high = np.full((4, len(pairs)), np.inf)
        throughput = rate * workload.output_tokens / np.maximum(strained, 1.0)
        need, usable = np.where(limit >= 1, 0.0, curves.need_bytes[row]), curves.usable_bytes[row]
        fits = np.zeros(len(pairs), dtype=bool)
        figures = Figures(tpot, ttft, tpot_high, ttft_high, throughput, fits, need, usable)
        # Like numbers in flight reach like states, and a block of them stays in the cache.
        alone_per_s = curves.completions_per_s[row[worth], 0]
        worth = worth[np.argsort(alone_per_s * ranks[worth])]
        for begin in range(0, len(worth), QUEUES):
            some = worth[begin : begin + QUEUES]
            found = queued(curves.take(row[some]), arrivals_of(workload, ranks[some]))
            figures.fits[some] = found.stable
            alone = figures.take(some).timed(found.latencies(self.work.limits.at))
            alone = alone.spread(self.work.strain, systems[some])
            # What misses a limit without its queue's part of the range misses it all the more.
            near = np.flatnonzero(self.work.met(alone))
            slow = found.strained(high[some[near]], rows=near).latencies(self.work.limits.at)
            for end, seconds in zip((alone.tpot_high, alone.ttft_high), slow, strict=True):
                end[near] = np.maximum(end[near], seconds)
            for column in ("tpot", "ttft", "tpot_high", "ttft_high"):
                getattr(figures, column)[some] = getattr(alone, column)
        return figures.take(same)


def _batches(work: ServedWork, rows: Table) -> Figures:
    """Return the estimate of a network that processes batches."""
    _, candidates = work.candidates(rows)
    times = batch_times(
        work.architecture, work.workload, work.forms[0], candidates, work.calibration
    )
    latency = times.latency_s
    need, usable = times.high_bytes, times.usable_bytes
    return Figures(latency, latency, latency, latency, times.per_s, times.feasible, need, usable)


def _arriving_batches(work: ServedWork, rows: Table) -> Figures:
    """Return the estimate of such a network under a rate: what it completes, and its latency."""
    assert work.workload.requests_per_s
    _, candidates = work.candidates(rows)
    found = batches_under_arrivals(
        work.architecture, work.workload, work.forms[0], candidates, work.calibration
    )
    full, queued = found.full, found.queued
    latency, _ = queued.latencies(work.limits.at)
    high, _ = queued.strained(work.strain.later[rows[:, 0]]).latencies(work.limits.at)
    most = work.workload.requests_per_s / np.maximum(queued.load, 1e-300)
    fits = queued.stable & full.feasible
    need, usable = full.high_bytes, full.usable_bytes
    return Figures(latency, latency, high, high, most, fits, need, usable)


def _text(work: ServedWork, rows: Table) -> Figures:
    """Return the estimate of a network with a cache."""
    twins = work.twins(rows)
    first, same = _alike(*twins.T)
    served, candidates = work.candidates(twins[first])
    load = ServingLoad.of(work.workload)
    return _text_figures(served, load, candidates, work.calibration).take(same)


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
            served.take(kept),
            load.take(kept),
            candidates.take(kept),
            calibration,
            capacity=room.take(kept),
        )
        tpot[kept], ttft[kept] = times.tpot_s, times.ttft_s
        rate[kept], fits[kept] = times.output_tokens_per_s, times.feasible
    return Figures(tpot, ttft, tpot, ttft, rate, fits, need, usable)


def layouts_of(table: Table) -> LayoutArrays:
    """Return the layouts of rows of a table."""
    replicas, tensor, pipeline, expert, on_cards, experts_on_host = table.T[2:].astype(np.float64)
    return replace(
        PLAIN.take(np.zeros(len(table), dtype=np.intp)),
        data=replicas,
        tensor=tensor,
        pipeline=pipeline,
        expert=expert,
        gpu_layers=np.where(on_cards < ALL_LAYERS, on_cards, np.inf),
        cpu_expert_layers=experts_on_host,
    )
