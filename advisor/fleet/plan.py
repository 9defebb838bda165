"""From a portfolio to its plan: the best mix of buying and renting, and what it means."""

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from advisor.architecture.resolve import resolve_model
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.economy import Economy, load_economy
from advisor.fleet.account import Account
from advisor.fleet.alternatives import Beside, beside, cheapest, other_ways
from advisor.fleet.build import FEW, Built, build, untold
from advisor.fleet.limit_prices import obstacles
from advisor.fleet.modes import by_concurrency
from advisor.fleet.platforms import Chosen, as_it_stands, choose, most_work, one_kind_each
from advisor.fleet.portfolio import Portfolio, load_portfolio
from advisor.fleet.queue import waiting
from advisor.fleet.regret import regret_table
from advisor.fleet.results import Assignment, FleetPlan, Purchase, Waiting
from advisor.fleet.searches import EIGHT_BIT_SAVES
from advisor.fleet.sentences import answer, machine_reasons, years
from advisor.fleet.sizing import Tell
from advisor.fleet.solving.columns import Use
from advisor.fleet.solving.problem import OFFICE, Pauses, Problem, Way
from advisor.fleet.solving.solver import Programs
from advisor.fleet.supplies import Upkeep
from advisor.foundation import cents
from advisor.foundation.formatting import duration, money, percent
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.software.quality import quality_words
from advisor.nouns.workload import Serving

LARGE = f" With up to {FEW} workloads they would change by quarter."
SIZING, SOLVED = 0.6, 0.75
"""Shares of the time when every workload is sized, and when the plan is found."""


def plan_fleet(
    portfolio: Portfolio | Mapping[str, Any],
    *,
    catalog: Catalog | None = None,
    alternatives: bool = True,
    regret: bool = False,
    queue: bool = False,
    tell: Tell = untold,
) -> FleetPlan:
    """Plan what to buy and what to rent, and when, for the workloads of a portfolio.

    ``portfolio``: workloads with their demand, owned machines, and the limits of place and purse.
    ``catalog``: default: the shipped catalog. ``alternatives``: also compute the other ways, the
    curve of budgets and what each limit costs. ``regret``: also compare plans under other prices,
    demands, models and generations of machines. ``queue``: also simulate how long runs wait for
    cards (needs the extra ``fleet``). ``tell``: receives the share that is done, from 0 to 1, and
    what is done next.

    Returns the plan of least present cost that the solver found, with the proven gap. If the limits
    do not allow all work, the least important is left out and the plan says so.

    Raises InputError if the portfolio is not valid, names an unknown machine or place, or holds
    work that nothing can do.
    """
    if isinstance(portfolio, Mapping):
        portfolio = load_portfolio(portfolio)
    catalog, calibration, economy = catalog or load_catalog(), load_calibration(), load_economy()
    asked = portfolio
    portfolio = asked.changed(
        workloads=tuple(by_concurrency(item, catalog) for item in asked.workloads)
    )
    built = build(
        portfolio,
        catalog,
        calibration,
        economy,
        tell=lambda share, text: tell(SIZING * share, text),
    )
    tell(SIZING, "Choosing machines and rentals")
    whole, programs = built.problem, Programs()
    if portfolio.single:
        whole = one_kind_each(whole)
    mixed, means = Programs(programs), portfolio.means
    if all(item.on_premises for item in portfolio.workloads):  # renting is no other way to do it
        means = means.changed(rent=False)
    with ThreadPoolExecutor(1) as pool:
        other = partial(other_ways, whole, means, programs, mixed)
        beyond = pool.submit(other) if alternatives else None
        chosen = choose(whole, portfolio.means, programs)
        ways = beyond.result() if beyond else ()
    chosen = cheapest(chosen, ways)
    feasible = chosen.solution.feasible
    if feasible and portfolio.owned:
        chosen = as_it_stands(chosen, whole, means)
    if not feasible:
        freed = (*obstacles(whole, programs), *_renting(asked, catalog))
        chosen = replace(most_work(whole, portfolio.means), obstacles=freed)
    built, found = replace(built, problem=chosen.problem), chosen.solution
    tell(SOLVED, "Comparing other ways")
    planned = _Planned(asked, portfolio, built, Account(built.problem, found), economy, chosen)
    others = Beside()
    if alternatives and feasible:
        others = beside(
            ways, whole, planned.account, chosen.programs, mixed, bounded=portfolio.bounded
        )
    plan = planned.result(others, feasible=feasible)
    more: dict[str, object] = {}
    if regret:
        more["regret"] = regret_table(
            portfolio,
            catalog,
            calibration,
            economy,
            built=built,
            platforms=chosen.platforms,
            tell=tell,
        )
    if queue:
        more["waiting"] = planned.waiting()
    return plan.changed(**more)


def _renting(asked: Portfolio, catalog: Catalog) -> Iterator[str]:
    """Yield that all work could be done with rented cards too, where the portfolio allows none."""
    if asked.means.rent or len(asked.workloads) > FEW:
        return
    means = asked.means.changed(rent=True)
    plan = plan_fleet(asked.changed(means=means), catalog=catalog, alternatives=False)
    if plan.feasible:
        yield f"rented cards too ({money(plan.total_usd)} over {years(plan.horizon_months)})"


@dataclass(frozen=True)
class _Planned:
    """A solved portfolio."""

    asked: Portfolio
    portfolio: Portfolio
    """The same, with rates of requests as requests in flight."""
    built: Built
    account: Account
    economy: Economy
    chosen: Chosen

    @property
    def problem(self) -> Problem:
        """The problem in numbers."""
        return self.built.problem

    def result(self, others: Beside, *, feasible: bool) -> FleetPlan:
        """Return the plan as a noun."""
        account, problem = self.account, self.problem
        purchases = self.purchases()
        total = cents.rounded(account.total_usd)
        energy, carbon = self._energy
        return FleetPlan(
            portfolio=self.asked,
            sentence=answer(
                self.portfolio, purchases, account, others.others, self.chosen, feasible=feasible
            ),
            platforms=self.chosen.platforms,
            feasible=feasible,
            total_usd=total,
            gap=account.solution.gap,
            horizon_months=problem.horizon,
            period_months=problem.months,
            purchases=purchases,
            fleet=account.fleet(),
            weeks=account.weeks(),
            assignments=self.assignments(),
            charges=account.charges(),
            cash=account.cash(),
            lines=account.cost_lines(),
            energy_kwh=energy,
            carbon_kg=carbon,
            peak_kw=self._peak_kw,
            alternatives=others.others,
            curve=others.curve,
            limit_prices=others.limit_prices,
            notes=self.notes(),
        )

    def purchases(self) -> tuple[Purchase, ...]:
        """Return what is bought or committed to, in order of time."""
        problem, found = self.problem, []
        for column, number in self.account.solution.bought():
            supply, machine = problem.supplies[column.supply], self.built.machines[column.supply]
            committed = supply.way is Way.COMMIT
            usd = supply.capital_usd
            if committed and supply.term_months is not None:
                usd = supply.month_usd * supply.term_months
            found.append(
                Purchase(
                    key=supply.key,
                    title=supply.title,
                    committed=committed,
                    count=number,
                    month=problem.starts[column.period],
                    order_weeks=0.0 if machine is None else machine.row.delivery_weeks,
                    usd=cents.rounded(number * usd),
                    price_date="" if machine is None else machine.price_date,
                    price_source="" if machine is None else machine.price_source.title,
                    assumed=() if machine is None else machine.assumed,
                    why=() if machine is None else machine_reasons(machine),
                )
            )
        return tuple(sorted(found, key=lambda item: (item.month, -item.usd, item.key)))

    def assignments(self) -> tuple[Assignment, ...]:
        """Return where every workload runs in every period."""
        problem, found = self.problem, []
        serves = {
            item.name: "person" if item.people else "site" if item.sites > 1 else "replica"
            for item in self.portfolio.workloads
        }
        for use, value in self.account.solution.used():
            job, mode = problem.jobs[use.job], self.account.mode(use)
            where = mode.title if mode.supply is None else problem.supplies[mode.supply].title
            slot = "" if use.slot < 0 else "office" if use.slot == OFFICE else "quiet"
            found.append(
                Assignment(
                    workload=job.name,
                    month=problem.starts[use.period],
                    where=where,
                    rented=mode.supply is None,
                    slot=slot,
                    share=value if use.slot < 0 else 0.0,
                    replicas=round(value) if use.slot >= 0 else 0,
                    hosted=mode.hosted,
                    cards=mode.cards,
                    serves=serves[job.name],
                    hours=mode.hours,
                    run_usd=mode.usd if use.slot < 0 else 0.0,
                    slow=mode.slow,
                    detail=mode.detail,
                    weights=self._unasked(use),
                )
            )
        order: Mapping[str, int] = {job.name: place for place, job in enumerate(problem.jobs)}
        return tuple(sorted(found, key=lambda item: (order[item.workload], item.month, item.slot)))

    def waiting(self) -> tuple[Waiting, ...]:
        """Return the simulated queues of the first and the last period."""
        deadlines = {
            item.name: item.case.limits.deadline_hours for item in self.portfolio.workloads
        }
        ends = sorted({0, len(self.problem.months) - 1})
        return tuple(found for period in ends for found in waiting(self.account, period, deadlines))

    def _unasked(self, use: Use) -> str:
        """Return the format other than its own in which a service runs unasked; empty if none."""
        case, name = self.portfolio.workloads[use.job].case, self.account.mode(use).weights
        if not isinstance(case.workload, Serving) or case.workload.weight_format is not None:
            return ""
        return "" if name == resolve_model(case.model).weight_format else name

    def _formats(self) -> Iterator[str]:
        """Yield in which formats other than their own services run unasked, with their loss."""
        used = {(use.job, self._unasked(use)) for use, _ in self.account.solution.used()}
        for job, name in sorted(item for item in used if item[1]):
            loss = f" (published loss: {words})" if (words := quality_words(name)) else ""
            yield (
                f"{self.portfolio.workloads[job].name} is served in {name}{loss}: as published, or "
                f"in 8 bits where they save {percent(EIGHT_BIT_SAVES)} or larger ones have no "
                "room; weight_format states another."
            )

    @cached_property
    def _stopping(self) -> dict[str, Pauses]:
        """Serverless rentals of the plan."""
        modes = [self.account.mode(use) for use, _ in self.account.solution.used()]
        return {mode.title: mode.pauses for mode in modes if mode.pauses is not None}

    @cached_property
    def _energy(self) -> tuple[float, float]:
        """Energy [kWh] and carbon [kg] of machines on site over the horizon."""
        kwh = grams = 0.0
        problem, account = self.problem, self.account
        for place, item in enumerate(problem.supplies):
            machine = self.built.machines[place]
            if machine is None:
                continue
            kept = Upkeep.of(machine, self.portfolio, self.economy)
            for period, number in enumerate(account.there[place]):
                if not number:
                    continue
                hours = account.worked.get((place, period), 0.0) / item.cards / number
                hours = min(hours, HOURS_PER_MONTH)
                used = number * kept.kwh(item.power_kw, hours) * problem.months[period]
                kwh += used
                grams += used * kept.carbon_g_per_kwh
        return kwh, grams / 1e3

    @property
    def _peak_kw(self) -> float:
        """Rated power of all machines on site, at its highest. [kW]"""
        problem = self.problem
        return max(
            math.fsum(
                supply.power_kw * self.account.there[place][period]
                for place, supply in enumerate(problem.supplies)
                if supply.on_site
            )
            for period in range(len(problem.months))
        )

    def notes(self) -> tuple[str, ...]:
        """Return what a reader has to know before relying on the plan."""
        problem = self.problem
        length = {3: "quarter", 6: "half-year", 12: "year"}.get(max(problem.months), "period")
        notes = [
            f"Demand and purchases change by {length}; within one, demand is that of its middle."
            + LARGE * (len(self.asked.workloads) > FEW),
            (
                "Machines fit any free cards: work that needs 2, 4 or 8 cards is assumed to find "
                "them together."
            ),
            "Work on cards without published runs is sized by the slow end of its range.",
        ]
        services = [one for one in self.asked.workloads if isinstance(one.case.workload, Serving)]
        if any(one.case.limits.max_tpot_ms is None for one in services):
            notes.append(
                "Services without limits on latency keep up with a reader where something can; "
                "limits.max_tpot_ms and max_ttft_ms state others."
            )
        for asked, counted in zip(self.asked.workloads, self.portfolio.workloads, strict=True):
            serving, held = asked.case.workload, counted.case.workload
            if isinstance(serving, Serving) and isinstance(held, Serving) and serving != held:
                rate = serving.rate_words or "the requests of the busiest hour"
                follows = " Rented replicas follow its hours." if counted.week else ""
                notes.append(
                    f"{asked.name}: {rate} count as {held.concurrency:,} in flight; each replica "
                    f"counts by what it completes.{follows}"
                )
        notes += self._formats()
        for title, pauses in self._stopping.items():
            notes.append(
                f"{title} stops {duration(pauses.kept_s)} after the last request; the next answer "
                f"then waits up to {duration(pauses.start_s)}. 'means: {{serverless: false}}' "
                "plans without."
            )
        if self.account.solution.timed_out:
            notes.append(
                "The search stopped at its limit: another plan may cost up to "
                f"{percent(self.account.solution.gap)} less."
            )
        return tuple(notes)
