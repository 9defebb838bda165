"""From a portfolio to a problem in numbers: periods, supplies, jobs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.fleet.demand import Demand
from advisor.fleet.machines import Machine
from advisor.fleet.portfolio import Portfolio
from advisor.fleet.searches import Searches
from advisor.fleet.sizing import MANY, Tell, sized
from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.problem import Job, Limits, Problem, Way
from advisor.fleet.supplies import bought_supplies, committed_supplies, owned_supplies
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import FineTuning, Serving

QUARTER, HALF_YEAR, YEAR = 3, 6, 12
FEW: Final = 12
"""Up to ``FEW`` workloads are planned by quarter, up to ``MANY`` by half-year, more by year."""


NETWORK: Final = " + network"
"""Ends the key of machines that are bought with one."""


@record
class Built:
    """A problem, and the machine behind each supply (None for commitments)."""

    problem: Problem
    machines: tuple[Machine | None, ...]
    sized: Sequence[Job] = ()
    """The workloads with every way to do them, for another problem with the same periods."""


def untold(share: float, text: str) -> None:
    """Show no progress."""


def periods(portfolio: Portfolio, length: int | None = None) -> tuple[int, ...]:
    """Return the length of each period of the horizon. [months]

    Where machines may come late, the first quarter counts by month.
    """
    number = len(portfolio.workloads)
    length = length or (QUARTER if number <= FEW else HALF_YEAR if number <= MANY else YEAR)
    whole, rest = divmod(portfolio.owning.months, length)
    found = (length,) * whole + ((rest,) if rest else ())
    if portfolio.site.ready_in_weeks is None or found[0] < QUARTER:
        return found
    later = found[0] - QUARTER
    return (1,) * QUARTER + ((later,) if later else ()) + found[1:]


def build(
    portfolio: Portfolio,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
    *,
    length: int | None = None,
    rents: float = 1.0,
    like: Built | None = None,
    tell: Tell = untold,
) -> Built:
    """Return the problem of a portfolio.

    Without a ``length`` of the periods [months], the number of workloads chooses it. ``rents`` on
    demand are at most so many times today's. ``like``: of the same portfolio. ``tell`` receives the
    share that is done and what is done next. Raises InputError if a machine is unknown, or nothing
    can do one of the workloads.
    """
    months = periods(portfolio, length)
    there = owned_supplies(portfolio, catalog, economy, months)
    there += bought_supplies(portfolio, catalog, economy, months)
    committed = committed_supplies(portfolio, catalog, economy)
    supplies = [supply for _, supply in there] + [supply for _, supply in committed]
    searches = Searches(
        catalog,
        calibration,
        machines=[(place, machine) for place, (machine, _) in enumerate(there)],
        means=portfolio.means,
        single=portfolio.single,
        sharing=1
        < sum(isinstance(item.case.workload, Serving) for item in portfolio.workloads)
        <= MANY,
        kits={supply.key for _, supply in there if supply.way is Way.OWNED}
        | {*portfolio.means.machines},
    )
    demand = Demand(
        searches,
        committed=[(at, offer) for at, (offer, _) in enumerate(committed, start=len(there))],
        tuned=frozenset(
            item.case.model.preset
            for item in portfolio.workloads
            if item.case.model.preset and isinstance(item.case.workload, FineTuning)
        ),
        coarse=len(portfolio.workloads) > MANY,
        growing=portfolio.bounded and len(portfolio.workloads) <= FEW,
    )
    alike = like is not None and like.problem.months == months
    jobs = like.sized if like and alike else sized(demand, portfolio.workloads, months, tell)
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
            desks=site.desks,
            purchase_usd=budget.purchase_usd,
            usd_per_year=budget.usd_per_year,
        ),
    )
    machines = [machine for machine, _ in there] + [None] * len(committed)
    return replace(_reduced(*_joined(problem, machines, economy), rents), sized=jobs)


def _joined(
    problem: Problem, machines: Sequence[Machine | None], economy: Economy
) -> tuple[Problem, list[Machine | None]]:
    """Move runs that take several machines to such as are bought with a network.

    They do all else that those without one do. Machines that are there have theirs.
    """
    several = sorted(
        {
            mode.supply
            for job in problem.jobs
            for mode in job.modes
            if mode.supply is not None
            and mode.machines > 1
            and problem.supplies[mode.supply].way is Way.BUY
        }
    )
    places = {place: len(problem.supplies) + at for at, place in enumerate(several)}
    supplies, kinds = list(problem.supplies), list(machines)
    for place in several:
        machine, supply = machines[place], problem.supplies[place]
        assert machine is not None
        usd = supply.capital_usd + machine.network_usd(economy)
        key, title = f"{supply.key}{NETWORK}", f"{supply.title} and a network"
        supplies.append(replace(supply, key=key, title=title, capital_usd=usd))
        kinds.append(machine)

    def moved(job: Job) -> Job:
        alone = [mode for mode in job.modes if mode.supply not in places or mode.machines == 1]
        more = [
            replace(mode, supply=places[mode.supply]) for mode in job.modes if mode.supply in places
        ]
        return replace(job, modes=(*alone, *more))

    jobs = tuple(map(moved, problem.jobs))
    return replace(problem, jobs=jobs, supplies=tuple(supplies)), kinds


def _reduced(problem: Problem, machines: Sequence[Machine | None], rents: float) -> Built:
    """Leave out commitments that renting on demand replaces."""
    wanted = [
        place
        for place in range(len(problem.supplies))
        if not rented_for_less(problem, place, rents)
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


def rented_for_less(problem: Problem, place: int, rents: float = 1.0) -> bool:
    """Whether renting on demand does all that a commitment does, at no more for any hour of use.

    ``rents``: those on demand over today's.

    Notes
    -----
    A commitment of :math:`c` cards costs :math:`p` a month, so that each hour of a card in use
    costs :math:`p / 730 c` at least, and more where it stands idle. Where every mode on it has a
    rental on the same platform that costs no more at this rate, no plan needs it.
    """
    supply = problem.supplies[place]
    if supply.way is not Way.COMMIT:
        return False
    rate = supply.month_usd / supply.cards / HOURS_PER_MONTH / rents
    for job in problem.jobs:
        modes = [mode for mode in job.modes if mode.supply == place]
        if not modes:
            continue
        rentals = [
            mode
            for mode in job.modes
            if mode.supply is None and mode.platform in ("", supply.platform)
        ]
        for mode in modes:
            usd = mode.cards * rate * (1.0 if job.serves else mode.hours)
            if not any(
                one.usd * (math.ceil(mode.serves / one.serves - SLACK) if job.serves else 1) <= usd
                for one in rentals
            ):
                return False
    return True
