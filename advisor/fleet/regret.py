"""Which plan is least wrong: the first year's purchases under other futures."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.architecture.published_models import nearest_published
from advisor.architecture.resolve import resolve_model
from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.errors import InputError
from advisor.fleet.account import Account
from advisor.fleet.alternatives import without
from advisor.fleet.build import FEW, NETWORK, YEAR, Built, build, untold
from advisor.fleet.platforms import on_platforms, one_kind_each
from advisor.fleet.portfolio import Portfolio
from advisor.fleet.results import WORTH_TELLING, Regret, RegretTable
from advisor.fleet.sizing import Tell
from advisor.fleet.solving.columns import Buy
from advisor.fleet.solving.problem import Job, Problem, Way
from advisor.fleet.solving.solver import Numbers, Programs, least_cost, solve
from advisor.foundation import cents
from advisor.foundation.concurrency.processes import usable_cores
from advisor.foundation.formatting import money, percent
from advisor.nouns.case import AssumedShape, ModelSource
from advisor.nouns.software.efficiency import Calibration

RENTS: Final = (0.7, 1.3)
"""Rents over today's. Assumed."""
DEMANDS: Final = (0.6, 1.6)
"""Demand at the horizon over what is planned for. Assumed."""
NEW_MONTH: Final = 18
NEW_SPEED: Final = 2.0
NEW_RENT: Final = 0.7
"""A new generation: twice as fast at the same price after 18 months, and rents 30 % lower. Assumed;
the last generations came every two years."""

First = Mapping[str, int]
"""Machines bought in the first year, by key."""
Fixed = Mapping[Buy, Numbers]
Cost = Callable[[Problem, Fixed | None, Programs], float | None]
RELAXED: Final = (
    "Machines bought later, and all of the best plans, count in fractions here, since there are "
    "many workloads: a difference of a few percent of the cost says nothing."
)


def regret_table(
    portfolio: Portfolio,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
    *,
    built: Built,
    platforms: Collection[str],
    tell: Tell = untold,
) -> RegretTable:
    """Return what each plan on some software platforms costs in each future beyond the best for it.

    ``built``: the problem of the plan. ``tell`` receives the share that is done and what is next.

    Notes
    -----
    Periods are years. A plan is what it buys in the first year, and more where that cannot do the
    work of a future; everything later, rents included, is chosen again in each future. The regret
    of a plan in a future is its cost there less that of the best plan, and the least wrong plan has
    the smallest largest regret. Of more than ``FEW`` workloads, costs are those of the relaxed
    program.

    References
    ----------
    .. [1] Savage, The theory of statistical decision, 1951, doi:10.1080/01621459.1951.10500768.
    """
    ask = partial(build, length=YEAR, rents=max(RENTS))
    known = (catalog, calibration, economy)

    def asked(of: Portfolio, like: Built | None = None, kept: Collection[str] = ()) -> Problem:
        found = ask(of, *known, like=like).problem
        return on_platforms(one_kind_each(found, kept) if of.single else found, platforms)

    problem = asked(portfolio, built)
    tell(0.0, "Comparing other futures")
    large = len(portfolio.workloads) > FEW
    cost = _least if large else _cost
    plans = dict(_plans(problem, cost))
    futures = dict(_futures(problem))
    note, doubled = "", _doubled(portfolio)
    try:
        if doubled != portfolio:
            sold = [one.key for one in problem.supplies if one.way is Way.BUY and not one.barred]
            futures["models twice as large"] = asked(doubled, kept=sold)
    except InputError as error:
        note = f" With models twice as large, {error.what}."
    if large:
        note += f" {RELAXED}"
    rows: list[Regret] = []
    with ThreadPoolExecutor(usable_cores()) as pool:  # HiGHS lets go of Python's lock
        found = pool.map(partial(_future, plans, cost), futures, futures.values())
        for at, some in enumerate(found, start=1):
            tell(at / len(futures), "Comparing other futures")
            rows += some
    least, worst = _least_wrong(plans, rows)
    if not least:
        lost = [row.future for row in rows if row.usd is None and row.plan == next(iter(plans), "")]
        sentence = "No plan does the work in every future here"
        sentence += f": the cheapest plan does not with {', '.join(lost)}." if lost else "."
    elif worst <= WORTH_TELLING * max(row.usd or 0.0 for row in rows):
        sentence = f"Least wrong: {least}. In no future here does another plan cost less."
    else:
        sentence = (
            f"Least wrong: {least}. In no future here does it cost over {money(worst)} more than "
            "the best plan for it."
        )
    return RegretTable(rows=tuple(rows), least_wrong=least, sentence=sentence + note)


def _future(plans: Mapping[str, First], cost: Cost, future: str, problem: Problem) -> list[Regret]:
    """Return what each plan costs in one future; nothing if nobody can do the work in it."""
    programs = Programs()
    best = cost(problem, None, programs)
    if best is None:
        return []
    costs = {
        name: next(
            (
                usd
                for fixed in _fixed(problem, first)
                if (usd := cost(problem, fixed, programs)) is not None
            ),
            None,
        )
        for name, first in plans.items()
    }
    best = min(best, *(usd for usd in costs.values() if usd is not None), best)
    return [
        Regret(
            plan=name,
            future=future,
            usd=None if usd is None else cents.rounded(usd),
            regret_usd=None if usd is None else cents.rounded(max(0.0, usd - best)),
        )
        for name, usd in costs.items()
    ]


def _least_wrong(plans: Mapping[str, First], rows: list[Regret]) -> tuple[str, float]:
    worst: dict[str, float] = {}
    for name in plans:
        own = [row.regret_usd for row in rows if row.plan == name]
        if own and all(one is not None for one in own):
            worst[name] = max(one for one in own if one is not None)
    if not worst:
        return "", 0.0
    least = min(worst, key=lambda name: worst[name])
    return least, worst[least]


def _plans(problem: Problem, cost: Cost) -> Iterator[tuple[str, First]]:
    """Yield plans by name: the best one, and what would be done on principle.

    Half of the best one only if it does the work as planned.
    """
    owns = any(supply.way is Way.OWNED for supply in problem.supplies)
    ways = {
        "the cheapest plan": problem,
        "buy nothing more" if owns else "rent everything": without(
            problem, lambda way: way is Way.BUY
        ),
        "buy everything": without(problem, lambda way: way in (None, Way.COMMIT)),
    }
    programs = Programs()
    for name, changed in ways.items():
        found = solve(changed, rough=True, programs=programs)
        if found.feasible:
            first: dict[str, int] = {}
            for column, number in found.bought():
                supply = changed.supplies[column.supply]
                if column.period == 0 and supply.way is Way.BUY:
                    first[supply.key] = number
            yield name, first
            if name == "the cheapest plan" and sum(first.values()) > 1:
                half = {key: number // 2 for key, number in first.items() if number // 2}
                if cost(problem, next(_fixed(problem, half)), programs) is not None:
                    yield "half of it first", half


def _futures(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Yield futures in words with the problem in them."""
    yield "as planned", problem
    for factor in RENTS:
        word = "lower" if factor < 1 else "higher"
        rents = (factor,) * len(problem.months)
        yield f"rents {percent(abs(factor - 1))} {word}", replace(problem, rent_factors=rents)
    for factor in DEMANDS:
        word = "less" if factor < 1 else "more"
        yield f"{percent(abs(factor - 1))} {word} demand at the end", _ramped(problem, factor)
    if problem.horizon > NEW_MONTH:
        yield f"a new generation after {NEW_MONTH} months", _new_generation(problem)


def _ramped(problem: Problem, factor: float) -> Problem:
    """Return the problem with a demand that drifts to a multiple at the horizon.

    It does so after the first period, of which the purchases are decided.
    """
    first, later = problem.months[0], max(1, problem.horizon - problem.months[0])
    middles = [
        max(0.0, start + length / 2 - first) / later
        for start, length in zip(problem.starts, problem.months, strict=True)
    ]
    return problem.scaled([1 + (factor - 1) * middle for middle in middles])


def _new_generation(problem: Problem) -> Problem:
    """Return the problem with faster machines at the same price, and lower rents, later."""
    first = sum(start < NEW_MONTH for start in problem.starts)
    number = len(problem.supplies)
    newer = tuple(
        replace(supply, key=f"{supply.key} (next)", first_period=first)
        for supply in problem.supplies
        if supply.way is Way.BUY
    )
    bought = [place for place, one in enumerate(problem.supplies) if one.way is Way.BUY]
    places = {place: number + at for at, place in enumerate(bought)}

    def changed(job: Job) -> Job:
        modes = tuple(
            replace(
                mode,
                supply=places[mode.supply],
                hours=mode.hours / NEW_SPEED,
                serves=mode.serves * NEW_SPEED,
            )
            for mode in job.modes
            if mode.supply in places
        )
        return replace(job, modes=(*job.modes, *modes))

    rents = tuple(NEW_RENT if place >= first else 1.0 for place in range(len(problem.months)))
    return replace(
        problem,
        jobs=tuple(changed(job) for job in problem.jobs),
        supplies=(*problem.supplies, *newer),
        rent_factors=rents,
    )


def _doubled(portfolio: Portfolio) -> Portfolio:
    """Return the portfolio with dense language models of twice the parameters.

    Their shape is scaled from the nearest published model that reads as much; others stay.
    """
    workloads = []
    for item in portfolio.workloads:
        one = resolve_model(item.case.model)
        if one.generates and one.num_experts == 1:
            size, reads = 2.0 * one.total_parameters, one.max_position_embeddings or math.inf
            like = max(nearest_published(size, None), key=lambda item: min(item.positions, reads))
            model = ModelSource(parameters=size, shape=AssumedShape(like=like.name))
            workloads.append(item.changed(case=item.case.changed(model=model)))
        else:
            workloads.append(item)
    return portfolio.changed(workloads=tuple(workloads))


def _fixed(problem: Problem, first: First) -> Iterator[Fixed]:
    """Yield the purchases of the first year: those of a plan alone, and with more beside them."""
    places: dict[str, int] = {
        supply.key: place
        for place, supply in enumerate(problem.supplies)
        if supply.way is Way.BUY and not supply.barred and supply.first_period == 0
    }
    numbers = dict.fromkeys(places, 0)
    for key, number in first.items():  # where no run needs a network, its machines have none
        numbers[key if key in places else key.removesuffix(NETWORK)] += number
    for more in (0.0, math.inf):
        yield {Buy(at, 0): (float(numbers[key]), numbers[key] + more) for key, at in places.items()}


def _cost(problem: Problem, fixed: Fixed | None, programs: Programs) -> float | None:
    """Return the least cost after some purchases of the first year; None if it cannot be done."""
    solution = solve(problem, fixed=fixed, rough=True, programs=programs)
    return Account(problem, solution).total_usd if solution.feasible else None


def _least(problem: Problem, fixed: Fixed | None, programs: Programs) -> float | None:
    """Return the same of the relaxed program, which takes a second where the other takes ten."""
    usd = least_cost(problem, programs, fixed, whole_loads=True)
    return usd if math.isfinite(usd) else None
