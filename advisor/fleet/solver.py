"""The least present cost of a fleet, by mixed-integer programming."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.columns import Buy, Solution
from advisor.fleet.problem import Problem
from advisor.fleet.program import SLACK, THOUSAND, Floats, Program

GAP: Final = 1e-4
"""Plans within this share of the least cost count as equal."""
MANY_COLUMNS: Final = 20_000
"""Programs with more columns are first solved with the promising machines alone."""
PROMISING: Final = 16
"""Kinds of machines that a large program starts with."""
FEW_KINDS_SHARE: Final = 0.6
COARSE_GAP: Final = 5e-3
LEAST_SECONDS: Final = 1.0
TIME_LIMIT: Final = 1
"""Status of ``scipy.optimize.milp`` if the time ran out."""


def solve(
    problem: Problem,
    *,
    seconds: float,
    fixed: Mapping[Buy, float] | None = None,
    leave_out: bool = False,
    gap: float = GAP,
) -> Solution:
    """Return the plan of least present cost.

    Parameters
    ----------
    seconds : float
        Time for the solver; the best plan found by then is returned with its gap. [s]
    fixed : mapping, optional
        Purchases that are decided, with their number; all others are free.
    leave_out : bool, optional
        Leave work out where the limits do not allow all of it, the least important first.

    Returns
    -------
    Solution
        Without values if no plan meets the limits.

    References
    ----------
    .. [1] Huangfu and Hall, Parallelizing the dual revised simplex method, 2018,
       doi:10.1007/s12532-017-0130-5 (HiGHS, through ``scipy.optimize.milp``).
    """
    program = Program(problem, leave_out=leave_out)
    if program.impossible or not program.columns:
        return Solution(feasible=not program.impossible)
    end = time.monotonic() + seconds
    lower, upper = np.zeros(len(program.columns)), np.array(program.upper)
    for column, place in program.places.items():
        if fixed is not None and isinstance(column, Buy) and column in fixed:
            lower[place] = upper[place] = fixed[column]
    if len(program.columns) <= MANY_COLUMNS:
        found = _best(program, lower, upper, seconds=seconds, gap=gap)
        return _solution(program, found, found.bound)
    # Of many kinds of machines few are ever worth buying: the relaxed program names them.
    bound, promising = _relaxed(program, lower, upper)
    few = np.where(
        _of_supplies(program, set(range(len(problem.supplies))) - promising), lower, upper
    )
    share = FEW_KINDS_SHARE * max(0.0, end - time.monotonic())
    found = _best(program, lower, few, seconds=share, gap=max(gap, COARSE_GAP))
    left = end - time.monotonic()
    if found.values is None or left > LEAST_SECONDS:
        wider = _best(program, lower, upper, seconds=max(left, LEAST_SECONDS), gap=gap)
        bound = max(bound, wider.bound)
        found = min(found, wider, key=lambda item: item.cost)
    return _solution(program, found, bound)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the solver returned."""

    values: Floats | None
    cost: float
    """Infinite without values. [thousand USD]"""
    bound: float
    """No plan costs less. [thousand USD]"""
    timed_out: bool


def _best(program: Program, lower: Floats, upper: Floats, *, seconds: float, gap: float) -> _Found:
    """Return the plan of least cost between bounds of the columns."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix, row_lower, row_upper = program.matrix()
    found = milp(
        c=np.array(program.cost) / THOUSAND,
        constraints=LinearConstraint(matrix, row_lower, row_upper),
        bounds=Bounds(lower, upper),
        integrality=np.array(program.integral),
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    bound = getattr(found, "mip_dual_bound", None)
    return _Found(
        values=found.x,
        cost=math.inf if found.x is None else float(found.fun),
        bound=-math.inf if bound is None else float(bound),
        timed_out=found.status == TIME_LIMIT,
    )


def _relaxed(program: Program, lower: Floats, upper: Floats) -> tuple[float, set[int]]:
    """Solve the program with fractions of machines.

    Returns
    -------
    float, set of int
        Its cost [thousand USD], and the supplies that it would buy next.
    """
    from scipy.optimize import linprog
    from scipy.sparse import vstack

    matrix, row_lower, row_upper = program.matrix()
    below, above = np.isfinite(row_upper), np.isfinite(row_lower)
    cost = np.array(program.cost) / THOUSAND
    found = linprog(
        cost,
        A_ub=vstack([matrix[below], -matrix[above]]),
        b_ub=np.concatenate([row_upper[below], -row_lower[above]]),
        bounds=np.stack([lower, upper], axis=1),
        method="highs",
    )
    if found.x is None:
        return -math.inf, set(range(len(program.problem.supplies)))
    short: dict[int, float] = {}
    for key, place in program.places.items():
        if isinstance(key, Buy):
            each = found.lower.marginals[place] / max(cost[place], SLACK)
            short[key.supply] = min(each, short.get(key.supply, math.inf))
    ranked = sorted(short, key=lambda supply: (short[supply], supply))
    return float(found.fun), set(ranked[:PROMISING])


def _of_supplies(program: Program, supplies: set[int]) -> NDArray[np.bool_]:
    """Return which columns buy machines of some supplies."""
    return np.array(
        [isinstance(key, Buy) and key.supply in supplies for key in program.columns], dtype=bool
    )


def _solution(program: Program, found: _Found, bound: float) -> Solution:
    """Return what the solver found by the names of the columns."""
    if found.values is None:
        return Solution(timed_out=found.timed_out)
    values = {
        column: float(round(value) if program.integral[place] else value)
        for column, place in program.places.items()
        if (value := found.values[place]) > SLACK
    }
    gap = (found.cost - bound) / found.cost if found.cost > SLACK else 0.0
    return Solution(values, True, min(1.0, max(0.0, gap)), found.timed_out)
