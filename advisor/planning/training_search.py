"""The search for training: every system, count, layout and precision in one array pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.efficiency import Calibration
from advisor.estimate.candidates import (
    Candidates,
    Floats,
    HardwareArrays,
    LayoutArrays,
    matmul_peak,
)
from advisor.estimate.run import TrainingRun
from advisor.estimate.training import evaluate_run_hours
from advisor.planning.layout_space import CHUNK, LayoutSpace
from advisor.planning.layouts import RECOMPUTE_LEVELS, LayoutGrid
from advisor.planning.systems import System

BLOCK = 262_144
"""Configurations whose memory is compared at a time."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Found:
    """The fastest configuration of one system, count and precision."""

    system: int
    count: int
    hours: float
    precision: str
    layouts: LayoutArrays
    row: int
    """The layout is element ``row`` of ``layouts``."""


@dataclass(frozen=True, slots=True)
class TrainingSearch:
    """What the search found, and the nearest misses."""

    found: tuple[Found, ...]
    searched: int
    least_memory_bytes: dict[int, float]
    """System -> smallest need of any layout, where none fits. [bytes]"""


def search_training(
    architecture: ModelArchitecture,
    run: TrainingRun,
    systems: Sequence[System],
    space: LayoutSpace,
    calibration: Calibration,
) -> TrainingSearch:
    """Evaluate one precision recipe on all systems that have its number format.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
        Holds the recipe.
    systems : sequence of System
    space : LayoutSpace
        Holds the layouts of all counts of the systems.
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
    grid = space.grid
    if not usable or not grid.rows:
        return TrainingSearch(found=(), searched=0, least_memory_bytes={})
    cards = {systems[index].accelerator.key: systems[index].accelerator for index in usable}
    by_card = {key: calibration.kernels_for(card) for key, card in cards.items()}
    known = {index: by_card[systems[index].accelerator.key] for index in usable}
    hardware = HardwareArrays.stack(
        [
            HardwareArrays.of(
                systems[index].accelerator, systems[index].node, known[index][0], compute=compute
            )
            for index in usable
        ]
    )
    need = {
        measured: space.high_bytes(run, measured=measured)
        for measured in {known[index][1] for index in usable}
    }

    pairs = list(_pairs(systems, usable, grid))
    rows_per_pair = np.array([end - first for _, first, end in pairs])
    searched = int(rows_per_pair.sum()) * RECOMPUTE_LEVELS
    capacity = np.array([systems[i].accelerator.memory_reported_bytes for i in usable])
    reach = np.array(
        [max(systems[i].node.accelerators, systems[i].node.intra_domain) for i in usable]
    )
    is_measured = np.array([known[index][1] for index in usable])
    system_parts: list[Indices] = []
    row_parts: list[Indices] = []
    least = np.full(len(usable), np.inf)
    for block in _blocks(rows_per_pair):
        system, row = _flatten(pairs[block], rows_per_pair[block])
        wanted = _wanted(need, is_measured, system, row)
        allowed = grid.tensor[row] <= reach[system]
        fitting = (wanted <= capacity[system]) & allowed
        none, selective, full = fitting
        keep = none | selective | full
        policy = np.where(none, 0, np.where(selective, 1, 2))[keep]
        system_parts.append(system[keep])
        row_parts.append(policy * grid.rows + row[keep])
        missed = allowed & ~keep
        np.minimum.at(least, system[missed], wanted[:, missed].min(axis=0))
    system, row = np.concatenate(system_parts), np.concatenate(row_parts)
    fits_somewhere = np.zeros(len(usable), dtype=bool)
    fits_somewhere[system] = True
    misses = {
        usable[place]: float(least[place])
        for place in np.flatnonzero(~fits_somewhere & np.isfinite(least))
    }
    found = _fastest(architecture, run, grid, hardware, system, row, calibration, usable)
    return TrainingSearch(found=tuple(found), searched=searched, least_memory_bytes=misses)


def _pairs(
    systems: Sequence[System], usable: Sequence[int], grid: LayoutGrid
) -> Iterator[tuple[int, int, int]]:
    """Yield each usable system's place with the rows of each of its counts."""
    for place, index in enumerate(usable):
        for count in systems[index].counts:
            first, end = grid.start[count]
            yield place, first, end


def _blocks(rows_per_pair: Indices) -> Iterator[slice]:
    """Yield slices of pairs with about ``BLOCK`` rows each, so that memory stays bounded."""
    begin, rows = 0, 0
    for place, size in enumerate(rows_per_pair.tolist()):
        if rows and rows + size > BLOCK:
            yield slice(begin, place)
            begin, rows = place, 0
        rows += size
    yield slice(begin, len(rows_per_pair))


def _flatten(
    pairs: Sequence[tuple[int, int, int]], rows_per_pair: Indices
) -> tuple[Indices, Indices]:
    """Return the system and the grid row of every configuration of the pairs."""
    table = np.array(pairs, dtype=np.intp).reshape(-1, 3)
    system = np.repeat(table[:, 0], rows_per_pair)
    begins = np.cumsum(rows_per_pair) - rows_per_pair
    row = np.arange(rows_per_pair.sum()) + np.repeat(table[:, 1] - begins, rows_per_pair)
    return system, row


def _wanted(
    need: dict[bool, Floats], is_measured: NDArray[np.bool_], system: Indices, row: Indices
) -> Floats:
    """High end of the memory range of every configuration: policies x configurations. [bytes]"""
    if len(need) == 1:
        return next(iter(need.values()))[:, row]
    return np.where(is_measured[system], need[True][:, row], need[False][:, row])


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
    if not len(row):
        return
    # Configurations of one system and count lie side by side.
    count = grid.count[row % grid.rows]
    change = (system[1:] != system[:-1]) | (count[1:] != count[:-1])
    begins = np.concatenate(([0], np.flatnonzero(change) + 1))
    least = np.minimum.reduceat(hours, begins)
    segment = np.zeros(len(row), dtype=np.intp)
    segment[begins[1:]] = 1
    is_least = np.flatnonzero(hours == least[np.cumsum(segment)])
    _, first = np.unique(np.cumsum(segment)[is_least], return_index=True)
    for place in is_least[first]:
        if np.isfinite(hours[place]):
            yield Found(
                system=usable[int(system[place])],
                count=int(count[place]),
                hours=float(hours[place]),
                precision=run.recipe.name,
                layouts=grid.layouts,
                row=int(row[place]),
            )
