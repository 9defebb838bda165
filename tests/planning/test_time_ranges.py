"""Ranges that rank options and draw points are those of the full estimates."""

from __future__ import annotations

import pytest

import advisor
from tests.cases import pretrain


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
