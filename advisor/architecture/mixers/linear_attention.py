"""Operator rows of linear attention and of gated short convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.shapes import Norm
from advisor.architecture.mixers.shapes_of_mixers import (
    GatedDelta,
    LightningAttention,
    ShortConvolution,
)
from advisor.architecture.mixers.state_space import causal_convolution, scan
from advisor.architecture.table.operators import Operator, SavedTensor
from advisor.architecture.table.rows import COMPUTE, REPLICATED, TENSOR, Rows, linear_input

DELTA_CHUNK: Final = 64
"""Tokens of one chunk in the published kernels (Yang et al. 2024, arXiv:2406.06484, section 3)."""


def gated_delta_rows(
    shape: GatedDelta, at: Rows, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of gated delta-rule layers.

    Notes
    -----
    .. math:: F = n_v \left(C (6 d_k + 4 d_v) + 6 d_k d_v\right)

    FLOPs per token with chunks of :math:`C` tokens and :math:`n_v` value heads. Inside a chunk:
    key and query scores, the two triangular products and the weighted values. Then removing,
    reading and writing the state. Leaves out the triangular inverse.

    References
    ----------
    .. [1] Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, arXiv:2412.06464, section 3.3.
    """
    keys = shape.key_heads * shape.key_head_dim
    values = shape.value_heads * shape.value_head_dim
    decays = shape.value_heads if shape.decay_rank is None else values
    matrices = {
        "query_key_value": (2 * keys + values, None),
        "gate": (values, shape.gate_rank),
        "write_strength": (shape.value_heads, None),
        "decay": (decays, shape.decay_rank),
    }
    saved: tuple[SavedTensor, ...] = (linear_input(hidden_size, tuple(matrices)),)
    for name, (width, rank) in matrices.items():
        division = REPLICATED if rank else TENSOR
        yield at.linear(name, hidden_size, rank or width, division=division, saved=saved)
        saved = ()
        if rank:
            yield at.lone_linear(f"{name}_expand", rank, width)
    yield causal_convolution(at, 2 * keys + values, shape.kernel, bias=False)
    inner = 6.0 * shape.key_head_dim + 4.0 * shape.value_head_dim
    state = shape.key_head_dim * shape.value_head_dim
    yield scan(
        at,
        heads=shape.value_heads,
        # A decay for each head, and a bias for each head or channel.
        parameters=shape.value_heads + decays,
        flops=shape.value_heads * (DELTA_CHUNK * inner + 6.0 * state),
        moved=2.0 * keys + 2.0 * values + shape.value_heads + decays,
        kept_elements=2.0 * keys + values + shape.value_heads + decays,
        state=shape.value_heads * state,
        state_bytes=shape.state_bytes_per_element,
    )
    heads, dim = shape.value_heads, shape.value_head_dim
    yield at.norm("norm", norm, dim, rows=heads, stream=COMPUTE, divided=True)
    yield at.lone_linear("output", values, hidden_size, divided=True)


def lightning_rows(
    shape: LightningAttention, at: Rows, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of lightning attention layers.

    Notes
    -----
    .. math:: F = n d (4 C + 4 d)

    FLOPs per token with :math:`n` heads of :math:`d` and chunks of :math:`C` tokens: scores and
    weighted values inside a chunk, then reading and writing the state.

    References
    ----------
    .. [1] MiniMax, MiniMax-01, 2025, arXiv:2501.08313, section 2.2.
    """
    width = shape.heads * shape.head_dim
    saved = (linear_input(hidden_size, ("query_key_value", "gate")),)
    yield at.linear("query_key_value", hidden_size, 3 * width, saved=saved)
    yield at.linear("gate", hidden_size, width)
    yield scan(
        at,
        heads=shape.heads,
        flops=width * (4.0 * shape.chunk + 4.0 * shape.head_dim),
        moved=5.0 * width,
        kept_elements=4.0 * width,
        state=width * shape.head_dim,
    )
    yield at.norm("norm", norm, width, stream=COMPUTE, divided=True)
    yield at.lone_linear("output", width, hidden_size, divided=True)


def short_convolution_rows(
    shape: ShortConvolution, at: Rows, hidden_size: int
) -> Iterator[Operator]:
    """Yield the rows of gated short convolutions."""
    bias = shape.bias
    yield at.lone_linear("input", hidden_size, 3 * hidden_size, bias=bias)
    yield causal_convolution(at, hidden_size, shape.kernel, bias=bias)
    yield at.lone_linear("output", hidden_size, hidden_size, bias=bias, divided=True)
