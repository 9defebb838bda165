"""Remarks on an answer: ties, old prices, other precisions, limits that the range crosses."""

from collections.abc import Sequence
from datetime import date
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog.catalog import PriceState
from advisor.estimate.results import Estimate
from advisor.estimate.terms import shape_widening
from advisor.foundation.dates import current_day, dated, is_stale
from advisor.foundation.formatting import duration, hourly_price, memory, money_at_most, percent
from advisor.foundation.quantities import Evidence
from advisor.foundation.units import HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.precision import RECIPES, WEIGHT_FORMATS
from advisor.nouns.workload import Serving
from advisor.planning.explain.sentences import (
    OBJECTIVE_WORDS,
    cost_text,
    label,
    limits_in_reach,
    too_close,
)
from advisor.planning.results import Advice, Plan, Ranking
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import (
    RANKED_BY,
    WORTH_SAYING,
    Option,
    best_option,
    meets_budget,
    meets_time,
)
from advisor.planning.search.systems import System

LONG_RUN_H = 24.0 * 365 / 2
"""Longer runs than half a year are hardly planned, so the answer names the deadline. [h]"""


def advise(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    result: SearchResult,
    *,
    limits: Constraints,
    feasible: Sequence[Option],
    rankings: Sequence[Ranking],
    prices: PriceState,
) -> tuple[Advice, ...]:
    """Return the remarks that belong to the answer, warnings first.

    ``limits``: of the search, those that the case leaves open included.
    """
    found: list[Advice] = []
    plans = rankings[0].plans
    lower = _lower_precision(case.changed(limits=limits), systems, result, feasible)
    if architecture.evidence is Evidence.ASSUMED:
        found.append(
            Advice(
                code="assumed-shape",
                severity="warning",
                message=(
                    f"{architecture.name}: the shape is assumed, so the ranges are wider."
                    f"{_moved_by_doubt(architecture, plans, result)} Give the config.json of the "
                    "model to narrow them."
                ),
            )
        )
    if plans:
        found.extend(_limits_in_reach(plans[0].estimate, case.limits))
        found.extend(_from_price(plans[0].estimate))
        found.extend(_long_run(plans[0].estimate, case))
        found.extend(_stale(plans[0].estimate.cost.price_date, current_day()))
        if plans[0].estimate.memory.total_bytes.evidence is Evidence.ASSUMED or (
            plans[0].estimate.time and plans[0].estimate.time.step_s.evidence is Evidence.ASSUMED
        ):
            found.append(
                Advice(
                    code="assumed-efficiency",
                    severity="warning",
                    message=(
                        "The ranges are assumptions: no comparable runs were measured. Time a few "
                        "steps before you commit to a long run."
                    ),
                )
            )
        # A smaller format mostly saves more than any technique on the same cards.
        found.extend(lower)
        found.extend(
            Advice(code="same-cards", severity="info", message=f"On the same cards, {text}.")
            for text in plans[0].estimate.improvements
        )
        found.extend(_tie(case, rankings[0]))
        found.extend(_less_sure(case, systems, feasible))
        found.extend(_cap(case, rankings))
        if case.limits.price_kind is PriceKind.SPOT:
            found.append(
                Advice(
                    code="spot-interruptions",
                    severity="warning",
                    message=(
                        "Spot machines can be taken back at any time. The hours of a run include "
                        "the work that is lost at the stated interruption rate. They do not "
                        "include the wait for new machines."
                    ),
                )
            )
    if not plans:
        found.extend(lower)
    found.extend(_prices(prices))
    return tuple(sorted(found, key=lambda item: item.severity != "warning"))


def _moved_by_doubt(
    architecture: ModelArchitecture, plans: Sequence[Plan], result: SearchResult
) -> str:
    """Return a sentence where only the wider range of an assumed shape needs host memory."""
    first = plans[0].estimate if plans else None
    if first is None or not first.layout.offload:
        return ""
    known = result.misses[first.accelerator].needed_bytes / shape_widening(architecture)
    if known > first.memory.usable_bytes:
        return ""
    return (
        " Only because of these wider ranges, the plan uses the host's memory: with a known shape "
        f"it needs at most {memory(known)} of the card's {memory(first.memory.usable_bytes)}."
    )


def _limits_in_reach(estimate: Estimate, limits: Constraints) -> list[Advice]:
    return [
        Advice(code="limit-in-range", severity="warning", message=sentence)
        for sentence in limits_in_reach(estimate, limits)
    ]


def _prices(prices: PriceState) -> list[Advice]:
    if prices.problem:
        return [Advice(code="live-prices-unused", severity="warning", message=prices.problem)]
    if prices.live_providers:
        return [Advice(code="live-prices", severity="info", message=prices.sentence)]
    return []


def _stale(price_date: str | None, today: date) -> list[Advice]:
    if price_date is None or not is_stale(price_date, today=today):
        return []
    return [
        Advice(
            code="stale-price",
            severity="warning",
            message=f"Price of {dated(price_date, today=today)}. Check it before you rent.",
        )
    ]


def _long_run(estimate: Estimate, case: Case) -> list[Advice]:
    """Name the deadline where the cheapest run takes longer than anybody waits."""
    hours = None if estimate.time is None else estimate.time.run_hours
    if hours is None or case.limits.deadline_hours is not None or hours.expected <= LONG_RUN_H:
        return []
    return [
        Advice(
            code="long-run",
            severity="warning",
            message=(
                f"The cheapest run takes {duration(hours.expected * HOUR_S)}. State a deadline, as "
                "--deadline 180d, for machines that finish sooner; above "
                f"{case.limits.max_accelerators:,} cards with --max-accelerators."
            ),
        )
    ]


def _from_price(estimate: Estimate) -> list[Advice]:
    price = estimate.cost.usd_per_hour
    if price is None or price.high == price.expected:
        return []
    message = (
        f"{estimate.cost.provider} gives only its lowest price (from). The median of firm prices "
        f"for this card is {hourly_price(price.high)}: the upper end of the cost here. Ask for "
        "your price before you rent."
    )
    return [Advice(code="from-price", severity="warning", message=message)]


def _cap(case: Case, rankings: Sequence[Ranking]) -> list[Advice]:
    cap = case.limits.max_accelerators
    largest = max((item.plans[0].estimate.count for item in rankings if item.plans), default=0)
    if largest <= cap / 2:
        return []
    return [
        Advice(
            code="accelerator-cap",
            severity="info",
            message=(
                f"The search stops at {cap:,} accelerators. Clusters of this "
                "size are usually reserved ahead, not rented on demand."
            ),
        )
    ]


def _tie(case: Case, ranking: Ranking) -> list[Advice]:
    if len(ranking.plans) < 2:
        return []
    first, second = ranking.plans[0].estimate, ranking.plans[1].estimate
    figures = [
        (item.cost.rent_usd if case.objective.value == "cheapest" else None)
        or (item.time.run_hours if item.time else item.serving.tpot_ms if item.serving else None)
        for item in (first, second)
    ]
    if figures[0] is None or figures[1] is None or figures[0].low == figures[0].high:
        return []
    if not too_close(figures[0], figures[1]):
        return []
    return [
        Advice(
            code="tie",
            severity="info",
            message=(
                f"{first.count}x {first.accelerator_name} and {second.count}x "
                f"{second.accelerator_name} are too close to call; choose the one that is easier "
                "to get."
            ),
        )
    ]


def _less_sure(case: Case, systems: Sequence[System], feasible: Sequence[Option]) -> list[Advice]:
    """Name the option that is expected to cost less than the cheapest plan, but may cost more."""
    chosen = best_option(feasible, Objective.CHEAPEST)
    if chosen is None or case.objective is not Objective.CHEAPEST:
        return []
    least = min(feasible, key=lambda option: (option.cost_usd, option.time))
    if least.cost_usd >= chosen.cost_usd:
        return []
    return [
        Advice(
            code="wider-range",
            severity="info",
            message=(
                f"{label(least, systems[least.system])} is expected to cost less, "
                f"{cost_text(least)}, but may cost up to {money_at_most(least.cost_high_usd)}: "
                "fewer measurements support it. Plans are ranked by the upper end of their range."
            ),
        )
    ]


SAME_BILL: Final = 1.02
"""Bills within this factor are the same."""


def _bits(case: Case, option: Option) -> float:
    serving = isinstance(case.workload, Serving)
    return WEIGHT_FORMATS[option.precision].bytes_per_parameter if serving else 0.0


def _lower_precision(
    case: Case, systems: Sequence[System], result: SearchResult, feasible: Sequence[Option]
) -> list[Advice]:
    within = [
        option
        for option in result.alternatives
        if meets_time(option, case.limits) and meets_budget(option, case.limits)
    ]
    if not within:
        return []
    rank = RANKED_BY[case.objective]
    # Of formats that cost about the same, the one that changes the model least.
    least = min(rank(option)[0] for option in within)
    near = [option for option in within if rank(option)[0] <= least * SAME_BILL]
    best = min(near, key=lambda option: (-_bits(case, option) * (least > 0), rank(option)))
    names = WEIGHT_FORMATS if isinstance(case.workload, Serving) else RECIPES
    what = names[best.precision].title
    if not feasible:
        return [
            Advice(
                code="lower-precision",
                severity="info",
                message=f"With {what} it works: {label(best, systems[best.system])}.",
            )
        ]
    # Options without rent are compared by their time.
    ratio = next(
        new / old for new, old in zip(rank(best), min(map(rank, feasible)), strict=True) if old > 0
    )
    if ratio > WORTH_SAYING:
        return []
    figure = (
        cost_text(best)
        if best.cost_usd
        else duration(best.time if best.first_token_s is not None else best.time * HOUR_S)
    )
    return [
        Advice(
            code="lower-precision",
            severity="info",
            message=(
                f"With {what} the {OBJECTIVE_WORDS[case.objective]} plan improves by "
                f"{percent(1 - ratio)}: {label(best, systems[best.system])}, {figure}. Check the "
                "model's quality in that format first."
            ),
        )
    ]
