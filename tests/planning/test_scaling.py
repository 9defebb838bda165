"""Efficiency over the number of accelerators."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from tests.cases import pretrain

RUN: dict[str, Any] = pretrain("llama-3.1-8b", "h100-sxm", 64, tokens=1e12)


def test_a_point_is_the_estimate_of_its_number() -> None:
    found = advisor.scaling(RUN)
    by_count = {item.count: item for item in found.points}
    for count in (8, 64, 512):
        alone = advisor.estimate(
            {
                **RUN,
                "hardware": {"accelerator": "h100-sxm", "count": count},
                "layout": by_count[count].layout.model_dump(),
                "limits": {"providers": [found.provider]},
            }
        )
        assert alone.time is not None
        assert by_count[count].step_s == pytest.approx(alone.time.step_s.expected)
        assert by_count[count].run_hours == pytest.approx(alone.time.run_hours.expected)
        assert by_count[count].bound_by == alone.time.bound_by


def test_efficiency_is_throughput_of_each_over_that_of_the_fewest() -> None:
    points = advisor.scaling(RUN).points
    first = points[0]
    assert first.efficiency == 1
    for item in points:
        each, least = item.tokens_per_s / item.count, first.tokens_per_s / first.count
        assert item.efficiency == pytest.approx(each / least)


def test_a_fixed_batch_stops_scaling() -> None:
    """1,024 sequences a step keep 1,024 ranks busy; beyond, layers must be divided too."""
    points = {item.count: item for item in advisor.scaling(RUN).points}
    assert points[4096].efficiency < points[1024].efficiency
    assert points[4096].layout.data <= 1024
    assert points[4096].goodput < points[8].goodput


def test_servers_do_not_scale_this_way() -> None:
    with pytest.raises(advisor.InputError, match="scaling applies to training"):
        advisor.scaling({**RUN, "workload": {"kind": "serving"}})
    with pytest.raises(advisor.InputError, match="hardware is missing"):
        advisor.scaling({key: RUN[key] for key in ("model", "workload")})
