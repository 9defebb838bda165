"""The mixed-integer program of a fleet: which machines, when, and what runs on them."""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import (
    AWAY_USD_PER_MONTH,
    Buy,
    Column,
    Cover,
    Group,
    Kind,
    Left,
    Stand,
    Use,
    lasting,
    most_needed,
    present_usd,
    use_usd,
    uses_of,
)
from advisor.fleet.solving.covers import SLACK, Replicas, coverable, covers
from advisor.fleet.solving.cuts import groups_of, needs_of, whole_machines
from advisor.fleet.solving.limits import limit_rows
from advisor.fleet.solving.problem import OFFICE, QUIET, SLOT_HOURS, Mode, Problem, Way
from advisor.foundation.units import HOURS_PER_MONTH

Floats = NDArray[np.float64]

RANKS: Final = 8
"""Steps in which the price of rented replicas rises, from the one of the busiest hours on."""
BROKEN: Final = 1e-3
"""By how much a row must be broken, in machines."""


class Program:
    """Columns with cost, bounds and integrality, and rows as triples.

    It has columns for what the problem bars, too, with a bound of 0, so that problems which differ
    in limits and bars share them. ``impossible`` if some work has no open column.

    Notes
    -----
    With ``whole_loads``, a service of few replicas runs on one kind of machine in each slot, and
    on demand for the rest: one column stands for all of its replicas there. Fractions of replicas
    are then no cheap way out of the relaxed program, so its bound is tight.
    """

    def __init__(self, problem: Problem, *, leave_out: bool, whole_loads: bool = False) -> None:
        self.problem = problem
        self.columns: list[Column] = []
        self.places: dict[Column, int] = {}
        self.cost: list[float] = []
        self.most: list[float] = []
        """Upper bounds of the columns that nothing bars."""
        self.integral: list[int] = []
        self.uses: list[tuple[tuple[Use, int], ...]] = []
        """Replicas or runs that each column stands for; none for purchases."""
        self.rows: list[tuple[float, float]] = []
        self.entries: tuple[list[int], list[int], list[float]] = ([], [], [])
        self.there: dict[tuple[int, int], dict[int, float]] = {}
        """Columns that bring machines of a supply into a period."""
        self.buys: dict[int, list[tuple[int, Buy]]] = {}
        """Purchases of each supply with their place."""
        self.loads: list[int] = []
        """Rows of work that has to be done."""
        self._choices: dict[tuple[int, float, int], tuple[Replicas, ...]] = {}
        """Good choices of replicas by job, load, and the slot whose curve it follows."""
        self._months = [
            months * problem.period_factor(period) for period, months in enumerate(problem.months)
        ]
        self._add_purchases()
        dearest = self._add_jobs(leave_out, whole_loads)
        self._weigh(dearest)
        self._add_capacity()
        self._unlimited = len(self.rows), len(self.entries[0])
        self.cuts: tuple[int, ...] = ()
        """Rows of ``whole_machines`` that the program has too."""
        self._limit()

    def under(self, problem: Problem) -> Self:
        """Return the program of a problem that differs in nothing but its limits and bars."""
        self._whole_machines  # noqa: B018 - computed once for all of them
        changed = copy(self)
        changed.problem = problem
        if problem.limits != self.problem.limits:
            rows, entries = self._unlimited
            changed.rows = self.rows[:rows]
            row, column, value = self.entries
            changed.entries = row[:entries], column[:entries], value[:entries]
            changed.__dict__.pop("_matrix", None)
            changed._limit()
        else:
            changed._close()
        return changed

    def _limit(self) -> None:
        """Add the rows of the problem's limits, and close what it bars."""
        for terms, most in limit_rows(self.problem, self.there, self.places, self.uses):
            self.row(terms, -math.inf, most)
        self._close()

    def _close(self) -> None:
        """Bound the columns by 0 that need something barred."""
        problem = self.problem
        barred = np.zeros(self.needs.shape[1])
        barred[: len(problem.supplies)] = [bool(supply.barred) for supply in problem.supplies]
        barred[[self._first_modes[job] + mode for job, mode in problem.closed]] = 1.0
        self.upper = np.where(self.needs @ barred > 0, 0.0, self.most)
        self.impossible = bool(np.any(self._work @ (self.upper > 0).astype(float) <= 0))
        self.relaxed: Any = ()
        """What the solver learnt of the relaxed program under these limits."""

    @cached_property
    def _work(self) -> Any:
        """The rows of work that has to be done; they do not depend on the limits."""
        return self._matrix[0][self.loads]

    @cached_property
    def _first_modes(self) -> list[int]:
        """Place in ``needs`` of the first mode of each job."""
        sizes = (len(job.modes) for job in self.problem.jobs)
        return list(accumulate(sizes, initial=len(self.problem.supplies)))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Number of the job, period and slot whose work each column does; -1 for no work."""
        return groups_of(self.uses)

    @cached_property
    def needs(self) -> Any:
        """Which supplies and modes each column needs, as a sparse matrix."""
        columns = zip(self.columns, self.uses, strict=True)
        return needs_of(self.problem, columns, self._first_modes)

    def priced(self) -> Self:
        """Return the program that costs nothing but the price of its machines."""
        changed = copy(self)
        changed.cost = [
            self.problem.supplies[key.supply].capital_usd if isinstance(key, Buy) else 0.0
            for key in self.columns
        ]
        changed.relaxed = ()
        return changed

    def column(self, key: Column, cost: float, upper: float, *, whole: bool) -> int:
        """Add a column and return its place."""
        self.places[key] = len(self.columns)
        self.columns.append(key)
        self.uses.append(uses_of(key))
        self.cost.append(cost)
        self.most.append(upper)
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

    @cached_property
    def _matrix(self) -> tuple[Any, Floats, Floats]:
        """The rows as a sparse matrix with their bounds."""
        from scipy.sparse import csr_array

        rows, columns, values = self.entries
        shape = (len(self.rows), len(self.columns))
        matrix = csr_array((values, (rows, columns)), shape=shape)
        bounds = np.array(self.rows, dtype=float).reshape(-1, 2)
        return matrix, bounds[:, 0], bounds[:, 1]

    def matrix(self) -> tuple[Any, Floats, Floats]:
        """Return the rows and the cuts as a sparse matrix with their bounds."""
        from scipy.sparse import vstack

        matrix, low, high = self._matrix
        if not self.cuts:
            return self._matrix
        more, most = self._whole_machines
        cuts = list(self.cuts)
        low = np.concatenate([low, np.full(len(cuts), -math.inf)])
        return vstack([matrix, more[cuts]]).tocsr(), low, np.concatenate([high, most[cuts]])

    def cut_off(self, values: Floats) -> bool:
        """Add the rows of ``whole_machines`` that values break; return whether there are any."""
        matrix, most = self._whole_machines
        broken = np.flatnonzero(matrix @ values > most + BROKEN)
        new = sorted(set(broken.tolist()) - set(self.cuts))
        self.cuts += tuple(new)
        return bool(new)

    @cached_property
    def _whole_machines(self) -> tuple[Any, Floats]:
        """The rows of ``whole_machines``; they do not depend on the limits."""
        return whole_machines(self.problem, zip(self.columns, self.uses, strict=True), self.there)

    def _add_purchases(self) -> None:
        problem = self.problem
        most = most_needed(problem)
        for place, supply in enumerate(problem.supplies):
            if supply.way is Way.OWNED:
                continue
            for period in range(supply.first_period, len(problem.months)):
                term = supply.term_months
                if term is not None and problem.starts[period] + term > problem.horizon:
                    continue
                upper = min(most[place], math.inf if supply.most is None else supply.most)
                cost = present_usd(problem, supply, period)
                at = self.column(Buy(place, period), cost, upper, whole=True)
                self.buys.setdefault(place, []).append((at, Buy(place, period)))
                for later in lasting(problem, supply, period):
                    self.there.setdefault((place, later), {})[at] = 1.0
        if problem.limits.kinds is not None:
            self._add_kinds(problem.limits.kinds)

    def _add_kinds(self, most: int) -> None:
        """Bound the kinds of machines that are bought."""
        kinds: dict[int, float] = {}
        for place, buys in self.buys.items():
            if self.problem.supplies[place].way is Way.BUY:
                kind = self.column(Kind(place), 0.0, 1.0, whole=True)
                kinds[kind] = 1.0
                for at, _ in buys:
                    self.row({at: 1.0, kind: -self.most[at]}, -math.inf, 0.0)
        self.row(kinds, -math.inf, float(most))

    def _add_jobs(self, leave_out: bool, whole_loads: bool) -> float:
        """Add the columns and the demand of every job; return the dearest cost of any column."""
        problem = self.problem
        for index, job in enumerate(problem.jobs):
            for period in range(len(problem.months)):
                owned = {
                    at
                    for at, item in enumerate(problem.supplies)
                    if item.owned[period : period + 1] > (0,)
                }
                at_home = job.serves and any(mode.supply in owned for mode in job.modes)
                left, first = None, len(self.columns)
                if leave_out:
                    left = self.column(Left(index, period), 0.0, 1.0, whole=False)
                for slot in range(len(SLOT_HOURS)) if job.serves else (-1,):
                    need = job.load[period][slot] if job.serves else float(job.runs[period] > 0)
                    terms: dict[int, float] = {} if left is None else {left: need}
                    if whole_loads and job.serves and coverable(job, need):
                        terms |= self._covers(index, period, slot, need)
                    else:
                        terms |= self._uses(index, period, slot, need)
                    if need > 0:
                        self.loads.append(len(self.rows))
                        self.row(terms, need, math.inf)
                rented = [
                    place
                    for place in range(first, len(self.columns))
                    if any(self._elsewhere(job.modes[use.mode]) for use, _ in self.uses[place])
                ]
                if at_home and rented:
                    usd = AWAY_USD_PER_MONTH * self._months[period]
                    self._stand(Stand(index, None, period), rented, usd)
        return max((abs(cost) for cost in self.cost), default=0.0)

    def _elsewhere(self, mode: Mode) -> bool:
        """Whether a provider's machines do it, for an hour or for a term."""
        return mode.supply is None or self.problem.supplies[mode.supply].way is Way.COMMIT

    def use_usd(self, use: Use, number: float = 1.0) -> float:
        """Present cost of a use over its period, without its machines. [USD]"""
        return use_usd(self.problem, use, number) * self._months[use.period]

    def _uses(self, index: int, period: int, slot: int, need: float) -> dict[int, float]:
        """Add a column for the replicas or the runs of each mode; return what each serves."""
        job, terms = self.problem.jobs[index], {}
        firsts: dict[int, float] = {}
        for at, mode in enumerate(job.modes):
            # What one replica serves beyond the load is of no use.
            serves = min(mode.serves, need) if job.serves else 1.0
            upper = math.ceil(need / serves - SLACK) if job.serves and need else 1
            ranked = upper > 1 and mode.supply is None and bool(job.curve[slot])
            steps = (
                [0, *np.unique(np.geomspace(1, upper, RANKS).astype(int))] if ranked else [0, upper]
            )
            places = []
            for above, last in pairwise(map(int, steps)):
                use = Use(index, at, period, slot, above)
                each = (
                    self.use_usd(use, last - above) / (last - above)
                    if ranked
                    else self.use_usd(use)
                )
                places.append(self.column(use, each, last - above, whole=job.serves))
                terms[places[-1]] = serves
            if ranked:
                firsts[places[0]] = 1.0
                rest = dict.fromkeys(places[1:], 1.0)
                self.row({**rest, places[0]: 1.0 - upper}, -math.inf, 0.0)
        if len(firsts) > 1:  # rentals of two kinds would both serve the busiest hours alone
            self.row(firsts, -math.inf, 1.0)
        return terms

    def _covers(self, index: int, period: int, slot: int, need: float) -> dict[int, float]:
        """Add a column for each good choice of replicas that serves the whole load."""
        job, terms = self.problem.jobs[index], {}
        curve = job.curve[slot]
        key = index, need, slot if curve else -1
        if key not in self._choices:
            platforms = [supply.platform for supply in self.problem.supplies]
            self._choices[key] = tuple(dict.fromkeys(covers(job, platforms, need, curve)))
        for replicas in self._choices[key]:
            cover = Cover(index, period, slot, replicas)
            usd = sum(self.use_usd(use, number) for use, number in cover.uses)
            terms[self.column(cover, usd, 1.0, whole=True)] = need
        return terms

    def _weigh(self, dearest: float) -> None:
        """Make leaving work out dearer than anything else."""
        each = 100 * max(dearest, 1.0)
        for key, place in self.places.items():
            if isinstance(key, Left):
                self.cost[place] = each * self.problem.jobs[key.job].weight

    def _add_capacity(self) -> None:
        problem = self.problem
        uses: dict[tuple[int, int], list[tuple[int, Use, int]]] = {}
        for at, column in enumerate(self.uses):
            for use, number in column:
                mode = problem.jobs[use.job].modes[use.mode]
                if mode.supply is not None:
                    uses.setdefault((mode.supply, use.period), []).append((at, use, number))
        for (supply, period), parts in uses.items():
            item = problem.supplies[supply]
            owned = float(item.owned[period]) if item.owned else 0.0
            there = self.there.get((supply, period), {})
            busy: dict[int, dict[int, float]] = {slot: {} for slot in (OFFICE, QUIET, -1)}
            for place, use, number in parts:
                job = problem.jobs[use.job]
                mode = job.modes[use.mode]
                if use.slot < 0:
                    hours = job.runs[period] * mode.cards * mode.hours
                    share = job.fills(mode, period, problem.utilisation)
                    busy[-1][place] = hours / HOURS_PER_MONTH / share
                    if mode.machines > 1:
                        self._add_group(use, mode, owned, there)
                    continue
                cards = float(number * mode.cards)
                for slot, share in ((use.slot, 1.0), (-1, SLOT_HOURS[use.slot] / HOURS_PER_MONTH)):
                    busy[slot][place] = busy[slot].get(place, 0.0) + cards * share
            supplied = {at: -float(item.cards) * share for at, share in there.items()}
            spared = self._spared(supply, period, parts)
            for slot, terms in busy.items():
                for kept in spared if slot >= 0 and spared else ({},):
                    if terms:
                        self.row({**terms, **kept, **supplied}, -math.inf, owned * item.cards)
            if item.most is not None:
                self.row(there, -math.inf, max(0.0, item.most - owned))

    def _spared(
        self, supply: int, period: int, parts: Iterable[tuple[int, Use, int]]
    ) -> list[dict[int, float]]:
        """Return the cards that each service on a supply keeps free there, by column."""
        jobs, cards = self.problem.jobs, self.problem.supplies[supply].cards
        served: dict[int, list[int]] = {}
        for place, use, _ in parts:
            if jobs[use.job].spares and self.problem.supplies[supply].on_site:
                served.setdefault(use.job, []).append(place)
        found = []
        for job, places in served.items():
            kept = self._stand(Stand(job, supply, period), places, 0.0)
            found.append({kept: float(jobs[job].spares * cards)})
        return found

    def _stand(self, key: Stand, places: Iterable[int], usd: float) -> int:
        """Add a column that is 1 if any of some columns of a service is used; return its place."""
        stands = self.column(key, usd, 1.0, whole=True)
        covers: dict[int, dict[int, float]] = {}
        for place in places:
            if isinstance(column := self.columns[place], Cover):  # a load is served once
                covers.setdefault(column.slot, {stands: -1.0})[place] = 1.0
            else:
                self.row({place: 1.0, stands: -self.most[place]}, -math.inf, 0.0)
        for terms in covers.values():
            self.row(terms, -math.inf, 0.0)
        return stands

    def _add_group(self, key: Use, mode: Mode, owned: float, there: Mapping[int, float]) -> None:
        """Demand that all machines of a run are there at once."""
        used = self.column(Group(key.job, key.mode, key.period), 0.0, 1.0, whole=True)
        self.row({self.places[key]: 1.0, used: -1.0}, -math.inf, 0.0)
        supplied = {place: -share for place, share in there.items()}
        self.row({used: float(mode.machines), **supplied}, -math.inf, owned)
