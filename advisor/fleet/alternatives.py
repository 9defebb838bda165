"""Other ways to do the same work: rent everything, buy everything, other budgets."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.fleet.account import Account
from advisor.fleet.limit_prices import WIDE, Task, limit_prices
from advisor.fleet.platforms import Chosen, choose, used_platforms
from advisor.fleet.portfolio import Means
from advisor.fleet.results import WORTH_TELLING, Alternative, ConstraintPrice
from advisor.fleet.sentences import FASTER, MIXED, MORE, ONE_KIND, counted, none_found
from advisor.fleet.solving.columns import Solution
from advisor.fleet.solving.problem import Problem, Way
from advisor.fleet.solving.solver import Programs, is_large, least_cost, least_purchase, solve
from advisor.foundation import cents
from advisor.foundation.concurrency.processes import usable_cores
from advisor.foundation.formatting import money, percent
from advisor.foundation.record import record

BUDGET_SHARES: Final = (0.0, 0.25, 0.5, 0.75)
"""Budgets of the curve, on the way from the least that does all work to what the best plan buys."""
FEW_SHARES: Final = (0.25, 0.75)
"""The same in a large portfolio, where the least is a bound."""
TIMES: Final = (2.0, 4.0, 8.0)
"""Multiples of the work of which the cost is told, if a budget alone bounds it."""
LITTLE_MORE: Final = 1.05
"""Machines of one kind are worth this multiple of the cost: one image, one spare. Assumed."""


@record
class Variant:
    """A changed problem, solved."""

    name: str
    title: str
    problem: Problem
    solution: Solution

    @property
    def account(self) -> Account:
        """Its books."""
        return Account(self.problem, self.solution)

    def result(self, best_usd: float) -> Alternative:
        """Return it beside the best plan."""
        feasible, timed_out = self.solution.feasible, self.solution.timed_out
        found = Alternative(
            name=self.name,
            title=self.title,
            feasible=feasible,
            usd=None,
            purchase_usd=None,
            timed_out=timed_out and not feasible,
            sentence=f"{self.title}: {none_found(timed_out)}.",
        )
        if not feasible:
            return found
        usd = cents.rounded(self.account.total_usd)
        more = usd - best_usd
        share = f" ({percent(abs(more) / best_usd)})" if best_usd > 0 else ""
        gap, machines = self.solution.gap, self.machines
        beside = "as much as the plan"
        if abs(more) > WORTH_TELLING * max(usd, 1.0):
            beside = f"{money(abs(more))}{share} {'more' if more > 0 else 'less'} than the plan"
            beside += f", with {machines}" if machines else ""
        early = f" Its search ended early: up to {percent(gap)} less is possible."
        return found.changed(
            usd=usd,
            purchase_usd=cents.rounded(self.account.purchase_usd),
            machines=machines,
            gap=gap,
            sentence=f"{self.title}: {money(usd)}, {beside}.{early if gap > WIDE else ''}",
        )

    @property
    def machines(self) -> str:
        """What it buys, in words; empty if nothing."""
        supplies = self.problem.supplies
        bought = [(supplies[buy.supply], number) for buy, number in self.solution.bought()]
        return counted(
            (supply.title, number, number * supply.capital_usd)
            for supply, number in bought
            if supply.capital_usd
        )


def cheapest(chosen: Chosen, ways: Iterable[Variant]) -> Chosen:
    """Return a plan with what costs less, where its search ended on a dearer one.

    Another way on its platforms is a plan too.
    """
    problem, found = chosen.problem, chosen.solution
    allowed = {*chosen.platforms}
    others = [
        item.solution
        for item in ways
        if item.solution.feasible and used_platforms(item.problem, item.solution) <= allowed
    ]

    def usd(item: Solution) -> float:
        return Account(problem, item).total_usd

    best = min((item for item in [found, *others] if item.feasible), key=usd, default=found)
    if best is found:
        return chosen
    gap = max(0.0, 1 - usd(found) * (1 - found.gap) / usd(best))
    return replace(chosen, solution=replace(best, gap=gap, timed_out=found.timed_out))


def without(problem: Problem, barred: Callable[[Way | None], bool]) -> Problem:
    """Return a problem without some ways of getting machines; None stands for on demand."""
    return problem.only("way", lambda supply: not barred(supply.way), lambda _: not barred(None))


@record
class Beside:
    """What stands beside a plan."""

    others: tuple[Alternative, ...] = ()
    curve: tuple[Alternative, ...] = ()
    limit_prices: tuple[ConstraintPrice, ...] = ()


def beside(
    ways: tuple[Variant, ...],
    whole: Problem,
    best: Account,
    programs: Programs,
    mixed: Programs,
    *,
    bounded: bool,
) -> Beside:
    """Return other ways to do the work of a plan, budgets and looser limits.

    ``ways``: of ``other_ways``. ``whole``: the problem on all platforms, and ``mixed`` its
    programs. ``bounded``: the budget alone decides how much work is done.
    """
    problem, total = best.problem, cents.rounded(best.total_usd)
    more: list[Task] = []
    if problem is not whole:
        more.append(partial(all_platforms, whole, best, mixed))
    if problem.limits.purchase_usd is not None:
        more.append(partial(faster, problem, best, programs))
    if not is_large(problem) and len({buy.supply for buy, _ in best.solution.bought()}) > 1:
        more.append(partial(one_kind, problem, best))
    curve, prices = budget_curve(problem, best, programs), limit_prices(problem, best, programs)
    steps = [partial(more_work, problem)] if bounded else []
    # HiGHS lets go of Python's lock while it solves.
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = pool.map(lambda task: task(), [*more, *steps, *curve, *prices])
        variants = [*ways, *(next(found) for _ in more)]
        for _ in steps:
            variants += next(found)
        return Beside(
            others=tuple(item.result(total) for item in variants if item is not None),
            curve=tuple(unlike(next(found) for _ in curve)),
            limit_prices=tuple(
                sorted((next(found) for _ in prices), key=lambda item: -item.saves_usd)
            ),
        )


def other_ways(
    problem: Problem, means: Means, programs: Programs, mixed: Programs
) -> tuple[Variant, ...]:
    """Solve the problem by renting everything, and by buying everything, on any one platform.

    Neither is another way where the question allows only one of them. ``mixed``: programs of the
    problem on all platforms, which learn its bound while the plan is looked for.
    """
    ways = {}
    if means.rent and means.buy:
        there = any(supply.way is Way.OWNED for supply in problem.supplies)
        title = "Buy nothing" if there else "Rent everything"
        ways["rent"] = title, without(problem, lambda way: way is Way.BUY)
        ways["buy"] = "Buy everything", without(problem, lambda way: way in (None, Way.COMMIT))
    found = []
    for name, (title, changed) in ways.items():
        chosen = choose(changed, means, programs, rough=True)
        variant = Variant(name, title, chosen.problem, chosen.solution)
        found.append(replace(variant, title=_with_apis(variant)))
    if is_large(problem) and not means.mixed_vendors:
        least_cost(problem, mixed)
    return tuple(found)


def _with_apis(variant: Variant) -> str:
    """Return the title, which says so where work goes to APIs."""
    hosted = [variant.account.mode(use).hosted for use, _ in variant.solution.used()]
    if not any(hosted):
        return variant.title
    return "Call APIs for everything" if all(hosted) else f"{variant.title} (APIs count)"


def all_platforms(problem: Problem, best: Account, programs: Programs) -> Variant:
    """Solve the problem with machines of all software platforms together.

    That allows the best plan on one platform too: where the search ends on a dearer one, or where
    the relaxed program leaves too little to tell, it is the plan, and what may still be less is
    told beside it.
    """
    title, total = "Several platforms", best.total_usd
    least = least_cost(problem, programs)
    if least < (1 - WIDE) * total:
        found = Variant(MIXED, title, problem, solve(problem, rough=True, programs=programs))
        if found.solution.feasible:
            usd = found.account.total_usd
            if usd <= total:
                used = used_platforms(problem, found.solution)
                other = len(used) == 1 and used != used_platforms(problem, best.solution)
                return replace(found, title=f"On {min(used)}") if other else found
            least = max(least, usd * (1 - found.solution.gap))
    gap = max(0.0, 1 - least / total) if total > 0 else 0.0
    return Variant(MIXED, title, best.problem, replace(best.solution, gap=gap))


def faster(problem: Problem, best: Account, programs: Programs) -> Variant | None:
    """Solve the problem with every run in half its time; None without runs or such a plan."""
    longest: dict[int, float] = {}
    for use, _ in best.solution.used():
        if use.slot < 0:
            longest[use.job] = max(longest.get(use.job, 0.0), best.mode(use).hours)
    if not longest:
        return None
    changed = problem.with_modes(
        lambda at, mode: at not in longest or mode.hours <= longest[at] / 2
    )
    solution = solve(changed, rough=True, programs=programs)
    found = Variant(FASTER, "Runs in half the time", changed, solution)
    return found if found.solution.feasible else None


def one_kind(problem: Problem, best: Account) -> Variant | None:
    """Solve the problem with machines of one kind; None without such a plan at little more."""
    changed = replace(problem, limits=replace(problem.limits, kinds=1))
    found = Variant(ONE_KIND, "Machines of one kind", changed, solve(changed, rough=True))
    near = bool(found.machines) and found.account.total_usd <= LITTLE_MORE * best.total_usd
    return found if near else None


def budget_curve(problem: Problem, best: Account, programs: Programs) -> list[Task]:
    """Return tasks that find the best plan under each of some budgets, the smallest first."""
    most, total = best.purchase_usd, best.total_usd
    if most <= 0:
        return []
    least = min(most, least_purchase(problem, programs))
    tasks: list[Task] = []
    if least > 0:
        title = f"With less than {money(least)} for machines"
        none = Variant("none", title, problem, Solution(timed_out=is_large(problem)))
        tasks.append(partial(none.result, total))
    shares = FEW_SHARES if least > 0 and is_large(problem) else BUDGET_SHARES
    for share in shares if least < most else ():
        limits = replace(problem.limits, purchase_usd=least + share * (most - least))
        changed = replace(problem, limits=limits)
        tasks.append(partial(_under_budget, share, changed, total, programs))
    whole = Variant("1", f"With {money(most)} for machines", problem, best.solution)
    return [*tasks, partial(whole.result, total)]


def unlike(curve: Iterable[Alternative]) -> Iterator[Alternative]:
    """Yield plans under rising budgets without those that a smaller budget gives, too."""
    last: Alternative | None = None
    for item in curve:
        if last is None or (item.usd, item.purchase_usd) != (last.usd, last.purchase_usd):
            yield item
        last = item


def _under_budget(share: float, problem: Problem, usd: float, programs: Programs) -> Alternative:
    budget = problem.limits.purchase_usd
    title = f"With {money(budget)} for machines" if budget else "Without buying"
    solution = solve(problem, rough=True, programs=programs)
    return Variant(f"{share:g}", title, problem, solution).result(usd)


def more_work(problem: Problem) -> list[Variant]:
    """Solve the problem with 2, 4 and 8 times the work, up to the first that is not possible."""
    found: list[Variant] = []
    for times in TIMES:
        changed = problem.scaled([times] * len(problem.months))
        title = f"{'Twice' if times == 2 else f'{times:g} times'} the people, runs and requests"
        found.append(Variant(f"{MORE}{times:g}", title, changed, solve(changed, rough=True)))
        if not found[-1].solution.feasible:
            break
    return found
