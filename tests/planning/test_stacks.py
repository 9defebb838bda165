"""A search proposes what the software can run; what is stated by hand is told."""

from __future__ import annotations

import pytest

import advisor

WORK = {"kind": "fine_tuning", "method": "full", "tokens": 1e8, "sequence_length": 4096}
HARDWARE = {"accelerator": "h100-sxm", "count": 16}


def estimated(software: str | None, **more: object) -> advisor.Estimate:
    workload = WORK if software is None else WORK | {"software": software}
    case = {"model": {"preset": "llama-3.1-70b"}, "workload": workload, "hardware": HARDWARE}
    return advisor.estimate(case | more)


@pytest.mark.parametrize("software", [None, "huggingface", "liger", "deepspeed", "plain"])
def test_trainers_that_divide_data_alone_get_no_other_layout(software: str | None) -> None:
    """TRL and Accelerate: one model for each accelerator, ZeRO or FSDP."""
    found = estimated(software)
    layout = found.layout
    assert (layout.tensor, layout.pipeline, layout.expert) == (1, 1, 1)
    assert layout.data * layout.context == 16
    assert not any("offers no" in line for line in found.assumptions)


def test_a_stated_layout_is_estimated_and_its_reason_told() -> None:
    layout = {"tensor": 8, "data": 1, "pipeline": 2, "micro_batch": 1, "recompute": "full"}
    told = "TRL offers no tensor parallelism and no pipeline parallelism; "

    found = estimated("huggingface", layout=layout)
    assert found.layout.tensor == 8
    [line] = (line for line in found.assumptions if line.startswith(told))
    able = set(line.removeprefix(told).removesuffix(" does").split(" or "))
    assert {"megatron-core", "nemo-automodel"} <= able
    assert not able & {"trl", "axolotl", "deepspeed", "unsloth", "pytorch"}
    assert not any("offers no" in line for line in estimated("megatron", layout=layout).assumptions)


def test_neighbours_of_a_plan_can_be_run_as_well() -> None:
    found = estimated("huggingface")
    assert found.neighbours
    assert not any(item.change.startswith(("tensor", "pipeline")) for item in found.neighbours)
