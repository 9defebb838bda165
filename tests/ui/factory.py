"""A stand-in for the engine: plausible recommendations without a catalog or a search.

Time grows with the tokens and falls with the number of cards; money is time times price. The
figures are round on purpose, so that tests can state what the page must show.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from advisor.estimate.results import (
    CostBreakdown,
    Estimate,
    FlopCount,
    MemoryBreakdown,
    Parameters,
    StepTime,
)
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.units import GIB, MILLISECOND
from advisor.nouns.case import Case
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Objective
from advisor.nouns.workload import Serving
from advisor.planning.results import (
    Advice,
    Candidate,
    Plan,
    Ranking,
    Recommendation,
    Rejection,
    RejectionCode,
)

TOKENS = 10e6
CATALOG_DATE = "2026-09-01"


@dataclass(frozen=True)
class Card:
    """One accelerator of the stand-in catalog."""

    key: str
    name: str
    usable_gib: float
    usd_per_hour: float
    """For one card. [USD/h]"""
    hours: float
    """For 10 M tokens on one card. [h]"""


CARDS = (
    Card("l40s", "NVIDIA L40S", 45.0, 1.00, 10.0),
    Card("a100-sxm4-80gb", "NVIDIA A100 SXM4 80GB", 79.3, 1.50, 8.0),
    Card("h100-sxm", "NVIDIA H100 SXM5 80GB", 79.6, 2.50, 4.0),
    Card("b200-sxm", "NVIDIA B200 SXM 180GB", 179.0, 5.00, 2.5),
)
COUNTS = (1, 2, 4, 8)
T4 = "NVIDIA T4"
RTX_4090 = "NVIDIA GeForce RTX 4090"
PROVIDER = "Example Cloud"


def around(value: float) -> Range:
    return Range.around(value, low_factor=0.8, high_factor=1.3, evidence=Evidence.CALIBRATED)


def gib(value: float) -> Range:
    return Range.around(value * GIB, low_factor=0.95, high_factor=1.1, evidence=Evidence.CALIBRATED)


def hours_of(card: Card, count: int, tokens: float) -> float:
    return card.hours * tokens / TOKENS / math.pow(count, 0.9)


def memory(card: Card, *, serving: bool) -> MemoryBreakdown:
    zero = Range.exact(0.0)
    return MemoryBreakdown(
        weights_bytes=gib(15.0),
        gradients_bytes=zero if serving else gib(0.1),
        optimizer_bytes=zero if serving else gib(0.3),
        activations_bytes=gib(1.0 if serving else 9.0),
        logits_bytes=zero if serving else gib(2.0),
        kv_cache_bytes=gib(8.0) if serving else zero,
        workspace_bytes=gib(1.0),
        context_bytes=gib(0.6),
        fragmentation_bytes=gib(1.0),
        total_bytes=gib(26.6 if serving else 29.0),
        usable_bytes=card.usable_gib * GIB,
        fits=True,
        peak_moment="serving" if serving else "backward_end",
        terms=(
            Term(
                name="weights",
                title="Weights",
                value=15.0 * GIB,
                unit="bytes",
                formula="parameters x bytes per parameter",
                substituted="8,030,261,248 x 2",
                reference="rajbhandari2020",
            ),
        ),
    )


def cost(card: Card, count: int, total: Range, per_million: float) -> CostBreakdown:
    per_hour = card.usd_per_hour * count
    return CostBreakdown(
        usd_per_hour=Range.exact(per_hour, Evidence.MEASURED),
        rent_usd=total,
        usd_per_million_tokens=around(per_million),
        purchase_usd=Range.exact(8000.0 * count, Evidence.MEASURED),
        energy_kwh=around(3.5),
        provider=PROVIDER,
        offer=f"example/{card.key}/us-east/{count}",
        instance_type=f"{card.key}-x{count}",
        instances=1,
        region="us-east",
        price_date="2026-09-01",
        price_source="example-prices",
        terms=(
            Term(
                name="rent",
                title="Rent",
                value=total.expected,
                unit="USD",
                formula="hours x USD per hour",
                substituted=f"{total.expected / per_hour:.2f} x {per_hour:.2f}",
            ),
        ),
    )


def training_estimate(case: Case, card: Card, count: int, tokens: float) -> Estimate:
    hours = around(hours_of(card, count, tokens))
    steps = 38.0
    step = hours.scaled(3600 / steps)
    return Estimate(
        model="Llama 3.1 8B",
        workload="LoRA fine-tuning",
        accelerator=card.key,
        accelerator_name=card.name,
        count=count,
        layout=ParallelLayout(data=count),
        precision="bf16_mixed",
        parameters=parameters(),
        memory=memory(card, serving=False),
        flops=FlopCount(
            model_per_step=8.4e15, hardware_per_step=1.1e16, per_token=3.2e10, terms=()
        ),
        time=StepTime(
            step_s=step,
            tokens_per_step=tokens / steps,
            steps=steps,
            tokens_per_s=step.reciprocal(tokens / steps),
            tokens_per_s_per_accelerator=step.reciprocal(tokens / steps / count),
            model_flops_utilization=around(0.4),
            goodput=around(0.7),
            startup_s=Range.exact(60.0, Evidence.ASSUMED),
            run_hours=hours,
            benchmark_hours=hours.scaled(0.7),
            delivered_tokens_per_s=hours.scaled(3600.0).reciprocal(tokens),
            bound_by="compute",
            terms=(
                Term(
                    name="compute",
                    title="Arithmetic",
                    value=step.expected,
                    unit="s",
                    formula="FLOPs / (peak x efficiency)",
                    substituted="1.1e16 / (3.6e14 x 0.4)",
                    reference="williams2009",
                ),
            ),
        ),
        cost=cost(card, count, hours.scaled(card.usd_per_hour * count), 1.2),
        assumptions=("sequences of 4,096 tokens", "64 sequences per optimizer step"),
        references=("williams2009", "rajbhandari2020"),
    )


def serving_estimate(case: Case, card: Card, count: int) -> Estimate:
    tpot = around(card.hours * 4 / count**0.5)
    month = Range.exact(card.usd_per_hour * count * 730)
    return Estimate(
        model="Llama 3.1 8B",
        workload="Serving",
        accelerator=card.key,
        accelerator_name=card.name,
        count=count,
        layout=ParallelLayout(tensor=count),
        precision="bf16",
        parameters=parameters(),
        memory=memory(card, serving=True),
        flops=FlopCount(
            model_per_step=1.6e10, hardware_per_step=1.6e10, per_token=1.6e10, terms=()
        ),
        serving=ServingEstimate(
            ttft_ms=around(400.0),
            tpot_ms=tpot,
            output_tokens_per_s=tpot.reciprocal(8 / MILLISECOND),
            requests_per_s=around(0.5),
            max_concurrency=24,
            max_context_tokens=65_536,
            replicas=1,
            bound_by="weights",
            terms=(
                Term(
                    name="weights",
                    title="Reading the weights",
                    value=tpot.expected * MILLISECOND,
                    unit="s",
                    formula="weight bytes / bandwidth",
                    substituted="16.1e9 / 0.86e12",
                    reference="pope2022",
                ),
            ),
        ),
        cost=cost(card, count, month, 4.0),
        assumptions=("weights in bf16, cache in bf16",),
        references=("pope2022",),
    )


def parameters() -> Parameters:
    return Parameters(
        total=8_030_261_248,
        without_head=7_504_924_672,
        text_tower=8_030_261_248,
        with_vision=8_030_261_248,
        active=8_030_261_248,
        active_without_embedding=7_504_924_672,
        trainable=41_943_040,
        evidence=Evidence.DERIVED,
    )


def recommend_aloud(case: Case, on_sentence: Callable[[str], object]) -> Recommendation:
    """As `recommend`; tells the answer first, as the engine does."""
    found = recommend(case)
    on_sentence(found.answer)
    return found


def recommend(case: Case) -> Recommendation:
    """What the page asks of the engine, answered from the table of cards above."""
    limits = case.limits
    workload = case.workload
    serving = isinstance(workload, Serving)
    tokens = TOKENS if isinstance(workload, Serving) else workload.tokens or TOKENS
    cards = [card for card in CARDS if not limits.accelerators or card.key in limits.accelerators]
    estimates = [
        serving_estimate(case, card, count)
        if serving
        else training_estimate(case, card, count, tokens)
        for card in cards
        for count in COUNTS
    ]
    feasible = [item for item in estimates if _meets(item, case)]
    objectives = (case.objective, *(item for item in Objective if item is not case.objective))
    rankings = tuple(
        Ranking(objective=objective, plans=_plans(feasible, objective)) for objective in objectives
    )
    chosen = {plan.estimate.accelerator for ranking in rankings for plan in ranking.plans}
    plans = rankings[0].plans
    candidates = _candidates(feasible or estimates)
    return Recommendation(
        case=case,
        answer=plans[0].sentence if plans else "Nothing works within your limits.",
        parameters=parameters(),
        rankings=rankings,
        frontier=tuple(item for item in candidates if item.on_frontier),
        candidates=candidates,
        rejections=(*_fixed_rejections(), *_dominated(chosen)),
        advice=(Advice(code="note", severity="info", message="Figures are a stand-in."),),
        assumptions=("sequences of 4,096 tokens", "64 sequences per optimizer step"),
        references=("williams2009", "rajbhandari2020"),
        searched=len(estimates),
        feasible=len(feasible),
        able=len({item.accelerator for item in feasible}),
        catalog_date=CATALOG_DATE,
    )


def _time(estimate: Estimate) -> Range:
    if estimate.time is not None:
        return estimate.time.run_hours
    assert estimate.serving is not None
    return estimate.serving.tpot_ms


def _rent(estimate: Estimate) -> Range:
    assert estimate.cost.rent_usd is not None
    return estimate.cost.rent_usd


def _meets(estimate: Estimate, case: Case) -> bool:
    limits = case.limits
    longest = limits.deadline_hours if estimate.time else limits.max_tpot_ms
    in_time = longest is None or _time(estimate).expected <= longest
    return in_time and (limits.budget_usd is None or _rent(estimate).expected <= limits.budget_usd)


def _plans(estimates: list[Estimate], objective: Objective) -> tuple[Plan, ...]:
    def key(item: Estimate) -> float:
        time, money = _time(item).expected, _rent(item).expected
        return {
            Objective.CHEAPEST: money,
            Objective.FASTEST: time,
            Objective.BEST_VALUE: money * time,
        }[objective]

    return tuple(
        Plan(
            rank=rank,
            title=f"Rent {item.count}x {item.accelerator_name} at {PROVIDER}",
            sentence=f"Rent {item.count}x {item.accelerator_name}: ${_rent(item).expected:.2f}.",
            why="Limited by arithmetic. Runner-up: $99 with another card.",
            estimate=item,
        )
        for rank, item in enumerate(sorted(estimates, key=key)[:2], start=1)
    )


def _candidates(estimates: list[Estimate]) -> tuple[Candidate, ...]:
    ordered = sorted(estimates, key=lambda item: (_time(item).expected, _rent(item).expected))
    found: list[Candidate] = []
    least = float("inf")
    for item in ordered:
        on_frontier = _rent(item).expected < least
        least = min(least, _rent(item).expected)
        found.append(
            Candidate(
                accelerator=item.accelerator,
                accelerator_name=item.accelerator_name,
                count=item.count,
                provider=PROVIDER,
                instance_type=item.cost.instance_type,
                hours=item.time.run_hours if item.time else None,
                tpot_ms=item.serving.tpot_ms if item.serving else None,
                cost_usd=_rent(item),
                on_frontier=on_frontier,
                label=f"{item.count}x {item.accelerator_name} ({PROVIDER})",
            )
        )
    return tuple(found)


def _fixed_rejections() -> tuple[Rejection, ...]:
    return (
        Rejection(
            accelerator="t4",
            accelerator_name=T4,
            code=RejectionCode.DEADLINE,
            actual=31.0,
            limit=24.0,
            unit="h",
            message=f"{T4} misses your deadline: 31 h on 1, limit 24 h.",
            remedy="Meets it with 77% of the tokens.",
        ),
        Rejection(
            accelerator="rtx-4090",
            accelerator_name=RTX_4090,
            code=RejectionCode.MEMORY,
            actual=29.0,
            limit=24.0,
            unit="GiB",
            message=f"{RTX_4090} is 5.0 GiB short: it needs 29 GiB, it has 24 GiB.",
            remedy="QLoRA keeps the base in 4 bits.",
        ),
    )


def _dominated(chosen: set[str]) -> tuple[Rejection, ...]:
    return tuple(
        Rejection(
            accelerator=card.key,
            accelerator_name=card.name,
            code=RejectionCode.DOMINATED,
            actual=None,
            limit=None,
            unit="",
            message=f"{card.name} works, but another is better.",
            remedy="Its rent would have to fall.",
        )
        for card in CARDS
        if card.key not in chosen
    )
