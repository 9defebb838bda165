"""One software platform for a plan: which one, and what mixing them would save."""

from collections.abc import Collection, Iterator
from dataclasses import field, replace
from functools import cache
from typing import Final

from advisor.catalog import load_catalog
from advisor.fleet.account import Account
from advisor.fleet.machines import PLATFORMS, platform_of
from advisor.fleet.portfolio import Means
from advisor.fleet.solving.columns import Solution
from advisor.fleet.solving.problem import Problem, Supply, Way
from advisor.fleet.solving.solver import Programs, least_cost, solve
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.tools import Status, known_tools

TIE: Final = 0.05
"""A platform with fewer tools has to save more than this share of the cost: all work is brought to
it, and fewer people know it. Assumed."""


@record
class Chosen:
    """The problem on the platform of the plan, its solution, and what else was solved."""

    problem: Problem
    solution: Solution
    platforms: tuple[str, ...] = ()
    """Of the plan; empty if it may mix all."""
    others: tuple[tuple[str, float], ...] = ()
    """Platforms that were also planned, with the cost. [USD]"""
    single: bool = False
    """Whether the plan had to choose a platform."""
    forced: bool = False
    """Whether no choice of a platform does all work."""
    obstacles: tuple[str, ...] = ()
    """What would let all work be done, if the limits do not."""
    programs: Programs = field(default_factory=Programs)
    """Of the problem, for others that differ in their limits only."""
    saving: float | None = None
    """What more machines and rentals would save, where those that are there do all work. [USD]"""


def choose(
    problem: Problem, means: Means, programs: Programs | None = None, *, rough: bool = False
) -> Chosen:
    """Solve a problem on the platform of least cost, or on all of them.

    Machines that are there keep their platform, and work that only one platform can do brings it
    in. If no platform does all work within the limits, all are allowed. ``means`` says whether a
    plan may mix platforms, and what another than the first has to save. ``programs``: of a problem
    that differs in its bars only.
    """
    names = _platforms(problem)
    if means.mixed_vendors or len(names) < 2:
        own = Programs(programs)
        return Chosen(
            problem, solve(problem, rough=rough, programs=own), tuple(names), programs=own
        )
    best: Chosen | None = None
    least = 0.0
    others: list[tuple[str, float]] = []
    for allowed in _candidates(problem, names):
        changed = on_platforms(problem, allowed)
        weeks = means.other_platform_usd * max(map(effort, allowed))
        most = least - max(TIE * least, weeks)
        own = Programs(programs)
        if best is not None and least_cost(changed, own) >= most:
            continue
        found = solve(changed, rough=rough, programs=own)
        if not found.feasible:
            continue
        usd = Account(changed, found).total_usd
        if best is None or usd < most:
            if best is not None:
                others.append((" and ".join(best.platforms), least))
            best = Chosen(changed, found, allowed, single=True, programs=own)
            least = usd
        else:
            others.append((" and ".join(allowed), usd))
    if best is None:
        own = Programs(programs)
        found = solve(problem, rough=rough, programs=own)
        return Chosen(problem, found, tuple(names), forced=found.feasible, programs=own)
    used = bool(used_platforms(best.problem, best.solution))
    return replace(best, others=tuple(others) if used else (), single=used)


def as_it_stands(chosen: Chosen, problem: Problem, means: Means) -> Chosen:
    """Return the plan that keeps to the machines that are there, where others save too little.

    A further machine or contract has to save what another platform has to (``means``): somebody
    orders it, sets it up and keeps it, while a machine that is there has room.
    """
    there = problem.only("list", lambda supply: supply.way is Way.OWNED, lambda _: False)
    found = solve(there, programs=Programs(chosen.programs))
    least = Account(chosen.problem, chosen.solution).total_usd
    more = Account(there, found).total_usd - least if found.feasible else 0.0
    if not 0.0 < more <= means.other_platform_usd:
        return chosen
    names = tuple(sorted(used_platforms(there, found)))
    return Chosen(there, found, names, programs=chosen.programs, saving=more)


def most_work(problem: Problem, means: Means) -> Chosen:
    """Solve a problem whose limits do not allow all work: what matters most, on one platform.

    The first of those that leave the least out, as ``means`` allow.
    """
    names = _platforms(problem)
    mixed = means.mixed_vendors or len(names) < 2
    plans: list[tuple[float, Chosen]] = []
    for allowed in [tuple(names)] if mixed else _candidates(problem, names):
        changed = on_platforms(problem, allowed)
        found = solve(changed, leave_out=True)
        left = sum(problem.jobs[left.job].weight * share for left, share in found.left())
        plans.append((left, Chosen(changed, found, allowed)))
    best = min(plans, key=lambda plan: round(plan[0], 6))[1]
    used = used_platforms(best.problem, best.solution)
    return replace(best, single=not mixed and bool(used))


def on_platforms(problem: Problem, allowed: Collection[str]) -> Problem:
    """Return a problem without machines and rentals of other platforms; owned ones stay."""
    allowed = {"", *allowed}
    return problem.only(
        "platform",
        lambda supply: supply.way is Way.OWNED or supply.platform in allowed,
        lambda mode: mode.platform in allowed,
    )


def one_kind_each(problem: Problem, also: Collection[str] = ()) -> Problem:
    """Return a problem that buys machines of one kind on each platform.

    The kind that does the work of the busiest period for the least. Where a limit allows none to,
    all stay. ``also``: keys of machines that stay too.
    """
    amounts = [[max(each) for each in job.load] or job.runs for job in problem.jobs]
    busiest = max(range(len(problem.months)), key=lambda at: sum(job[at] for job in amounts))
    then = slice(busiest, busiest + 1)
    most = replace(
        problem,
        months=(problem.horizon,),
        rent_factors=(),
        limits=replace(problem.limits, kinds=1),
        jobs=tuple(replace(job, runs=job.runs[then], load=job.load[then]) for job in problem.jobs),
        supplies=tuple(replace(item, owned=(), first_period=0) for item in problem.supplies),
    )
    kept = {at for at, item in enumerate(problem.supplies) if item.key in also}
    for name in _platforms(problem):
        there = {at for at, item in enumerate(problem.supplies) if item.platform in ("", name)}
        alone = on_platforms(most, (name,)).only("list", _buys, lambda _: False)
        kept |= {buy.supply for buy, _ in solve(alone).bought()} or there
    return replace(
        problem,
        supplies=tuple(
            replace(item, barred="list")
            if item.way is Way.BUY and not item.barred and at not in kept
            else item
            for at, item in enumerate(problem.supplies)
        ),
    )


def _buys(supply: Supply) -> bool:
    return supply.way is Way.BUY and not supply.barred


def used_platforms(problem: Problem, solution: Solution) -> set[str]:
    """Return the platforms of the machines and rentals that a plan holds."""
    found = {problem.supplies[buy.supply].platform for buy, _ in solution.bought()}
    for use, _ in solution.used():
        mode = problem.jobs[use.job].modes[use.mode]
        found.add(mode.platform if mode.supply is None else problem.supplies[mode.supply].platform)
    return found - {""}


def _platforms(problem: Problem) -> list[str]:
    """Return the platforms that some work could run on, the one with the most tools first."""
    jobs = range(len(problem.jobs))
    names = {name for at in jobs for name in _of_job(problem, at)} - {""}
    order = list(PLATFORMS.values())
    return sorted(names, key=lambda name: (order.index(name) if name in order else 99, name))


def _of_job(problem: Problem, at: int) -> Iterator[str]:
    """Yield the platforms of the modes of a job; empty where any software runs."""
    for place, mode in enumerate(problem.jobs[at].modes):
        if mode.supply is None and (at, place) not in problem.closed:
            yield mode.platform
        elif mode.supply is not None and problem.supplies[mode.supply].way is not Way.OWNED:
            yield problem.supplies[mode.supply].platform


def _candidates(problem: Problem, names: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Yield sets of platforms: those that are there or that work needs, with each other one."""
    there = {item.platform for item in problem.supplies if item.way is Way.OWNED} - {""}
    for at, job in enumerate(problem.jobs):
        own = {mode.supply for mode in job.modes if mode.supply is not None}
        owned = any(problem.supplies[place].way is Way.OWNED for place in own)
        if not owned and len(found := set(_of_job(problem, at))) == 1:
            there |= found - {""}
    if there:
        yield tuple(name for name in names if name in there) or tuple(sorted(there))
    for name in names:
        if not there:
            yield (name,)


def software_share(card: Accelerator) -> tuple[int, int]:
    """Return how many of the known tools run on a card, and how many there are."""
    tools = [tool for tool in known_tools().values() if tool.status is not Status.RETIRED]
    return sum(tool.support(card) is not None for tool in tools), len(tools)


@cache
def effort(platform: str) -> float:
    """Return what bringing work to a platform takes, over what one with half of CUDA's tools takes.

    >>> effort("ROCm"), effort("Neuron") > 5
    (1.0, True)
    """
    tools = {PLATFORMS["NVIDIA"]: 0, platform: 0}
    for card in load_catalog().accelerators:
        if (name := platform_of(card)) in tools:
            tools[name] = max(tools[name], software_share(card)[0])
    return max(1.0, tools[PLATFORMS["NVIDIA"]] / 2 / max(1, tools[platform]))
