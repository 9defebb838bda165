"""Spot plans pay for the work that interruptions cost."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.catalog.constants import load_calibration
from advisor.planning.spot import Interruptions

CASE: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 5e7},
}
# One interruption in 8 h of an instance; 10 s to save and 600 s to restart, as calibrated:
# an interval of sqrt(2 x 10 x 28800) = 758.9 s and 1 + 10 / 758.9 + (379.5 + 600) / 28800.
LONGER = 1.0471856
RATE = {"interruptions_per_hour": 0.125}


def test_the_calibrated_times_are_those_of_the_arithmetic() -> None:
    reliability = load_calibration().reliability
    assert (reliability.checkpoint_s, reliability.restart_s) == (10, 600)


def test_a_run_on_one_spot_instance_takes_longer() -> None:
    hardware = {"accelerator": "h100-sxm", "count": 8}
    layout = {"data": 8}
    plain = advisor.estimate({**CASE, "hardware": hardware, "layout": layout})
    spot = advisor.estimate(
        {
            **CASE,
            "hardware": hardware,
            "layout": layout,
            "limits": {"price_kind": "spot"},
            "renting": RATE,
        }
    )
    assert plain.time is not None
    assert spot.time is not None
    assert spot.cost.instances == 1
    assert spot.time.step_s == plain.time.step_s
    assert spot.time.run_hours.expected == pytest.approx(
        LONGER * plain.time.run_hours.expected, rel=1e-6
    )
    assert spot.time.goodput.expected == pytest.approx(
        plain.time.goodput.expected / LONGER, rel=1e-6
    )
    assert any("an hour of work takes 1.05 hours" in line for line in spot.assumptions)


def test_plans_and_their_estimates_agree_on_spot() -> None:
    found = advisor.recommend({**CASE, "limits": {"price_kind": "spot"}, "renting": RATE})
    plan = found.plans[0].estimate
    point = next(
        item
        for item in found.candidates
        if (item.accelerator, item.count, item.provider)
        == (plan.accelerator, plan.count, plan.cost.provider)
        and item.instance_type == plan.cost.instance_type
    )
    assert plan.time is not None
    assert point.hours is not None
    assert point.hours.expected == pytest.approx(plan.time.run_hours.expected, rel=1e-9)
    assert point.cost_usd is not None
    assert plan.cost.rent_usd is not None
    assert point.cost_usd.expected == pytest.approx(plan.cost.rent_usd.expected, rel=1e-9)


def test_more_instances_are_interrupted_more_often() -> None:
    calm = Interruptions(0.01, 0.02, 0.05, checkpoint_s=60, restart_s=600)
    # 16 instances: 0.32 an hour, 11250 s apart: 1162 s; 60 / 1162 + (581 + 600) / 11250 = 0.1566.
    assert calm.hours(16).expected == pytest.approx(1.1566, abs=1e-4)
    assert calm.hours(1).expected < calm.hours(16).low
    # A served replica is gone for 600 s, 0.02 times an hour.
    assert calm.served_hours().expected == pytest.approx(1 + 0.02 / 6)


def test_what_would_be_faster_starts_from_the_hours_of_the_plan_on_spot_machines() -> None:
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 5e7},
        "hardware": {"accelerator": "l40s", "count": 1},
        "limits": {"price_kind": "spot"},
        "renting": {"interruptions_per_hour": 1},
    }
    found = advisor.estimate(case)
    assert found.time is not None
    [liger] = [text for text in found.improvements if "--software liger" in text]
    assert f"run {round(found.time.run_hours.expected, 1):g} h →" in liger
