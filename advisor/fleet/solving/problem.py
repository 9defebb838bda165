"""The planning problem in plain numbers: jobs, ways to supply them, periods and limits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Self

import numpy as np

from advisor.equations.owning import discounted, residual_share
from advisor.equations.serving.queueing import Floats, many_servers_wait_s, tail_quantile_s
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, MONTHS_PER_YEAR

DAY_HOURS, DAYS, WEEKDAYS = 24, 7, 5
OFFICE_DAY_HOURS: Final = 10
OFFICE_HOURS: Final = OFFICE_DAY_HOURS * 365.25 / 12 * 5 / 7
"""Ten hours on each weekday of a month. [h]"""
SLOT_HOURS: Final = (OFFICE_HOURS, HOURS_PER_MONTH - OFFICE_HOURS)
"""Hours of a month in each slot: office hours, and the rest. [h]"""
OFFICE_OPENS: Final = 8
"""Hour of a weekday at which the office slot begins, where a curve gives each hour. Assumed."""
OFFICE, QUIET = 0, 1
Slots = tuple[tuple[float, ...], tuple[float, ...]]
"""Load of each hour of the office slot, and of the other."""
IN_TIME: Final = 0.9
"""Share of the runs that end within their deadline, counted from when they arrive. Assumed."""
SERVERS: Final = 64
"""Runs side by side from which on a deadline leaves as much room as no deadline."""


class Way(StrEnum):
    """How machines come about."""

    OWNED = "owned"
    BUY = "buy"
    COMMIT = "commit"


def by_slot(week: Sequence[float]) -> Slots:
    """Split the hours of a day, or of a week from Monday, into those of the office and the others.

    >>> office, others = by_slot([1.0] * 24)
    >>> len(office), len(others)
    (50, 118)
    """
    hours = week if len(week) > DAY_HOURS else tuple(week) * DAYS
    opened: tuple[list[float], list[float]] = [], []
    for hour, load in enumerate(hours):
        day, time = divmod(hour, DAY_HOURS)
        office = day < WEEKDAYS and 0 <= time - OFFICE_OPENS < OFFICE_DAY_HOURS
        opened[OFFICE if office else QUIET].append(load)
    return tuple(opened[OFFICE]), tuple(opened[QUIET])


@record
class Supply:
    """Machines of one kind that are there for months, and that jobs share."""

    key: str
    title: str
    way: Way
    cards: int
    """In one machine."""
    capital_usd: float = 0.0
    """Paid when a machine is bought. [USD]"""
    month_usd: float = 0.0
    """For a machine that is there, used or not. [USD]"""
    card_hour_usd: float = 0.0
    """Added by an hour of work on one card. [USD]"""
    power_kw: float = 0.0
    rack_units: float = 0.0
    life_months: float = 60.0
    """Age at which it is worth nothing, in a straight line. [months]"""
    term_months: int | None = None
    """Of a commitment."""
    owned: tuple[int, ...] = ()
    """Machines there already, by period; empty: none."""
    first_period: int = 0
    """First period in which one can be bought."""
    most: int | None = None
    """Most machines at a time; None: no limit."""
    on_site: bool = True
    """Whether it stands in the user's place and counts against its limits."""
    platform: str = ""
    """Software platform; empty if any software runs on it."""
    barred: str = ""
    """Why none may be bought: ``noise``, ``used``, ``platform`` or ``list``; empty if they may."""


class Pauses(NamedTuple):
    """Times of a serverless replica, which stops when nobody asks. [s]"""

    answer_s: float
    kept_s: float
    """After the last answer, still billed."""
    start_s: float
    """Until a stopped one answers, billed."""

    def on_share(self, load: Floats | float) -> Floats:
        r"""Return the share of the hours in which it is billed, with ``load`` requests in flight.

        Requests arrive at random at the rate :math:`r`. It runs while one is in flight or
        was within ``kept_s``: on average :math:`(e^{r (t + k)} - 1) / r + s`, then
        :math:`1 / r` of nothing.

        >>> round(float(Pauses(answer_s=10, kept_s=60, start_s=0).on_share(0.01)), 3)
        0.068
        """
        rate = load / self.answer_s
        # Beyond this exponent it never stops.
        awake = np.exp(np.minimum(50.0, rate * (self.answer_s + self.kept_s)))
        return np.asarray(1 - 1 / (awake + rate * self.start_s))


@record
class Mode:
    """One way to do a job.

    On a supply, ``cards`` is how many cards work together, on ``machines`` machines. Without a
    supply, the job rents on demand or calls a hosted model, and pays for what it uses.
    """

    supply: int | None
    title: str
    cards: float = 1
    """Below 1: a slice of a card that it shares with other services."""
    machines: int = 1
    hours: float = 0.0
    """Of a run on these cards. [h]"""
    slow: float = 1.0
    """Hours and price of a run over the expected ones: above 1 where no run on the cards is
    published, which counts with the slow end of its range."""
    serves: float = 0.0
    """Load that one replica serves, in the unit of the job's demand."""
    usd: float = 0.0
    """Rented: price of a run, or of an hour of one replica. [USD]"""
    platform: str = ""
    """Of a rental: software platform; empty if any software runs on it."""
    hosted: bool = False
    """Whether a provider hosts the model: a replica is one request in flight."""
    pauses: Pauses | None = None
    """Serverless: when a replica stops. None if it runs in all hours."""
    weights: str = ""
    """Format of the weights that a replica serves; empty for runs and hosted models."""
    first_s: float = 0.0
    """Of a replica: until the first token, or the whole batch of what is no text. [s]"""
    token_s: float = 0.0
    """Of a replica: between the tokens of an answer. [s]"""
    detail: str = ""
    """Precision, layout or offer, in words."""

    def rent_usd(self, load: Floats | float) -> Floats:
        """Price of an hour of one replica where all of them serve ``load``. [USD/h]

        A hosted model bills the requests, of which less than one may be in flight.
        """
        if self.hosted:
            return np.asarray(self.usd * np.minimum(1.0, load / self.serves))
        return self.usd * (np.ones(1) if self.pauses is None else self.pauses.on_share(load))


@record
class Job:
    """A workload as demand over periods.

    A batch job has runs a month. A service has a load in each slot, met by whole replicas.
    """

    name: str
    modes: tuple[Mode, ...]
    runs: tuple[float, ...] = ()
    """Batch: runs a month, by period."""
    load: tuple[tuple[float, float], ...] = ()
    """Service: load in each slot, by period: that of its busiest hour."""
    curve: Slots = ((), ())
    """Service: load of each hour of a slot over its busiest; empty: the same in all hours."""
    deadline_h: float | None = None
    """Of a run, from its arrival. [h]"""
    spares: int = 0
    """Service: machines of each kind that stay free for it, if one that it uses fails."""
    weight: float = 1.0
    """What leaving it out costs more than what leaving out another does."""

    @property
    def serves(self) -> bool:
        """Whether it is a service."""
        return bool(self.load)

    def busy_share(self, slot: int) -> float:
        """Share of a slot's hours in which the replicas that hold its load work, on average."""
        curve = self.curve[slot] if slot >= 0 else ()
        return sum(curve) / len(curve) if curve else 1.0

    def rent_usd(self, mode: Mode, period: int, slot: int, number: float = 1.0) -> float:
        """Price of an hour of so many rented replicas at the top of a slot's load. [USD/h]

        With a curve, an autoscaler keeps as many as each hour needs. The first of them serves the
        busiest hours alone; the one at the bottom of the load, where no machine is, all hours.
        """
        need, curve = self.load[period][slot], self.curve[slot]
        if not curve or not need:
            return number * float(mode.rent_usd(need).item())
        total = ranked_usd(mode, need, curve)
        return float(np.interp(number, np.arange(len(total)), total))

    def fills(self, mode: Mode, period: int, most: float) -> float:
        """Return the share of the hours of machines that runs may fill, ``most`` at most.

        Less where the deadline leaves a run little time to wait for cards.
        """
        if self.deadline_h is None:
            return most
        slack = max(0.0, self.deadline_h / mode.hours - 1)
        return fillable(self.runs[period] * mode.hours / HOURS_PER_MONTH, slack, most)

    @property
    def asked(self) -> bool:
        """Whether there is anything to do in any period."""
        return any(self.runs) or any(max(each) > 0 for each in self.load)


@record
class Limits:
    """Limits over all supplies; None means no limit."""

    power_kw: float | None = None
    rack_units: float | None = None
    machines: int | None = None
    desks: int | None = None
    """Machines that take no rack units."""
    purchase_usd: float | None = None
    usd_per_year: float | None = None
    kinds: int | None = None
    """Of machines that are bought. It adds columns: no program is shared with other problems."""


@lru_cache(maxsize=20_000)
def ranked_usd(mode: Mode, need: float, curve: tuple[float, ...]) -> Floats:
    """Mean price of an hour of none, one, two, ... rented replicas at the top of a load. [USD/h]

    ``curve``: load of each hour over ``need``, the busiest.

    >>> two = Mode(supply=None, title="", serves=1.0, usd=3.0)
    >>> ranked_usd(two, 2.0, (1.0, 0.5, 0.5)).tolist()
    [0.0, 1.0, 4.0]
    """
    below = mode.serves * np.arange(math.ceil(need / mode.serves - 1e-9))[::-1, None]
    load = np.clip(need * np.array(curve) - below, 0.0, mode.serves)
    runs = (load > 0) | (below == 0)
    each = (runs * mode.rent_usd(load)).mean(axis=1)
    return np.concatenate([[0.0], np.cumsum(each)])


@lru_cache(maxsize=20_000)
def fillable(work: float, slack: float, most: float) -> float:
    """Return the share of its cards' hours that work may fill and still be in time.

    Runs of one length arrive at random and wait in order: ``IN_TIME`` of them wait no longer than
    ``slack``. ``work``: runs side by side, on average. ``slack``: time that a run may wait, over
    the time that it takes. ``most``: share without a deadline.

    >>> [round(fillable(0.05, slack, 0.8), 2) for slack in (0.0, 1.0, 10.0)]
    [0.1, 0.35, 0.8]
    """
    if work >= SERVERS * most:
        return most
    servers, loads, tail = _tails(most)
    # The wait grows with the load.
    filled = loads[np.maximum(np.count_nonzero(tail <= slack, axis=1) - 1, 0)]
    enough = np.flatnonzero(filled * servers >= work)
    return float(filled[enough[0]]) if len(enough) else most


@lru_cache(maxsize=64)
def _tails(most: float) -> tuple[Floats, Floats, Floats]:
    """Return numbers of servers, their loads up to ``most``, and how long a run waits at most.

    ``IN_TIME`` of the runs wait no longer, over the time that one takes: servers x loads.
    """
    servers, loads = np.geomspace(1, SERVERS, 200), np.arange(1, 101) / 100 * most
    several = servers[:, None]
    wait = many_servers_wait_s(
        servers=several, service_s=1.0, load=loads, arrival_scv=1.0, service_scv=0.0
    )
    mean = 0.5 / (several * np.maximum(1 - loads, 1e-9))
    tail = tail_quantile_s(waiting=wait / mean, mean_s=mean, share=IN_TIME)
    return servers, loads, np.asarray(tail)


def starts_of(months: Sequence[int]) -> tuple[int, ...]:
    """Return the month in which each period starts, from the lengths of the periods.

    >>> starts_of((6, 6, 12))
    (0, 6, 12)
    """
    return tuple(sum(months[:place]) for place in range(len(months)))


@record
class Problem:
    """Jobs, supplies, periods and limits."""

    jobs: tuple[Job, ...]
    supplies: tuple[Supply, ...]
    months: tuple[int, ...]
    """Length of each period. [months]"""
    discount_rate: float = 0.0
    """Per year."""
    utilisation: float = 1.0
    """Share of the hours that services leave free and batch jobs may fill."""
    limits: Limits = field(default_factory=Limits)
    rent_factors: tuple[float, ...] = ()
    """Rents on demand over today's, by period; empty: unchanged."""
    closed: frozenset[tuple[int, int]] = frozenset()
    """Modes that may not be used: place of the job, and of the mode among its own."""

    @property
    def starts(self) -> tuple[int, ...]:
        """Month in which each period starts."""
        return starts_of(self.months)

    @property
    def horizon(self) -> int:
        """[months]"""
        return sum(self.months)

    def factor(self, month: float) -> float:
        """Present value of a dollar paid after so many months."""
        return float(discounted(usd=1.0, months=float(month), discount_rate=self.discount_rate))

    def period_factor(self, period: int) -> float:
        """Mean present value of a dollar a month paid at the end of each month of a period."""
        start, length = self.starts[period], self.months[period]
        return sum(self.factor(start + month + 1) for month in range(length)) / length

    @property
    def owned_usd(self) -> float:
        """Present cost of keeping the machines that are there, whatever the plan. [USD]"""
        return sum(
            number * supply.month_usd * self.months[period] * self.period_factor(period)
            for supply in self.supplies
            for period, number in enumerate(supply.owned)
        )

    def worth_at_end(self, supply: Supply, period: int) -> float:
        """Worth at the horizon of a machine bought in a period, over its price."""
        age = float(self.horizon - self.starts[period])
        return float(residual_share(months=age, life_years=supply.life_months / MONTHS_PER_YEAR))

    def capital_factor(self, supply: Supply, period: int) -> float:
        """Present cost of a dollar of machines bought in a period, less their worth at the end."""
        worth = self.worth_at_end(supply, period)
        return self.factor(self.starts[period]) - worth * self.factor(self.horizon)

    def only(
        self, reason: str, supply: Callable[[Supply], bool], rental: Callable[[Mode], bool]
    ) -> Self:
        """Return the problem with all but some supplies and rentals barred for a reason."""
        return replace(
            self,
            supplies=tuple(
                item if supply(item) else replace(item, barred=reason) for item in self.supplies
            ),
        ).with_modes(lambda _, mode: mode.supply is not None or rental(mode))

    def with_modes(self, may: Callable[[int, Mode], bool]) -> Self:
        """Return the problem with all but some modes of its jobs, by the job's place, closed."""
        closed = {
            (at, place)
            for at, job in enumerate(self.jobs)
            for place, mode in enumerate(job.modes)
            if not may(at, mode)
        }
        return replace(self, closed=self.closed | closed)

    def scaled(self, times: Sequence[float]) -> Self:
        """Return the problem with so many times the work in each period."""

        def changed(job: Job) -> Job:
            load = tuple((one * a, one * b) for one, (a, b) in zip(times, job.load, strict=False))
            runs = tuple(one * runs for one, runs in zip(times, job.runs, strict=False))
            return replace(job, load=load, runs=runs)

        return replace(self, jobs=tuple(changed(job) for job in self.jobs))
