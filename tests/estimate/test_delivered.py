"""Two numbers for a run: what a tuned benchmark reaches, and what whole runs deliver."""

from __future__ import annotations

import json
from math import exp
from typing import Any

import pytest

import advisor
from advisor.catalog.constants import load_calibration
from advisor.estimate.results import Estimate, StepTime
from tests.cases import pretrain

COUNTS = (8, 16, 64, 256, 1024, 4096)


def estimated(count: int, **work: Any) -> Estimate:
    return advisor.estimate(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "pretraining", "tokens": 1e12, "global_batch": 4096, **work},
            "hardware": {"accelerator": "h100-sxm", "count": count},
            "layout": {"data": count, "sharding": "zero3", "recompute": "full"},
        }
    )


def timed(count: int, **work: Any) -> StepTime:
    found = estimated(count, **work).time
    assert found is not None
    return found


def test_one_machine_loses_start_up_and_checkpoints_alone() -> None:
    """No penalty of a cluster: half a percent of 0.1 for slow machines, then failures."""
    time = timed(8)
    terms = {item.name: item.value for item in time.run_terms}
    assert "operation" not in terms
    assert terms["stragglers"] == pytest.approx(terms["training"] * 0.005 * 0.1, rel=1e-6)
    assert time.run_hours.expected < 1.01 * time.benchmark_hours.expected + 10 / 60


def test_over_many_machines_the_fitted_share_is_lost() -> None:
    lost = load_calibration().delivery.lost
    assert any(share.share > 0 for share in lost.values())
    for operator, share in lost.items():
        terms = {item.name: item.value for item in timed(1024, operator=operator.value).run_terms}
        grown = 1 - exp(-127 / 12)
        assert terms.get("operation", 0.0) == pytest.approx(terms["training"] * share.share * grown)


def test_a_lab_that_tunes_its_cluster_delivers_no_less_than_a_tenant() -> None:
    lab, tenant = timed(1024, operator="lab"), timed(1024)
    assert lab.step_s == tenant.step_s
    assert lab.run_hours.expected <= tenant.run_hours.expected


def test_more_accelerators_never_deliver_more_each_and_the_range_never_narrows() -> None:
    times = [timed(count) for count in COUNTS]
    each = [
        time.delivered_tokens_per_s.expected / count
        for time, count in zip(times, COUNTS, strict=True)
    ]
    width = [time.run_hours.high / time.run_hours.low for time in times]
    # Ten minutes of start-up weigh more in the shorter run of more cards, too.
    assert each == sorted(each, reverse=True)
    assert width == sorted(width)


def test_deadline_and_cost_use_the_hours_that_are_delivered() -> None:
    found = estimated(64)
    time, cost = found.time, found.cost
    assert time is not None
    assert cost.usd_per_hour is not None
    assert cost.rent_usd is not None
    paid = cost.usd_per_hour.expected * time.run_hours.expected
    assert cost.rent_usd.expected == pytest.approx(paid, rel=0.01)
    assert time.run_hours.expected > time.benchmark_hours.expected
    assert time.delivered_tokens_per_s.expected * 3600 * time.run_hours.expected == pytest.approx(
        1e12
    )
    limited = advisor.estimate(
        pretrain(
            "llama-3.1-8b",
            "h100-sxm",
            64,
            tokens=1e12,
            global_batch=4096,
            layout={"data": 64, "sharding": "zero3", "recompute": "full"},
            limits={"deadline_hours": 1.001 * time.benchmark_hours.expected},
        )
    )
    assert any("deadline" in sentence for sentence in limited.missed_limits)


def test_json_names_both_numbers_and_a_sentence_says_which_is_used() -> None:
    found = estimated(64)
    time = json.loads(found.to_json())["time"]
    assert {"benchmark_hours", "run_hours", "tokens_per_s", "delivered_tokens_per_s"} <= set(time)
    [sentence] = [text for text in found.assumptions if text.startswith("deadline and cost use")]
    assert "tuned benchmark" in sentence
    assert "tenant" in sentence
