"""Why an accelerator that can do the work is in no plan: a missed limit or a better plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.foundation.formatting import duration, milliseconds, money, percent
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLISECOND, round_significant
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.limits import EXPECTED_RISK, Constraints, Objective
from advisor.planning.explain.sentences import cost_text
from advisor.planning.results import Rejection, RejectionCode
from advisor.planning.search.options import NEAR_FASTEST, Option, in_time, meets_budget, meets_tpot
from advisor.planning.search.ranking import RANKED_BY


@record
class Contest:
    """What a card lost against, and the limits that judge it."""

    limits: Constraints
    objective: Objective
    best: Option | None
    """Best plan of the objective."""
    best_name: str
    least_cost_usd: float
    """Within the limits, as the upper end of its range; so is the time."""
    least_time: float
    answer: str
    """Unit of the shown time: ``token`` or ``batch``; empty for training, shown in hours."""
    startup_s: float
    """Time before the first step of every training run. [s]"""

    @classmethod
    def of(
        cls,
        case: Case,
        feasible: Sequence[Option],
        best: Option | None,
        best_name: str,
        *,
        answer: str,
        startup_s: float,
    ) -> Contest:
        """Return the contest of a case; ``feasible`` are the options that meet the limits."""
        return cls(
            case.limits,
            case.objective,
            best,
            best_name,
            min((option.cost_high_usd for option in feasible), default=0.0),
            min((option.time_high for option in feasible), default=0.0),
            answer,
            startup_s,
        )


def reason_it_lost(
    accelerator: Accelerator, options: Sequence[Option], contest: Contest
) -> Rejection:
    """Return why a card that can do the work is in no plan."""
    limits, answer, best = contest.limits, contest.answer, contest.best
    timely = in_time(options, limits)
    if not timely:
        return (
            _latency(accelerator, options, limits)
            if answer
            else _late(accelerator, options, limits, contest.startup_s / HOUR_S)
        )
    affordable = [option for option in timely if meets_budget(option, limits)]
    if not affordable:
        least = round_significant(min(option.cost_usd for option in timely), 3, "up")
        limit = limits.budget_usd or 0.0
        per = " a month" if answer else ""
        return Rejection.of(
            accelerator,
            RejectionCode.BUDGET,
            f"{accelerator.name} costs at least {money(least)}{per}; the budget is {money(limit)}.",
            f"Raise the budget to {money(least)}"
            + ("." if limits.deadline_hours is None or answer else " or allow more time."),
            actual=least,
            limit=limit,
            unit="USD",
        )
    cheapest = min(affordable, key=lambda option: (option.cost_usd, option.time))
    if best is None:
        raise AssertionError("an affordable option exists, so a best plan must too")
    return Rejection.of(
        accelerator,
        RejectionCode.DOMINATED,
        f"{accelerator.name} works, from {_figures(cheapest, answer=answer)}; the chosen "
        f"{contest.best_name} costs {_figures(best, answer=answer)}.",
        _where_it_wins(affordable, best, contest),
        actual=cheapest.cost_usd,
        limit=best.cost_usd,
        unit="USD",
    )


def _figures(option: Option, *, answer: str) -> str:
    if answer:
        return f"{cost_text(option)} at {milliseconds(option.time)} per {answer}"
    return f"{cost_text(option)} in {duration(option.time * HOUR_S)}"


def _where_it_wins(options: Sequence[Option], best: Option, contest: Contest) -> str:
    """Return under which other objective the card wins, or how much its rent must fall."""
    answer = contest.answer
    cheapest = min(options, key=RANKED_BY[Objective.CHEAPEST])
    fastest = min(options, key=RANKED_BY[Objective.FASTEST])
    if cheapest.cost_high_usd <= contest.least_cost_usd:
        return "Choose it if cost alone matters."
    if fastest.time_high <= contest.least_time * NEAR_FASTEST:
        return f"Choose it if speed alone matters: {_figures(fastest, answer=answer)}."
    if contest.objective is Objective.FASTEST:
        return f"It takes {fastest.time / best.time:.1f} times as long, whatever its rent."
    if best.cost_usd <= 0:
        return "Choose it if the best plan's hardware is not free."
    ranges = not answer or not cheapest.proven
    if ranges and any(option.cost_usd < best.cost_usd for option in options):
        upper = money(round_significant(cheapest.cost_high_usd, 2))
        same = " a month for as much output" if answer else ""
        return (
            f"It may cost up to {upper}{same}: time a few steps on it before you rely on the "
            "lower one."
        )
    rank = RANKED_BY[contest.objective]
    ratio = rank(best)[0] / min(map(rank, options))[0]
    return f"Its rent would have to fall by {percent(1 - ratio)}."


def _late(
    accelerator: Accelerator, options: Sequence[Option], limits: Constraints, startup_h: float
) -> Rejection:
    deadline = limits.deadline_hours or 0.0
    budget = limits.budget_usd or math.inf
    nearest = min(options, key=lambda item: max(item.time / deadline, item.cost_usd / budget))
    hours, count = nearest.time, f"{nearest.count:,}"
    took, limit = duration(hours * HOUR_S), duration(deadline * HOUR_S)
    needed = f"a deadline of {duration(hours * HOUR_S, rounding='up')}"
    if not meets_budget(nearest, limits):
        cost = round_significant(nearest.cost_usd, 3, "up")
        dearer = cost / budget > hours / deadline
        return Rejection.of(
            accelerator,
            RejectionCode.DEADLINE,
            f"{accelerator.name} misses your deadline and your budget: it takes {took} on {count} "
            f"and costs {money(cost)}, the limits are {limit} and {money(budget)}.",
            f"Allow {needed} and {money(cost)}.",
            actual=cost if dearer else hours,
            limit=budget if dearer else deadline,
            unit="USD" if dearer else "h",
        )
    # Less work does not shorten the start-up.
    share = math.floor(100 * (deadline - startup_h) / (hours - startup_h))
    return Rejection.of(
        accelerator,
        RejectionCode.DEADLINE,
        f"{accelerator.name} misses your deadline: it takes {took} on {count}, the limit is "
        f"{limit}.",
        f"Reduce the work to {share} %, or allow {needed}." if share >= 1 else f"Allow {needed}.",
        actual=hours,
        limit=deadline,
        unit="h",
    )


def _latency(accelerator: Accelerator, options: Sequence[Option], limits: Constraints) -> Rejection:
    per_token = min(option.later_s for option in options)
    first_token = min(option.first_s for option in options)
    if limits.max_tpot_ms is not None and limits.max_ttft_ms is not None:
        prompt = [option for option in options if meets_tpot(option, limits)]
        if prompt and first_token / MILLISECOND <= limits.max_ttft_ms:
            return _not_both(accelerator, prompt, limits.max_ttft_ms)
    if limits.max_tpot_ms is not None and per_token / MILLISECOND > limits.max_tpot_ms:
        what, actual, limit = "time per output token", per_token, limits.max_tpot_ms * MILLISECOND
    else:
        limit = (limits.max_ttft_ms or 0.0) * MILLISECOND
        what, actual = "time to first token", first_token
    most = "is" if limits.risk == EXPECTED_RISK else "is up to"
    return Rejection.of(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} misses your target: the {what} {most} {milliseconds(actual)}, the "
        f"limit is {milliseconds(limit)}.",
        f"Allow {milliseconds(actual)}, quantise the weights, or lower the load.",
        actual=actual / MILLISECOND,
        limit=limit / MILLISECOND,
        unit="ms",
    )


def _not_both(accelerator: Accelerator, options: Sequence[Option], max_ttft_ms: float) -> Rejection:
    """Reject a card that meets each latency target, but not both with one layout."""
    nearest = min(options, key=lambda option: option.first_s)
    first = nearest.first_s
    return Rejection.of(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} meets each latency target, but no layout meets both: at "
        f"{milliseconds(nearest.later_s)} per token the first token takes {milliseconds(first)}, "
        f"the limit is {milliseconds(max_ttft_ms * MILLISECOND)}.",
        f"Allow {milliseconds(first)} to the first token, or more time per token.",
        actual=first / MILLISECOND,
        limit=max_ttft_ms,
        unit="ms",
    )
