"""Runs beyond what was scored say so and have wider ranges."""

from __future__ import annotations

import pytest

from advisor import estimate, load_case
from advisor.estimate.results import Estimate
from tests.cases import pretrain


def llama(accelerator: str, count: int, precision: str = "bf16_mixed") -> Estimate:
    return estimate(
        load_case(pretrain("llama-3.1-8b", accelerator, count, tokens=1e12, precision=precision))
    )


def width(found: Estimate) -> float:
    assert found.time is not None
    return found.time.step_s.high / found.time.step_s.expected


def test_more_accelerators_than_any_scored_run_on_the_generation_had() -> None:
    # MLPerf Training v5.1 has runs of up to 5,120 cards of the generation (GB200).
    inside, outside = llama("b200-sxm", 1024), llama("b200-sxm", 8192)

    assert not [text for text in inside.assumptions if "was scored" in text]
    assert [text for text in outside.assumptions if "5,120 accelerators" in text]
    assert width(outside) > width(inside)


@pytest.mark.parametrize("key", ["mi300x", "gaudi2"])
def test_a_generation_without_scored_runs(key: str) -> None:
    assert [text for text in llama(key, 8).assumptions if text.startswith("no training run on")]
