"""Convolutional and other networks against published and counted numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import SampleSize, Unit
from advisor.architecture.table.operators import Operator, OperatorKind
from advisor.errors import InputError
from advisor.nouns.case import ModelSource

FACTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "golden" / "networks.yaml").read_text(encoding="utf-8")
)
FLASH_BACKWARD = 2.5
"""FlashAttention computes the scores anew (Dao 2023): five products against two."""


def forward_flops(row: Operator, tokens: int = 0) -> float:
    """FLOPs of one token or sample; attention of text on the full square."""
    keys = tokens if row.keys is None else row.keys
    return row.layers * (row.flops_per_token + row.flops_per_token_per_key * keys)


def backward_flops(row: Operator, tokens: int = 0) -> float:
    if row.kind is OperatorKind.ATTENTION:
        return FLASH_BACKWARD * forward_flops(row, tokens)
    return (2 if row.input_gradient else 1) * forward_flops(row, tokens)


def test_parameters_are_exact() -> None:
    residuals = {
        name: load_preset(name).total_parameters - expected
        for name, expected in FACTS["parameters"].items()
        if load_preset(name).total_parameters != expected
    }
    assert not residuals, residuals


@pytest.mark.parametrize("fact", FACTS["counted"], ids=lambda fact: fact["preset"])
def test_flops_are_those_counted(fact: dict[str, Any]) -> None:
    model = load_preset(fact["preset"], SampleSize(**fact.get("size", {})))
    tokens = fact.get("tokens", 0)
    inputs = fact["batch"] * (tokens or 1)
    forward = inputs * sum(forward_flops(row, tokens) for row in model.operators)
    backward = inputs * sum(backward_flops(row, tokens) for row in model.operators)
    assert forward == pytest.approx(fact["forward"], rel=0.001)
    assert forward + backward == pytest.approx(fact["forward_backward"], rel=0.001)


@pytest.mark.parametrize(("name", "billions"), FACTS["listed"].items())
def test_multiply_adds_are_those_listed(name: str, billions: float) -> None:
    counted = sum(forward_flops(row) for row in load_preset(name).operators) / 2e9
    assert counted == pytest.approx(billions, rel=0.001, abs=0.006)


def test_image_size_and_channels_belong_to_the_work() -> None:
    source = ModelSource(preset="resnet-50")
    small = resolve_model(source)
    large = resolve_model(source, SampleSize(image_size=448, image_channels=1))
    assert small.unit is Unit.IMAGE
    assert small.sample == SampleSize(image_size=224, image_channels=3)
    assert large.sample == SampleSize(image_size=448, image_channels=1)
    # 7 x 7 x 64 weights for each of two channels less.
    assert small.total_parameters - large.total_parameters == 2 * 49 * 64
    stage = {row.name: row.positions_per_token for row in large.operators}
    assert stage["stage_4.convolution_3"] == 14 * 14


def test_an_image_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="input is smaller than"):
        load_preset("vgg-16", SampleSize(image_size=16))


@pytest.mark.parametrize("spelled", ["resnet50", "ResNet-50", "microsoft/resnet-50", "resnet_50"])
def test_spellings(spelled: str) -> None:
    assert find_preset(spelled) == "resnet-50"


def test_text_encoder_and_latents_stand_apart() -> None:
    notes = load_preset("sd-1.5-unet").assumptions
    assert any("123,060,480" in note and "83,653,863" in note for note in notes)


def test_stable_diffusion_3_attends_to_both_and_in_some_blocks_to_the_image_alone() -> None:
    """1024 pixels are 64 x 64 tokens, with 77 of CLIP and 256 of T5; 13 blocks attend twice."""
    rows = [op for op in load_preset("sd-3.5-medium").operators if op.keys]
    both = [op for op in rows if op.keys == 4096 + 77 + 256]
    image = [op for op in rows if op.keys == 4096]
    assert sum(op.layers for op in both) == 2 * 24
    assert sum(op.layers for op in image) == 13


def test_flux_attends_to_image_and_text_together() -> None:
    """1024 pixels are 64 x 64 tokens, with 512 of the text."""
    rows = {op.name: op for op in load_preset("flux.1-dev").operators if op.keys}
    assert {op.keys for op in rows.values()} == {4096 + 512}
    assert rows["double.scores"].positions_per_token == 4096
    assert rows["double.scores_2"].positions_per_token == 512
    assert sum(op.layers for op in rows.values()) == 2 * 19 + 38
