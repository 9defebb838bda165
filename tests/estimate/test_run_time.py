"""From steps to the hours of a run: start-up, evaluation, checkpoints, failures."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.architecture.resolve import resolve_model
from advisor.catalog.constants import load_calibration
from advisor.estimate.results import StepTime
from advisor.estimate.training.report import evaluation_s, run_goodput
from advisor.estimate.training.run import resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining

RATE = 419 / (54 * 24 * 16384)
"""Unplanned interruptions per GPU and hour of Llama 3 405B (arXiv:2407.21783, table 5)."""


def timed(count: int = 1024, **work: Any) -> StepTime:
    found = advisor.estimate(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "pretraining", "tokens": 1e12, **work},
            "hardware": {"accelerator": "h100-sxm", "count": count},
            "layout": {"data": count, "sharding": "zero3", "recompute": "full"},
        }
    ).time
    assert found is not None
    return found


def test_the_terms_sum_to_the_run() -> None:
    time = timed(evaluation_tokens=1e10)
    assert sum(item.value for item in time.run_terms) == pytest.approx(
        3600 * time.run_hours.expected
    )
    assert {item.name for item in time.run_terms} == {
        "startup",
        "training",
        "evaluation",
        "stragglers",
        "operation",
        "checkpoints",
        "lost_work",
        "restarts",
    }


def test_interruptions_grow_with_accelerators_and_hours() -> None:
    """1,024 accelerators at the rate of Llama 3: one in 49.5 hours, saved every 32 minutes."""
    time = timed()
    assert time.interruptions == pytest.approx(RATE * 1024 * time.run_hours.expected, rel=1e-3)
    between_s = 3600 / (RATE * 1024)
    assert time.checkpoint_interval_s == pytest.approx(sqrt(2 * 10 * between_s), rel=1e-3)
    assert timed(256).goodput.expected > time.goodput.expected


@pytest.mark.parametrize(
    ("count", "hours", "low", "high"),
    [
        pytest.param(16_384, 54 * 24, 419, 466, id="Llama 3 405B, arXiv:2407.21783"),
        pytest.param(384, 7 * 24, 1, 2, id="BLOOM, arXiv:2211.05100"),
        pytest.param(992, 56 * 24, 54 / 2.1, 54, id="OPT-175B, twice as many"),
    ],
)
def test_interruptions_that_were_published(
    count: int, hours: float, low: float, high: float
) -> None:
    rate = load_calibration().reliability.interruptions_per_accelerator_hour
    assert low * 0.99 <= rate * count * hours <= high


@pytest.mark.parametrize(
    ("count", "least"),
    [
        pytest.param(16_384, 0.90, id="Llama 3 405B: above 90 %, arXiv:2407.21783"),
        pytest.param(12_288, 0.90, id="MegaScale: above 90 %, arXiv:2402.15627"),
    ],
)
def test_share_of_effective_time_that_was_published(count: int, least: float) -> None:
    shares = run_goodput(load_calibration().reliability, np.array([1.0, 1024.0, count]))
    assert shares[-1] > least
    assert (np.diff(shares) < 0).all()


def test_evaluating_a_token_takes_a_third_of_training_it() -> None:
    """Forward is one of three equal parts (Kaplan et al. 2020): a tenth more tokens, 3.3 % more."""
    terms = {item.name: item.value for item in timed(evaluation_tokens=1e11).run_terms}
    assert terms["evaluation"] == pytest.approx(terms["training"] * 0.1 / 3, rel=1e-4)
    assert "evaluation" not in {item.name for item in timed().run_terms}


def test_epochs_repeat_the_tokens() -> None:
    """3 x 100 million tokens in steps of 64 x 4,096: 1,144.4, the last one not full."""
    work: dict[str, Any] = {"tokens": 1e8, "sequence_length": 4096, "global_batch": 64}
    found = timed(8, **work, epochs=3)
    assert found.steps == 1145
    assert found.step_s == timed(8, **work).step_s
    images = {"model": {"preset": "resnet-50"}, "hardware": {"accelerator": "v100-sxm2-32gb"}}
    work = {"kind": "pretraining", "samples": 1_281_167, "global_batch": 256, "epochs": 90}
    time = advisor.estimate({**images, "workload": work}).time
    assert time is not None
    # 115,305,030 images.
    assert time.steps == 450_411
    with pytest.raises(advisor.InputError, match="epochs=2 needs tokens or samples"):
        advisor.load_case({**images, "workload": {"kind": "pretraining", "epochs": 2}})


def test_a_detector_pauses_for_its_boxes_as_mlperf_logged() -> None:
    # 24,781 images after an epoch: 25.3 to 30.7 s on 8 H100 with steps of 112 ms, 3.3 to 4.0 s on
    # 64 with steps of 19 ms (mlcommons/training_results_v4.0, NVIDIA and Oracle).
    workload = Pretraining(samples=1e6, global_batch=256, evaluation_tokens=24_781)
    architecture = resolve_model(ModelSource(preset="retinanet-resnext-50"))
    run = resolve_training(workload, architecture, RECIPES["fp16_mixed"])

    assert 25.3 < evaluation_s(run, 0.112, 8) < 30.7
    assert 3.3 < evaluation_s(run, 0.019, 64) < 4.0
