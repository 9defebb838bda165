"""Offers that are not rented by the hour: the bill is that of the whole term, and the plan says so.

AWS reserves capacity blocks in whole days, paid ahead. Lambda reserves clusters for two weeks or
more, in weeks; its instances on demand have no InfiniBand between them. Google Cloud's Flex-start
machines end after seven days (pages of the three providers, read on 2026-11-27).
"""

import pytest

from advisor.api import Recommendation, load_case, recommend
from advisor.terminal.recommendation import offered

HOUR_OF_72_GB200 = 761.904  # EC2 Capacity Blocks, u-p6e-gb200x72, 2026-09-19 [USD]


PRETRAINING = {"kind": "pretraining", "tokens": 20e9, "sequence_length": 4096}


def found(model: str, workload: dict[str, object], **limits: object) -> Recommendation:
    case = {"model": {"preset": model}, "workload": workload, "limits": limits}
    return recommend(load_case(case))


def trained(**limits: object) -> Recommendation:
    return found("llama-3.2-1b", PRETRAINING, deadline_hours=168, **limits)


def test_a_capacity_block_of_an_hour_costs_a_day() -> None:
    plan = trained(accelerators=["gb200"], providers=["AWS"]).plans[0]
    time, cost = plan.estimate.time, plan.estimate.cost
    assert time is not None
    assert time.run_hours.high < 24
    assert plan.estimate.count == 36
    assert cost.rent_usd is not None
    assert cost.rent_usd.expected == pytest.approx(24 * HOUR_OF_72_GB200 / 2, rel=1e-6)
    assert "AWS for a day or more" in plan.sentence
    assert "booked ahead and paid before it starts" in offered(plan.estimate)


def test_no_job_spans_machines_of_lambda_on_demand() -> None:
    tried = trained(providers=["Lambda"], accelerators=["b200-sxm"]).candidates
    several = [item for item in tried if item.count > 8]
    assert several
    for item in several:
        assert item.instance_type == "1cc_8x_b200"
        assert item.cost_usd is not None
        assert item.cost_usd.low >= 14 * 24 * 9.86 * item.count - 0.01
    assert "gpu_8x_b200_sxm6" in {item.instance_type for item in tried if item.count == 8}


def test_flexible_starts_serve_nobody() -> None:
    there = {"accelerators": ["b200-sxm"], "providers": ["GCP"]}
    served = found("llama-3.1-8b", {"kind": "serving", "concurrency": 8}, **there)
    assert not served.plans
    assert "at GCP (flexible start)" in trained(**there).plans[0].sentence
