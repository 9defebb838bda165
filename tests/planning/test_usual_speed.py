"""Serving without a latency limit: answers come at the usual speed, where some plan can."""

from __future__ import annotations

import pytest

import advisor
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_case
from advisor.planning.many import estimate_many
from tests.cases import serve

READ_PER_S = 238 / 60 * 4 / 3
"""Tokens a second: 238 words a minute (Brysbaert, 2019), 4/3 tokens a word."""


CHAT_PER_S = 20
"""Tokens a second of a service: MLPerf's authors call 20 to 50 fluid
(mlcommons.org/2025/04/llm-inference-v5)."""


def case(concurrency: int, **limits: object) -> Case:
    return load_case(serve("deepseek-v3", concurrency=concurrency, limits=limits))


def slowest_tokens_per_s(found: advisor.Recommendation) -> float:
    served = [plan.estimate.serving for ranking in found.rankings for plan in ranking.plans]
    return min(1e3 / item.tpot_ms.high for item in served if item is not None)


@pytest.mark.parametrize(("concurrency", "tokens_per_s"), [(1, READ_PER_S), (100, CHAT_PER_S)])
def test_an_answer_comes_at_the_usual_speed(concurrency: int, tokens_per_s: float) -> None:
    found = advisor.recommend(case(concurrency))

    assert slowest_tokens_per_s(found) >= 0.9 * tokens_per_s
    best = found.plans[0].estimate.serving
    assert best is not None
    assert best.ttft_ms.expected <= 10_000 + 1024
    assert "since no limit is stated" in found.assumptions[0]


def test_a_rate_of_requests_is_a_service_however_low() -> None:
    found = advisor.recommend(serve("qwen3-8b", requests_per_s=0.01))

    assert found.assumptions[0].startswith("with 20 tokens/s or more")


def test_a_service_writes_at_reading_speed_where_nothing_is_faster() -> None:
    """70B in Q4_K_M takes 42 GB, which an M2 Ultra reads from its 800 GB/s 19 times a second."""
    limits = {"owned": [{"accelerator": "apple-m2-ultra", "count": 1}]}
    found = advisor.recommend(serve("llama-3.3-70b", concurrency=4, limits=limits))

    assert "nothing within the limits answers with 20 tokens/s or more" in found.assumptions[0]
    assert "; with 5 tokens/s or more" in found.assumptions[0]
    assert slowest_tokens_per_s(found) >= 0.9 * READ_PER_S


def test_only_the_limit_that_is_open_is_called_so() -> None:
    found = advisor.recommend(case(1, max_tpot_ms=100))

    assert found.assumptions[0].startswith("with the first token within 11 s, since no limit")
    assert "--max-tpot-ms" not in found.assumptions[0]


def test_a_stated_limit_is_taken_as_it_is() -> None:
    limits = {"max_tpot_ms": 20_000, "max_ttft_ms": 1e6}
    found = advisor.recommend(case(100, **limits))
    paced = advisor.recommend(case(100))

    assert not any("since no limit is stated" in item for item in found.assumptions)
    assert found.feasible > paced.feasible
    assert found.case.limits.max_tpot_ms == 20_000


def test_what_is_slower_is_shown_if_nothing_else_does_it() -> None:
    found = advisor.recommend(case(100, accelerators=("epyc-7763",)))

    assert found.plans
    assert slowest_tokens_per_s(found) < READ_PER_S
    assert "nothing within the limits answers with 20 tokens/s or more" in found.assumptions[0]


def test_only_what_no_plan_meets_is_given_up_and_a_warning_says_so() -> None:
    """Llama 70B reads prompts at about 100 tokens/s on an M4 Max, and writes 5 a second."""
    limits = {"owned": [{"accelerator": "apple-m4-max", "count": 1}]}
    found = advisor.recommend(load_case(serve("llama-3.3-70b", concurrency=1, limits=limits)))

    assert slowest_tokens_per_s(found) >= 0.9 * READ_PER_S
    warned = [item.message for item in found.advice if item.code == "slower-than-usual"]
    assert len(warned) == 1
    assert "--max-ttft-ms" in warned[0]
    assert "--max-tpot-ms" not in warned[0]
    assert "5 tokens/s or more, since" in found.assumptions[0]
    # What is met needs no warning.
    assert not [item for item in advisor.recommend(case(1)).advice if "slower" in item.code]


def test_the_case_of_the_answer_is_that_of_the_question() -> None:
    asked = case(1)

    assert advisor.recommend(asked).case.limits == asked.limits


def test_many_cases_at_once_get_the_same_plans() -> None:
    # The second budget allows only what is slower than people read.
    cases = [case(100), case(100, budget_usd=5_000)]

    assert advisor.recommend(cases[0]).plans
    for asked, found in zip(cases, estimate_many(cases), strict=True):
        alone = advisor.recommend(asked).plans
        if not alone:
            assert found is None
            continue
        assert isinstance(found, advisor.Estimate)
        assert (found.accelerator, found.count) == (
            alone[0].estimate.accelerator,
            alone[0].estimate.count,
        )


def test_images_come_as_fast_as_a_benchmark_of_servers_asks() -> None:
    """MLPerf Inference gives SDXL 20 s an image (loadgen/mlperf.conf); a processor takes longer."""
    asked = load_case(serve("flux.1-dev", concurrency=2))
    for plan in advisor.recommend(asked).plans:
        assert plan.estimate.serving is not None
        assert plan.estimate.serving.ttft_ms.expected <= 2 * 20_000
    found = advisor.recommend(
        load_case(serve("flux.1-dev", concurrency=2, limits={"accelerators": ("epyc-9654",)}))
    )
    assert found.plans
    assert "nothing within the limits answers with all images" in found.assumptions[0]


def test_a_smaller_format_is_advised_where_it_answers_at_the_usual_speed_too() -> None:
    """The cheapest machine of all, a processor, would write a token in more than a second."""
    case = serve("qwen3-32b", concurrency=32)
    advice = advisor.recommend(case).advice
    told = [item.message for item in advice if "lower" in item.code][-1]  # 8 bits come first
    smaller = serve("qwen3-32b", concurrency=32, weight_format="nvfp4")
    plan = advisor.recommend(smaller).plans[0].estimate
    assert plan.accelerator_name in told
    assert plan.serving is not None
    assert plan.serving.tpot_ms.high <= 50


def test_answers_of_one_token_have_their_load_and_tail_too() -> None:
    """Embeddings and scores of a decoder: a rate of prompts, each with one token."""
    plan = advisor.recommend(serve("qwen3-8b", requests_per_s=20, output_tokens=1)).plans[0]
    assert "loaded by 20 requests/s" in plan.sentence
    assert "for each user" not in plan.sentence
