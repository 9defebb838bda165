"""From a portfolio to a problem in numbers: periods, supplies, jobs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.fleet.demand import Demand
from advisor.fleet.machines import Machine
from advisor.fleet.portfolio import Portfolio
from advisor.fleet.solving.problem import Job, Limits, Mode, Problem, Supply, Way
from advisor.fleet.supplies import bought_supplies, committed_supplies, owned_supplies
from advisor.foundation.record import record
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import FineTuning, Serving

Tell = Callable[[float, str], object]

QUARTER, HALF_YEAR, YEAR = 3, 6, 12
FEW: Final = 12
MANY: Final = 40
"""Up to ``FEW`` workloads are planned by quarter, up to ``MANY`` by half-year, more by year."""


@record
class Built:
    """A problem, and the machine behind each supply (None for commitments)."""

    problem: Problem
    machines: tuple[Machine | None, ...]


def untold(share: float, text: str) -> None:
    """Show no progress."""


def periods(portfolio: Portfolio, length: int | None = None) -> tuple[int, ...]:
    """Return the length of each period of the horizon. [months]"""
    number = len(portfolio.workloads)
    length = length or (QUARTER if number <= FEW else HALF_YEAR if number <= MANY else YEAR)
    whole, rest = divmod(portfolio.owning.months, length)
    return (length,) * whole + ((rest,) if rest else ())


def build(
    portfolio: Portfolio,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
    *,
    length: int | None = None,
    keep: Collection[str] = (),
    tell: Tell = untold,
) -> Built:
    """Return the problem of a portfolio.

    Without a ``length`` of the periods [months], the number of workloads chooses it. Machines of
    ``keep`` stay even if others replace them at less cost. ``tell`` receives the share that is done
    and what is done next. Raises InputError if a machine is unknown, or nothing can do one of the
    workloads.
    """
    months = periods(portfolio, length)
    there = owned_supplies(portfolio, catalog, economy, months)
    there += bought_supplies(portfolio, catalog, economy, months)
    committed = committed_supplies(portfolio, catalog, economy)
    supplies = [supply for _, supply in there] + [supply for _, supply in committed]
    demand = Demand(
        catalog,
        calibration,
        machines=[(place, machine) for place, (machine, _) in enumerate(there)],
        committed=[(at, offer) for at, (offer, _) in enumerate(committed, start=len(there))],
        means=portfolio.means,
        tuned=frozenset(
            item.case.model.preset
            for item in portfolio.workloads
            if item.case.model.preset and isinstance(item.case.workload, FineTuning)
        ),
        sharing=1
        < sum(isinstance(item.case.workload, Serving) for item in portfolio.workloads)
        <= MANY,
        coarse=len(portfolio.workloads) > MANY,
        growing=portfolio.bounded and len(portfolio.workloads) <= FEW,
        kits={item.machine for item in portfolio.owned} | {*portfolio.means.machines},
    )
    jobs = []
    for at, item in enumerate(portfolio.workloads):
        tell(at / len(portfolio.workloads), f"Sizing {item.name}")
        jobs.append(demand.job(item, months))
    default = economy.default("discount_rate").expected
    given = portfolio.owning.discount_rate
    site, budget = portfolio.site, portfolio.budget
    powers = [limit for limit in (site.power_kw, site.cooling_kw) if limit is not None]
    problem = Problem(
        jobs=tuple(jobs),
        supplies=tuple(supplies),
        months=months,
        discount_rate=default if given is None else given,
        utilisation=portfolio.utilisation,
        limits=Limits(
            power_kw=min(powers) if powers else None,
            rack_units=site.rack_units,
            machines=site.machines,
            purchase_usd=budget.purchase_usd,
            usd_per_year=budget.usd_per_year,
        ),
    )
    machines = [machine for machine, _ in there] + [None] * len(committed)
    return _reduced(problem, machines, keep)


def _reduced(problem: Problem, machines: Sequence[Machine | None], keep: Collection[str]) -> Built:
    """Leave out supplies that no job uses, or that another replaces in every job at less cost."""
    kept = [
        place
        for place in range(len(problem.supplies))
        if problem.supplies[place].way is Way.OWNED
        or problem.supplies[place].key in keep
        or any(mode.supply == place for job in problem.jobs for mode in job.modes)
    ]
    wanted = [
        place
        for place in kept
        if problem.supplies[place].key in keep
        # Of two that replace each other, the first stays.
        or not any(
            other != place
            and _covers(problem, other, place)
            and (other < place or not _covers(problem, place, other))
            for other in kept
        )
    ]
    new = {place: at for at, place in enumerate(wanted)}
    jobs = tuple(
        replace(
            job,
            modes=tuple(
                mode if mode.supply is None else replace(mode, supply=new[mode.supply])
                for mode in job.modes
                if mode.supply is None or mode.supply in new
            ),
        )
        for job in problem.jobs
    )
    supplies = tuple(problem.supplies[place] for place in wanted)
    return Built(
        replace(problem, jobs=jobs, supplies=supplies), tuple(machines[place] for place in wanted)
    )


def _covers(problem: Problem, other: int, place: int) -> bool:
    """Whether a machine of ``other`` does all that one of ``place`` does and costs no more."""
    one, two = problem.supplies[other], problem.supplies[place]
    return (
        Way.OWNED not in (one.way, two.way)
        and (one.way, one.platform, one.term_months) == (two.way, two.platform, two.term_months)
        and one.first_period <= two.first_period
        and one.barred in ("", two.barred)
        and one.cards >= two.cards
        and one.capital_usd <= two.capital_usd
        and one.month_usd <= two.month_usd
        and one.power_kw <= two.power_kw
        and one.rack_units <= two.rack_units
        and one.life_months >= two.life_months
        and all(_does_more(job, other, place, one, two) for job in problem.jobs)
    )


def _does_more(job: Job, other: int, place: int, one: Supply, two: Supply) -> bool:
    """Whether each mode of a job on ``place`` has one on ``other`` that takes no more."""
    better = [mode for mode in job.modes if mode.supply == other]
    return all(
        any(_no_worse(mode, worse, one, two) for mode in better)
        for worse in job.modes
        if worse.supply == place
    )


def _no_worse(mode: Mode, worse: Mode, one: Supply, two: Supply) -> bool:
    return (
        mode.cards <= worse.cards
        and mode.machines <= worse.machines
        and mode.hours <= worse.hours
        and mode.cards * mode.hours <= worse.cards * worse.hours
        and mode.cards * mode.hours * one.card_hour_usd
        <= worse.cards * worse.hours * two.card_hour_usd
        and mode.serves >= worse.serves
        and (not mode.serves or mode.cards * one.card_hour_usd <= worse.cards * two.card_hour_usd)
    )
