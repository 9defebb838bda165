"""Hosted models beside machines: bills, break-even, and cost of prompts and answers apart."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor import api
from advisor.errors import InputError
from tests.cases import serve

OWN_PRICE = {"api_usd_per_million": 2.0, "api_input_usd_per_million": 0.5}


def served(renting: dict[str, Any] | None = None, **workload: object) -> api.Estimate:
    return api.estimate(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "serving", "concurrency": 8, **workload},
            "hardware": {"accelerator": "a100-sxm-80gb", "count": 1},
            "renting": renting or {},
        }
    )


def test_prompts_are_billed_too() -> None:
    """8,000 tokens in and 100 out: the prompt is 20 of 21 parts of the bill."""
    found = served(OWN_PRICE, input_tokens=8000, output_tokens=100).api
    assert found is not None
    assert found.options[0].usd_per_request == pytest.approx(8000 * 0.5e-6 + 100 * 2e-6)
    assert found.options[0].usd_per_month == pytest.approx(
        found.requests_per_day * 365 / 12 * 0.0042, rel=1e-3
    )


def test_cached_prompts_take_their_own_price() -> None:
    cached = {**OWN_PRICE, "api_cached_usd_per_million": 0.05, "api_cached_share": 0.8}
    found = served(cached, input_tokens=1000, output_tokens=100).api
    assert found is not None
    expected = 200 * 0.5e-6 + 800 * 0.05e-6 + 100 * 2e-6
    assert found.options[0].usd_per_request == pytest.approx(expected)


def test_a_day_is_billed_for_its_own_requests() -> None:
    """60/s for ten hours and 6/s for the others."""
    hourly = [60.0] * 10 + [6.0] * 14
    found = advisor.estimate(
        serve("llama-3.1-8b", demand={"hourly": hourly})
        | {"hardware": {"accelerator": "h100-sxm", "count": 2}, "renting": OWN_PRICE}
    ).api
    assert found is not None
    assert found.requests_per_day == pytest.approx(3600 * (10 * 60 + 14 * 6))
    assert "requests a day of the stated demand" in found.sentence


def test_at_break_even_both_bills_are_equal() -> None:
    found = served(OWN_PRICE).api
    assert found is not None
    assert found.machines_usd_per_month is not None
    even = found.options[0].break_even_requests_per_day
    assert even is not None
    bill = even * 730 / 24 * found.options[0].usd_per_request
    assert bill == pytest.approx(found.machines_usd_per_month)
    assert found.options[0].break_even_utilization == pytest.approx(even / found.requests_per_day)


def test_models_of_the_same_weights_are_compared_unasked_cheapest_first() -> None:
    found = served().api
    assert found is not None
    assert len(found.options) > 1
    assert all(item.same_weights for item in found.options)
    bills = [item.usd_per_month for item in found.options]
    assert bills == sorted(bills)
    assert "same weights" in found.sentence


def test_another_model_says_that_its_answers_differ() -> None:
    found = served({"api": "Anthropic/claude-haiku-4-5"}).api
    assert found is not None
    assert not found.options[0].same_weights
    assert "another model" in found.sentence


def test_prompts_and_answers_share_the_cost() -> None:
    """What an hour costs is what its prompt tokens and its answer tokens cost together."""
    for prompt, answer in ((8000, 100), (100, 1000)):
        found = served(input_tokens=prompt, output_tokens=answer)
        cost, serving = found.cost, found.serving
        assert serving is not None
        assert cost.usd_per_hour is not None
        assert cost.usd_per_million_input_tokens is not None
        assert cost.usd_per_million_output_tokens is not None
        requests = serving.requests_per_s.expected * 3600
        together = (
            requests * prompt * cost.usd_per_million_input_tokens.expected
            + requests * answer * cost.usd_per_million_output_tokens.expected
        ) / 1e6
        assert together == pytest.approx(cost.usd_per_hour.expected, rel=0.05)


def test_a_token_of_prompt_costs_less_than_one_of_answer() -> None:
    """Public prices ask 1.5 to 8 times as much for an answer: it is written token by token."""
    cost = served(input_tokens=1000, output_tokens=250, concurrency=32).cost
    assert cost.usd_per_million_input_tokens is not None
    assert cost.usd_per_million_output_tokens is not None
    prompt = cost.usd_per_million_input_tokens.expected
    assert prompt < cost.usd_per_million_output_tokens.expected / 1.5


def test_a_price_without_that_of_prompts_is_refused() -> None:
    with pytest.raises(InputError, match="--api-input-price"):
        served({"api_usd_per_million": 2.0})
