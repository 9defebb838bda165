"""The search as a user meets it: three cases, limits, rejections, dominance."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pytest

import advisor
from advisor.foundation.units import GIB
from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import Objective
from advisor.planning.many import estimate_many
from advisor.planning.results import Candidate, Plan, Recommendation, RejectionCode
from advisor.planning.spot import aged_factor
from tests.cases import CASES, LORA, SERVE, pretrain, serve, tune


@lru_cache
def answer(name: str) -> Recommendation:
    return advisor.recommend(CASES[name])


def changed(case: dict[str, Any], **limits: Any) -> dict[str, Any]:
    return {**case, "limits": {**case.get("limits", {}), **limits}}


@pytest.mark.parametrize("name", CASES)
def test_every_accelerator_is_in_a_plan_or_rejected_once(name: str) -> None:
    result = answer(name)
    chosen = {plan.estimate.accelerator for item in result.rankings for plan in item.plans}
    rejected = [item.accelerator for item in result.rejections]
    assert len(rejected) == len(set(rejected))
    everything = {item.key for item in advisor.load_catalog().accelerators}
    assert chosen | set(rejected) == everything
    assert not chosen & set(rejected)
    assert all(item.message.strip() and item.remedy.strip() for item in result.rejections)


@pytest.mark.parametrize("name", CASES)
def test_plans_equal_the_estimate_of_the_same_configuration(name: str) -> None:
    """One answer: what recommend shows is what estimate computes for that configuration."""
    plan = answer(name).plans[0].estimate
    again = advisor.estimate(
        {
            **CASES[name],
            "hardware": {"accelerator": plan.accelerator, "count": plan.count},
            "layout": plan.layout.model_dump(),
        }
    )
    assert again.memory == plan.memory
    assert again.flops == plan.flops


@pytest.mark.parametrize("name", CASES)
def test_plans_keep_the_limits(name: str) -> None:
    result = answer(name)
    limits = result.case.limits
    for ranking in result.rankings:
        for plan in ranking.plans:
            assert plan.estimate.memory.fits
            cost = plan.estimate.cost.rent_usd
            assert cost is not None
            if limits.budget_usd is not None:
                assert cost.expected <= limits.budget_usd
            if limits.deadline_hours is not None and plan.estimate.time is not None:
                assert plan.estimate.time.run_hours.expected <= limits.deadline_hours


@pytest.mark.parametrize("name", CASES)
def test_rankings_are_ordered_by_their_objective(name: str) -> None:
    for ranking in answer(name).rankings:
        costs = [highest_cost(plan) for plan in ranking.plans]
        if ranking.objective is Objective.CHEAPEST:
            assert costs == sorted(costs)


def highest_cost(plan: Plan) -> float:
    """Rent of a run at most, or of a month of serving.

    Without a published run on the card, a month is that of the machines that the high end of the
    time per output needs for the expected output. An old price counts with what it may be today.
    """
    rent, serving = plan.estimate.cost.rent_usd, plan.estimate.serving
    assert rent is not None
    most = rent.high * plan.estimate.cost.price_may_be
    if serving is None or "No published run on this card" not in plan.sentence:
        return most
    return most * serving.tpot_ms.high / serving.tpot_ms.expected


@pytest.mark.parametrize("name", CASES)
def test_the_frontier_has_no_dominated_point(name: str) -> None:
    points = answer(name).frontier
    times = [(item.hours or item.tpot_ms).expected for item in points]  # type: ignore[union-attr]
    costs = [item.cost_usd.expected for item in points]  # type: ignore[union-attr]
    assert times == sorted(times)
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)


def test_the_cheapest_plan_has_the_least_upper_end_of_all() -> None:
    """Each upper end counts with what its own price may be today: an old price has to win."""
    result = answer("lora")
    cheapest = highest_cost(result.plans[0])
    plans = [plan for ranking in result.rankings for plan in ranking.plans]
    assert cheapest == min(map(highest_cost, plans))
    ends = [item.cost_usd.high * factor_of(item) for item in result.candidates if item.cost_usd]
    assert len(ends) > 100
    assert cheapest == pytest.approx(min(ends))


def factor_of(candidate: Candidate) -> float:
    """Return the least factor by which a price of a candidate's machine may have risen."""
    return min(
        aged_factor(offer, PriceKind.ON_DEMAND)
        for offer in advisor.load_catalog().offers_for(candidate.accelerator)
        if (offer.provider, offer.instance_type) == (candidate.provider, candidate.instance_type)
    )


def test_one_host_s_lowest_ask_is_searched_only_when_named() -> None:
    """Akash lists a Quadro RTX 8000 at 0.21 USD/h, the lowest ask of its marketplace."""
    lost = {item.accelerator: item for item in answer("lora").rejections}["quadro-rtx-8000"]
    assert lost.code is RejectionCode.NOT_OFFERED
    assert "Akash" in lost.remedy
    named = advisor.recommend(changed(LORA, providers=["Akash"]))
    assert "quadro-rtx-8000" in {item.accelerator for item in named.candidates}
    wanted = advisor.recommend(changed(LORA, accelerators=["quadro-rtx-8000"]))
    assert {item.accelerator for item in wanted.candidates} == {"quadro-rtx-8000"}


def test_a_looser_deadline_never_costs_more() -> None:
    costs = []
    for hours in (1, 4, 24, 240):
        rent = (
            advisor.recommend(changed(LORA, deadline_hours=hours)).plans[0].estimate.cost.rent_usd
        )
        assert rent is not None
        costs.append(rent.high)
    assert costs == sorted(costs, reverse=True)


def test_an_impossible_deadline_is_an_answer_not_an_error() -> None:
    result = advisor.recommend(changed(LORA, deadline_hours=0.01))
    assert not result.plans
    assert result.answer.startswith("Nothing works within")
    codes = {item.code for item in result.rejections}
    assert RejectionCode.DEADLINE in codes
    late = next(item for item in result.rejections if item.code is RejectionCode.DEADLINE)
    assert late.actual is not None
    assert late.limit == pytest.approx(0.01)
    assert late.actual > 0.01


def test_a_budget_too_small_names_what_would_be_needed() -> None:
    result = advisor.recommend(changed(LORA, budget_usd=0.01, deadline_hours=None))
    assert not result.plans
    poor = [item for item in result.rejections if item.code is RejectionCode.BUDGET]
    assert poor
    assert all(item.actual is not None and item.actual > 0.01 for item in poor)
    nearest = min(poor, key=lambda item: item.actual or 0.0)
    assert "Nearest: " in result.answer
    assert nearest.message in result.answer


def test_owned_hardware_costs_no_rent_and_excludes_the_rest() -> None:
    result = advisor.recommend(
        changed(LORA, deadline_hours=240, owned=[{"accelerator": "rtx-4090", "count": 2}])
    )
    assert {plan.estimate.accelerator for plan in result.plans} <= {"rtx-4090"}
    assert all(plan.estimate.cost.rent_usd is None for plan in result.plans)
    others = {item.code for item in result.rejections if item.accelerator != "rtx-4090"}
    assert others == {RejectionCode.EXCLUDED}


def test_providers_have_other_names() -> None:
    one, other = (
        advisor.recommend(serve("llama-3.1-8b", limits={"providers": [name]})).rankings
        for name in ("GCP", "Google Cloud")
    )
    assert one == other


def test_providers_limit_the_offers() -> None:
    result = advisor.recommend(changed(LORA, providers=["AWS"]))
    assert {plan.estimate.cost.provider for plan in result.plans} == {"AWS"}


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    with pytest.raises(advisor.InputError, match="Lambda"):
        advisor.recommend(changed(LORA, providers=["Nowhere"]))


def test_latency_targets_reject_what_is_too_slow() -> None:
    result = advisor.recommend(changed(SERVE, max_tpot_ms=20))
    for plan in result.plans:
        assert plan.estimate.serving is not None
        assert plan.estimate.serving.tpot_ms.expected <= 20
    assert RejectionCode.LATENCY in {item.code for item in result.rejections}


def test_serving_longer_than_the_context_is_refused() -> None:
    case = {**SERVE, "workload": {**SERVE["workload"], "input_tokens": 1_000_000}}
    with pytest.raises(advisor.InputError, match="context"):
        advisor.recommend(case)


def test_a_bare_parameter_count_is_marked_and_wider() -> None:
    result = answer("pretrain")
    assert result.parameters.evidence.value == "assumed"
    assert any(item.code == "assumed-shape" for item in result.advice)


def test_counts_out_of_reach_are_dropped_without_losing_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The roofline bound is exact: with and without it the plans are the same."""
    case = changed(CASES["pretrain"], max_accelerators=64)
    pruned = advisor.recommend(case)
    monkeypatch.setattr(
        "advisor.planning.search.precisions.within_reach", lambda system, *_, **__: system
    )
    full = advisor.recommend(case)
    assert full.searched > pruned.searched
    assert full.rankings == pruned.rankings
    assert full.frontier == pruned.frontier
    assert any(item.code == "lower-precision" for item in full.advice)
    assert full.advice == pruned.advice


def test_the_budget_that_a_rejection_names_is_enough_and_no_more_than_that() -> None:
    work = tune("llama-3.1-405b", method="full", tokens=10e6, limits={"deadline_hours": 1})
    result = advisor.recommend(changed(work, budget_usd=10))
    dear = [item for item in result.rejections if item.code is RejectionCode.BUDGET]
    least = min(item.actual or 0.0 for item in dear)
    assert f"Raise the budget to ${least:.0f}" in result.answer
    assert advisor.recommend(changed(work, budget_usd=least)).plans
    assert not advisor.recommend(changed(work, budget_usd=0.98 * least)).plans


def test_a_card_that_misses_deadline_and_budget_says_both() -> None:
    work = tune("llama-3.1-405b", method="full", tokens=1e9)
    result = advisor.recommend(changed(work, deadline_hours=1, budget_usd=10))
    [told] = re.findall(r"Allow a deadline of ([\d.]+) h and \$([\d,]+)\.$", result.answer)
    hours, usd = (float(item.replace(",", "")) for item in told)
    assert advisor.recommend(changed(work, deadline_hours=hours, budget_usd=usd)).plans


def test_parts_that_only_serve_train_nothing() -> None:
    """AWS Inferentia2 has no training stack; the Neuron documentation trains on Trainium alone."""
    training = {item.accelerator: item for item in answer("lora").rejections}
    assert training["inferentia2"].code is RejectionCode.INFERENCE_ONLY
    serving = {item.accelerator: item.code for item in answer("serve").rejections}
    assert serving.get("inferentia2") is not RejectionCode.INFERENCE_ONLY
    with pytest.raises(advisor.InputError, match="serves models only"):
        advisor.estimate({**LORA, "hardware": {"accelerator": "inferentia2", "count": 1}})


@pytest.mark.parametrize(
    ("count", "layout", "field"),
    [
        (64, {"pipeline": 64}, "layout.pipeline"),
        (3, {"tensor": 3}, "layout.tensor"),
        (8, {"data": 8, "expert": 8}, "layout.expert"),
        (128, {"data": 128}, "layout.data"),
        (8, {"data": 4}, "layout.data"),
    ],
)
def test_layouts_that_cannot_be_are_refused_at_their_field(
    count: int, layout: dict[str, int], field: str
) -> None:
    """Llama 3.1 8B has 32 layers, 32 heads and no experts; the default batch has 64 sequences."""
    case = {**LORA, "hardware": {"accelerator": "h100-sxm", "count": count}, "layout": layout}
    with pytest.raises(advisor.InputError) as refused:
        advisor.estimate(case)
    assert refused.value.field == field


def test_a_budget_never_turns_a_card_that_fits_into_one_that_does_not() -> None:
    """The bound drops counts that cannot pay; memory is judged on all of them."""
    case = tune("llama-3.1-70b", method="lora", tokens=50e6, sequence_length=4096, global_batch=1)
    short = {
        item.accelerator
        for item in advisor.recommend(case).rejections
        if item.code is RejectionCode.MEMORY
    }
    for limits in ({"budget_usd": 50}, {"deadline_hours": 0.5}):
        limited = advisor.recommend({**case, "limits": limits})
        assert {
            item.accelerator for item in limited.rejections if item.code is RejectionCode.MEMORY
        } == short


@pytest.mark.parametrize("objective", Objective)
def test_rejections_compare_with_the_plan_that_is_shown(objective: Objective) -> None:
    result = advisor.recommend({**LORA, "objective": objective})
    shown = result.plans[0].estimate
    beaten = [item for item in result.rejections if item.code is RejectionCode.DOMINATED]
    assert beaten
    name = f"{shown.count:,}x {shown.accelerator_name}"
    assert all(name in item.message for item in beaten)


def test_only_the_cheapest_and_the_fastest_are_advised_for_cost_or_speed_alone() -> None:
    result = advisor.recommend({**LORA, "objective": "fastest"})
    for item in result.rejections:
        assert "cost alone" not in item.remedy, item.accelerator


def test_serving_spreads_experts() -> None:
    """Wide expert parallelism is what makes large routed models fast (arXiv:2412.19437, 3.4)."""
    result = advisor.recommend(
        serve(
            "deepseek-v3",
            concurrency=1024,
            weight_format="fp8",
            limits={"accelerators": ["h200-sxm"], "max_accelerators": 16},
            objective="fastest",
        )
    )
    assert result.plans[0].estimate.layout.expert > 1


def test_an_estimate_with_a_layout_keeps_to_the_context_of_the_model() -> None:
    case = {
        **SERVE,
        "workload": {**SERVE["workload"], "input_tokens": 200_000},
        "hardware": {"accelerator": "h100-sxm", "count": 8},
        "layout": {"tensor": 8},
    }
    with pytest.raises(advisor.InputError, match="context"):
        advisor.estimate(case)


@pytest.mark.parametrize(
    ("case", "limit"), [(SERVE, {"deadline_hours": 24}), (LORA, {"max_tpot_ms": 50})]
)
def test_limits_that_do_not_apply_are_refused(
    case: dict[str, Any], limit: dict[str, float]
) -> None:
    with pytest.raises(advisor.InputError, match=next(iter(limit))):
        advisor.load_case({**case, "limits": limit})


def test_no_end_of_a_range_beats_the_data_sheet() -> None:
    for key in ("a10g", "h100-sxm", "apple-m1-max"):
        time = advisor.estimate({**LORA, "hardware": {"accelerator": key, "count": 1}}).time
        assert time is not None
        assert time.model_flops_utilization.high <= 1


def test_replicas_may_leave_accelerators_of_an_instance_idle() -> None:
    """Qwen2.5 7B has 28 heads: four cards serve one request, eight cannot divide it."""
    case = serve(
        "qwen2.5-7b",
        concurrency=1,
        limits={"accelerators": ["b200-sxm"], "providers": ["AWS"]},
        objective="fastest",
    )
    plan = advisor.recommend(case).plans[0]
    assert plan.estimate.layout.tensor == plan.estimate.count == 4
    assert plan.estimate.cost.instances == 1
    assert "8x" in plan.title
    assert plan.title.endswith("use 4")


def test_an_estimate_has_time_and_price_of_the_plan_it_repeats() -> None:
    """Machines of one accelerator differ in network: the estimate takes that of the plan."""
    for case in (
        {**LORA, "objective": "fastest"},
        {**CASES["pretrain"], "limits": {"deadline_hours": 720, "max_accelerators": 64}},
    ):
        plan = advisor.recommend(case).plans[0].estimate
        hardware = {"accelerator": plan.accelerator, "count": plan.count}
        asked = advisor.estimate({**case, "hardware": hardware})
        arranged = advisor.estimate(
            {**case, "hardware": hardware, "layout": plan.layout.model_dump()}
        )
        assert asked.time == arranged.time == plan.time
        assert asked.cost == arranged.cost == plan.cost


def test_owned_cards_stay_owned_in_an_estimate() -> None:
    owned = {"limits": {"owned": [{"accelerator": "rtx-4090", "count": 2}]}}
    case = {**LORA, **owned, "hardware": {"accelerator": "rtx-4090", "count": 2}}
    assert advisor.estimate(case).cost.rent_usd is None
    with pytest.raises(advisor.InputError, match="you own") as refused:
        advisor.estimate({**case, "hardware": {"accelerator": "rtx-4090", "count": 4}})
    assert refused.value.field == "hardware.count"


def test_many_owned_cards_are_joined_by_ethernet_not_by_one_machine() -> None:
    """Gathering 16 GB of weights over 10 Gbit/s takes longer than computing with them."""
    owned = [{"accelerator": "rtx-4090", "count": 16}]
    case = {**LORA, "limits": {"owned": owned}}
    sixteen = {**case, "hardware": {"accelerator": "rtx-4090", "count": 16}}
    found = advisor.estimate({**sixteen, "layout": {"data": 16, "sharding": "zero3"}})
    assert any("10 Gbit/s Ethernet" in item for item in found.assumptions)
    assert found.time is not None
    assert found.time.bound_by == "network"


def test_a_deadline_names_the_fewest_of_each_accelerator() -> None:
    """Fewer than named miss the deadline: the whole curve of one machine shows it."""
    case = changed(CASES["pretrain"], deadline_hours=240, budget_usd=None)
    case = changed(case, accelerators=["h100-sxm"], providers=["Lambda"])
    result = advisor.recommend(case)
    [found] = result.fewest
    assert found.hours is not None
    assert found.hours.expected <= 240
    half = {"accelerator": "h100-sxm", "count": found.count // 2}
    slower = advisor.estimate({**case, "hardware": half}).time
    assert slower is not None
    assert slower.run_hours.expected > 240


def test_two_targets_that_no_layout_meets_together_are_told_so() -> None:
    """One layout answers the first token sooner, another the later tokens."""
    case = serve(
        "qwen3-30b-a3b",
        concurrency=512,
        input_tokens=2048,
        limits={"accelerators": ["h100-sxm"], "max_accelerators": 4, "max_tpot_ms": 1000},
        objective="fastest",
    )
    serving = advisor.recommend(case).plans[0].estimate.serving
    assert serving is not None
    tpot, ttft = serving.tpot_ms.high, serving.ttft_ms.high
    assert advisor.recommend(changed(case, max_ttft_ms=0.95 * ttft)).plans
    assert advisor.recommend(changed(case, max_tpot_ms=1.01 * tpot)).plans
    both = advisor.recommend(changed(case, max_tpot_ms=1.01 * tpot, max_ttft_ms=0.95 * ttft))
    assert not both.plans
    [lost] = [item for item in both.rejections if item.code is RejectionCode.LATENCY]
    assert "no layout meets both" in lost.message


def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    case = {**SERVE, "workload": {**SERVE["workload"], "output_tokens": 1}}
    answer = advisor.recommend({**case, "limits": {"accelerators": ["h100-sxm"]}}).answer
    assert "first token after" in answer
    assert "for each user" not in answer


@pytest.mark.parametrize("deadline_hours", [24, 0.01])
def test_the_answer_is_told_once_and_first(deadline_hours: float) -> None:
    told: list[str] = []
    case = LORA | {"limits": {"deadline_hours": deadline_hours}}

    found = advisor.recommend(case, on_sentence=told.append)

    assert told == [found.answer]


def test_a_target_that_only_the_expected_value_meets_is_warned_of() -> None:
    case = serve("qwen3-30b-a3b", concurrency=60, limits={"max_tpot_ms": 40, "risk": 0.5})
    answer = advisor.recommend(case)
    serving = answer.rankings[0].plans[0].estimate.serving
    assert serving is not None
    tpot = serving.tpot_ms
    assert tpot.expected <= 40 < tpot.high
    [warning] = [item for item in answer.advice if item.code == "limit-in-range"]
    assert warning.severity == "warning"
    assert warning.message.startswith("Misses the target for the time per token at the high end")
    # The high end is the 90th percentile, the expected value the median.
    [risk] = re.findall(r"a risk of ([0-9.]+)", warning.message)
    assert 10 <= float(risk) <= 50


def test_what_a_margin_for_a_latency_costs_is_told() -> None:
    """Four B200 are expected to answer in time; sixteen were rented without a word of them."""
    case = serve("llama-3.3-70b", requests_per_s=5, limits={"max_ttft_ms": 300, "at": "p95"})
    safe, bold = advisor.recommend(case), advisor.recommend(changed(case, risk=0.5))
    [told] = [item.message for item in safe.advice if item.code == "latency-risk"]
    [risk] = re.findall(r"a risk of ([0-9.]+)", told)
    assert 10 < float(risk) <= 50
    assert bold.plans[0].title.removeprefix("Rent ").split(" at ")[0] in told
    rents = [found.plans[0].estimate.cost.rent_usd for found in (safe, bold)]
    assert rents[0] is not None
    assert rents[1] is not None
    assert rents[1].expected < 0.9 * rents[0].expected
    assert not [item for item in bold.advice if item.code == "latency-risk"]


def test_of_layouts_that_miss_a_target_the_likeliest_to_meet_it_is_shown() -> None:
    """Four machines with a card each are cheaper, but read a prompt on one card."""
    case = serve("llama-3.3-70b", requests_per_s=5, limits={"max_ttft_ms": 300, "at": "p95"})
    found = advisor.estimate({**case, "hardware": {"accelerator": "b200-sxm", "count": 4}})
    assert found.layout.tensor == 4


def test_by_default_the_high_end_meets_a_target() -> None:
    """20 tokens/s asked; 11 to 33 were answered without a word."""
    case = serve("qwen3-30b-a3b", concurrency=50, limits={"max_tpot_ms": 50, "max_ttft_ms": 500})
    answer = advisor.recommend(case)
    for plan in answer.rankings[0].plans:
        assert plan.estimate.serving is not None
        assert plan.estimate.serving.tpot_ms.high <= 50
        assert plan.estimate.serving.ttft_ms.high <= 500
    assert not [item for item in answer.advice if item.code == "limit-in-range"]


def test_on_owned_cards_another_format_is_told_by_the_time_that_it_saves() -> None:
    """The peak in fp8 is twice that in bf16, so at most half of the time goes."""
    case = pretrain(
        "llama-2-13b", tokens=1e12, limits={"owned": [{"accelerator": "h100-sxm", "count": 64}]}
    )
    [advice] = [item for item in advisor.recommend(case).advice if item.code == "lower-precision"]
    [share] = re.findall(r"improves by (\d+) %", advice.message)
    assert 10 <= int(share) <= 50


@pytest.mark.parametrize("name", [*CASES, "qlora of 70B"])
def test_the_next_best_never_reads_as_the_better_one(name: str) -> None:
    """Plans are ranked by the upper end of their range: the next may be expected to cost less."""
    large = {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7},
    }
    result = answer(name) if name in CASES else advisor.recommend(large)
    plan = next(item for item in result.rankings if item.objective is Objective.CHEAPEST).plans[0]
    [(figure, rest)] = re.findall(r"Runner-up: \$([\d,.]+\d)(.*)", plan.why)
    rent = plan.estimate.cost.rent_usd
    assert rent is not None
    if float(figure.replace(",", "")) < 0.99 * rent.expected:
        assert rest.removeprefix(" a month").startswith(" expected, up to $")


def test_a_run_without_deadline_ends_within_half_a_year_where_some_plan_does() -> None:
    """70 billion parameters on 15.6T tokens: twenty years on the cheapest eight accelerators."""
    case: dict[str, Any] = {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "pretraining", "tokens": 15.6e12},
        "limits": {"accelerators": ["b300-sxm"]},
    }
    found = advisor.recommend(case)
    assert found.plans[0].estimate.time is not None
    assert 24 * 100 < found.plans[0].estimate.time.run_hours.expected <= 24 * 180
    assert any("since no deadline is stated (--deadline)" in text for text in found.assumptions)
    assert found.case.limits.deadline_hours is None

    patient = advisor.recommend({**case, "limits": {**case["limits"], "deadline_hours": 24 * 9000}})
    assert patient.plans[0].estimate.count < found.plans[0].estimate.count
    assert not any("no deadline" in text for text in patient.assumptions)


def test_a_run_of_years_names_what_ends_it_sooner() -> None:
    """500 billion parameters on 10T tokens are 3e25 FLOPs: years on the most cards allowed."""
    case = {
        "model": {"parameters": 500e9},
        "workload": {"kind": "pretraining", "tokens": 1e13},
        "limits": {"accelerators": ["h100-sxm"]},
    }
    [advice] = [item for item in advisor.recommend(case).advice if item.code == "long-run"]
    assert "--max-accelerators" in advice.message

    case["workload"] = {"kind": "pretraining", "tokens": 1e8}
    assert not any(item.code == "long-run" for item in advisor.recommend(case).advice)


def test_a_search_refuses_the_rent_of_one_machine() -> None:
    with pytest.raises(advisor.InputError, match="--catalog"):
        advisor.recommend({**LORA, "renting": {"usd_per_hour": 1.0}})
    [refused] = estimate_many([advisor.load_case({**LORA, "renting": {"usd_per_hour": 1.0}})])
    assert isinstance(refused, advisor.InputError)


def test_an_estimate_takes_the_rent_that_a_case_states() -> None:
    """A quote is for all cards; a run of h hours costs h times it, to a started minute."""
    quoted = {**LORA, "renting": {"usd_per_hour": 7.0}}
    cases = [
        {**quoted, "hardware": {"accelerator": card, "count": count}}
        for card, count in [("h100-sxm", 1), ("h100-sxm", 2), ("rtx-5070-ti", 2)]
    ]
    cases.append(cases[1] | {"limits": {"providers": ["AWS"], "regions": ["us-east-1"]}})
    for case, found in zip(cases, estimate_many([*map(advisor.load_case, cases)]), strict=True):
        alone = advisor.estimate(case)
        assert isinstance(found, advisor.Estimate)
        assert found.cost == alone.cost
        assert alone.time
        assert alone.cost.usd_per_hour
        assert alone.cost.rent_usd
        assert alone.cost.usd_per_hour.expected == pytest.approx(7.0)
        hours = alone.time.run_hours.expected
        assert 7.0 * hours <= alone.cost.rent_usd.expected <= 7.0 * (hours + 1 / 60)


@pytest.mark.parametrize("name", ["lora", "pretrain", "serve"])
def test_no_figure_reads_as_a_power_of_ten(name: str) -> None:
    text = advisor.estimate(
        CASES[name] | {"hardware": {"accelerator": "h100-sxm", "count": 64}}
    ).model_dump_json(include={"time", "serving", "memory", "cost", "assumptions"})
    told = re.findall(r'"(?:substituted|formula|title)":"([^"]*)"', text)
    assert told
    assert [words for words in told if re.search(r"\d[eE][+-]\d", words)] == []


def test_a_screen_takes_memory_from_training() -> None:
    """LoRA of 8B needs 23.7 of an RTX 4090's 24.0 GiB; a screen that takes 3 GB is told."""
    case = LORA | {"hardware": {"accelerator": "rtx-4090", "count": 1}}
    bare = advisor.estimate(case)
    seen = advisor.estimate(case | {"host": {"display_bytes": 3e9}})
    assert bare.memory.usable_bytes - seen.memory.usable_bytes == pytest.approx(3e9)
    assert bare.memory.fits
    owned = {"owned": [{"accelerator": "rtx-4090", "count": 1}]}
    found = advisor.recommend(
        case | {"hardware": None, "limits": owned, "host": {"display_bytes": 3e9}}
    )
    used = found.plans[0].estimate.memory
    assert used.needed_bytes <= used.usable_bytes <= 24.0 * GIB - 2.9e9
