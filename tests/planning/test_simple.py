"""Among layouts that are nearly equally fast, the simplest is shown."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.estimate.candidates import LayoutArrays
from advisor.nouns.layout import Offload, ParallelLayout, Sharding
from advisor.planning.search.simple import complexity

PRETRAIN = {"kind": "pretraining", "tokens": 1e12}


def estimated(
    preset: str, card: str, count: int, work: dict[str, Any], **layout: object
) -> advisor.Estimate:
    case = {
        "model": {"preset": preset},
        "workload": work,
        "hardware": {"accelerator": card, "count": count},
    }
    return advisor.estimate({**case, "layout": layout} if layout else case)


@pytest.mark.parametrize(
    ("preset", "card", "count", "work"),
    [
        ("llama-3.1-8b", "h100-sxm", 8, {"kind": "fine_tuning", "method": "lora"}),
        ("resnet-50", "a100-sxm-80gb", 8, {"kind": "pretraining"}),
        ("gpt2", "a100-sxm-80gb", 8, {"kind": "pretraining", "tokens": 1e10}),
    ],
)
def test_what_fits_whole_on_each_card_is_not_sharded(
    preset: str, card: str, count: int, work: dict[str, Any]
) -> None:
    """PyTorch's FSDP tutorial names DDP for models that fit on one card."""
    found = estimated(preset, card, count, work)
    assert found.layout.sharding.value == "ddp"
    assert found.memory.fits


def test_full_fine_tuning_takes_the_least_sharding_that_fits() -> None:
    """16 bytes of states a parameter (arXiv:1910.02054, 3.1): 8B needs 128 GB whole."""
    work = {"kind": "fine_tuning", "method": "full", "software": "deepspeed"}
    found = estimated("llama-3.1-8b", "h100-sxm", 8, work)
    assert found.layout.sharding.value in {"zero1", "zero2"}
    whole = estimated("llama-3.1-8b", "h100-sxm", 8, work, sharding="zero3")
    assert found.time is not None
    assert whole.time is not None
    assert found.time.step_s.expected <= 1.03 * whole.time.step_s.expected


@pytest.mark.parametrize(
    ("preset", "card", "count", "layers"),
    [("gpt-3-175b", "a100-sxm-80gb", 1024, 96), ("llama-3.1-70b", "h100-sxm", 512, 80)],
)
def test_virtual_stages_hold_several_layers_where_that_is_nearly_as_fast(
    preset: str, card: str, count: int, layers: int
) -> None:
    found = estimated(preset, card, count, PRETRAIN)
    layout = found.layout
    assert layout.pipeline > 1
    assert layers / (layout.pipeline * layout.virtual_stages) >= 2
    most = estimated(
        preset,
        card,
        count,
        PRETRAIN,
        pipeline=layout.pipeline,
        tensor=layout.tensor,
        virtual_stages=layers // layout.pipeline,
    )
    assert found.time is not None
    assert most.time is not None
    assert 1 <= found.time.step_s.expected / most.time.step_s.expected <= 1.03


def test_each_step_away_from_plain_data_parallelism_is_less_simple() -> None:
    ascending = [
        ParallelLayout(data=8, micro_batch=4),
        ParallelLayout(data=8, micro_batch=3),
        ParallelLayout(data=8, sharding=Sharding.ZERO1),
        ParallelLayout(data=8, sharding=Sharding.ZERO2),
        ParallelLayout(data=8, sharding=Sharding.ZERO3),
        ParallelLayout(data=8, sharding=Sharding.ZERO3, offload=(Offload.OPTIMIZER,)),
        ParallelLayout(data=4, tensor=2),
        ParallelLayout(data=4, pipeline=2, virtual_stages=4),
        ParallelLayout(data=4, pipeline=2, virtual_stages=16),
        ParallelLayout(data=2, tensor=2, pipeline=2),
    ]
    points = complexity(LayoutArrays.stack(ascending), layers=32).tolist()
    assert points == sorted(set(points))
