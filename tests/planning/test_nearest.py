"""Where nothing does the work, the answer says what would make the nearest cards do it."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor import cli
from tests.cases import tune

HOST_GB = 64  # with more, DeepSpeed keeps states and weights in the host's memory
FULL: dict[str, Any] = tune(
    "llama-3.1-8b",
    method="full",
    tokens=1e7,
    sequence_length=4096,
    limits={"owned": [{"accelerator": "rtx-4090", "count": 1}]},
    host={"memory_bytes": HOST_GB * 1e9},
)


def test_the_ways_out_are_those_of_the_estimate() -> None:
    answer = advisor.recommend(FULL)
    estimate = advisor.estimate({**FULL, "hardware": {"accelerator": "rtx-4090", "count": 1}})
    assert not answer.plans
    assert answer.nearest is not None
    assert answer.nearest.ways_out == estimate.ways_out
    assert "train with QLoRA" in {way.change for way in answer.nearest.ways_out}


def test_full_fine_tuning_of_8b_on_24_gb_is_offered() -> None:
    """torchtune publishes 18.9 GiB for Llama 3.1 8B with its single-device recipe."""
    nearest = advisor.recommend(FULL).nearest
    assert nearest is not None
    assert any("weights in the backward pass" in text for text in nearest.improvements)


def test_the_terminal_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    command = "recommend --model llama-3.1-8b --task finetune --tokens 10M --owned rtx-4090:1"
    assert cli.main([*command.split(), "--host-memory", f"{HOST_GB}GB"]) == 0
    shown = capsys.readouterr().out
    assert "What would make it fit on 1x NVIDIA GeForce RTX 4090" in shown
    assert "train with QLoRA" in shown


def test_an_answer_with_plans_has_none() -> None:
    case = {**FULL, "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7}}
    assert advisor.recommend(case).nearest is None


def test_a_desktop_holds_no_terabyte_for_training() -> None:
    """AM5 and LGA 1851 take 256 GB; 70 billion parameters have 16 bytes of states each."""
    large = {**FULL, "model": {"preset": "llama-3.3-70b"}, "host": {}}
    assert not advisor.recommend(large).plans


def test_a_plan_says_that_diffusers_script_needs_a_larger_card() -> None:
    """Its T5 XXL alone has 4.76 billion parameters: 8.9 GiB beside 20 of 24."""
    own = {"method": "lora", "samples": 1e4, "limits": FULL["limits"]}
    case = tune("sd-3.5-large", **own, software="diffusers")
    found = [item for item in advisor.recommend(case).advice if item.code == "encoders-beside"]
    assert len(found) == 1
    assert "larger card" in found[0].message
    ahead = advisor.recommend(tune("sd-3.5-large", **own))
    assert not [item for item in ahead.advice if item.code == "encoders-beside"]
