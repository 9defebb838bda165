"""Bare parameter counts: honoured to the last one, with a shape that a kernel likes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.architecture.parameter_count import architecture_from_parameters, whole_shape
from advisor.architecture.published_models import published_models
from advisor.architecture.table.operators import OperatorKind
from advisor.errors import InputError
from advisor.foundation.quantities import Evidence
from advisor.nouns.case import AssumedShape


@given(st.floats(min_value=1e6, max_value=1e14))
def test_the_count_is_honoured_and_nearly_all_of_it_computes(parameters: float) -> None:
    model = architecture_from_parameters(parameters)
    assert model.total_parameters == round(parameters)
    idle = sum(op.parameters for op in model.operators if op.name == "block.unassigned")
    assert idle <= 0.01 * parameters
    assert model.num_attention_heads % model.num_key_value_heads == 0
    widths = [op.out_features for op in model.operators if op.name.endswith("feed_forward.up")]
    assert all(width % 16 == 0 for width in widths)


@pytest.mark.parametrize(
    ("parameters", "hidden", "layers", "heads"),
    [
        # Touvron et al. 2023, arXiv:2307.09288; Llama team 2024, arXiv:2407.21783, table 3;
        # Brown et al. 2020, arXiv:2005.14165, table 2.1.
        (6_738_415_616, 4096, 32, 32),
        (13_015_864_320, 5120, 40, 40),
        (70_553_706_496, 8192, 80, 64),
        (175e9, 12288, 96, 96),
        (125e6, 768, 12, 12),
    ],
)
def test_published_sizes_get_their_published_shape(
    parameters: float, hidden: int, layers: int, heads: int
) -> None:
    model = architecture_from_parameters(parameters)
    shape = (model.hidden_size, model.num_hidden_layers, model.num_attention_heads)
    assert shape == (hidden, layers, heads)


def test_it_is_assumed_and_says_from_what() -> None:
    model = architecture_from_parameters(7e9)
    assert model.evidence is Evidence.ASSUMED
    assert "Llama 2 7B" in model.assumptions[0]
    assert model.source == "parameters"
    assert model.name == "7B parameters"


def test_flops_are_two_per_matrix_parameter() -> None:
    """C = 2N per token forward (Kaplan et al. 2020, section 2.1), embeddings apart."""
    model = architecture_from_parameters(7e9)
    flops = sum(op.layers * op.flops_per_token for op in model.operators)
    embedding = sum(op.parameters for op in model.operators if op.kind is OperatorKind.EMBEDDING)
    assert flops == pytest.approx(2 * (7e9 - embedding), rel=2e-3)


@pytest.mark.parametrize("parameters", [0.0, -1.0, 1e5, 1e15, float("inf"), float("nan")])
def test_out_of_range(parameters: float) -> None:
    with pytest.raises(InputError, match="out of range"):
        architecture_from_parameters(parameters)


def test_the_table_is_what_was_published() -> None:
    """Each row's own count agrees with its shape within the rounding of the name."""
    for published in published_models():
        model = architecture_from_parameters(published.parameters)
        assert model.hidden_size == published.hidden_size, published.name
        assert model.num_hidden_layers == published.layers, published.name


# Mistral 7B: Jiang et al. 2023, arXiv:2310.06825, table 1; 7,241,732,096 parameters on the hub.
MISTRAL = AssumedShape(
    num_hidden_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=8,
    intermediate_size=14336,
    vocab_size=32000,
)


def test_a_shape_that_is_known_in_full_is_no_assumption() -> None:
    model = architecture_from_parameters(7_241_732_096, MISTRAL)

    assert model.evidence is Evidence.DERIVED
    assert "block.unassigned" not in {op.name for op in model.operators}
    assert architecture_from_parameters(8e9, MISTRAL).evidence is Evidence.ASSUMED


def test_what_a_known_shape_leaves_over_is_told() -> None:
    model = architecture_from_parameters(8e9, MISTRAL)

    assert model.total_parameters == 8_000_000_000
    assert "this shape holds 7.242B parameters of 8B parameters" in model.assumptions[1]


@pytest.mark.parametrize("name", ["Qwen2.5 7B", "qwen2.5-7b", "llama 3.1 8b", "GPT-3 175B"])
def test_the_published_model_can_be_chosen(name: str) -> None:
    known = AssumedShape(like=name)
    shape = whole_shape(7e9, known)
    published = next(item for item in published_models() if item.name == shape.like)

    assert published.name.lower().replace("-", " ") == name.lower().replace("-", " ")
    assert architecture_from_parameters(7e9, known).total_parameters == 7_000_000_000
    grouped = published.key_value_heads < published.heads
    assert (shape.num_key_value_heads != shape.num_attention_heads) is grouped
    with pytest.raises(InputError, match=r"is not a model of the table.*Llama 3.1 8B"):
        architecture_from_parameters(7e9, AssumedShape(like="Llama 9 1B"))


@pytest.mark.parametrize(
    "known",
    [
        {"num_attention_heads": 7},
        {"num_attention_heads": 7, "num_hidden_layers": 32},
        {"num_key_value_heads": 5},
        {"intermediate_size": 14336},
        {"intermediate_size": 14336, "num_hidden_layers": 32},
        {"hidden_size": 4096, "intermediate_size": 14336, "num_key_value_heads": 4},
    ],
)
def test_any_known_field_leaves_a_shape_that_kernels_like(known: dict[str, int]) -> None:
    given = AssumedShape(**known)  # type: ignore[arg-type]
    shape = whole_shape(7e9, given)
    heads, groups = shape.num_attention_heads, shape.num_key_value_heads
    assert shape.hidden_size
    assert heads
    assert groups

    assert all(getattr(shape, name) == value for name, value in known.items())
    # Of published 7-billion models: 3,584 (Qwen2.5) to 4,544 (Falcon).
    assert 3300 < shape.hidden_size < 4700
    assert shape.hidden_size % (8 * heads) == 0
    assert heads % groups == 0
    model = architecture_from_parameters(7e9, given)
    idle = sum(op.parameters for op in model.operators if op.name == "block.unassigned")
    assert idle < 0.04 * 7e9
