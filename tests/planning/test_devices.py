"""Devices that nobody rents stand in the answer with their price and what they do."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from tests.cases import serve


def answer(model: str, users: int, **limits: Any) -> advisor.Recommendation:
    case = serve(model, concurrency=users, limits=limits)
    return advisor.recommend(case)


def remedy(found: advisor.Recommendation, card: str) -> str:
    [item] = [item for item in found.rejections if item.accelerator == card]
    return item.remedy


@pytest.mark.parametrize(
    ("card", "holds"),
    [
        # gpt-oss-120b takes 59 GiB as MXFP4 (its GGUF file): more than an M4 or a Jetson AGX Orin
        # has, less than an M4 Max of 128 GB (geerlingguy/ai-benchmarks at bdf9441, README).
        ("apple-m4", False),
        ("jetson-agx-orin-64gb", False),
        ("apple-m4-max", True),
    ],
)
def test_a_device_that_nobody_rents_says_its_price_and_its_speed(card: str, holds: bool) -> None:
    text = remedy(answer("gpt-oss-120b", 1), card)
    usd = advisor.load_catalog().accelerator(card).purchase_usd
    assert f"${usd:,.0f}" in text
    assert f"--owned {card}" in text
    assert ("per token" in text) is holds
    assert ("does not hold the model" in text) is not holds


def test_the_speed_is_that_of_the_owned_card() -> None:
    text = remedy(answer("llama-3.2-3b", 1), "jetson-orin-nano-super")
    owned = answer("llama-3.2-3b", 1, owned=[{"accelerator": "jetson-orin-nano-super"}])
    plan = owned.plans[0].estimate
    assert plan.serving is not None
    assert f"{plan.precision} weights: {plan.serving.tpot_ms.expected:.0f} ms per token" in text


def test_the_advice_names_devices_for_few_users_alone() -> None:
    [few] = [item for item in answer("qwen3-14b", 1).advice if item.code == "device-to-buy"]
    assert "months of the rent" in few.message
    assert "device-to-buy" not in {item.code for item in answer("qwen3-14b", 8).advice}


@pytest.mark.parametrize("card", ["apple-m4-max", "jetson-orin-nano-super"])
def test_a_named_device_that_nobody_rents_is_planned_as_an_owned_one(card: str) -> None:
    found = answer("llama-3.2-3b", 1, accelerators=(card,))
    owned = answer("llama-3.2-3b", 1, owned=[{"accelerator": card}])
    known = advisor.load_catalog().accelerator(card)
    assert found.answer == (
        f"No provider in the catalog rents {known.name}, sold for about "
        f"${known.purchase_usd:,.0f}. With one of your own: {owned.answer}"
    )
    assert found.plans[0].estimate == owned.plans[0].estimate
    assert found.case.limits.accelerators == (card,)


def test_a_named_card_that_somebody_rents_is_rented() -> None:
    found = answer("llama-3.2-3b", 1, accelerators=("apple-m4-max", "rtx-4090"))
    assert found.answer.startswith("Rent 1x NVIDIA GeForce RTX 4090")
