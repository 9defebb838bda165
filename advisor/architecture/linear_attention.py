"""Operator rows of linear attention by the gated delta rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixer_shapes import GatedDelta
from advisor.architecture.operators import Operator, SavedFormat
from advisor.architecture.rows import linear, linear_input, normalization
from advisor.architecture.shapes import Norm
from advisor.architecture.state_space import causal_convolution, scan

DELTA_CHUNK: Final = 64
"""Tokens of one chunk in the published kernels (Yang et al. 2024, arXiv:2406.06484, section 3)."""


def gated_delta_rows(
    shape: GatedDelta, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of gated delta-rule layers.

    Parameters
    ----------
    shape : GatedDelta
    path : str
        Dotted name of the parent row.
    hidden_size : int
    norm : Norm
        Of the model; the gated norm of each head takes its kind.

    Yields
    ------
    Operator

    Notes
    -----
    .. math:: F = n_v \left(C (6 d_k + 4 d_v) + 6 d_k d_v\right)

    FLOPs per token with chunks of :math:`C` tokens and :math:`n_v` value heads: inside a chunk
    key and query scores, the two triangular products and the weighted values; then removing,
    reading and writing the state. The triangular inverse itself is left out.

    References
    ----------
    .. [1] Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, arXiv:2412.06464, section 3.3.
    """
    layers = shape.layers
    keys = shape.key_heads * shape.key_head_dim
    values = shape.value_heads * shape.value_head_dim
    matrices = {"query_key_value": 2 * keys + values, "gate": values}
    matrices |= {"write_strength": shape.value_heads, "decay": shape.value_heads}
    for name, width in matrices.items():
        first = name == "query_key_value"
        yield linear(
            f"{path}.{name}",
            layers=layers,
            in_features=hidden_size,
            out_features=width,
            saved=(linear_input(hidden_size, tuple(matrices)),) if first else (),
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
        # Decay and its bias, for each head.
        parameters=2 * shape.value_heads,
        flops=shape.value_heads * (DELTA_CHUNK * inner + 6.0 * state),
        moved=2.0 * keys + 2.0 * values + 2.0 * shape.value_heads,
        kept=2.0 * keys + values + 2.0 * shape.value_heads,
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
    yield linear(
        f"{path}.output",
        layers=layers,
        in_features=values,
        out_features=hidden_size,
        saved=(linear_input(values, ("output",), divided=True),),
    )
