"""What each limit of a portfolio costs, and which one keeps work out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from advisor.fleet.account import Account
from advisor.fleet.results import WORTH_TELLING, ConstraintPrice
from advisor.fleet.solving.problem import Problem
from advisor.fleet.solving.solver import Programs, is_large, least_cost, least_purchase, solve
from advisor.fleet.supplies import NOISE, USED
from advisor.foundation import cents
from advisor.foundation.formatting import money

STEP: Final = 0.1
"""By how much a limit is loosened to see what it costs."""
WIDE: Final = 0.01
"""Gaps above this share are told: the search of an alternative ends early in a large portfolio."""

Task = Callable[[], Any]


class _Limit(NamedTuple):
    """A limit, and words for a looser one."""

    name: str
    field: str
    words: str
    more: str
    least: int = 0
    """Smallest step, in whole numbers; 0: any."""


BUDGET: Final = "a larger budget for machines"
LIMITS: Final = (
    _Limit("power", "power_kw", "Another {} kW", "more power", 1),
    _Limit("rack", "rack_units", "Another {} rack units", "more rack units", 2),
    _Limit("machines", "machines", "Room for one more machine", "room for more machines", 1),
    _Limit("desks", "desks", "Room for one more computer without a rack", "more desks", 1),
    _Limit("purchase", "purchase_usd", "Another {} for machines", BUDGET),
    _Limit("year", "usd_per_year", "Another {} a year", "a larger budget a year"),
)


def limit_prices(problem: Problem, best: Account, programs: Programs) -> list[Task]:
    """Return tasks that find what each limit costs: what the best plan saves under a looser one."""
    total = best.total_usd
    tasks: list[Task] = [
        partial(_price, limit, words, changed, total, programs)
        for limit, words, changed in _looser(problem)
    ]
    if waited := _waited(problem):
        words = "Waiting for machines that come later"
        tasks.append(partial(_price, "ready", words, waited, total, Programs()))
    return tasks


def _waited(problem: Problem) -> Problem | None:
    """Return the problem with all machines there at the start; None if they are."""
    if not any(supply.first_period for supply in problem.supplies):
        return None
    supplies = tuple(replace(supply, first_period=0) for supply in problem.supplies)
    return replace(problem, supplies=supplies)


def _price(
    limit: str, words: str, problem: Problem, usd: float, programs: Programs
) -> ConstraintPrice:
    saves, least = 0.0, least_cost(problem, programs) if is_large(problem) else -math.inf
    if least < (1 - WIDE) * usd:
        solution = solve(problem, rough=True, programs=programs)
        if solution.feasible:
            found = Account(problem, solution).total_usd
            saves, least = max(0.0, usd - found), found * (1 - solution.gap)
        else:
            least = least_cost(problem, programs)
    most = max(0.0, usd - least)
    little = WORTH_TELLING * usd
    saves = saves if saves > little else 0.0
    if most - saves <= (WIDE * usd if saves else little):
        told = f"{words} would save {money(saves) if saves else 'nothing'}."
    elif saves:
        told = f"{words} would save {money(saves)} to {money(most)}: its search ended early."
    else:
        told = f"{words} would save at most {money(most)}: its search ended early."
    return ConstraintPrice(
        limit=limit,
        saves_usd=cents.rounded(saves),
        most_usd=cents.rounded(max(saves, most)),
        sentence=told,
    )


def obstacles(problem: Problem, programs: Programs) -> tuple[str, ...]:
    """Return what would let all work be done, in words: one limit at a time is taken away."""
    freed = {
        limit.more: replace(problem, limits=replace(problem.limits, **{limit.field: None}))
        for limit in LIMITS
        if getattr(problem.limits, limit.field) is not None
    }
    freed |= {words.lower(): changed for _, words, changed in _unbarred(problem)}
    if waited := _waited(problem):
        freed["more time until the work starts"] = waited
    enough = [
        words
        for words, item in freed.items()
        if solve(
            item, gap=1.0, rough=True, programs=Programs() if item is waited else programs
        ).feasible
    ]
    if BUDGET in enough:
        least = least_purchase(freed[BUDGET], programs)
        enough[enough.index(BUDGET)] = f"{BUDGET} ({money(least)} at least)"
    return tuple(enough)


def _looser(problem: Problem) -> Iterator[tuple[str, str, Problem]]:
    """Yield each limit that is set, in words, with the problem under a looser one."""
    for limit in LIMITS:
        most = getattr(problem.limits, limit.field)
        if most is not None:
            one = limit.field in ("machines", "desks")
            step = 1 if one else max(limit.least, STEP * most)
            step = round(step) if limit.least else step
            words = limit.words.format(money(step) if "usd" in limit.field else f"{step:g}")
            limits = replace(problem.limits, **{limit.field: most + step})
            yield limit.name, words, replace(problem, limits=limits)
    yield from _unbarred(problem)


def _unbarred(problem: Problem) -> Iterator[tuple[str, str, Problem]]:
    """Yield what keeps machines out, in words, with the problem that has them."""
    for reason, words in ((NOISE, "A room where noise does not matter"), (USED, "Used machines")):
        if any(supply.barred == reason for supply in problem.supplies):
            supplies = tuple(
                replace(supply, barred="") if supply.barred == reason else supply
                for supply in problem.supplies
            )
            yield reason, words, replace(problem, supplies=supplies)
