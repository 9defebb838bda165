"""Ranges that rank options and draw points are those of the full estimates."""

from __future__ import annotations

import pytest

import advisor
from tests.cases import pretrain, serve


@pytest.mark.parametrize("accelerator", ["b200-sxm", "mi300x", "h100-sxm"])
def test_a_point_has_the_range_of_its_plan(accelerator: str) -> None:
    """Beyond what was scored too: runs on B200 up to 256 cards, none on MI300X."""
    result = advisor.recommend(
        pretrain("llama-3.1-8b", tokens=1e12, limits={"accelerators": [accelerator]})
    )
    points = {item.label: item.hours for item in result.candidates}
    plans = [plan for ranking in result.rankings for plan in ranking.plans]
    if accelerator == "b200-sxm":
        counts = {plan.estimate.count for plan in plans}
        assert min(counts) <= 256 < max(counts)
    for plan in plans:
        rented = plan.title.removeprefix("Rent ").rsplit(" at ", 1)[0]
        hours = points[f"{rented} ({plan.estimate.cost.provider})"]
        assert hours is not None
        assert plan.estimate.time is not None
        assert hours.high == pytest.approx(plan.estimate.time.run_hours.high)
        assert hours.evidence is plan.estimate.time.run_hours.evidence


def test_a_point_with_experts_in_the_hosts_memory_has_the_range_of_its_plan() -> None:
    """It had the narrower one of experts on the card."""
    owned = {"owned": [{"accelerator": "rtx-3060-12gb"}]}
    result = advisor.recommend(serve("qwen3-30b-a3b", concurrency=1, limits=owned))
    plan, point = result.plans[0].estimate, result.candidates[0]
    assert plan.layout.host_options
    assert plan.serving is not None
    for end in ("low", "expected", "high"):
        assert getattr(point.tpot_ms, end) == pytest.approx(getattr(plan.serving.tpot_ms, end))
