"""The search for training: every system, count, layout and precision in one array pass."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import SHARDING_LEVEL, Candidates, Floats, HardwareArrays
from advisor.estimate.host_memory import offloads
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S
from advisor.nouns.layout import Offload, Sharding
from advisor.nouns.limits import Constraints
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.tool_offers import TrainingOffer
from advisor.planning.search.bound import StepBound
from advisor.planning.search.layout_space import CHUNK, LayoutSpace
from advisor.planning.search.layouts import RECOMPUTE_LEVELS, LayoutGrid, offered
from advisor.planning.search.options import Miss, Option
from advisor.planning.search.simple import RECOMPUTED, TIE, Indices, distinct, first_least, simplest
from advisor.planning.search.systems import System
from advisor.planning.time_ranges import TimeSpreads

BLOCK = 262_144
"""Configurations that fit and are compared at a time, and those of one system more."""

FEW: Final = 4096
"""Up to so many configurations, timing all is faster than bounding them first."""


def with_range(
    found: Option,
    place: int,
    system: System,
    run: TrainingRun,
    spreads: TimeSpreads,
    *,
    proven: bool,
) -> Option:
    """Complete what a search found: its system in the case, its run and the range of its time."""
    spread = spreads.of(
        system.accelerator,
        system.node,
        precision=found.precision,
        count=found.count,
        software=run.software,
    )
    found.system, found.run, found.proven = place, run, proven
    found.time_high = found.time * spread.high
    return found


@record
class TrainingSearch:
    """Results of the search, and the nearest misses."""

    found: list[Option]
    """The fastest of each system and count, without ranges."""
    searched: int
    misses: dict[int, Miss]
    """Smallest need of any layout by system, for those on which none fits. [bytes]"""


def search_training(
    run: TrainingRun,
    systems: Sequence[System],
    space: LayoutSpace,
    calibration: Calibration,
    *,
    deadline_hours: float = np.inf,
    within: tuple[Constraints, Sequence[float]] | None = None,
) -> TrainingSearch:
    """Evaluate one precision recipe on all systems that have its number format.

    At most one entry per system and count: the simplest of its fastest layouts that fit.

    ``space``: holds the layouts of all counts of the systems. ``deadline_hours``: a layout that
    meets it wins over a simpler one that does not. ``within``: limits, and the price of one
    machine of each system [USD/h]; what surely misses them may be left out.

    Three prunings are exact. Recomputing more never takes less time, so of the three policies the
    first that fits is evaluated; the layouts themselves come without dominated sharding levels;
    and a layout is timed in full only if its lower bound (``StepBound``) does not exceed the time
    of the layout with the least bound.
    """
    compute = run.recipe.compute
    usable = [
        index
        for index, system in enumerate(systems)
        if compute in system.accelerator.peak_flops_per_s
    ]
    grid = space.grid
    if not usable or not grid.rows:
        return TrainingSearch(found=[], searched=0, misses={})
    fitting = _Fitting(run, [systems[index] for index in usable], space)
    misses = {
        index: Miss(least_bytes, systems[index].accelerator.memory_reported_bytes)
        for place, index in enumerate(usable)
        if not len(fitting.rows[place][0])
        if np.isfinite(least_bytes := fitting.least_bytes(place))
    }
    sizes = {count: end - first for count, (first, end) in grid.start.items()}
    tried = sum(sizes[count] for index in usable for count in systems[index].counts)
    found: list[Option] = []
    result = TrainingSearch(found, tried * RECOMPUTE_LEVELS, misses)
    fits = [rows for rows in fitting.rows if len(rows[0])]
    usable = [usable[place] for place, rows in enumerate(fitting.rows) if len(rows[0])]
    if not usable:
        return result
    cards = {systems[index].accelerator.key: systems[index].accelerator for index in usable}
    known = {key: calibration.kernels_for(card) for key, card in cards.items()}
    hardware = HardwareArrays.stack(
        [
            (systems[i].accelerator, systems[i].node, known[systems[i].accelerator.key][0], compute)
            for i in usable
        ]
    )
    places = {key: place for place, key in enumerate(cards)}
    card = np.array([places[systems[index].accelerator.key] for index in usable])
    software = calibration.software[run.software]
    bound = cache(partial(StepBound, run, grid, hardware, card, calibration.network, software))
    for rows in _together(fits):
        able = np.ones(rows.shape[1], dtype=bool)
        if within is not None and len(able) > FEW:
            usd = np.array([within[1][index] for index in usable])
            able = _may_meet(within[0], usd, run, grid, hardware, bound(), *rows)
        system, row, policy = rows[:, able]
        fastest, hours = _fastest(
            run, grid, hardware, bound, system, policy, row, calibration, deadline_hours
        )
        kept = np.isfinite(hours)
        fastest, row = fastest[kept], row[fastest[kept]]
        layout = policy[fastest] * grid.rows + row
        columns = system[fastest], grid.count[row].astype(np.intp), layout, hours[kept]
        found.extend(
            Option(usable[place], count, run.recipe.name, grid.layouts, at, time, time)
            for place, count, at, time in zip(*map(np.ndarray.tolist, columns), strict=True)
        )
    return result


def _may_meet(
    limits: Constraints,
    usd_per_hour: Floats,
    run: TrainingRun,
    grid: LayoutGrid,
    hardware: HardwareArrays,
    bound: StepBound,
    system: Indices,
    row: Indices,
    policy: Indices,
) -> NDArray[np.bool_]:
    """Return which configurations meet deadline and budget if they take no longer than the bound.

    ``usd_per_hour``: of one machine of each system. [USD/h]
    """
    steps = np.ceil(run.tokens / run.tokens_per_step)
    hours = steps * bound.step_s(system, policy, row) / HOUR_S
    machines = np.ceil(grid.count[row] / hardware.node_accelerators[system])
    usd = hours * machines * usd_per_hour[system]
    in_time, paid = limits.deadline_hours or np.inf, limits.budget_usd or np.inf
    return np.asarray((hours <= in_time) & (usd <= paid))


class _Fitting:
    """The first recompute policy that fits, for every system and layout.

    Systems of equal memory and reach share their rows of the grid.
    """

    def __init__(self, run: TrainingRun, systems: Sequence[System], space: LayoutSpace) -> None:
        self._grid, self._systems = space.grid, systems
        self._need, self._host = space.high_bytes(run), space.host_bytes(run)
        self._any_reach = "tensor" in space.stated
        rows = space.grid.layouts.take(slice(0, space.grid.rows))
        stated = space.stated.get("recompute")
        if stated is None:
            # Full recomputation is faster than fetching activations from the host.
            self._need[:-1, offloads(rows, Offload.ACTIVATIONS)] = np.inf
        else:
            self._need[np.arange(RECOMPUTE_LEVELS) != stated] = np.inf
        # A schedule that overlaps two micro-batches does not recompute everything.
        self._need[-1, rows.overlapped] = np.inf
        tools = {system.tool_name: system.tool for system in systems}
        offers = {name: run.offer_of(tool) for name, tool in tools.items()}
        distinct = list(dict.fromkeys(offers.values()))
        self._needs = [self._offered(run, offer) for offer in distinct]
        kinds = [
            (
                system.accelerator.memory_reported_bytes,
                max(system.node.accelerators, system.node.intra_domain),
                system.host_share_bytes,
                distinct.index(offers[system.tool_name]),
            )
            for system in systems
        ]
        self._kinds = kinds
        # Which rows have one of the numbers of accelerators of a system.
        self._asked = {
            counts: self._having(counts)
            for counts in dict.fromkeys(system.counts for system in systems)
        }
        fits = {kind: self._first_policy(*kind) for kind in dict.fromkeys(kinds)}
        alike = [(kind, system.counts) for kind, system in zip(kinds, systems, strict=True)]
        found = {key: self._with(*fits[key[0]], key[1]) for key in dict.fromkeys(alike)}
        self.rows = [found[key] for key in alike]
        """Of each system: rows of the grid that fit, and levels of the first policy that does."""
        self._least: dict[tuple[object, ...], float] = {}

    def _having(self, counts: tuple[int, ...]) -> NDArray[np.bool_]:
        asked = np.zeros(self._grid.rows, dtype=np.bool_)
        for count in counts:
            asked[slice(*self._grid.start[count])] = True
        return asked

    def _offered(self, run: TrainingRun, offer: TrainingOffer | None) -> Floats:
        """Return the need of each layout that a tool offers; infinite for the others. [bytes]"""
        if offer is None:
            return self._need
        able = offered(self._grid, offer, four_bit=run.four_bit)
        return np.where(able, self._need, np.inf)

    def _first_policy(
        self, capacity: float, reach: int, host: float, offer: int
    ) -> tuple[Indices, NDArray[np.int8]]:
        """Return the rows that fit under some policy, and the level of the first."""
        exceeds = self._needs[offer] > capacity
        if host < np.inf:
            exceeds |= self._host > host
        if not self._any_reach:
            exceeds |= self._grid.tensor > reach
        first = np.zeros(self._grid.rows, dtype=np.int8)
        for policy in exceeds[::-1].view(np.int8):
            first = policy * (1 + first)
        rows = np.flatnonzero(first < RECOMPUTE_LEVELS)
        return rows, first[rows]

    def _with(
        self, rows: Indices, policy: NDArray[np.int8], counts: tuple[int, ...]
    ) -> tuple[Indices, NDArray[np.int8]]:
        """Return those of some rows that have one of the numbers of accelerators."""
        if len(counts) == len(self._grid.start):
            return rows, policy
        asked = np.flatnonzero(self._asked[counts][rows])
        return rows[asked], policy[asked]

    def least_bytes(self, place: int) -> float:
        """Smallest need of any layout of a system; infinite without layouts. [bytes]"""
        (_, reach, _, offer), counts = self._kinds[place], self._systems[place].counts
        key = reach, offer, counts
        if key not in self._least:
            allowed = self._asked[counts] & (self._any_reach | (self._grid.tensor <= reach))
            need = self._needs[offer].min(axis=0, where=allowed, initial=np.inf)
            self._least[key] = float(need.min(initial=np.inf))
        return self._least[key]


def _together(fits: Sequence[tuple[Indices, NDArray[np.int8]]]) -> Iterator[Indices]:
    """Yield system, grid row and policy of what fits on each system, many together.

    A pass over few is no faster. Those of one system and count stay together.
    """
    kept, size = list[Indices](), 0
    for place, (rows, policy) in enumerate(fits):
        kept.append(np.stack([np.full(len(rows), place), rows, policy]))
        size += len(rows)
        if size > BLOCK or place == len(fits) - 1:
            yield np.hstack(kept)
            kept, size = [], 0


def _fastest(
    run: TrainingRun,
    grid: LayoutGrid,
    hardware: HardwareArrays,
    bound: Callable[[], StepBound],
    system: Indices,
    policy: Indices,
    row: Indices,
    calibration: Calibration,
    deadline_hours: float,
) -> tuple[Indices, Floats]:
    """Return the simplest of the fastest configurations of every system and count, and its hours.

    ``system``, ``policy``, ``row``: configurations that fit; those of one system and count lie side
    by side.
    """
    if not len(row):
        return np.zeros(0, dtype=np.intp), np.zeros(0)

    def timed(chosen: Indices) -> tuple[Floats, Floats, Floats]:
        hours, steps, busy = (np.empty(len(chosen)) for _ in range(3))
        for begin in range(0, len(chosen), CHUNK):
            part = slice(begin, begin + CHUNK)
            place = chosen[part]
            candidates = Candidates(
                layout=grid.layouts.take(policy[place] * grid.rows + row[place]),
                hardware=hardware.take(system[place]),
            )
            hours[part], time = evaluate_run_hours(run, candidates, calibration)
            steps[part] = time.step
            busy[part] = time.step - time.input
        return hours, steps, busy

    # Configurations of one system and count lie side by side.
    count = grid.count[row]
    change = (system[1:] != system[:-1]) | (count[1:] != count[:-1])
    segment = np.concatenate(([0], np.cumsum(change)))
    worth = np.arange(len(row))
    if len(row) > FEW:
        worth = _worth(bound(), grid, segment, system, policy, row, timed)
    hours, steps, busy = timed(worth)
    points = grid.complexity[row[worth]] + RECOMPUTED[policy[worth]]
    winners = simplest(points, steps, busy, hours > deadline_hours, segment[worth])
    return worth[winners], hours[winners]


def _worth(
    bound: StepBound,
    grid: LayoutGrid,
    segment: Indices,
    system: Indices,
    policy: Indices,
    row: Indices,
    timed: Callable[[Indices], tuple[Floats, Floats, Floats]],
) -> Indices:
    """Return the configurations that can be nearly as fast as the fastest of their segment.

    What cannot beat the most promising layouts is dropped, first by the bound, then by the tighter
    one. The first leaves out what gathering sharded parameters may add, so the most promising
    layout without that is timed too. What may be nearly as fast stays: it may be simpler.
    """
    least = bound.step_s(system, policy, row)
    gathers = grid.layouts.sharding[row] >= SHARDING_LEVEL[Sharding.ZERO3]
    groups = (least, np.where(gathers, np.inf, least))
    tried = distinct(first_least(item, segment) for item in groups)
    _, steps, _ = timed(tried)
    reached = np.full(segment[-1] + 1, np.inf)
    np.minimum.at(reached, segment[tried], steps)
    worth = np.flatnonzero(least <= TIE * reached[segment])
    tight = np.concatenate(
        [
            bound.tightened(system[part], policy[part], row[part])
            for begin in range(0, len(worth), CHUNK)
            for part in [worth[begin : begin + CHUNK]]
        ]
    )
    _, reached, _ = timed(worth[first_least(tight, segment[worth])])
    return np.asarray(worth[tight <= TIE * reached[segment[worth]]])
