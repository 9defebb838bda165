"""Remarks on an answer: ties, old prices, other precisions, limits that the range crosses."""

from collections.abc import Iterator, Sequence
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog.catalog import PriceState
from advisor.estimate.batch.report import counted_cameras
from advisor.estimate.configuration import encoders_beside
from advisor.estimate.results import Estimate
from advisor.estimate.terms import shape_widening
from advisor.estimate.training.defaults import longest_run_s
from advisor.foundation.dates import current_day, dated, is_stale
from advisor.foundation.formatting import (
    duration,
    hourly_price,
    memory,
    milliseconds,
    money_at_most,
    percent,
)
from advisor.foundation.quantities import Evidence
from advisor.foundation.units import HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import EXPECTED_RISK, Constraints, Objective
from advisor.nouns.precision import RECIPES, WEIGHT_FORMATS
from advisor.nouns.software.quality import loses_little, quality_words
from advisor.nouns.software.tools import known_tools
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.explain.missed import limits_in_reach
from advisor.planning.explain.sentences import OBJECTIVE_WORDS, cost_text, label, too_close
from advisor.planning.results import Advice, Plan, Ranking
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import (
    Option,
    latency_risk,
    likely_in_time,
    meets_budget,
    within_limits,
)
from advisor.planning.search.ranking import RANKED_BY, WORTH_SAYING, best_option
from advisor.planning.search.systems import System

SPOT: Final = (
    "Spot machines can be taken back at any time. The hours of a run include the work that is lost "
    "at the stated interruption rate. They do not include the wait for new machines."
)


def advise(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    result: SearchResult,
    *,
    limits: Constraints,
    feasible: Sequence[Option],
    first: Option | None,
    rankings: Sequence[Ranking],
    prices: PriceState,
) -> tuple[Advice, ...]:
    """Return the remarks that belong to the answer, warnings first.

    ``limits``: of the search, those that the case leaves open included. ``first``: the best of
    ``feasible``.
    """
    found: list[Advice] = []
    plans = rankings[0].plans
    if architecture.evidence is Evidence.ASSUMED:
        found.append(_assumed_shape(architecture, plans, result))
    if plans:
        found += _on_estimate(plans[0].estimate, case)
        found += _cameras(plans[0].estimate, case)
        found += _encoders(plans[0].estimate, case, architecture)
    searched = case.changed(limits=limits)
    found += _at_more_risk(searched, systems, result, first)
    # A smaller format mostly saves more than any technique on the same cards.
    found += _lower_precision(searched, systems, result, feasible, first)
    if plans:
        improvements = plans[0].estimate.improvements
        found += (_info("same-cards", f"On the same cards, {text}.") for text in improvements)
        found += _tie(case, rankings[0])
        found += _less_sure(case, systems, feasible, first)
        found += _cap(case, rankings)
        if case.limits.price_kind is PriceKind.SPOT:
            found.append(_warning("spot-interruptions", SPOT))
    found += _prices(prices)
    return tuple(sorted(found, key=lambda item: item.severity != "warning"))


def late_advice(late: str) -> tuple[Advice, ...]:
    """Return the warning that no plan is as fast as readers want; none if ``late`` is empty."""
    return (_warning("slower-than-usual", f"{late[:1].upper()}{late[1:]}."),) if late else ()


def _warning(code: str, message: str) -> Advice:
    return Advice(code=code, severity="warning", message=message)


def _info(code: str, message: str) -> Advice:
    return Advice(code=code, severity="info", message=message)


def _assumed_shape(
    architecture: ModelArchitecture, plans: Sequence[Plan], result: SearchResult
) -> Advice:
    return _warning(
        "assumed-shape",
        f"{architecture.name}: the shape is assumed, so the ranges are wider."
        f"{_moved_by_doubt(architecture, plans, result)} Give the config.json of the model to "
        "narrow them.",
    )


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


def _on_estimate(estimate: Estimate, case: Case) -> Iterator[Advice]:
    """Yield what is doubtful in the first plan."""
    for sentence in limits_in_reach(estimate, case.limits):
        yield _warning("limit-in-range", sentence)
    cost, time = estimate.cost, estimate.time
    price = cost.usd_per_hour
    if price is not None and price.high > price.expected:
        yield _warning(
            "from-price",
            f"{cost.provider} gives only its lowest price (from). The median of firm prices "
            f"for this card is {hourly_price(price.high)}: the upper end of the cost here. Ask for "
            "your price before you rent.",
        )
    run_s = time.run_hours.expected * HOUR_S if time else 0.0
    if case.limits.deadline_hours is None and run_s > longest_run_s():
        yield _warning(
            "long-run",
            f"The run takes {duration(run_s)}; nothing within the limits ends within "
            f"{duration(longest_run_s())}. More cards may (--max-accelerators, now "
            f"{case.limits.max_accelerators:,}), or fewer tokens.",
        )
    today = current_day()
    if cost.price_date is not None and is_stale(cost.price_date, today=today):
        priced = dated(cost.price_date, today=today)
        yield _warning("stale-price", f"Price of {priced}. Check it before you rent.")
    assumed = Evidence.ASSUMED
    if estimate.memory.total_bytes.evidence is assumed or (
        time and time.step_s.evidence is assumed
    ):
        yield _warning(
            "assumed-efficiency",
            "The ranges are assumptions: no comparable runs were measured. Time a few steps before "
            "you commit to a long run.",
        )


def _encoders(estimate: Estimate, case: Case, architecture: ModelArchitecture) -> Iterator[Advice]:
    """Yield that the usual script of adapters of a diffusion model needs a larger card."""
    adapts = (
        isinstance(case.workload, FineTuning) and case.workload.method is not FineTuningMethod.FULL
    )
    tool = known_tools().get(estimate.software.name) if estimate.software else None
    beside = encoders_beside(architecture, tool) if adapts else 0.0
    needed, usable = estimate.memory.total_bytes.high + beside, estimate.memory.usable_bytes
    if beside and needed > usable:
        yield _warning(
            "encoders-beside",
            f"diffusers' own script, which export writes, keeps text encoders on the card too: "
            f"{memory(needed)} of {memory(usable)}. Encode captions and pictures before in a "
            "program of your own, or take a larger card.",
        )


def _cameras(estimate: Estimate, case: Case) -> Iterator[Advice]:
    """Yield that fewer cameras are carried than frames are asked at a time, one of each."""
    workload, serving = case.workload, estimate.serving
    if not isinstance(workload, Serving) or workload.frames_per_s is None or serving is None:
        return
    carried, cameras = serving.cameras, workload.concurrency
    if carried is None or workload.requests_per_s is not None or carried.low >= cameras:
        return
    yield _warning(
        "cameras",
        f"The hardware carries {counted_cameras(carried)}, not {cameras:,} of "
        f"{workload.frames_per_s:g} frames/s. To plan for {cameras:,}, ask for "
        f"--requests-per-second {cameras * workload.frames_per_s:g}.",
    )


def _prices(prices: PriceState) -> Iterator[Advice]:
    if prices.problem:
        yield _warning("live-prices-unused", prices.problem)
    elif prices.live_providers:
        yield _info("live-prices", prices.sentence)


def _cap(case: Case, rankings: Sequence[Ranking]) -> Iterator[Advice]:
    cap = case.limits.max_accelerators
    largest = max((item.plans[0].estimate.count for item in rankings if item.plans), default=0)
    if largest > cap / 2:
        yield _info(
            "accelerator-cap",
            f"The search stops at {cap:,} accelerators. Clusters of this size are usually reserved "
            "ahead, not rented on demand.",
        )


def _tie(case: Case, ranking: Ranking) -> Iterator[Advice]:
    if len(ranking.plans) < 2:
        return
    first, second = ranking.plans[0].estimate, ranking.plans[1].estimate
    one, other = (
        (item.cost.rent_usd if case.objective is Objective.CHEAPEST else None)
        or (item.time.run_hours if item.time else item.serving.tpot_ms if item.serving else None)
        for item in (first, second)
    )
    if one is not None and other is not None and one.low != one.high and too_close(one, other):
        yield _info(
            "tie",
            f"{first.count}x {first.accelerator_name} and {second.count}x "
            f"{second.accelerator_name} are too close to call; choose the one that is easier to "
            "get.",
        )


def _less_sure(
    case: Case, systems: Sequence[System], feasible: Sequence[Option], chosen: Option | None
) -> Iterator[Advice]:
    """Name the option that is expected to cost less than the cheapest plan, but may cost more."""
    if chosen is None or case.objective is not Objective.CHEAPEST:
        return
    least = min(feasible, key=lambda option: (option.cost_usd, option.time))
    if least.cost_usd < chosen.cost_usd:
        yield _info(
            "wider-range",
            f"{label(least, systems[least.system])} is expected to cost less, "
            f"{cost_text(least)}, but may cost up to {money_at_most(least.cost_high_usd)}: "
            "fewer measurements support it. Plans are ranked by the upper end of their range.",
        )


def _at_more_risk(
    case: Case, systems: Sequence[System], result: SearchResult, first: Option | None
) -> Iterator[Advice]:
    """Name what is only expected to meet the latency targets, if it saves a tenth or more."""
    limits = case.limits
    if not isinstance(case.workload, Serving) or limits.risk >= EXPECTED_RISK:
        return
    likely = [
        option
        for option in result.options
        if likely_in_time(option, limits) and meets_budget(option, limits)
    ]
    best = best_option(likely, case.objective)
    if best is None or (first and _improved(case, best, first) > WORTH_SAYING):
        return
    risk = percent(latency_risk(best, limits))
    yield _info(
        "latency-risk",
        f"{label(best, systems[best.system])}, {_figure(best)}, is expected to meet the latency "
        f"target too, with a risk of {risk} that it does not (--risk 50%).",
    )


SAME_BILL: Final = 1.02
"""Bills within this factor are the same."""


def _bits(case: Case, option: Option) -> float:
    serving = isinstance(case.workload, Serving)
    return WEIGHT_FORMATS[option.precision].bytes_per_parameter if serving else 0.0


def _lower_precision(
    case: Case,
    systems: Sequence[System],
    result: SearchResult,
    feasible: Sequence[Option],
    first: Option | None,
) -> Iterator[Advice]:
    """Name the best in a smaller format; before it, the best of those that lose next to nothing."""
    able = within_limits(result.alternatives, case.limits)
    serving = isinstance(case.workload, Serving)
    like = [option for option in able if serving and loses_little(option.precision)]
    told = [*feasible]
    for options, quality in (
        (like, ""),
        (able, " Check the model's quality in that format first."),
    ):
        best = _least(case, options)
        ratio = _improved(case, best, best_option(told, case.objective)) if best else 1.0
        if best is None or (told and ratio > WORTH_SAYING):
            continue
        form = WEIGHT_FORMATS[best.precision] if serving else RECIPES[best.precision]
        flag = f" (--{'weights' if serving else 'precision'} {best.precision})"
        name, _, _ = form.title.partition(" (")
        known = quality or f" Its published loss: {quality_words(best.precision)}."
        plan = label(best, systems[best.system])
        if feasible:
            share = percent(1 - _improved(case, best, first))
            gain = f"the {OBJECTIVE_WORDS[case.objective]} plan improves by {share}: {plan}, "
            gain += _figure(best)
        else:
            gain = f"it works: {plan}"
        yield _info("lower-precision", f"With {name} {gain}{flag}.{known}")
        told.append(best)


def _least(case: Case, options: Sequence[Option]) -> Option | None:
    """Return the best option; of formats that cost about the same, the largest."""
    if not options or case.objective is Objective.FASTEST:
        return best_option(options, case.objective)
    rank = RANKED_BY[case.objective]
    least = min(rank(option)[0] for option in options)
    near = [option for option in options if rank(option)[0] <= least * SAME_BILL]
    return min(near, key=lambda option: (-_bits(case, option) * (least > 0), rank(option)))


def _improved(case: Case, best: Option, chosen: Option | None) -> float:
    """Return what an option costs over the best of others; without rent, its time over theirs."""
    if chosen is None:
        return 0.0
    rank = RANKED_BY[case.objective]
    pairs = zip(rank(best), rank(chosen), strict=True)
    return next(new / old for new, old in pairs if old > 0)


def _figure(option: Option) -> str:
    if option.cost_usd:
        return cost_text(option)
    serving = option.first_token_s is not None
    return milliseconds(option.time) if serving else duration(option.time * HOUR_S)
