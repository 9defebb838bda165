"""Bare parameter counts: honoured to the last one, with a shape that a kernel likes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.architecture.operators import OperatorKind
from advisor.architecture.parameter_count import PUBLISHED, architecture_from_parameters
from advisor.errors import InputError
from advisor.quantities import Evidence


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
    for published in PUBLISHED:
        model = architecture_from_parameters(published.parameters)
        assert model.hidden_size == published.hidden_size, published.name
        assert model.num_hidden_layers == published.layers, published.name
