"""The program's plans against the enumeration of all plans, and what must hold of any plan."""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from scipy import optimize

from advisor.catalog import load_catalog
from advisor.catalog.economy import load_economy
from advisor.fleet import alternatives, build, limit_prices
from advisor.fleet.account import Account
from advisor.fleet.alternatives import Variant
from advisor.fleet.machines import machine_named
from advisor.fleet.results import FleetPlan
from advisor.fleet.solving import solver
from advisor.fleet.solving.columns import Buy, Solution
from advisor.fleet.solving.problem import Job, Limits, Mode, Problem, Supply, Way
from advisor.fleet.solving.program import Program
from advisor.fleet.solving.solver import solve

HOURS = 730.0
OFFICE = 10 * 365.25 / 12 * 5 / 7
SLOTS = (OFFICE, HOURS - OFFICE)
MOST = 2


def random_problem(seed: int) -> Problem:
    """A portfolio of two or three jobs on two kinds of machines, over two half-years."""
    draw = random.Random(seed)
    supplies = tuple(
        Supply(
            key=f"m{place}",
            title=f"machine {place}",
            way=Way.BUY,
            cards=draw.choice([1, 2, 4]),
            capital_usd=draw.choice([1500.0, 3000.0, 9000.0, 20000.0]),
            month_usd=draw.choice([5.0, 40.0, 200.0]),
            card_hour_usd=draw.choice([0.01, 0.05, 0.2]),
            power_kw=draw.choice([0.5, 1.0, 2.0]),
            rack_units=draw.choice([0, 2, 4]),
            life_months=60.0,
            most=MOST,
        )
        for place in range(2)
    )
    jobs = [
        Job(
            "runs",
            tuple(_run_modes(draw, supplies)),
            runs=(draw.choice([1.0, 5.0]), draw.choice([5.0, 20.0])),
        )
    ]
    for place in range(draw.choice([1, 2])):
        peak = draw.choice([2.0, 5.0, 9.0])
        later = peak * draw.choice([1.0, 1.7])
        load = ((peak, 0.3 * peak), (later, 0.3 * later))
        jobs.append(Job(f"service {place}", tuple(_service_modes(draw, supplies)), load=load))
    limits = Limits(
        power_kw=draw.choice([None, 2.0]),
        machines=draw.choice([None, 1, 2]),
        purchase_usd=draw.choice([None, 4000.0, 25000.0]),
    )
    return Problem(
        jobs=tuple(jobs),
        supplies=supplies,
        months=(6, 6),
        discount_rate=0.08,
        utilisation=draw.choice([1.0, 0.7]),
        limits=limits,
    )


def _run_modes(draw: random.Random, supplies: tuple[Supply, ...]) -> list[Mode]:
    modes = [Mode(None, "rent", usd=draw.choice([20.0, 90.0, 300.0]))]
    for place, supply in enumerate(supplies):
        if draw.random() < 0.8:
            cards = draw.choice([one for one in (1, 2, 4) if one <= supply.cards])
            modes.append(Mode(place, "own", cards=cards, hours=draw.choice([4.0, 20.0, 60.0])))
    return modes


def _service_modes(draw: random.Random, supplies: tuple[Supply, ...]) -> list[Mode]:
    modes = [Mode(None, "rent", serves=4.0, usd=draw.choice([0.3, 1.0, 4.0]))]
    for place, supply in enumerate(supplies):
        if draw.random() < 0.8:
            cards = draw.choice([one for one in (1, 2) if one <= supply.cards])
            modes.append(Mode(place, "own", cards=cards, serves=draw.choice([2.0, 3.0, 10.0])))
    return modes


def least_cost(problem: Problem, *, split: bool = True) -> float:
    """Present cost of the best plan, found by trying all of them.

    Without ``split``, a service runs on one kind of machine in each slot, and on rented ones.
    """
    number = len(problem.supplies)
    best = math.inf
    periods = {
        there: [period_cost(problem, period, there, split) for period in range(2)]
        for there in itertools.product(range(MOST + 1), repeat=number)
    }
    for first in itertools.product(range(MOST + 1), repeat=number):
        for second in itertools.product(range(MOST + 1), repeat=number):
            there = [tuple(map(sum, zip(first, second, strict=True)))]
            if max(there[0]) > MOST or not allowed(problem, first, there[0]):
                continue
            capital = sum(
                supply.capital_usd
                * (now * net(problem, 0, supply) + later * net(problem, 6, supply))
                for supply, now, later in zip(problem.supplies, first, second, strict=True)
            )
            best = min(best, capital + periods[first][0] + periods[there[0]][1])
    return best


def net(problem: Problem, month: int, supply: Supply) -> float:
    """Present cost of a dollar of machines of some month, worth nothing after their life."""
    rate = 1.0 + problem.discount_rate
    worth = 1 - max(12 - month, 12) / supply.life_months  # the first sale costs a year
    return float(rate ** (-month / 12) - worth / rate)


def allowed(problem: Problem, first: tuple[int, ...], there: tuple[int, ...]) -> bool:
    limits, supplies = problem.limits, problem.supplies
    power = sum(one.power_kw * count for one, count in zip(supplies, there, strict=True))
    price = sum(one.capital_usd * count for one, count in zip(supplies, there, strict=True))
    return (
        (limits.power_kw is None or power <= limits.power_kw)
        and (limits.machines is None or sum(there) <= limits.machines)
        and (limits.purchase_usd is None or price <= limits.purchase_usd)
    )


def period_cost(problem: Problem, period: int, there: tuple[int, ...], split: bool) -> float:
    """Present cost of half a year with some machines: services tried, runs filled in."""
    rate = 1 + problem.discount_rate
    present = sum(rate ** (-(6 * period + month + 1) / 12) for month in range(6))
    fixed = sum(one.month_usd * count for one, count in zip(problem.supplies, there, strict=True))
    services = [job for job in problem.jobs if job.load]
    choices = [
        list(replicas(problem, job, job.load[period][slot], there, split))
        for job in services
        for slot in range(2)
    ]
    best = math.inf
    for choice in itertools.product(*choices):
        cost, busy = 0.0, [0.0] * len(there)
        cards = [[0.0] * len(there), [0.0] * len(there)]
        for place, (usd, used) in enumerate(choice):
            slot = place % 2
            cost += usd * SLOTS[slot]
            for supply, count in enumerate(used):
                cards[slot][supply] += count
                busy[supply] += count * SLOTS[slot]
        whole = [one.cards * count for one, count in zip(problem.supplies, there, strict=True)]
        if any(cards[slot][at] > whole[at] for slot in range(2) for at in range(len(there))):
            continue
        free = [problem.utilisation * (whole[at] * HOURS - busy[at]) for at in range(len(there))]
        best = min(best, cost + run_cost(problem, period, free))
    return float(present * (fixed + best))


def replicas(
    problem: Problem, job: Job, need: float, there: tuple[int, ...], split: bool
) -> Iterator[tuple[float, list[float]]]:
    """Yield cost an hour and cards on each supply of every number of replicas that suffices."""
    most = [math.ceil(need / mode.serves) for mode in job.modes]
    for counts in itertools.product(*(range(number + 1) for number in most)):
        pairs = list(zip(job.modes, counts, strict=True))
        served = sum(mode.serves * count for mode, count in pairs)
        # One that could do with a replica less costs more than that one.
        spare = any(count and served - mode.serves >= need - 1e-9 for mode, count in pairs)
        if served < need - 1e-9 or spare or (not split and sum(map(bool, counts[1:])) > 1):
            continue
        usd, used = 0.0, [0.0] * len(there)
        for mode, count in pairs:
            if mode.supply is None:
                usd += mode.usd * count
            else:
                usd += problem.supplies[mode.supply].card_hour_usd * mode.cards * count
                used[mode.supply] += mode.cards * count
        yield usd, used


def run_cost(problem: Problem, period: int, free: list[float]) -> float:
    """Cost of the only batch job, by filling the cheapest machines first."""
    [job] = [job for job in problem.jobs if job.runs]
    left, cost = job.runs[period], 0.0
    prices: list[tuple[float, float, Mode | None]] = []
    for mode in job.modes:
        if mode.supply is None:
            prices.append((mode.usd, math.inf, None))
        else:
            hours = mode.cards * mode.hours
            price = hours * problem.supplies[mode.supply].card_hour_usd
            prices.append((price, free[mode.supply] / hours, mode))
    for price, runs, _ in sorted(prices, key=lambda item: item[0]):
        done = min(left, runs)
        cost, left = cost + done * price, left - done
    return cost


@pytest.mark.parametrize("seed", range(50))
def test_the_plan_costs_what_the_best_of_all_plans_costs(seed: int) -> None:
    problem = random_problem(seed)

    found = solve(problem, gap=0.0)

    assert found.feasible
    assert Account(problem, found).total_usd == pytest.approx(least_cost(problem), rel=1e-6)


@pytest.mark.parametrize("seed", range(50))
def test_a_large_program_finds_the_best_plan_with_one_kind_of_machine_for_a_service(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(seed)
    best = least_cost(problem, split=False)
    monkeypatch.setattr(solver, "MANY", 0)
    monkeypatch.setattr(solver, "STAGES", (solver.Stage(20, 10.0, 12, 1e-3),))

    found = solve(problem, gap=0.0)

    cost = Account(problem, found).total_usd
    assert cost >= best * (1 - 1e-6)
    assert cost <= best * (1 + found.gap + 1e-6)
    assert cost <= best * 1.001


@pytest.mark.parametrize("seed", range(50))
def test_the_relaxed_program_never_costs_more_than_the_best_plan(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows and decided purchases cut fractions off, and no plan of whole machines."""
    problem = random_problem(seed)
    monkeypatch.setattr(solver, "MANY", 0)
    best = least_cost(problem, split=False)

    bound = solver.least_cost(problem, solver.Programs())
    found = solve(problem, rough=True)

    assert bound <= best * (1 + 1e-6)
    if found.feasible:
        cost = Account(problem, found).total_usd
        assert best * (1 - 1e-6) <= cost
        assert cost * (1 - found.gap) <= best * (1 + 1e-6)
    else:
        assert found.timed_out or math.isinf(best)


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_the_least_budget_is_the_price_of_the_cheapest_machines_that_do_all_work(seed: int) -> None:
    """Services may not be rented here; the runs may."""
    problem = random_problem(seed)
    jobs = tuple(
        replace(job, modes=job.modes[1:]) if job.load and len(job.modes) > 1 else job
        for job in problem.jobs
    )
    problem = replace(problem, jobs=jobs, limits=Limits())
    enough = [
        sum(one.capital_usd * count for one, count in zip(problem.supplies, there, strict=True))
        for there in itertools.product(range(MOST + 1), repeat=len(problem.supplies))
        if all(math.isfinite(period_cost(problem, at, there, split=True)) for at in range(2))
    ]

    assert solver.least_purchase(problem, solver.Programs()) == pytest.approx(
        min(enough, default=math.inf), rel=1e-4
    )


def test_budgets_that_buy_the_same_stand_once_in_a_curve() -> None:
    problem = random_problem(3)
    plans = [
        Variant(str(at), f"With ${at}", problem, Solution({Buy(0, 0): number}, feasible=True))
        for at, number in enumerate((0.0, 0.0, 1.0, 1.0, 2.0))
    ]

    shown = alternatives.unlike(plan.result(1.0) for plan in plans)

    assert [item.name for item in shown] == ["0", "2", "4"]


def test_a_part_of_a_server_is_no_way_out_of_the_relaxed_program() -> None:
    """A service on one of eight cards needs the server: 8,000 USD, and not an eighth of it."""
    server = Supply("s", "s", Way.BUY, cards=8, capital_usd=8000.0, life_months=12.0)
    modes = (Mode(0, "", serves=4.0), Mode(None, "rent", serves=4.0, usd=10.0))
    job = Job("service", modes, load=((4.0, 4.0),))
    problem = Problem(jobs=(job,), supplies=(server,), months=(12,))
    program = Program(problem, leave_out=False, whole_loads=True)

    assert program.cuts == ()
    found = solver._relaxed(program, {})
    assert found is not None
    assert found.cost == pytest.approx(8.0)
    assert program.cuts


@pytest.mark.parametrize(
    ("saves", "most", "said"),
    [
        (0.0, 0.0, "No looser limit would save anything."),
        (0.0, 40.0, "More room would save at most $40: its search ended early."),
        (30.0, 60.0, "More room would save $30 to $60: its search ended early."),
        (40.0, 40.0, "More room would save $40."),
    ],
)
def test_nothing_to_save_is_said_only_where_it_is_proven(
    saves: float, most: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Solution({Buy(0, 0): 1.0}, feasible=True, gap=(most - saves) / (1000 - saves))
    supply = Supply("s", "s", Way.BUY, cards=1, capital_usd=1000 - saves, life_months=12.0)
    problem = Problem(jobs=(), supplies=(supply,), months=(12,))
    monkeypatch.setattr(limit_prices, "solve", lambda *_, **__: found)

    price = limit_prices._price("room", "More room", problem, 1000.0, solver.Programs())

    assert (price.saves_usd, price.most_usd) == pytest.approx((saves, most))
    plan: dict[str, Any] = {"limit_prices": (price,), "total_usd": 1000.0}
    assert FleetPlan.model_construct(**plan).looser == (said,)


def total(problem: Problem) -> float:
    found = solve(problem, gap=0.0)
    return Account(problem, found).total_usd if found.feasible else math.inf


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_more_room_or_money_never_costs_more(seed: int) -> None:
    problem = random_problem(seed)
    costs = [
        total(replace(problem, limits=Limits(purchase_usd=usd, power_kw=kw)))
        for usd, kw in ((0.0, 0.5), (2000.0, 1.0), (10_000.0, 2.0), (40_000.0, 8.0))
    ]

    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(costs))


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_a_further_workload_never_lowers_the_cost(seed: int) -> None:
    problem = random_problem(seed)
    fewer = replace(problem, jobs=problem.jobs[:-1])

    assert total(problem) >= total(fewer) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_forbidding_a_machine_or_renting_never_lowers_the_cost(seed: int) -> None:
    problem = random_problem(seed)
    least = total(problem)

    for place in range(len(problem.supplies)):
        supplies = tuple(
            replace(one, barred="list") if at == place else one
            for at, one in enumerate(problem.supplies)
        )
        assert total(replace(problem, supplies=supplies)) >= least * (1 - 1e-9)
    jobs = tuple(
        replace(job, modes=tuple(mode for mode in job.modes if mode.supply is not None))
        for job in problem.jobs
    )
    assert total(replace(problem, jobs=jobs)) >= least * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_charges_lines_and_cash_add_up(seed: int) -> None:
    problem = random_problem(seed)
    account = Account(problem, solve(problem, gap=0.0))

    charged = sum(charge.usd for charge in account.charges())
    undiscounted = Account(replace(problem, discount_rate=0.0), account.solution)
    worth = sum(
        number
        * problem.supplies[column.supply].capital_usd
        * problem.worth_at_end(problem.supplies[column.supply], column.period)
        for column, number in account.solution.bought()
    )
    cash = sum(row.purchase_usd + row.rent_usd + row.running_usd for row in account.cash())

    assert charged == pytest.approx(account.total_usd, abs=0.05)
    assert sum(line.usd for line in account.cost_lines()) == pytest.approx(
        account.total_usd, abs=0.05
    )
    # Cash leaves in full; the present value counts what the machines are worth at the end.
    assert cash - worth == pytest.approx(undiscounted.total_usd, abs=0.5)


def test_a_run_on_several_machines_needs_all_of_them_at_once() -> None:
    supply = Supply("m", "m", Way.BUY, cards=8, capital_usd=1000.0)
    job = Job("wide", (Mode(0, "", cards=16, machines=2, hours=1.0),), runs=(1.0,))
    problem = Problem(jobs=(job,), supplies=(supply,), months=(12,))

    found = solve(problem)

    assert dict(found.bought()) == {Buy(0, 0): 2}


def test_a_plan_without_whole_machines_is_proven() -> None:
    """Ten runs a month at the cheaper of two rents; HiGHS gives no bound of a program of fractions.

    An answer once said that another plan may cost up to 100 % less.
    """
    ways = (Mode(None, "dear", hours=1.0, usd=3.0), Mode(None, "cheap", hours=2.0, usd=2.0))
    problem = Problem(jobs=(Job("runs", ways, runs=(10.0,)),), supplies=(), months=(12,))
    found = solve(problem)

    assert Account(problem, found).total_usd == pytest.approx(10 * 12 * 2.0)
    assert found.gap == pytest.approx(0, abs=1e-9)


def test_what_matters_least_is_left_out_first() -> None:
    supply = Supply("m", "m", Way.BUY, cards=1, capital_usd=1000.0)
    jobs = tuple(
        Job(name, (Mode(0, "", serves=1.0),), load=((1.0, 1.0),), weight=weight)
        for name, weight in (("night shift", 1.0), ("hospital ward", 10.0))
    )
    problem = Problem(
        jobs=jobs, supplies=(supply,), months=(12,), limits=Limits(purchase_usd=1500.0)
    )

    assert not solve(problem).feasible
    found = solve(problem, leave_out=True)
    charges = {charge.workload: charge.left_out for charge in Account(problem, found).charges()}

    assert charges == pytest.approx({"night shift": 1.0, "hospital ward": 0.0}, abs=1e-6)


def test_a_commitment_ends_with_its_term() -> None:
    rented = Mode(None, "on demand", serves=1.0, usd=2.0)
    committed = Mode(0, "", serves=1.0)
    supply = Supply("c", "c", Way.COMMIT, cards=1, month_usd=300.0, term_months=12, on_site=False)
    job = Job("service", (rented, committed), load=((1.0, 1.0), (0.0, 0.0)))
    problem = Problem(jobs=(job,), supplies=(supply,), months=(12, 12))

    account = Account(problem, solve(problem))

    assert account.there == ((1, 0),)
    assert account.total_usd == pytest.approx(12 * 300.0)


def test_a_search_stops_after_steps_and_not_after_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine gives the plan of a quiet one: seconds are a guard, far above the steps."""
    asked: list[dict[str, float]] = []
    found = optimize.milp

    def record(**given: Any) -> Any:
        asked.append(dict(given["options"]))
        return found(**given)

    monkeypatch.setattr(optimize, "milp", record)
    program = random_problem(3)
    plans = [solve(program).values for _ in range(2)]

    assert plans[0] == plans[1]
    assert {item["time_limit"] for item in asked} == {solver.PATIENCE_S}
    assert all(item["node_limit"] >= solver.LEAST_NODES for item in asked)


def test_a_search_that_its_limit_stops_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "NODES_TIMES_COLUMNS", 0)
    monkeypatch.setattr(solver, "LEAST_NODES", 0)

    assert solve(random_problem(3), gap=0.0).timed_out


def test_a_way_without_a_plan_is_called_impossible_only_where_that_is_proven() -> None:
    problem = random_problem(3)
    told = {
        stopped: Variant("rent", "Rent everything", problem, Solution(timed_out=stopped)).result(
            1.0
        )
        for stopped in (False, True)
    }
    assert told[False].sentence == "Rent everything: not possible within the limits."
    assert told[True].sentence == "Rent everything: no plan was found before the search ended."


@pytest.mark.parametrize("share", [0.5, 0.8, 1.5])
def test_a_mix_of_platforms_costs_no_more_than_the_plan_that_it_allows(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The plan costs ``share`` of what the search of the mix ends on, whose bound is 60 % of it."""
    problem = random_problem(3)
    best = Account(problem, replace(solve(problem), gap=0.0))
    mixed = best.total_usd / share
    dearer = Variant("mixed", "", problem, replace(best.solution, gap=0.4))
    monkeypatch.setattr(alternatives, "solve", lambda *_, **__: dearer.solution)
    monkeypatch.setattr(
        Account, "total_usd", property(lambda self: mixed if self.solution.gap else best_usd)
    )
    best_usd = mixed * share

    found = alternatives.all_platforms(problem, best, solver.Programs())

    assert (found.solution is dearer.solution) == (share > 1)
    least = mixed * 0.6
    told = best_usd if share < 1 else mixed
    assert told * (1 - found.solution.gap) == pytest.approx(min(least, told))


def test_a_spare_machine_stays_free_of_services_and_takes_training() -> None:
    """One machine serves the load: n+1 are two, and the second trains until the first fails."""
    desktop = Supply("desktop", "Desktop", Way.BUY, 1, capital_usd=2000.0)
    alone = Job("chat", (Mode(0, "own", serves=4.0),), load=((4.0, 1.0),))
    training = Job("tune", (Mode(0, "own", hours=300.0),), runs=(1.0,))

    def machines(*jobs: Job) -> int:
        found = solve(Problem(jobs=jobs, supplies=(desktop,), months=(12,)))
        return sum(number for _, number in found.bought())

    safe = replace(alone, spares=1)
    assert machines(alone) == 1
    assert machines(safe) == 2
    assert machines(safe, training) == 2
    # Two services share the spare: only one machine fails at a time.
    assert machines(safe, replace(safe, name="search")) == 3
    # A provider replaces what it rents.
    rented = replace(safe, modes=(Mode(None, "rent", serves=4.0, usd=1.0),))
    assert machines(rented) == 0


@pytest.mark.parametrize("seed", range(0, 50, 2))
def test_a_commitment_that_costs_more_than_renting_is_in_no_plan(seed: int) -> None:
    """The best plan costs the same without it."""
    draw, problem = random.Random(seed), random_problem(seed)
    term = Supply(
        "t",
        "t",
        Way.COMMIT,
        cards=draw.choice([1, 4]),
        month_usd=draw.choice([200.0, 800.0, 3000.0]),
        term_months=6,
        on_site=False,
    )
    place = len(problem.supplies)
    jobs = tuple(
        replace(job, modes=(*job.modes, replace(job.modes[0], supply=place)))
        for job in problem.jobs
    )
    more = replace(problem, jobs=jobs, supplies=(*problem.supplies, term))
    barred = (*problem.supplies, replace(term, barred="list"))

    if build.rented_for_less(more, place):
        assert total(replace(more, supplies=barred)) == pytest.approx(total(more), rel=1e-6)
    else:
        assert total(replace(more, supplies=barred)) >= total(more) * (1 - 1e-6)


@pytest.mark.parametrize(
    ("rent", "run", "less"), [(1.0, 6.0, True), (1.01, 6.0, False), (1.0, 6.1, False)]
)
def test_a_commitment_of_a_dollar_an_hour_needs_dearer_rents(
    rent: float, run: float, less: bool
) -> None:
    """Two cards for 1,460 USD a month are 1 USD for each hour of a card: 6 for a run of 2 x 3."""
    term = Supply("t", "t", Way.COMMIT, cards=2, month_usd=2 * 730.0, term_months=12)
    service = Job(
        "service",
        (Mode(0, "", serves=4.0), Mode(None, "rent", serves=4.0, usd=rent)),
        load=((8.0, 8.0),),
    )
    runs = Job(
        "runs",
        (Mode(0, "", cards=2, hours=3.0), Mode(None, "rent", hours=9.0, usd=run)),
        runs=(5.0,),
    )
    problem = Problem(jobs=(service, runs), supplies=(term,), months=(12,))

    assert build.rented_for_less(problem, 0) is less
    # Where rents may rise by a third, it has its use.
    assert not build.rented_for_less(problem, 0, 4 / 3)


def test_a_second_place_is_paid_like_all_else() -> None:
    """Rent of 0.10 USD in 730 hours and 150 USD to keep the place: 223 USD a month."""
    there = Supply("o", "o", Way.OWNED, cards=1, card_hour_usd=0.35, owned=(1, 0))
    modes = (Mode(0, "", serves=1.0), Mode(None, "rent", serves=1.0, usd=0.10))
    job = Job("service", modes, load=((1.0, 1.0), (1.0, 1.0)))
    problem = Problem(jobs=(job,), supplies=(there,), months=(6, 6))

    account = Account(problem, solve(problem))

    # 0.35 USD of power an hour are 255.50 a month. Later, nothing is there to be away from.
    assert account.lines["away"] == pytest.approx(6 * 150.0)
    assert account.lines["rent"] == pytest.approx(12 * 73.0)
    assert account.total_usd == pytest.approx(6 * 223.0 + 6 * 73.0)
    assert sum(charge.usd for charge in account.charges()) == pytest.approx(1776.0)
    assert sum(cash.running_usd for cash in account.cash()) == pytest.approx(900.0)
    # Power of 0.30 USD, 219 a month, is worth staying for.
    dear = replace(there, card_hour_usd=0.30)
    assert Account(problem, solve(replace(problem, supplies=(dear,)))).lines["rent"] == (
        pytest.approx(6 * 73.0)
    )


@pytest.mark.parametrize("most", [solver.MANY, 0])
def test_a_burst_on_top_of_machines_is_rented_for_its_hours(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of eight requests are there; a quarter of the office hours need the others.

    At 2 USD an hour that is 0.25 x 217.41 x 2 = 108.71 USD a month, 258.71 with the second place.
    A bought card for them costs 300 USD, and replicas at the mean of all 271.76 and the place.
    """
    monkeypatch.setattr(solver, "MANY", most)
    there = Supply("o", "o", Way.OWNED, cards=1, owned=(1,), most=1)
    other = Supply("b", "b", Way.BUY, cards=1, month_usd=300.0)
    job = Job(
        "service",
        (
            Mode(0, "", serves=4.0),
            Mode(1, "", serves=4.0),
            Mode(None, "rent", serves=4.0, usd=2.0),
            Mode(None, "smaller", serves=1.0, usd=0.9),
        ),
        load=((8.0, 4.0),),
        curve=((1.0, 0.5, 0.5, 0.5), (1.0,)),
    )
    problem = Problem(jobs=(job,), supplies=(there, other), months=(12,))

    account = Account(problem, solve(problem))

    assert account.lines["rent"] == pytest.approx(12 * 0.25 * OFFICE * 2.0)
    assert account.total_usd == pytest.approx(12 * (0.25 * OFFICE * 2.0 + 150.0))


def test_power_of_machines_follows_a_curve() -> None:
    """1 USD an hour of work, in a quarter of the office hours and half of the others."""
    there = Supply("o", "o", Way.OWNED, cards=1, card_hour_usd=1.0, owned=(1,))
    job = Job(
        "service",
        (Mode(0, "", serves=4.0),),
        load=((4.0, 4.0),),
        curve=((1.0, 0.0, 0.0, 0.0), (1.0, 0.0)),
    )

    problem = Problem((job,), (there,), months=(12,))
    account = Account(problem, solve(problem))

    hours = 0.25 * OFFICE + 0.5 * (HOURS - OFFICE)
    assert account.lines["power"] == pytest.approx(12 * hours)
    assert account.worked == pytest.approx({(0, 0): hours})
    assert account.busy == pytest.approx({(0, 0): HOURS})


def test_a_term_at_a_provider_is_a_second_place_too() -> None:
    there = Supply("o", "o", Way.OWNED, cards=1, card_hour_usd=0.35, owned=(1,))
    term = Supply("c", "c", Way.COMMIT, cards=1, month_usd=50.0, term_months=12)
    modes = (Mode(0, "", serves=1.0), Mode(1, "", serves=1.0))
    problem = Problem(
        jobs=(Job("service", modes, load=((1.0, 1.0),)),), supplies=(there, term), months=(12,)
    )

    # 50 and 150 USD a month are less than 255.50 of power.
    assert Account(problem, solve(problem)).total_usd == pytest.approx(12 * 200.0)


def test_runs_of_several_machines_pay_for_their_network() -> None:
    """12 % of eight cards of 30,000 USD beside 314,010 for each server; others do without."""
    server = machine_named("hgx-8/h100-sxm", load_catalog(), load_economy())
    plain = Supply("hgx", "Server", Way.BUY, cards=8, capital_usd=server.usd)
    large = Job("large", (Mode(0, "", cards=16, machines=2, hours=9.0),), runs=(1.0,))
    small = Job("small", (Mode(0, "", cards=1, serves=4.0),), load=((4.0, 4.0),))
    problem = Problem(jobs=(large, small), supplies=(plain,), months=(12,))

    joined, machines = build._joined(problem, [server], load_economy())

    assert [item.capital_usd for item in joined.supplies] == pytest.approx([314_010, 342_810])
    assert machines == [server, server]
    assert [[mode.supply for mode in job.modes] for job in joined.jobs] == [[1], [0, 1]]
    bought = {buy.supply: number for buy, number in solve(joined).bought()}
    assert bought == {1: 2}
