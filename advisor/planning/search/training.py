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
from advisor.planning.search.simple import RECOMPUTED, TIE, Indices, first_least, simplest
from advisor.planning.search.systems import System
from advisor.planning.time_ranges import TimeSpreads

BLOCK = 262_144
"""Configurations whose memory is compared at a time."""

FEW: Final = 4096
"""Up to so many configurations, timing all is faster than bounding them first."""

NO_POLICY: Final = RECOMPUTE_LEVELS
"""Marks a layout that fits under no recompute policy."""


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
        system.accelerator, system.node, precision=found.precision, count=found.count
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
    cards = {systems[index].accelerator.key: systems[index].accelerator for index in usable}
    known = {key: calibration.kernels_for(card) for key, card in cards.items()}
    hardware = HardwareArrays.stack(
        [
            (systems[i].accelerator, systems[i].node, known[systems[i].accelerator.key][0], compute)
            for i in usable
        ]
    )
    fitting = _Fitting(run, [systems[i] for i in usable], space)
    places = {key: place for place, key in enumerate(cards)}
    card = np.array([places[systems[index].accelerator.key] for index in usable])
    software = calibration.software[run.software]
    bound = cache(partial(StepBound, run, grid, hardware, card, calibration.network, software))
    pairs = list(_pairs(systems, usable, grid))
    rows_per_pair = np.array([end - first for _, first, end in pairs])
    found: list[Option] = []
    fits_somewhere = np.zeros(len(usable), dtype=bool)
    for rows in _fitting_rows(fitting, pairs, rows_per_pair):
        fits_somewhere[rows[0]] = True
        able = np.ones(rows.shape[1], dtype=bool)
        if within is not None and len(able) > FEW:
            usd = np.array([within[1][index] for index in usable])
            able = _may_meet(within[0], usd, run, grid, hardware, bound(), *rows)
        system, row, policy = rows[:, able]
        fastest, hours = _fastest(
            run, grid, hardware, bound, system, policy, row, calibration, deadline_hours
        )
        found.extend(
            Option(
                system=usable[int(system[index])],
                count=int(grid.count[row[index]]),
                precision=run.recipe.name,
                layouts=grid.layouts,
                row=int(policy[index] * grid.rows + row[index]),
                time=time,
                time_high=time,
            )
            for index, time in zip(fastest.tolist(), hours.tolist(), strict=True)
            if np.isfinite(time)
        )
    misses = {
        usable[place]: Miss(least_bytes, systems[usable[place]].accelerator.memory_reported_bytes)
        for place in np.flatnonzero(~fits_somewhere)
        if np.isfinite(least_bytes := fitting.least_bytes(int(place)))
    }
    searched = int(rows_per_pair.sum()) * RECOMPUTE_LEVELS
    return TrainingSearch(found=found, searched=searched, misses=misses)


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

    Systems of equal memory and reach share one table over the rows of the grid.
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
        offers = [run.offer_of(one.tool) for one in systems]
        distinct = list(dict.fromkeys(offers))
        self._needs = [self._offered(run, offer) for offer in distinct]
        kinds = [
            (
                system.accelerator.memory_reported_bytes,
                max(system.node.accelerators, system.node.intra_domain),
                system.host_share_bytes,
                distinct.index(offer),
            )
            for system, offer in zip(systems, offers, strict=True)
        ]
        self._kinds = list(dict.fromkeys(kinds))
        self._kind = np.array([self._kinds.index(kind) for kind in kinds])
        self._table = np.concatenate([self._first_policy(*kind) for kind in self._kinds])

    def _offered(self, run: TrainingRun, offer: TrainingOffer | None) -> Floats:
        """Return the need of each layout that a tool offers; infinite for the others. [bytes]"""
        if offer is None:
            return self._need
        able = offered(self._grid, offer, four_bit=run.four_bit)
        return np.where(able, self._need, np.inf)

    def _first_policy(
        self, capacity: float, reach: int, host: float, offer: int
    ) -> NDArray[np.int8]:
        fits = self._needs[offer] <= capacity
        if host < np.inf:
            fits &= self._host <= host
        fits &= self._any_reach | (self._grid.tensor <= reach)
        first = np.full(self._grid.rows, NO_POLICY, dtype=np.int8)
        for policy in reversed(range(RECOMPUTE_LEVELS)):
            first[fits[policy]] = policy
        return first

    def policy(self, system: Indices, row: Indices) -> NDArray[np.int8]:
        """Level of the first policy that fits, or ``NO_POLICY``."""
        return self._table[self._kind[system] * self._grid.rows + row]

    def least_bytes(self, place: int) -> float:
        """Smallest need of any layout of a system; infinite without layouts. [bytes]"""
        _, reach, _, offer = self._kinds[self._kind[place]]
        least, need = np.inf, self._needs[offer]
        for count in self._systems[place].counts:
            rows = slice(*self._grid.start[count])
            allowed = self._any_reach | (self._grid.tensor[rows] <= reach)
            if allowed.any():
                least = min(least, float(need[:, rows][:, allowed].min()))
        return least


def _pairs(
    systems: Sequence[System], usable: Sequence[int], grid: LayoutGrid
) -> Iterator[tuple[int, int, int]]:
    """Yield each usable system's place with the rows of each of its counts."""
    for place, index in enumerate(usable):
        for count in systems[index].counts:
            first, end = grid.start[count]
            yield place, first, end


def _fitting_rows(
    fitting: _Fitting, pairs: Sequence[tuple[int, int, int]], rows_per_pair: Indices
) -> Iterator[Indices]:
    """Yield system, grid row and policy of what fits, many together: a pass over few is no faster.

    Those of one pair stay together.
    """
    kept: list[Indices] = []
    for block in _blocks(rows_per_pair):
        system, row = _flatten(pairs[block], rows_per_pair[block])
        policy = fitting.policy(system, row)
        fit = np.flatnonzero(policy < NO_POLICY)
        kept.append(np.stack([system[fit], row[fit], policy[fit]]))
        if sum(len(one[0]) for one in kept) > BLOCK:
            yield np.hstack(kept)
            kept = []
    if kept:
        yield np.hstack(kept)


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
    tried = np.unique([first_least(item, segment) for item in groups])
    _, steps, _ = timed(tried)
    reached = np.full(segment[-1] + 1, np.inf)
    np.minimum.at(reached, segment[tried], steps)
    worth = np.flatnonzero(least <= TIE * reached[segment])
    tight = np.concatenate(
        [
            bound.tightened(least[part], system[part], policy[part], row[part])
            for begin in range(0, len(worth), CHUNK)
            for part in [worth[begin : begin + CHUNK]]
        ]
    )
    _, reached, _ = timed(worth[first_least(tight, segment[worth])])
    return np.asarray(worth[tight <= TIE * reached[segment[worth]]])
