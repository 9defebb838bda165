"""The mixed-integer program of a fleet: which machines, when, and what runs on them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.problem import SLOT_HOURS, Job, Mode, Problem, Supply, Way
from advisor.foundation.units import HOURS_PER_MONTH

Floats = NDArray[np.float64]

SLACK: Final = 1e-6
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
THOUSAND: Final = 1e3
"""The program counts thousands of dollars, so that its numbers are of one size."""


class Buy(NamedTuple):
    """Machines of a supply bought, or committed to, at the start of a period."""

    supply: int
    period: int


class Use(NamedTuple):
    """A mode of a job in a period: share of the runs, or replicas in a slot."""

    job: int
    mode: int
    period: int
    slot: int
    """-1 for batch jobs."""


@dataclass(frozen=True, slots=True)
class Left:
    """Share of a job that is left out in a period; no tuple, so it never equals a ``Buy``."""

    job: int
    period: int


class Group(NamedTuple):
    """Whether a mode that needs several machines at once is used in a period."""

    job: int
    mode: int
    period: int


Column = Buy | Use | Left | Group


@dataclass(frozen=True, slots=True)
class Solution:
    """Values of the columns that are not zero."""

    values: Mapping[Column, float] = field(default_factory=dict)
    feasible: bool = False
    gap: float = 0.0
    """Upper bound of how much less another plan may cost, over the cost."""
    timed_out: bool = False

    def bought(self) -> Iterator[tuple[Buy, int]]:
        """Yield purchases and commitments with their number."""
        for column, value in self.values.items():
            if isinstance(column, Buy):
                yield column, round(value)

    def used(self) -> Iterator[tuple[Use, float]]:
        """Yield modes with the share of the runs, or the replicas, that they take."""
        for column, value in self.values.items():
            if isinstance(column, Use):
                yield column, value

    def left(self) -> Iterator[tuple[Left, float]]:
        """Yield what is left out."""
        for column, value in self.values.items():
            if isinstance(column, Left):
                yield column, value


def machines_there(problem: Problem, solution: Solution, supply: int) -> tuple[int, ...]:
    """Return how many machines of a supply are there in each period."""
    item = problem.supplies[supply]
    there = list(item.owned or (0,) * len(problem.months))
    for column, number in solution.bought():
        if column.supply == supply:
            for period in _lasting(problem, item, column.period):
                there[period] += number
    return tuple(there)


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
    program = _Program(problem, leave_out=leave_out)
    if program.impossible or not program.columns:
        return Solution(feasible=not program.impossible)
    end = time.monotonic() + seconds
    lower, upper = np.zeros(len(program.columns)), np.array(program.upper)
    for column, place in program.places.items():
        if fixed is not None and isinstance(column, Buy) and column in fixed:
            lower[place] = upper[place] = fixed[column]
    if len(program.columns) <= MANY_COLUMNS:
        found = program.best(lower, upper, seconds=seconds, gap=gap)
        return program.solution(found, found.bound)
    # Of many kinds of machines few are ever worth buying: the relaxed program names them.
    bound, promising = program.relaxed(lower, upper)
    few = np.where(program.of_supplies(set(range(len(problem.supplies))) - promising), lower, upper)
    share = FEW_KINDS_SHARE * max(0.0, end - time.monotonic())
    found = program.best(lower, few, seconds=share, gap=max(gap, COARSE_GAP))
    left = end - time.monotonic()
    if found.values is None or left > LEAST_SECONDS:
        wider = program.best(lower, upper, seconds=max(left, LEAST_SECONDS), gap=gap)
        bound = max(bound, wider.bound)
        found = min(found, wider, key=lambda item: item.cost)
    return program.solution(found, bound)


def _lasting(problem: Problem, supply: Supply, period: int) -> range:
    """Return the periods in which machines bought in a period are there."""
    if supply.term_months is None:
        return range(period, len(problem.months))
    end = problem.starts[period] + supply.term_months
    return range(period, sum(start < end for start in problem.starts))


def present_usd(problem: Problem, supply: Supply, period: int) -> float:
    """Present cost of a machine bought in a period, without its use. [USD]"""
    capital = supply.capital_usd * problem.capital_factor(supply, period)
    return capital + sum(
        supply.month_usd * problem.months[later] * problem.period_factor(later)
        for later in _lasting(problem, supply, period)
    )


def use_usd(problem: Problem, job: Job, mode: Mode, period: int, slot: int) -> float:
    """Cost of a whole job, or of one replica in a slot, in a month of a period. [USD/month]"""
    supply = None if mode.supply is None else problem.supplies[mode.supply]
    rents = problem.rent_factors
    rent = mode.usd * (rents[period] if rents else 1.0)
    if slot < 0:
        each = rent if supply is None else mode.cards * mode.hours * supply.card_hour_usd
        return job.runs[period] * each
    each = rent if supply is None else mode.cards * supply.card_hour_usd
    return SLOT_HOURS[slot] * each


@dataclass(frozen=True, slots=True)
class _Found:
    """What the solver returned."""

    values: Floats | None
    cost: float
    """Infinite without values. [thousand USD]"""
    bound: float
    """No plan costs less. [thousand USD]"""
    timed_out: bool


class _Program:
    """Columns with cost, bounds and integrality, and rows as triples."""

    def __init__(self, problem: Problem, *, leave_out: bool) -> None:
        self.problem = problem
        self.columns: list[Column] = []
        self.places: dict[Column, int] = {}
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.integral: list[int] = []
        self.rows: list[tuple[float, float]] = []
        self.entries: tuple[list[int], list[int], list[float]] = ([], [], [])
        self.impossible = False
        self._add_purchases()
        dearest = self._add_jobs(leave_out)
        self._weigh(dearest)
        self._add_capacity()
        self._add_limits()

    def column(self, key: Column, cost: float, upper: float, *, whole: bool) -> int:
        """Add a column and return its place."""
        self.places[key] = len(self.columns)
        self.columns.append(key)
        self.cost.append(cost)
        self.upper.append(upper)
        self.integral.append(int(whole))
        return self.places[key]

    def row(self, terms: Mapping[int, float], low: float, high: float) -> None:
        """Add a row of coefficients by column, between two bounds."""
        rows, columns, values = self.entries
        for place, value in terms.items():
            rows.append(len(self.rows))
            columns.append(place)
            values.append(value)
        self.rows.append((low, high))

    def matrix(self) -> tuple[Any, Floats, Floats]:
        """Return the rows as a sparse matrix with their bounds."""
        from scipy.sparse import csr_array

        rows, columns, values = self.entries
        shape = (len(self.rows), len(self.columns))
        matrix = csr_array((values, (rows, columns)), shape=shape)
        bounds = np.array(self.rows, dtype=float).reshape(-1, 2)
        return matrix, bounds[:, 0], bounds[:, 1]

    def best(self, lower: Floats, upper: Floats, *, seconds: float, gap: float) -> _Found:
        """Return the plan of least cost between bounds of the columns."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        matrix, row_lower, row_upper = self.matrix()
        found = milp(
            c=np.array(self.cost) / THOUSAND,
            constraints=LinearConstraint(matrix, row_lower, row_upper),
            bounds=Bounds(lower, upper),
            integrality=np.array(self.integral),
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
        bound = getattr(found, "mip_dual_bound", None)
        return _Found(
            values=found.x,
            cost=math.inf if found.x is None else float(found.fun),
            bound=-math.inf if bound is None else float(bound),
            timed_out=found.status == TIME_LIMIT,
        )

    def relaxed(self, lower: Floats, upper: Floats) -> tuple[float, set[int]]:
        """Solve the program with fractions of machines.

        Returns
        -------
        float, set of int
            Its cost [thousand USD], and the supplies that it would buy next.
        """
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        matrix, row_lower, row_upper = self.matrix()
        below, above = np.isfinite(row_upper), np.isfinite(row_lower)
        cost = np.array(self.cost) / THOUSAND
        found = linprog(
            cost,
            A_ub=vstack([matrix[below], -matrix[above]]),
            b_ub=np.concatenate([row_upper[below], -row_lower[above]]),
            bounds=np.stack([lower, upper], axis=1),
            method="highs",
        )
        if found.x is None:
            return -math.inf, set(range(len(self.problem.supplies)))
        short: dict[int, float] = {}
        for key, place in self.places.items():
            if isinstance(key, Buy):
                each = found.lower.marginals[place] / max(cost[place], SLACK)
                short[key.supply] = min(each, short.get(key.supply, math.inf))
        ranked = sorted(short, key=lambda supply: (short[supply], supply))
        return float(found.fun), set(ranked[:PROMISING])

    def of_supplies(self, supplies: set[int]) -> NDArray[np.bool_]:
        """Return which columns buy machines of some supplies."""
        return np.array(
            [isinstance(key, Buy) and key.supply in supplies for key in self.columns], dtype=bool
        )

    def solution(self, found: _Found, bound: float) -> Solution:
        """Return what the solver found by the names of the columns."""
        if found.values is None:
            return Solution(timed_out=found.timed_out)
        values = {
            column: float(round(value) if self.integral[place] else value)
            for column, place in self.places.items()
            if (value := found.values[place]) > SLACK
        }
        gap = (found.cost - bound) / found.cost if found.cost > SLACK else 0.0
        return Solution(values, True, min(1.0, max(0.0, gap)), found.timed_out)

    def _add_purchases(self) -> None:
        problem = self.problem
        most = _most_needed(problem)
        for place, supply in enumerate(problem.supplies):
            if supply.way is Way.OWNED or supply.barred:
                continue
            for period in range(supply.first_period, len(problem.months)):
                term = supply.term_months
                if term is not None and problem.starts[period] + term > problem.horizon:
                    continue
                upper = min(most[place], math.inf if supply.most is None else supply.most)
                cost = present_usd(problem, supply, period)
                self.column(Buy(place, period), cost, upper, whole=True)

    def _add_jobs(self, leave_out: bool) -> float:
        """Add the columns and the demand of every job; return the dearest cost of any column."""
        problem = self.problem
        for index, job in enumerate(problem.jobs):
            for period in range(len(problem.months)):
                months = problem.months[period] * problem.period_factor(period)
                slots = range(len(SLOT_HOURS)) if job.serves else (-1,)
                left = None
                if leave_out:
                    left = self.column(Left(index, period), 0.0, 1.0, whole=False)
                for slot in slots:
                    need = job.load[period][slot] if job.serves else float(job.runs[period] > 0)
                    terms: dict[int, float] = {} if left is None else {left: need}
                    for at, mode in enumerate(job.modes):
                        if mode.supply is not None and problem.supplies[mode.supply].barred:
                            continue
                        # What one replica serves beyond the load is of no use.
                        serves = min(mode.serves, need) if job.serves else 1.0
                        cost = use_usd(problem, job, mode, period, slot) * months
                        place = self.column(
                            Use(index, at, period, slot),
                            cost,
                            math.ceil(need / serves - SLACK) if job.serves and need else 1.0,
                            whole=job.serves,
                        )
                        terms[place] = serves
                    if need > 0:
                        self.row(terms, need, math.inf)
                        self.impossible |= not terms
        return max((abs(cost) for cost in self.cost), default=0.0)

    def _weigh(self, dearest: float) -> None:
        """Make leaving work out dearer than anything else."""
        each = 100 * max(dearest, 1.0)
        for key, place in self.places.items():
            if isinstance(key, Left):
                self.cost[place] = each * self.problem.jobs[key.job].weight

    def _there(self, supply: int, period: int) -> dict[int, float]:
        """Columns that bring machines of a supply into a period."""
        item = self.problem.supplies[supply]
        return {
            self.places[Buy(supply, bought)]: 1.0
            for bought in range(period + 1)
            if Buy(supply, bought) in self.places and period in _lasting(self.problem, item, bought)
        }

    def _add_capacity(self) -> None:
        problem = self.problem
        uses: dict[tuple[int, int], list[Use]] = {}
        for key in self.columns:
            if isinstance(key, Use):
                mode = problem.jobs[key.job].modes[key.mode]
                if mode.supply is not None:
                    uses.setdefault((mode.supply, key.period), []).append(key)
        for (supply, period), keys in uses.items():
            item = problem.supplies[supply]
            owned = float(item.owned[period]) if item.owned else 0.0
            there = self._there(supply, period)
            busy: list[dict[int, float]] = [{}, {}, {}]
            for key in keys:
                job = problem.jobs[key.job]
                mode, place = job.modes[key.mode], self.places[key]
                if key.slot < 0:
                    hours = job.runs[period] * mode.cards * mode.hours
                    busy[-1][place] = hours / HOURS_PER_MONTH / problem.utilisation
                    if mode.machines > 1:
                        self._add_group(key, mode, owned, there)
                else:
                    busy[key.slot][place] = float(mode.cards)
                    busy[-1][place] = mode.cards * SLOT_HOURS[key.slot] / HOURS_PER_MONTH
            for terms in busy:
                if terms:
                    supplied = {at: -float(item.cards) * share for at, share in there.items()}
                    self.row({**terms, **supplied}, -math.inf, owned * item.cards)
            if item.most is not None:
                self.row(there, -math.inf, max(0.0, item.most - owned))

    def _add_group(self, key: Use, mode: Mode, owned: float, there: Mapping[int, float]) -> None:
        """Demand that all machines of a run are there at once."""
        used = self.column(Group(key.job, key.mode, key.period), 0.0, 1.0, whole=True)
        self.row({self.places[key]: 1.0, used: -1.0}, -math.inf, 0.0)
        supplied = {place: -share for place, share in there.items()}
        self.row({used: float(mode.machines), **supplied}, -math.inf, owned)

    def _add_limits(self) -> None:
        problem, limits = self.problem, self.problem.limits
        sizes = {"power_kw": limits.power_kw, "rack_units": limits.rack_units}
        for period in range(len(problem.months)):
            for name, limit in sizes.items():
                if limit is not None:
                    self._add_place_limit(
                        period,
                        limit,
                        {
                            place: float(getattr(item, name))
                            for place, item in enumerate(problem.supplies)
                        },
                    )
            if limits.machines is not None:
                each = dict.fromkeys(range(len(problem.supplies)), 1.0)
                self._add_place_limit(period, float(limits.machines), each)
        if limits.purchase_usd is not None:
            capital = {
                place: problem.supplies[key.supply].capital_usd / THOUSAND
                for key, place in self.places.items()
                if isinstance(key, Buy) and problem.supplies[key.supply].capital_usd
            }
            self.row(capital, -math.inf, limits.purchase_usd / THOUSAND)
        if limits.usd_per_year is not None:
            self._add_cash(limits.usd_per_year)

    def _add_place_limit(self, period: int, limit: float, sizes: Mapping[int, float]) -> None:
        terms: dict[int, float] = {}
        there = 0.0
        for supply, size in sizes.items():
            item = self.problem.supplies[supply]
            if not item.on_site or not size:
                continue
            there += size * (item.owned[period] if item.owned else 0)
            terms.update({at: size * one for at, one in self._there(supply, period).items()})
        if terms:
            self.row(terms, -math.inf, max(0.0, limit - there))

    def _add_cash(self, most: float) -> None:
        """Bound the cash of each year."""
        problem = self.problem
        for year in range(math.ceil(problem.horizon / 12)):
            periods = {period for period, start in enumerate(problem.starts) if start // 12 == year}
            terms: dict[int, float] = {}
            paid = 0.0
            for place, item in enumerate(problem.supplies):
                for period in periods:
                    months = problem.months[period]
                    if item.owned:
                        paid += item.owned[period] * item.month_usd * months
                    for at in self._there(place, period):
                        terms[at] = terms.get(at, 0.0) + item.month_usd * months
                    if Buy(place, period) in self.places:
                        at = self.places[Buy(place, period)]
                        terms[at] = terms.get(at, 0.0) + item.capital_usd
            for key, at in self.places.items():
                if isinstance(key, Use) and key.period in periods:
                    job = problem.jobs[key.job]
                    month = use_usd(problem, job, job.modes[key.mode], key.period, key.slot)
                    terms[at] = month * problem.months[key.period]
            scaled = {at: usd / THOUSAND for at, usd in terms.items()}
            self.row(scaled, -math.inf, max(0.0, most - paid) / THOUSAND)


def _most_needed(problem: Problem) -> list[float]:
    """Return, for each supply, the machines that would do all work that it can do."""
    cards = [0.0] * len(problem.supplies)
    least = [1.0] * len(problem.supplies)
    for job in problem.jobs:
        for place in range(len(problem.supplies)):
            modes = [mode for mode in job.modes if mode.supply == place]
            if not modes:
                continue
            if job.serves:
                peak = max(max(load) for load in job.load)
                cards[place] += max(
                    mode.cards * math.ceil(peak / mode.serves - SLACK) for mode in modes
                )
            else:
                most = max(job.runs)
                hours = max(mode.cards * mode.hours for mode in modes)
                cards[place] += most * hours / HOURS_PER_MONTH / problem.utilisation
                least[place] = max(least[place], *(float(mode.machines) for mode in modes))
    return [
        max(float(math.ceil(number / item.cards)) + 1, fewest)
        for number, item, fewest in zip(cards, problem.supplies, least, strict=True)
    ]
