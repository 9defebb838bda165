"""A deadline asks for the smallest number of accelerators: one machine fewer misses it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import advisor

RUN: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "pretraining", "tokens": 1e12},
}


def hours(case: dict[str, Any], accelerator: str, count: int) -> float:
    time = advisor.estimate({**case, "hardware": {"accelerator": accelerator, "count": count}}).time
    assert time is not None
    return time.run_hours.expected


# 512 cards, the most by default, deliver the run in 78 hours.
@settings(max_examples=15)
@given(deadline=st.floats(min_value=80, max_value=2000))
def test_one_machine_fewer_misses_the_deadline(deadline: float) -> None:
    limits = {"accelerators": ["h100-sxm"], "providers": ["Lambda"], "deadline_hours": deadline}
    case = {**RUN, "limits": limits}
    [found] = advisor.recommend(case).fewest
    assert hours(case, "h100-sxm", found.count) <= deadline
    assert found.count == 8 or hours(case, "h100-sxm", found.count - 8) > deadline


def test_of_owned_cards_one_fewer_misses_it() -> None:
    limits = {"owned": [{"accelerator": "h100-sxm", "count": 8}], "deadline_hours": 3}
    workload = {"kind": "fine_tuning", "method": "lora", "tokens": 400e6}
    case = {**RUN, "workload": workload, "limits": limits}
    [found] = advisor.recommend(case).fewest
    assert found.count not in (1, 8)
    assert hours(case, "h100-sxm", found.count) <= 3 < hours(case, "h100-sxm", found.count - 1)


def test_the_fewest_come_first_and_meet_the_budget() -> None:
    limits = {"deadline_hours": 240, "budget_usd": 120_000}
    fewest = advisor.recommend({**RUN, "limits": limits}).fewest
    assert len(fewest) > 1
    assert [item.count for item in fewest] == sorted(item.count for item in fewest)
    for item in fewest:
        assert item.cost_usd is not None
        assert item.cost_usd.expected <= 120_000


def test_without_a_deadline_none_are_named() -> None:
    assert advisor.recommend({**RUN, "limits": {"accelerators": ["h100-sxm"]}}).fewest == ()


@pytest.mark.parametrize("deadline", [1, 5])
def test_a_deadline_that_nothing_meets_names_none(deadline: float) -> None:
    limits = {"accelerators": ["h100-sxm"], "deadline_hours": deadline, "max_accelerators": 64}
    assert advisor.recommend({**RUN, "limits": limits}).fewest == ()


def test_a_brief_answer_says_the_same() -> None:
    """The page asks briefly; only what its closed parts show is missing then."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 2e7},
        "limits": {"deadline_hours": 24},
    }
    whole, brief = advisor.recommend(case), advisor.recommend(case, brief=True)
    assert brief.able == len(whole.fewest)
    assert not brief.fewest
    around = [plan.estimate.neighbours for item in whole.rankings for plan in item.plans]
    assert any(around)
    assert not brief.rejections
    missing = {"fewest", "rejections", "rankings", "assumptions", "references"}
    told = [item.model_dump(mode="json", exclude=missing) for item in (whole, brief)]
    assert told[0] == told[1]
    left_out = {"estimate": {"neighbours"}}
    for long, short in zip(whole.rankings, brief.rankings, strict=True):
        assert short.plans
        for one, other in zip(long.plans, short.plans, strict=False):
            assert one.model_dump(exclude=left_out) == other.model_dump(exclude=left_out)


def test_a_brief_answer_that_nothing_meets_says_why() -> None:
    case = {**RUN, "limits": {"budget_usd": 1}}
    assert advisor.recommend(case, brief=True).rejections == advisor.recommend(case).rejections
