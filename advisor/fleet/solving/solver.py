"""The least present cost of a fleet, by mixed-integer programming."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import Buy, Column, Solution, Use, uses_of
from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.limits import THOUSAND
from advisor.fleet.solving.problem import SLOT_HOURS, Problem
from advisor.fleet.solving.program import Floats, Program
from advisor.foundation.record import record

GAP: Final = 1e-4
"""Plans within this share of the least cost count as equal."""
MANY: Final = 20_000
"""Programs with more ways to do work, over all periods and slots, are solved by covers."""
COVER_GAP: Final = 1e-3
WIDE_GAP: Final = 0.08
"""Above this gap, all ways to do the work are tried together."""
NODES_TIMES_COLUMNS: Final = 500_000
"""The search stops after so many nodes times columns: the same question has the same answer on a
busy machine, which a limit of time does not give."""
LEAST_NODES: Final = 8
PATIENCE_S: Final = 60.0
"""No program may hold a machine longer; the plan says so if one does. [s]"""
OPTIMAL: Final = 0
IMPOSSIBLE: Final = 2
"""Statuses of ``scipy.optimize.milp``; every other means that it stopped early."""

Numbers = tuple[float, float]
"""Fewest and most machines of a purchase."""


class Stage(NamedTuple):
    """What a large program may use at first, and later."""

    kinds: int
    """Kinds of machines to buy: those that the relaxed program likes best, and all it uses."""
    share: float
    """Ways on machines that add more than this share of the whole cost stay out."""
    ways: int
    """Most ways on machines to do the work of one job in one slot."""
    gap: float


STAGES: Final = (Stage(12, 1e-3, 3, 8e-3), Stage(12, 5e-3, 8, 5e-3), Stage(60, 1.0, 12, 3e-2))
"""A quick plan first, then a better one; the last finds one under a limit that leaves dear ways."""
ENOUGH, ROUGHLY_ENOUGH = 1e-2, 4e-2
"""Gaps of a plan, and of an alternative, at which no better one is looked for."""
ROUNDS: Final = 6
"""Most times that the relaxed program gets the rows that it breaks."""
RISE: Final = 1e-3
"""Share by which they have to raise its cost, for more of them."""


class Programs:
    """The programs of a problem, for all problems that differ in their limits and bars only.

    Each is built once, or begins as that of ``base``. What the first problem's solution learns
    about its columns and rows helps the others.
    """

    def __init__(self, base: Programs | None = None) -> None:
        self._base = base
        self._built: dict[tuple[bool, bool], Program] = {}
        self._lock = Lock()

    def of(self, problem: Problem, *, leave_out: bool, whole_loads: bool) -> Program:
        """Return the program of a problem."""
        key = leave_out, whole_loads
        with self._lock:
            if key in self._built:
                known = self._built[key]
                return known if known.problem is problem else known.under(problem)
            if self._base is None:
                built = Program(problem, leave_out=leave_out, whole_loads=whole_loads)
            else:
                base = self._base.of(problem, leave_out=leave_out, whole_loads=whole_loads)
                built = base.under(problem)
            self._built[key] = built
            return built


def solve(
    problem: Problem,
    *,
    fixed: Mapping[Buy, Numbers] | None = None,
    leave_out: bool = False,
    gap: float = GAP,
    rough: bool = False,
    programs: Programs | None = None,
) -> Solution:
    """Return the plan of least present cost; without values if no plan meets the limits.

    Purchases of ``fixed`` are between two numbers; all others are free. With ``leave_out``, work
    that the limits do not allow is left out, the least important first. ``gap`` is the share of the
    cost within which a program is solved, COVER_GAP at least for a large one; ``rough`` solves a
    large one quickly, with a wider gap.
    ``programs``: of a problem that differs in its limits only.

    References
    ----------
    .. [1] Huangfu and Hall, Parallelizing the dual revised simplex method, 2018,
       doi:10.1007/s12532-017-0130-5 (HiGHS, through ``scipy.optimize.milp``).
    """
    programs = programs or Programs()
    if is_large(problem):
        program = programs.of(problem, leave_out=leave_out, whole_loads=True)
        found = _by_covers(program, gap=gap, fixed=fixed or {}, rough=rough)
        if found is not None or program.impossible:
            return _solution(program, *found) if found else Solution()
    program = programs.of(problem, leave_out=leave_out, whole_loads=False)
    if program.impossible or not program.columns:
        return Solution(feasible=not program.impossible)
    lower, upper = _bounds(program, fixed or {})
    if is_large(problem) and rough:
        # What covers cannot do, single replicas hardly can: proven at once, or left open.
        return Solution(timed_out=_relaxed(program, fixed or {}) is not None)
    best = _best(program, lower, upper, gap=gap)
    if best.timed_out:
        # Covers reach a good plan soon, but prove nothing of the plans that they leave out.
        covers = programs.of(problem, leave_out=leave_out, whole_loads=True)
        covered = _by_covers(covers, gap=gap, fixed=fixed or {}, rough=rough)
        if covered is not None and covered[0].cost < best.cost:
            return _solution(covers, replace(covered[0], timed_out=True), best.bound)
    return _solution(program, best, best.bound)


def least_cost(
    problem: Problem,
    programs: Programs,
    fixed: Mapping[Buy, Numbers] | None = None,
    *,
    whole_loads: bool = False,
) -> float:
    """Return a cost that no plan stays under; infinite if nothing meets the limits. [USD]

    That of the relaxed program. Purchases of ``fixed`` are between two numbers. ``whole_loads``:
    no plan of whole loads, which is closer to the least cost.
    """
    whole_loads = whole_loads or is_large(problem)
    program = programs.of(problem, leave_out=False, whole_loads=whole_loads)
    return _bound(program, fixed) + problem.owned_usd


def least_purchase(problem: Problem, programs: Programs) -> float:
    """Return the price of machines below which no plan does all work; infinite if none does. [USD]

    That of the cheapest machines that do it; a lower bound in a large problem.
    """
    large = is_large(problem)
    program = programs.of(problem, leave_out=False, whole_loads=large).priced()
    if large or program.impossible or not program.columns:
        return _bound(program)
    return _best(program, *_bounds(program, {}), gap=GAP).cost * THOUSAND


def _bound(program: Program, fixed: Mapping[Buy, Numbers] | None = None) -> float:
    """Return what the relaxed program costs at least. [USD]"""
    if program.impossible or not program.columns:
        return math.inf if program.impossible else 0.0
    found = _relaxed(program, fixed or {})
    return math.inf if found is None else found.cost * THOUSAND


def is_large(problem: Problem) -> bool:
    """Return whether a problem has so many ways to do work that covers solve it, within a gap."""
    ways = (len(job.modes) * (len(SLOT_HOURS) if job.serves else 1) for job in problem.jobs)
    return len(problem.months) * sum(ways) > MANY


def _bounds(program: Program, fixed: Mapping[Buy, Numbers]) -> tuple[Floats, Floats]:
    """Return the bounds of the columns."""
    lower, upper = np.zeros(len(program.columns)), np.array(program.upper)
    for column, (least, most) in fixed.items():
        if (place := program.places.get(column)) is not None:
            lower[place], upper[place] = least, max(least, min(most, upper[place]))
    return lower, upper


def _by_covers(
    program: Program, *, gap: float, fixed: Mapping[Buy, Numbers], rough: bool
) -> tuple[_Found, float] | None:
    """Return a plan of a large problem with its bound, or None if covers find none.

    The relaxed program prices every way to do the work. The plan comes from the ways and machines
    that it likes best; the bound from all of them, with whole machines and fractions of services.
    """
    if program.impossible or not program.columns:
        return None
    lower, upper = _bounds(program, fixed)
    relaxed = _relaxed(program, fixed)
    if relaxed is None:
        return None
    found = _Found(None, math.inf, -math.inf, timed_out=False)
    bound, enough = relaxed.cost, max(gap, ROUGHLY_ENOUGH if rough else ENOUGH)
    for stage in STAGES:
        wide = found.values is not None and bound < (1 - WIDE_GAP) * found.cost
        if wide and stage is not STAGES[-1]:
            continue  # a limit asks for other kinds of machines than the cheapest
        if bound < (1 - max(enough, stage.gap)) * found.cost:
            few = np.where(_liked(program, relaxed, stage), upper, lower)
            more = _best(program, lower, few, gap=max(gap, stage.gap, enough / 4))
            found = min(found, more, key=lambda item: item.cost)
    if found.values is None or (not rough and bound < (1 - WIDE_GAP) * found.cost):
        # A few large machines decide: the relaxed program says little about which.
        more = _best(program, lower, upper, gap=max(gap, COVER_GAP))
        bound, found = max(bound, more.bound), min(found, more, key=lambda item: item.cost)
    return None if found.values is None else (found, bound)


@record
class _Found:
    """What the solver returned."""

    values: Floats | None
    cost: float
    """Infinite without values. [thousand USD]"""
    bound: float
    """No plan costs less. [thousand USD]"""
    timed_out: bool


def _best(program: Program, lower: Floats, upper: Floats, *, gap: float) -> _Found:
    """Return the plan of least cost between bounds of the columns."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix, row_lower, row_upper = program.matrix()
    open_ = np.flatnonzero(upper > 0)
    matrix = matrix[:, open_]
    used = np.diff(matrix.indptr) > 0
    if np.any(row_lower[~used] > 0):
        return _Found(None, math.inf, -math.inf, timed_out=False)
    whole = np.array(program.integral, dtype=int)[open_]
    found = milp(
        c=np.array(program.cost)[open_] / THOUSAND,
        constraints=LinearConstraint(matrix[used], row_lower[used], row_upper[used]),
        bounds=Bounds(lower[open_], upper[open_]),
        integrality=whole,
        options={
            "node_limit": max(LEAST_NODES, NODES_TIMES_COLUMNS // len(program.columns)),
            "time_limit": PATIENCE_S,
            "mip_rel_gap": gap,
        },
    )
    # Of a program without whole numbers, HiGHS gives no bound: its optimum is one.
    bound = getattr(found, "mip_dual_bound", None) if whole.any() else found.fun
    values = None
    if found.x is not None:
        values = np.zeros(len(upper))
        values[open_] = found.x
    return _Found(
        values=values,
        cost=math.inf if values is None else float(found.fun),
        bound=-math.inf if bound is None else float(bound),
        timed_out=found.status not in (OPTIMAL, IMPOSSIBLE),
    )


@record
class _Relaxed:
    """The program with fractions of machines and replicas."""

    cost: float
    """No plan costs less. [thousand USD]"""
    values: Floats
    reduced: Floats
    """What one more of each column adds to the cost at the program's prices. [thousand USD]"""


def _relaxed(program: Program, fixed: Mapping[Buy, Numbers]) -> _Relaxed | None:
    """Solve the relaxed program, with the rows that it breaks; None if nothing meets the limits."""
    if fixed:
        return _cut(program, *_bounds(program, fixed))
    if not program.relaxed:
        program.relaxed = (_cut(program, *_bounds(program, {})),)
    found: _Relaxed | None = program.relaxed[0]
    return found


def _cut(program: Program, lower: Floats, upper: Floats) -> _Relaxed | None:
    """Solve the relaxed program between bounds of the columns, and with the rows it breaks."""
    from scipy.optimize import linprog
    from scipy.sparse import vstack

    relaxed: _Relaxed | None = None
    open_ = np.flatnonzero(upper > 0)
    for _ in range(ROUNDS):
        matrix, row_lower, row_upper = program.matrix()
        matrix, below, above = matrix[:, open_], np.isfinite(row_upper), np.isfinite(row_lower)
        found = linprog(
            np.array(program.cost)[open_] / THOUSAND,
            A_ub=vstack([matrix[below], -matrix[above]]),
            b_ub=np.concatenate([row_upper[below], -row_lower[above]]),
            bounds=np.stack([lower, upper], axis=1)[open_],
            method="highs",
            options={"presolve": False},
        )
        if found.x is None:
            return None
        values, reduced = np.zeros(len(upper)), np.full(len(upper), np.inf)
        values[open_], reduced[open_] = found.x, found.lower.marginals + found.upper.marginals
        before, relaxed = relaxed, _Relaxed(float(found.fun), values, reduced)
        little = before is not None and relaxed.cost - before.cost <= RISE * relaxed.cost
        if little or not program.cut_off(values):
            break
    return relaxed


def _liked(program: Program, relaxed: _Relaxed, stage: Stage) -> NDArray[np.bool_]:
    """Return which columns stay: promising machines, and so many good ways on them for a job.

    All that the relaxed program uses stays, and the best way to do each job in each slot.
    """
    machines = program.needs[:, : len(program.problem.supplies)]
    price = np.full(machines.shape[1], np.inf)
    for supply, buys in program.buys.items():
        price[supply] = min(
            float(relaxed.reduced[at]) / max(program.cost[at] / THOUSAND, SLACK) for at, _ in buys
        )
    price[machines.T @ (relaxed.values > SLACK) > 0] = -1.0
    dear = np.argsort(np.argsort(price, kind="stable"), kind="stable") >= stage.kinds
    stays = np.asarray(machines @ (dear & (price >= 0)).astype(float) == 0)
    held = (program.groups >= 0) & (machines @ np.ones(machines.shape[1]) > 0)
    places = np.flatnonzero(held & (program.upper > 0))
    order = relaxed.reduced[places], ~stays[places], program.groups[places]
    places = places[np.lexsort(order)]
    _, first, number = np.unique(program.groups[places], return_index=True, return_counts=True)
    rank = np.arange(len(places)) - np.repeat(first, number)
    near = relaxed.reduced[places] <= stage.share * max(relaxed.cost, 1.0)
    good = (stays[places] & near & (rank < stage.ways)) | (relaxed.values[places] > SLACK)
    places = places[good | (rank == 0)]
    stays[held], stays[places] = False, True
    for supply in np.flatnonzero(machines[places].sum(axis=0)).tolist():
        stays[[at for at, _ in program.buys.get(supply, ())]] = True
    return stays


def _solution(program: Program, found: _Found, bound: float) -> Solution:
    """Return what the solver found by the names of the columns."""
    if found.values is None:
        return Solution(timed_out=found.timed_out)
    values: dict[Column, float] = {}
    for column, place in program.places.items():
        if (value := found.values[place]) > SLACK:
            one = float(round(value) if program.integral[place] else value)
            for key, number in uses_of(column) or ((column, 1),):
                same = key._replace(above=0) if isinstance(key, Use) else key
                values[same] = values.get(same, 0.0) + number * one
    gap = (found.cost - bound) / found.cost if found.cost > SLACK else 0.0
    return Solution(values, True, min(1.0, max(0.0, gap)), found.timed_out)
