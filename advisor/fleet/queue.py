"""How long runs wait for cards of the plan when demands collide, by simulation with SimPy."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from advisor.errors import refusal
from advisor.fleet.account import Account
from advisor.fleet.results import Waiting
from advisor.fleet.solving.columns import Use
from advisor.fleet.solving.problem import SLOT_HOURS
from advisor.foundation.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    import simpy

MONTHS: Final = 240
"""Simulated months; the first tenth only fills the queue."""
WARM_UP: Final = 0.1
MOST_RUNS: Final = 50_000
"""Simulated runs of one machine kind; more would only take longer."""
SEED: Final = 22

Job = TypeVar("Job")


def waiting(
    account: Account, period: int, deadlines: Mapping[str, float | None]
) -> tuple[Waiting, ...]:
    """Simulate the queues of one period: for each workload and kind of machine that does runs.

    ``deadlines`` are hours within which a run of each workload has to end, from its arrival. Raises
    InputError if SimPy is not installed.

    Notes
    -----
    A rented run waits for nobody. Others arrive at random (Poisson) and take their cards for their
    hours, in order of arrival. Services leave the mean of their cards over office hours and the
    rest.
    """
    try:
        import simpy
    except ImportError:
        raise refusal("extra_missing", name="fleet", value="simpy", field="--queue") from None
    problem, found, month = account.problem, [], account.problem.starts[period]
    runs: dict[int, list[tuple[Use, float]]] = {}
    held = [0.0] * len(problem.supplies)
    for use, value in account.solution.used():
        mode = account.mode(use)
        supply = mode.supply
        if use.period != period:
            continue
        if supply is None:
            if use.slot < 0:
                name = problem.jobs[use.job].name
                found.append(_waiting(name, mode.title, month, np.zeros(1), mode.hours, deadlines))
        elif use.slot >= 0:
            held[supply] += mode.cards * value * SLOT_HOURS[use.slot]
        else:
            runs.setdefault(supply, []).append((use, value))
    for supply, uses in runs.items():
        there = account.there[supply][period] * problem.supplies[supply].cards
        largest = max(account.mode(use).cards for use, _ in uses)
        free = max(math.ceil(largest), math.floor(there - held[supply] / HOURS_PER_MONTH))
        jobs = {
            use: (
                problem.jobs[use.job].runs[period] * value / HOURS_PER_MONTH,
                account.mode(use).cards,
                account.mode(use).hours,
            )
            for use, value in uses
        }
        machine = problem.supplies[supply].title
        for use, hours in simulated(simpy.Environment(), free, jobs).items():
            name = problem.jobs[use.job].name
            found.append(_waiting(name, machine, month, hours, jobs[use][2], deadlines))
    return tuple(found)


def _waiting(
    name: str,
    machine: str,
    month: int,
    waits: np.ndarray[Any, np.dtype[np.float64]],
    hours: float,
    deadlines: Mapping[str, float | None],
) -> Waiting:
    """Return the percentiles of waits, 0 of none; ``hours``: of a run."""
    waits = waits if len(waits) else np.zeros(1)
    deadline = deadlines.get(name)
    p50, p90, p99 = np.percentile(waits, [50, 90, 99]).tolist()
    return Waiting(
        workload=name,
        machine=machine,
        month=month,
        median_h=p50,
        p90_h=p90,
        p99_h=p99,
        late_share=0.0 if deadline is None else float(np.mean(waits + hours > deadline)),
    )


def simulated(
    environment: simpy.Environment, cards: int, jobs: Mapping[Job, tuple[float, float, float]]
) -> dict[Job, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the waits of each job's runs in a new environment of SimPy. [h]

    Runs share ``cards``. ``jobs`` holds arrivals an hour, cards and hours of a run.
    """
    import simpy

    draw = random.Random(SEED)
    pool = simpy.Container(environment, capacity=cards, init=cards)
    total = sum(rate for rate, _, _ in jobs.values())
    end = min(MONTHS * HOURS_PER_MONTH, MOST_RUNS / total) if total else 0.0
    waits: dict[Job, list[float]] = {name: [] for name in jobs}

    def run(name: Job) -> Iterator[object]:
        arrived = environment.now
        _, number, hours = jobs[name]
        yield pool.get(number)
        if arrived > WARM_UP * end:
            waits[name].append(environment.now - arrived)
        yield environment.timeout(hours)
        yield pool.put(number)

    def arrivals(name: Job) -> Iterator[object]:
        rate = jobs[name][0]
        while True:
            yield environment.timeout(draw.expovariate(rate))
            environment.process(run(name))  # type: ignore[arg-type]

    for name, (rate, _, _) in jobs.items():
        if rate > 0:
            environment.process(arrivals(name))  # type: ignore[arg-type]
    environment.run(until=end)
    return {name: np.array(values) for name, values in waits.items()}
