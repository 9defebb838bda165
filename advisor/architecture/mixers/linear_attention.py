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
from advisor.architecture.table.operators import Division, Operator, SavedFormat
from advisor.architecture.table.rows import linear, linear_input, lone_linear, normalization

DELTA_CHUNK: Final = 64
"""Tokens of one chunk in the published kernels (Yang et al. 2024, arXiv:2406.06484, section 3)."""


def gated_delta_rows(
    shape: GatedDelta, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of gated delta-rule layers.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    norm : Norm
        Norm of the model. The gated norm of each head is of the same kind.

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
    layers = shape.layers
    keys = shape.key_heads * shape.key_head_dim
    values = shape.value_heads * shape.value_head_dim
    decays = shape.value_heads if shape.decay_rank is None else values
    matrices = {
        "query_key_value": (2 * keys + values, None),
        "gate": (values, shape.gate_rank),
        "write_strength": (shape.value_heads, None),
        "decay": (decays, shape.decay_rank),
    }
    for name, (width, rank) in matrices.items():
        first = name == "query_key_value"
        yield linear(
            f"{path}.{name}",
            layers=layers,
            in_features=hidden_size,
            out_features=rank or width,
            division=Division.REPLICATED if rank else Division.TENSOR,
            saved=(linear_input(hidden_size, tuple(matrices)),) if first else (),
        )
        if rank:
            yield lone_linear(
                f"{path}.{name}_expand",
                layers=layers,
                in_features=rank,
                out_features=width,
            )
    yield causal_convolution(
        f"{path}.convolution",
        layers=layers,
        channels=2 * keys + values,
        kernel=shape.kernel,
        bias=False,
    )
    inner = 6.0 * shape.key_head_dim + 4.0 * shape.value_head_dim
    state = shape.key_head_dim * shape.value_head_dim
    yield scan(
        f"{path}.scan",
        layers=layers,
        heads=shape.value_heads,
        # A decay for each head, and a bias for each head or channel.
        parameters=shape.value_heads + decays,
        flops=shape.value_heads * (DELTA_CHUNK * inner + 6.0 * state),
        moved=2.0 * keys + 2.0 * values + shape.value_heads + decays,
        kept=2.0 * keys + values + shape.value_heads + decays,
        state=shape.value_heads * state,
        state_bytes=shape.state_bytes_per_element,
    )
    yield normalization(
        f"{path}.norm",
        norm=norm,
        layers=layers,
        width=shape.value_head_dim,
        rows=shape.value_heads,
        stream=SavedFormat.COMPUTE,
        divided=True,
    )
    yield lone_linear(
        f"{path}.output",
        layers=layers,
        in_features=values,
        out_features=hidden_size,
        divided=True,
    )


def lightning_rows(
    shape: LightningAttention, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of lightning attention layers.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    norm : Norm
        Norm of the model. The norm of the output is of the same kind.

    Notes
    -----
    .. math:: F = n d (4 C + 4 d)

    FLOPs per token with :math:`n` heads of :math:`d` and chunks of :math:`C` tokens: scores and
    weighted values inside a chunk, then reading and writing the state.

    References
    ----------
    .. [1] MiniMax, MiniMax-01, 2025, arXiv:2501.08313, section 2.2.
    """
    layers, width = shape.layers, shape.heads * shape.head_dim
    for name, outer in (("query_key_value", 3 * width), ("gate", width)):
        first = name == "query_key_value"
        yield linear(
            f"{path}.{name}",
            layers=layers,
            in_features=hidden_size,
            out_features=outer,
            saved=(linear_input(hidden_size, ("query_key_value", "gate")),) if first else (),
        )
    yield scan(
        f"{path}.scan",
        layers=layers,
        heads=shape.heads,
        parameters=0,
        flops=width * (4.0 * shape.chunk + 4.0 * shape.head_dim),
        moved=5.0 * width,
        kept=4.0 * width,
        state=width * shape.head_dim,
        state_bytes=2.0,
    )
    yield normalization(
        f"{path}.norm",
        norm=norm,
        layers=layers,
        width=width,
        stream=SavedFormat.COMPUTE,
        divided=True,
    )
    yield lone_linear(
        f"{path}.output",
        layers=layers,
        in_features=width,
        out_features=hidden_size,
        divided=True,
    )


def short_convolution_rows(
    shape: ShortConvolution, *, path: str, hidden_size: int
) -> Iterator[Operator]:
    """Yield the rows of gated short convolutions.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    """
    yield lone_linear(
        f"{path}.input",
        layers=shape.layers,
        in_features=hidden_size,
        out_features=3 * hidden_size,
        bias=shape.bias,
    )
    yield causal_convolution(
        f"{path}.convolution",
        layers=shape.layers,
        channels=hidden_size,
        kernel=shape.kernel,
        bias=shape.bias,
    )
    yield lone_linear(
        f"{path}.output",
        layers=shape.layers,
        in_features=hidden_size,
        out_features=hidden_size,
        bias=shape.bias,
        divided=True,
    )
