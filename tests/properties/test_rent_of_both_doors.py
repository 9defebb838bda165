"""``own`` and ``recommend`` name the same rent for the same question."""

from __future__ import annotations

import random
from typing import Any

import pytest

import advisor
from advisor.owning.results import RentKind
from tests.pairs import covering

pytestmark = pytest.mark.slow


def question(seed: int) -> dict[str, Any]:
    """Return a question without hardware: serving by rate or by requests in flight, or a run."""
    draw = random.Random(seed)
    preset = draw.choice(["qwen3-0.6b", "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b"])
    limits: dict[str, Any] = {}
    if draw.random() < 0.3:
        limits["price_kind"] = "spot"
    if draw.random() < 0.3:
        limits["vendors"] = ["NVIDIA"]
    if draw.random() < 0.65:
        work: dict[str, Any] = {"kind": "serving"}
        if draw.random() < 0.6:
            work["requests_per_s"] = draw.choice([0.5, 3, 12, 40])
        else:
            work["concurrency"] = draw.choice([1, 8, 64, 200])
        if draw.random() < 0.4:
            work["weight_format"] = "fp8"
        if draw.random() < 0.3:
            limits["max_tpot_ms"] = draw.choice([30, 80])
    else:
        method = draw.choice(["lora", "qlora"])
        work = {"kind": "fine_tuning", "method": method, "tokens": draw.choice([1e6, 5e7])}
        if draw.random() < 0.5:
            limits["deadline_hours"] = draw.choice([12, 72])
    return {"model": {"preset": preset}, "workload": work, "limits": limits}


@pytest.mark.parametrize("asked", covering(map(question, range(30)), 15))
def test_both_doors_name_the_same_rent(asked: dict[str, Any]) -> None:
    plan = advisor.recommend(asked, brief=True).plans[0].estimate
    found = advisor.own(asked)

    assert plan.cost.usd_per_hour is not None
    assert found.against is not None
    main = found.rents[found.against]
    # Several machines that run side by side are compared with as many rented ones.
    beside = main.instances / (plan.cost.instances or 1) if plan.time else 1
    assert main.usd_per_hour == pytest.approx(beside * plan.cost.usd_per_hour.expected)
    assert (main.provider, main.instance_type) == (plan.cost.provider, plan.cost.instance_type)
    spot = asked["limits"].get("price_kind") == "spot"
    assert main.kind is (RentKind.SPOT if spot else RentKind.ON_DEMAND)


@pytest.mark.parametrize("count", [1, 6, 8])
def test_named_hardware_costs_what_its_estimate_says(count: int) -> None:
    """Six cards of a provider that rents them by one, four and eight come from several machines."""
    asked = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "requests_per_s": 3 * count},
        "hardware": {"accelerator": "h100-sxm", "count": count},
    }
    found = advisor.own(asked)
    cost = advisor.estimate(asked).cost

    assert found.against is not None
    assert cost.usd_per_hour is not None
    assert found.rents[found.against].usd_per_hour == cost.usd_per_hour.expected
