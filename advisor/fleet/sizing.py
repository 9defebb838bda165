"""The workloads of a portfolio as jobs; those of a large one in processes side by side."""

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from advisor.errors import InputError
from advisor.fleet.demand import Demand
from advisor.fleet.portfolio import FleetWorkload
from advisor.fleet.solving.problem import Job
from advisor.foundation.concurrency.processes import ended, exchanged, started, usable_cores
from advisor.nouns.workload import Serving

Tell = Callable[[float, str], object]
Sizes = Callable[[Sequence[FleetWorkload]], list[Job | InputError]]

MANY: Final = 40
"""Portfolios of more workloads are sized in several processes, which take a second to start."""
MOST_HELPERS: Final = 3
"""Processes beside this one: each holds a catalog, and the longest share of the work remains."""
SHARED: Final = {"workload": {"concurrency"}, "limits": {"deadline_hours", "max_tpot_ms"}}
"""Fields of a case in which workloads may differ that share a search or its constants."""


def sized(
    demand: Demand, workloads: Sequence[FleetWorkload], months: Sequence[int], tell: Tell
) -> list[Job]:
    """Return the workloads as jobs, in order, whichever process sizes them.

    Raise the ``InputError`` of the first that nothing can do.
    """
    jobs: list[Job] = []
    found: dict[int, Job | InputError] = {}
    if len(workloads) > MANY and usable_cores() > 1:
        found = _side_by_side(demand, workloads, months, tell)
    for at, item in enumerate(workloads):
        job = found.get(at)
        if isinstance(job, InputError):
            raise job
        if job is None:
            tell(at / len(workloads), f"Sizing {item.name}")
        jobs.append(job or demand.job(item, months))
    return jobs


def _side_by_side(
    demand: Demand, workloads: Sequence[FleetWorkload], months: Sequence[int], tell: Tell
) -> dict[int, Job | InputError]:
    """Size workloads here and in helpers: each takes the largest group that is left."""
    groups: dict[str, list[int]] = {}
    for at, item in enumerate(workloads):
        groups.setdefault(item.case.model_dump_json(exclude=SHARED), []).append(at)

    def work(places: Sequence[int]) -> int:  # equal runs are searched once
        return len(places) if isinstance(workloads[places[0]].case.workload, Serving) else 1

    left = deque(sorted(groups.values(), key=work))
    found: dict[int, Job | InputError] = {}
    sizes = partial(_sizes, demand, months)
    packed = pickle.dumps(sizes)

    def size(with_: Sizes, told: Tell) -> None:
        while left:
            try:
                places = left.pop()
            except IndexError:  # another took the last
                return
            told(len(found) / len(workloads), f"Sizing {workloads[places[0]].name}")
            try:
                jobs = with_([workloads[at] for at in places])
            except BaseException:
                left.append(places)
                raise
            found.update(zip(places, jobs, strict=True))

    def help_() -> None:
        worker = started(packed)
        try:
            size(partial(exchanged, worker), lambda *_: None)
        except (OSError, EOFError, pickle.UnpicklingError):
            pass  # it died: this process does what it left
        finally:
            ended(worker)

    helpers = min(MOST_HELPERS, usable_cores() - 1)
    with ThreadPoolExecutor(helpers) as pool:
        try:
            for _ in range(helpers):
                pool.submit(help_)
            size(sizes, tell)
        except BaseException:
            left.clear()
            raise
    size(sizes, tell)
    return found


def _sizes(
    demand: Demand, months: Sequence[int], workloads: Sequence[FleetWorkload]
) -> list[Job | InputError]:
    """Return workloads as jobs, or why nothing can do one."""
    found: list[Job | InputError] = []
    for item in workloads:
        try:
            found.append(demand.job(item, months))
        except InputError as error:
            found.append(error)
    return found
