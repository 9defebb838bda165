"""The lower bound that decides which layouts are timed changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import advisor
from advisor.planning.search.bound import StepBound
from tests.cases import pretrain, tune

SPARSE = pretrain(
    "mixtral-8x7b",
    tokens=300e9,
    limits={"accelerators": ["h100-sxm", "a100-sxm-80gb", "mi300x", "rtx-4090", "l40s"]},
)
LONG = tune(
    "llama-3.1-8b",
    method="full",
    tokens=50e6,
    sequence_length=65_536,
    limits={"accelerators": ["h100-sxm", "b200-sxm", "rtx-6000-ada"]},
)
WIDE = pretrain(
    "llama-3.1-405b",
    tokens=15.6e12,
    limits={"accelerators": ["h100-sxm", "b200-sxm"], "max_accelerators": 16_384},
)
ADAPTERS = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 50e6},
}


def timed_in_full(self: StepBound, system: Any, policy: Any, row: Any) -> Any:
    """Stand in for a bound: nothing is dropped."""
    return np.zeros(len(row))


@pytest.mark.parametrize("case", [SPARSE, LONG, WIDE, ADAPTERS])
def test_the_winner_is_that_of_the_search_without_a_bound(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned = advisor.recommend(case)
    monkeypatch.setattr(StepBound, "step_s", timed_in_full)
    monkeypatch.setattr(StepBound, "tightened", timed_in_full)
    full = advisor.recommend(case)
    assert pruned.rankings == full.rankings
    assert pruned.candidates == full.candidates
    assert pruned.rejections == full.rejections
