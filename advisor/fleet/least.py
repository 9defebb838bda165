"""The whole machines on which one question costs least to own: what its portfolio buys."""

from collections.abc import Iterator
from dataclasses import replace

from advisor.catalog.economy import Economy
from advisor.errors import InputError
from advisor.fleet.build import Built, build
from advisor.fleet.machines import PLATFORMS, Machine
from advisor.fleet.modes import by_concurrency
from advisor.fleet.platforms import choose, one_kind_each
from advisor.fleet.portfolio import OWNING_FIELDS, FleetWorkload, Portfolio
from advisor.fleet.purse import Unit, purchase
from advisor.fleet.solving.columns import present_usd
from advisor.fleet.solving.problem import Mode
from advisor.nouns.hardware import PriceKind
from advisor.nouns.money import TRAINING_HOURS_PER_MONTH
from advisor.nouns.workload import Serving
from advisor.owning.results import Purchase
from advisor.planning.prepared import PricedCase
from advisor.planning.searched import Searched


def least_machines(
    asked: PricedCase, economy: Economy, searched: Searched | None
) -> Purchase | None:
    """Return the machines of one kind that do a case's work for the least present value.

    They are those of ``plan_fleet`` for the case alone (``single``) where nothing may be rented. A
    service takes those that carry its load. Training is done as often as the machine whose runs
    cost least does it in its hours of a month; what does so many runs for the least is bought, in
    more or fewer hours, or that machine if the case states the hours. ``owning.budget_usd`` bounds
    the price, if some machine is within it. None if no machine of the list does the work, or the
    case asks for its own cards. ``searched``: the case's rentals, if they are known.
    """
    case, serving = asked.case, asked.case.workload
    if case.limits.owned:
        return None
    asked_limits = case.limits.changed(budget_usd=None, price_kind=PriceKind.ON_DEMAND)
    alone = case.changed(limits=asked_limits, hardware=None, layout=None)
    often: dict[str, float] = {"runs_per_month": 1.0}
    if isinstance(serving, Serving):
        alone = alone.changed(workload=serving.changed(spare_replicas=0))
        often = {"quiet_share": 1.0, "spare_machines": serving.spare_replicas}
    workload = FleetWorkload.model_validate({"name": "work", "case": alone, **often})
    owning = {name: value for name, value in case.owning if name in OWNING_FIELDS}
    given = {"single": True, "means": {"rent": False}, "owning": owning}
    try:
        workload = by_concurrency(workload, asked.catalog, searched if alone == case else None)
        portfolio = Portfolio.model_validate({"workloads": [workload], **given})
        built = build(
            portfolio, asked.catalog, asked.calibration, economy, length=portfolio.owning.months
        )
    except InputError:  # told where the question is answered without the list
        return None
    problem, runs = built.problem, None
    if not isinstance(serving, Serving):
        hours = case.owning.hours_per_month
        usual = hours or TRAINING_HOURS_PER_MONTH
        penalty = portfolio.means.other_platform_usd
        ways = list(_ways(built, usual, penalty))
        if not ways:
            return None
        _, mode, machine = min(ways, key=lambda way: way[0])
        if hours is not None:
            return purchase(_unit(machine, mode, mode.machines, economy), 1, case)
        runs = usual * mode.slow / mode.hours
        problem = problem.scaled((runs,) * len(problem.months))
    for most in dict.fromkeys((case.owning.budget_usd, None)):  # if nothing is within the budget
        limits = replace(problem.limits, purchase_usd=most)
        within = one_kind_each(replace(problem, limits=limits))
        solution = choose(within, portfolio.means).solution
        uses = [(problem.jobs[use.job].modes[use.mode], share) for use, share in solution.used()]
        for buy, number in solution.bought():
            mode, replicas = max(uses, key=lambda use: use[1] * use[0].cards)
            found = built.machines[buy.supply]
            assert found is not None
            unit = _unit(found, mode, number, economy, None if runs else round(replicas))
            return purchase(unit, 1, case).changed(runs_per_month=runs)
    return None


def _ways(built: Built, hours: float, penalty: float) -> Iterator[tuple[float, Mode, Machine]]:
    """Yield each way to run on machines with what a run costs there, up to a factor of all ways.

    One run at a time, in ``hours`` a month. ``penalty``: of a platform with fewer tools. [USD]
    """
    problem = built.problem
    months = sum(length * problem.period_factor(at) for at, length in enumerate(problem.months))
    for mode in problem.jobs[0].modes:
        supply = None if mode.supply is None else problem.supplies[mode.supply]
        machine = None if mode.supply is None else built.machines[mode.supply]
        if supply is None or machine is None or supply.barred:
            continue
        usd = mode.machines * present_usd(problem, supply, supply.first_period)
        usd += mode.cards * supply.card_hour_usd * hours * months
        usd += penalty * (supply.platform not in ("", PLATFORMS["NVIDIA"]))
        yield usd * mode.hours, mode, machine


def _unit(
    machine: Machine, mode: Mode, number: int, economy: Economy, groups: int | None = None
) -> Unit:
    """Return machines as what is bought, with the jobs that they do."""
    count = int(mode.cards)
    price = machine.usd + (machine.network_usd(economy) if mode.machines > 1 else 0.0)
    working = groups or number * machine.row.cards // count
    return Unit(machine, number, count, working, 0.0, 0.0, None, number * price)
