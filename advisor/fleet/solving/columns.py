"""The decisions of a fleet's program, what they cost, and the plan that they make."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.problem import SLOT_HOURS, Problem, Supply
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH

AWAY_USD_PER_MONTH: Final = 150.0
"""A service that rents beside machines that are there: two hours a month of who keeps a second
place, its keys, bills and answers. Assumed. [USD/month]"""


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
    above: int = 0
    """Rented replicas of a curve that serve the load above those of this column."""


@record
class Left:
    """Share of a job that is left out in a period; no tuple, so it never equals a ``Buy``."""

    job: int
    period: int


class Group(NamedTuple):
    """Whether a mode that needs several machines at once is used in a period."""

    job: int
    mode: int
    period: int


class Cover(NamedTuple):
    """All of a service's load in a slot of a period, by replicas of some of its modes."""

    job: int
    period: int
    slot: int
    replicas: tuple[tuple[int, int], ...]
    """Mode and number."""

    @property
    def uses(self) -> tuple[tuple[Use, int], ...]:
        """The same as single replicas, with their number."""
        return tuple(
            (Use(self.job, mode, self.period, self.slot), number) for mode, number in self.replicas
        )


@record
class Stand:
    """Whether a service runs on machines of a supply, or on rented ones, in a period."""

    job: int
    supply: int | None
    period: int


@record
class Kind:
    """Whether any machine of a supply is bought."""

    supply: int


Column = Buy | Use | Left | Group | Cover | Stand | Kind


def uses_of(column: Column) -> tuple[tuple[Use, int], ...]:
    """Return the replicas or runs that a column stands for; none for purchases."""
    if isinstance(column, Use):
        return ((column, 1),)
    return column.uses if isinstance(column, Cover) else ()


@record
class Solution:
    """Values of the columns that are not zero."""

    values: Mapping[Column, float] = field(default_factory=dict)
    feasible: bool = False
    gap: float = 0.0
    """Upper bound of how much less another plan may cost, over the cost."""
    timed_out: bool = False

    def bought(self) -> Iterator[tuple[Buy, int]]:
        """Yield purchases and commitments with their number."""
        return ((key, round(value)) for key, value in self.values.items() if isinstance(key, Buy))

    def used(self) -> Iterator[tuple[Use, float]]:
        """Yield modes with the share of the runs, or the replicas, that they take."""
        return ((key, value) for key, value in self.values.items() if isinstance(key, Use))

    def away(self) -> Iterator[tuple[int, int]]:
        """Yield job and period of services that rent beside machines that are there."""
        return (
            (key.job, key.period)
            for key, value in self.values.items()
            if value and isinstance(key, Stand) and key.supply is None
        )

    def left(self) -> Iterator[tuple[Left, float]]:
        """Yield what is left out."""
        return ((key, value) for key, value in self.values.items() if isinstance(key, Left))


def machines_there(problem: Problem, solution: Solution, supply: int) -> tuple[int, ...]:
    """Return how many machines of a supply are there in each period."""
    item = problem.supplies[supply]
    there = list(item.owned or (0,) * len(problem.months))
    for column, number in solution.bought():
        if column.supply == supply:
            for period in lasting(problem, item, column.period):
                there[period] += number
    return tuple(there)


def lasting(problem: Problem, supply: Supply, period: int) -> range:
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
        for later in lasting(problem, supply, period)
    )


def use_usd(problem: Problem, use: Use, number: float = 1.0) -> float:
    """Cost of a share of a job, or of replicas in a slot, in a month of a period. [USD/month]"""
    job = problem.jobs[use.job]
    mode = job.modes[use.mode]
    factor = problem.rent_factors[use.period] if problem.rent_factors else 1.0
    if mode.supply is None:
        if use.slot < 0:
            return number * job.runs[use.period] * factor * mode.usd
        above, all_ = (
            job.rent_usd(mode, use.period, use.slot, one) if one else 0.0
            for one in (use.above, use.above + number)
        )
        return SLOT_HOURS[use.slot] * factor * (all_ - above)
    work = number * mode.cards * problem.supplies[mode.supply].card_hour_usd
    if use.slot < 0:
        return work * job.runs[use.period] * mode.hours
    return work * SLOT_HOURS[use.slot] * job.busy_share(use.slot)


def most_needed(problem: Problem) -> list[float]:
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
                cards[place] += job.spares * problem.supplies[place].cards
                cards[place] += max(
                    mode.cards * math.ceil(peak / mode.serves - SLACK) for mode in modes
                )
            else:
                cards[place] += max(
                    runs
                    * mode.cards
                    * mode.hours
                    / HOURS_PER_MONTH
                    / job.fills(mode, period, problem.utilisation)
                    for mode in modes
                    for period, runs in enumerate(job.runs)
                )
                least[place] = max(least[place], *(float(mode.machines) for mode in modes))
    return [
        max(float(math.ceil(number / item.cards)) + 1, fewest)
        for number, item, fewest in zip(cards, problem.supplies, least, strict=True)
    ]
