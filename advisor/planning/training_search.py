"""The search for training: every system, count, layout and precision in one array pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.efficiency import Calibration
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, matmul_peak
from advisor.estimate.run import TrainingRun
from advisor.estimate.training import evaluate_memory, evaluate_run_hours
from advisor.layout import ParallelLayout
from advisor.planning.layouts import RECOMPUTE_LEVELS, LayoutGrid, layout_grid
from advisor.planning.systems import System

CHUNK = 16_384
"""Configurations evaluated at a time: bounds memory and stays in the cache."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Found:
    """The fastest configuration of one system, count and precision."""

    system: int
    count: int
    hours: float
    precision: str
    layout: ParallelLayout


@dataclass(frozen=True, slots=True)
class TrainingSearch:
    """What the search found, and the nearest misses."""

    found: tuple[Found, ...]
    searched: int
    least_memory_bytes: dict[int, float]
    """System -> smallest need of any layout, where none fits. [bytes]"""


def _pairs(systems: Sequence[System], grid: LayoutGrid) -> Iterator[tuple[int, int, int, int]]:
    for index, system in enumerate(systems):
        for count in system.counts:
            first, end = grid.start[count]
            if end > first:
                yield index, count, first, end


def search_training(
    architecture: ModelArchitecture,
    run: TrainingRun,
    systems: Sequence[System],
    calibration: Calibration,
) -> TrainingSearch:
    """Evaluate one precision recipe on all systems that have its number format.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
        Holds the recipe.
    systems : sequence of System
    calibration : Calibration

    Returns
    -------
    TrainingSearch
        At most one entry per system and count: its fastest layout that fits.

    Notes
    -----
    Two prunings are exact. Recomputing more never takes less time, so of the three policies the
    first that fits is evaluated; the layouts themselves come without dominated sharding levels.
    """
    compute = run.recipe.compute
    usable = [
        index
        for index, system in enumerate(systems)
        if matmul_peak(system.accelerator, compute) is not None
    ]
    grid = layout_grid(architecture, run, (n for index in usable for n in systems[index].counts))
    if not usable or not grid.rows:
        return TrainingSearch(found=(), searched=0, least_memory_bytes={})
    known = {index: calibration.kernels_for(systems[index].accelerator) for index in usable}
    hardware = HardwareArrays.stack(
        [
            HardwareArrays.of(
                systems[index].accelerator, systems[index].node, known[index][0], compute=compute
            )
            for index in usable
        ]
    )
    position = {index: place for place, index in enumerate(usable)}
    need = {
        measured: _high_bytes(architecture, run, grid, measured, calibration)
        for measured in {known[index][1] for index in usable}
    }

    system_parts: list[Indices] = []
    row_parts: list[Indices] = []
    least: dict[int, float] = {}
    searched = 0
    for index, count, first, end in _pairs([systems[i] for i in usable], grid):
        original = usable[index]
        system = systems[original]
        capacity = system.accelerator.memory_reported_bytes
        reach = max(system.node.accelerators, system.node.intra_domain)
        allowed = grid.tensor[first:end] <= reach
        wanted = need[known[original][1]][:, first:end]
        searched += wanted.size
        fitting = (wanted <= capacity) & allowed
        any_fits = fitting.any(axis=0)
        if any_fits.any():
            rows = np.flatnonzero(any_fits)
            policy = fitting.argmax(axis=0)[rows]
            row_parts.append(policy * grid.rows + first + rows)
            system_parts.append(np.full(len(rows), position[original], dtype=np.intp))
            least[original] = 0.0
        elif least.get(original) != 0.0 and allowed.any():
            smallest = float(wanted[:, allowed].min())
            least[original] = min(least.get(original, np.inf), smallest)
        del count
    misses = {index: value for index, value in least.items() if value > 0.0}
    if not row_parts:
        return TrainingSearch(found=(), searched=searched, least_memory_bytes=misses)
    found = _fastest(
        architecture,
        run,
        grid,
        hardware,
        np.concatenate(system_parts),
        np.concatenate(row_parts),
        calibration,
        usable,
    )
    return TrainingSearch(found=tuple(found), searched=searched, least_memory_bytes=misses)


def _high_bytes(
    architecture: ModelArchitecture,
    run: TrainingRun,
    grid: LayoutGrid,
    measured: bool,
    calibration: Calibration,
) -> Floats:
    """High end of the memory range: policies x rows. [bytes]"""
    parts = []
    total = RECOMPUTE_LEVELS * grid.rows
    for begin in range(0, total, CHUNK):
        layout = grid.layouts.take(slice(begin, min(begin + CHUNK, total)))
        parts.append(evaluate_memory(architecture, run, layout, measured, calibration))
    return np.concatenate(parts).reshape(RECOMPUTE_LEVELS, grid.rows)


def _fastest(
    architecture: ModelArchitecture,
    run: TrainingRun,
    grid: LayoutGrid,
    hardware: HardwareArrays,
    system: Indices,
    row: Indices,
    calibration: Calibration,
    usable: list[int],
) -> Iterator[Found]:
    """Yield the fastest layout of every system and count."""
    hours = np.empty(len(row))
    for begin in range(0, len(row), CHUNK):
        part = slice(begin, begin + CHUNK)
        candidates = Candidates(
            layout=grid.layouts.take(row[part]), hardware=hardware.take(system[part])
        )
        hours[part] = evaluate_run_hours(architecture, run, candidates, calibration)[0]
    count = grid.count[row % grid.rows]
    order = np.lexsort((hours, count, system))
    ordered_system, ordered_count = system[order], count[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (ordered_system[1:] != ordered_system[:-1]) | (
        ordered_count[1:] != ordered_count[:-1]
    )
    for place in order[is_first]:
        if np.isfinite(hours[place]):
            yield Found(
                system=usable[int(system[place])],
                count=int(count[place]),
                hours=float(hours[place]),
                precision=run.recipe.name,
                layout=grid.layouts.layout(int(row[place])),
            )
