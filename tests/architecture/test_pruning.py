"""Structured pruning, and shapes of which some fields are known."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from advisor.architecture.published_models import nearest_published
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import OperatorKind
from advisor.errors import InputError
from advisor.nouns.case import AssumedShape, ModelSource


def preset(name: str, pruning: float | None = None) -> ModelArchitecture:
    return resolve_model(ModelSource(preset=name, pruning=pruning))


def test_llama_without_three_tenths() -> None:
    """8 groups of 4 heads become 6, the width 14336 becomes 627 x 16 = 10032."""
    model = preset("llama-3.1-8b", 0.3)
    attention = 2 * 4096 * 24 * 128 + 2 * 4096 * 6 * 128
    layer = attention + 3 * 4096 * 10_032 + 2 * 4096
    assert model.total_parameters == 32 * layer + 2 * 128_256 * 4096 + 4096
    assert (model.num_attention_heads, model.num_key_value_heads) == (24, 6)
    assert 2 * model.cache_elements_per_token == 131_072 * 6 / 8
    assert any("removed 30 %" in note for note in model.assumptions)


def test_experts_are_pruned_inside() -> None:
    """Mixtral keeps its eight experts, of 14336 - 7168 = 448 x 16 each."""
    rows = {op.name: op for op in preset("mixtral-8x7b", 0.5).operators if op.experts > 1}
    assert {op.experts for op in rows.values()} == {8}
    widths = {min(op.in_features, op.out_features) for op in rows.values() if op.in_features}
    assert widths == {4096}
    assert {max(op.in_features, op.out_features) for op in rows.values()} == {7168}


def test_encoders_and_residual_networks() -> None:
    """BERT-large: 16 heads of 64 become 8, 4096 become 2048; ResNet-50 keeps what joins."""
    bert = preset("bert-large", 0.5)
    rows = {op.name: op for op in bert.operators}
    assert rows["encoder.query"].out_features == 512
    assert rows["encoder.linear"].out_features == 2048
    assert rows["encoder.output"].out_features == 1024
    pruned = [
        op for op in preset("resnet-50", 0.5).operators if op.kind is OperatorKind.CONVOLUTION
    ]
    stage = [op.out_features for op in pruned if op.name.startswith("stage_1")]
    assert stage == [32, 32, 256, 256, 32, 32, 256]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        # Half of a twice as wide ResNet-50 is ResNet-50, and half of a U-Net that begins with 64
        # channels is the one that begins with 32: their published counts.
        ("wide-resnet-50-2", 25_557_032),
        ("unet", 7_763_041),
        # Every convolution of VGG-16 and both hidden matrices at half their width.
        (
            "vgg-16",
            (9 * 3 + 1) * 32
            + (9 * 32 + 1) * (32 + 64)
            + (9 * 64 + 1) * (64 + 128)
            + (9 * 128 + 1) * (128 + 128 + 256)
            + (9 * 256 + 1) * 256 * 5
            + (49 * 256 + 1) * 2048
            + 2049 * (2048 + 1000),
        ),
    ],
)
def test_convolutions_at_half_their_width(name: str, left: int) -> None:
    assert preset(name, 0.5).total_parameters == left


def test_grouped_convolutions_lose_whole_groups() -> None:
    """ResNeXt-50 32x4d: 16 groups of 4 channels are left of 32 in the first stage."""
    rows = preset("resnext-50-32x4d", 0.5).operators
    grouped = [op for op in rows if op.groups > 1]
    assert {op.groups for op in grouped} == {16}
    assert grouped[0].parameters == 64 * 4 * 9


@pytest.mark.parametrize("name", ["mamba-2.8b", "lstm-4x1024"])
def test_nothing_to_prune(name: str) -> None:
    with pytest.raises(InputError, match="no heads or inner widths"):
        preset(name, 0.3)


def test_zero_and_bounds() -> None:
    assert preset("llama-3.1-8b", 0.0) == preset("llama-3.1-8b")
    with pytest.raises(ValidationError, match="less than or equal to"):
        ModelSource(preset="llama-3.1-8b", pruning=1)


def test_a_known_shape_leaves_the_width_to_the_count() -> None:
    """Qwen2.5-7B from its published fields: its width is 18,944."""
    known = AssumedShape(
        hidden_size=3584, num_hidden_layers=28, num_key_value_heads=4, vocab_size=152_064
    )
    model = resolve_model(ModelSource(parameters=7_615_616_512, shape=known))
    assert model.total_parameters == 7_615_616_512
    assert (model.hidden_size, model.num_hidden_layers, model.vocab_size) == (3584, 28, 152_064)
    assert (model.num_attention_heads, model.num_key_value_heads) == (28, 4)
    widths = {op.out_features for op in model.operators if op.name == "block.feed_forward.up"}
    # Its biases of queries, keys and values, which no count tells, are the difference.
    assert widths == {18_944}


def test_a_given_depth_sets_the_width() -> None:
    deep = resolve_model(ModelSource(parameters=8e9, shape=AssumedShape(num_hidden_layers=64)))
    plain = resolve_model(ModelSource(parameters=8e9))
    assert deep.num_hidden_layers == 64
    assert deep.hidden_size < plain.hidden_size
    assert any("with the given num_hidden_layers" in note for note in deep.assumptions)


def test_nearest_published_first() -> None:
    names = [model.name for model in nearest_published(7e9)]
    assert names == ["Llama 2 7B", "Qwen2.5 7B", "Llama 3.1 8B"]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (AssumedShape(hidden_size=100_000, num_hidden_layers=100), "holds more than"),
        (AssumedShape(num_attention_heads=32, num_key_value_heads=5), "does not divide"),
        (AssumedShape(num_attention_heads=24, hidden_size=4096), "does not divide the hidden"),
    ],
)
def test_shapes_that_do_not_fit(known: AssumedShape, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_model(ModelSource(parameters=7e9, shape=known))


def test_a_shape_needs_a_count() -> None:
    with pytest.raises(ValidationError, match="applies to parameters"):
        ModelSource(preset="gpt2", shape=AssumedShape(hidden_size=768))


def test_layers_of_one_s_own() -> None:
    """Of 512 inner features 256 stay; what feeds the head keeps its 128."""
    layers = [{"linear": 512}, "relu", {"linear": 128}, "relu", {"linear": 10}]
    stack = {"name": "own", "input": {"features": 784}, "layers": layers}
    model = resolve_model(ModelSource(stack=stack, pruning=0.5))
    assert model.total_parameters == 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10
    assert any("removed 50 %" in note for note in model.assumptions)


def test_a_model_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 8 groups of one head 4 stay, of the width 512 stay 256."""
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 8, "intermediate_size": 512, "vocab_size": 100}
    monkeypatch.setattr(
        "advisor.architecture.resolve.fetch_config", lambda hub_id: json.dumps(config)
    )
    model = resolve_model(ModelSource(hub="some/model", pruning=0.5))
    layer = 4 * 256 * 128 + 3 * 256 * 256 + 2 * 256
    assert model.total_parameters == layer + 2 * 100 * 256 + 256
