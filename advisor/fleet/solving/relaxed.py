"""The relaxed program, solved over its promising columns with a proof for all others."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import Buy, lasting
from advisor.fleet.solving.limits import THOUSAND
from advisor.fleet.solving.problem import Way
from advisor.fleet.solving.program import Floats, Program
from advisor.foundation.record import record

ROUNDS: Final = 6
"""Most times that the relaxed program gets the rows that it breaks."""
RISE: Final = 1e-3
"""Share by which they have to raise its cost, for more of them."""
FIRST, MORE = 8, 3
"""Columns of each load that the program starts with, and that it gets when they cost less."""
PROVEN: Final = 2e-4
"""Share of the cost by which columns that are left out may lower it: the bound is less by that."""
TINY: Final = 1e-9
"""Smallest cost that counts as one. [thousand USD]"""
NEVER: Final = 1e6
"""Price of machines that cannot be there. [thousand USD]"""


@record
class Relaxed:
    """The program with fractions of machines and replicas."""

    cost: float
    """No plan costs less. [thousand USD]"""
    values: Floats
    reduced: Floats
    """What one more of each column adds to the cost at the program's prices. [thousand USD]"""


def relaxed_program(
    program: Program, lower: Floats, upper: Floats, *, rounds: int = ROUNDS
) -> Relaxed | None:
    """Solve the relaxed program, with the rows that it breaks; None if nothing meets the limits."""
    found: Relaxed | None = None
    for _ in range(rounds):
        before, found = found, Columns(program, lower, upper).solved()
        if found is None:
            return None
        little = before is not None and found.cost - before.cost <= RISE * found.cost
        if little or not program.cut_off(found.values):
            break
    return found


class Columns:
    r"""The columns that a relaxed program is solved over.

    Notes
    -----
    Column generation: the program over some columns gives a price :math:`y` of each row, and a
    column left out may lower the cost only if it costs less than its rows earn, :math:`c < A^T y`.
    The price of a load lowered until no column does proves the bound. Machines that the solution
    does not buy have no price of their own, or one of 0: each gets the highest at which nobody
    would buy it, or columns on it would all look cheap.

    References
    ----------
    .. [1] Lübbecke and Desrosiers, Selected topics in column generation, Operations Research 53,
       2005, doi:10.1287/opre.1050.0234.
    """

    def __init__(self, program: Program, lower: Floats, upper: Floats) -> None:
        self.program, self.lower, self.upper = program, lower, upper
        self.matrix, self.row_lower, self.row_upper = program.matrix()
        self.cost = np.array(program.cost) / THOUSAND
        self.open = upper > 0
        self.loads = self.matrix[program.loads]

    def solved(self) -> Relaxed | None:
        """Return the solution, and a bound that holds for all columns."""
        program = self.program
        if not program.likely.any():
            program.likely[:] = [not uses for uses in program.uses]
            self._add(self._reduced(np.zeros(len(self.row_lower)))[0], FIRST, np.inf)
        while True:
            held = np.flatnonzero(program.likely & self.open)
            found, prices = self.over(held)
            if prices is not None:
                reduced, raw = self._reduced(prices)
                missing = self._missing(reduced)
                if missing <= PROVEN * found.fun or not self._add(reduced, MORE):
                    break
            elif len(held) == np.count_nonzero(self.open):
                return None
            else:  # some limit asks for columns that are left out
                program.likely[:] = True
        values = np.zeros(len(self.upper))
        values[held] = found.x
        bought = np.array([isinstance(column, Buy) for column in program.columns])
        return Relaxed(found.fun - missing, values, np.where(bought, raw, reduced))

    def over(self, held: NDArray[np.intp]) -> tuple[Any, Floats | None]:
        """Solve the program over some columns; return also its prices of all rows, if any."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        below, above = np.isfinite(self.row_upper), np.isfinite(self.row_lower)
        matrix = self.matrix[:, held]
        found = linprog(
            self.cost[held],
            A_ub=vstack([matrix[below], -matrix[above]]),
            b_ub=np.concatenate([self.row_upper[below], -self.row_lower[above]]),
            bounds=np.stack([self.lower, self.upper], axis=1)[held],
            method="highs",
            options={"presolve": False},
        )
        if found.x is None:
            return found, None
        prices, number = np.zeros(len(below)), np.count_nonzero(below)
        prices[below] += found.ineqlin.marginals[:number]
        prices[above] -= found.ineqlin.marginals[number:]
        return found, prices

    def _reduced(self, prices: Floats) -> tuple[Floats, Floats]:
        """Return what each column costs beyond what its rows earn: at fair prices, and as given."""
        raw = self.cost - self.matrix.T @ prices
        fair = prices.copy()
        for row, price in self._raised(prices, raw):
            fair[row] -= price
        return self.cost - self.matrix.T @ fair, raw

    def _raised(self, prices: Floats, raw: Floats) -> Iterator[tuple[int, float]]:
        """Yield how much dearer each row of machines may become until some of them are bought."""
        program = self.program
        problem = program.problem
        by_kind: dict[tuple[int, int], float] = {}
        rows: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for (supply, period, slot), row in program.capacity.items():
            rows.setdefault(supply, {}).setdefault(period, []).append((slot, row))
            earned = -prices[row] * problem.supplies[supply].cards
            by_kind[period, slot] = by_kind.get((period, slot), 1e-6) + earned
        for supply, periods in rows.items():
            item, buys = problem.supplies[supply], program.buys.get(supply, [])
            if item.way is Way.OWNED or any(self.lower[at] > 0 for at, _ in buys):
                continue
            left = {buy.period: raw[at] for at, buy in buys if self.open[at]}
            last = {start: lasting(problem, item, start) for start in left}
            for period in sorted(periods, reverse=True):
                able = [start for start in left if period in last[start]]
                shares = [left[one] / sum(one <= at <= period for at in periods) for one in able]
                each = max(0.0, min(shares, default=NEVER))
                left.update({start: left[start] - each for start in able})
                whole = sum(by_kind[period, slot] for slot, _ in periods[period])
                for slot, row in periods[period]:
                    yield row, each * by_kind[period, slot] / whole / item.cards

    def _gains(self, reduced: Floats, some: NDArray[np.bool_]) -> Floats:
        """Return, for each entry of the loads' rows, the cost of serving it beyond its price.

        For one unit of load; infinite but for some columns.
        """
        at = self.loads.indices
        gains: Floats = np.where(some[at], reduced[at], np.inf) / self.loads.data
        return gains

    def _missing(self, reduced: Floats) -> float:
        """Return by how much columns that are left out may lower the cost at most."""
        some = self.program.likely & self.open
        each = (self._gains(reduced, which) for which in (some, self.open))
        starts = self.loads.indptr[:-1]
        held, all_ = (np.minimum(np.minimum.reduceat(one, starts), 0.0) for one in each)
        return float((held - all_) @ self.row_lower[self.program.loads])

    def _add(self, reduced: Floats, most: int, less_than: float = -TINY) -> bool:
        """Take in so many columns of each load that cost least; return whether any is new."""
        likely, starts = self.program.likely, self.loads.indptr
        gains = self._gains(reduced, self.open & ~likely)
        load = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = np.lexsort((gains, load))
        best = order[np.arange(len(order)) - starts[load] < most]
        new = self.loads.indices[best[gains[best] < less_than]]
        likely[new] = True
        return len(new) > 0
