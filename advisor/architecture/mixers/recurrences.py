"""Operator rows of recurrences: state-space layers, linear attention, short convolutions."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.shapes import (
    GatedDelta,
    LightningAttention,
    Norm,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDuality,
)
from advisor.architecture.table.operators import Operator, OperatorKind, SavedTensor
from advisor.architecture.table.rows import COMPUTE, REPLICATED, TENSOR, Rows, kept, linear_input

UNFUSED_SCAN_PASSES: Final = 6.0
"""Eager scans write decay, input and state of every token, and read each of them back."""

DELTA_CHUNK: Final = 64
"""Tokens of one chunk in the published kernels (Yang et al. 2024, arXiv:2406.06484, section 3)."""


def selective_scan_rows(shape: SelectiveScan, at: Rows, hidden_size: int) -> Iterator[Operator]:
    r"""Yield the rows of Mamba layers.

    Notes
    -----
    .. math:: h_t = e^{\Delta A} h_{t-1} + \Delta B x_t, \quad y_t = C h_t + D x_t

    One state element costs 7 FLOPs per token: one product in the decay, two in the input, a
    multiply-add in the recurrence and one in the output. Exponentials are left out.

    References
    ----------
    .. [1] Gu, Dao, Mamba, 2023, arXiv:2312.00752, equations 2 and 4, algorithm 2.
    """
    channels, state, bias = shape.channels, shape.state_size, shape.bias
    selected = shape.rank + 2 * state
    yield at.lone_linear("input", hidden_size, 2 * channels, bias=bias)
    yield causal_convolution(at, channels, shape.kernel, bias=shape.kernel_bias)
    yield at.lone_linear("selection", channels, selected, divided=True)
    if shape.inner_norms:
        yield at.norm("selection_norm", Norm(), selected, stream=COMPUTE)
    yield at.lone_linear("step", shape.rank, channels, bias=True)
    yield scan(
        at,
        heads=1,
        # State matrix and the skip connection.
        parameters=channels * (state + 1),
        flops=channels * (7.0 * state + 2.0),
        # Input, step size, gate and output; the two maps of the token.
        moved=4.0 * channels + 2.0 * state,
        kept_elements=3.0 * channels + 2.0 * state,
        state=channels * state,
    )
    yield at.lone_linear("output", channels, hidden_size, bias=bias, divided=True)


def state_space_duality_rows(
    shape: StateSpaceDuality, at: Rows, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of Mamba-2 layers.

    Notes
    -----
    .. math:: F = 2 g Q N + n (2 Q P + 4 N P)

    FLOPs per token with :math:`g` groups, chunks of :math:`Q` tokens, states of size :math:`N`, and
    :math:`n` heads of size :math:`P`: scores and their product inside a chunk, then writing and
    reading the chunk's state. Blocks count as a whole, because kernels compute all of them.

    References
    ----------
    .. [1] Dao, Gu, Transformers are SSMs, 2024, arXiv:2405.21060, section 6 and listing 1.
    """
    channels, state, heads = shape.channels, shape.state_size, shape.heads
    maps = 2 * shape.groups * state
    yield at.lone_linear("input", hidden_size, 2 * channels + maps + heads, bias=shape.bias)
    yield causal_convolution(at, channels + maps, shape.kernel, bias=shape.kernel_bias)
    inside = 2.0 * shape.chunk * (shape.groups * state + channels)
    yield scan(
        at,
        heads=heads,
        # Decay, skip connection and step bias of each head.
        parameters=3 * heads,
        flops=inside + 4.0 * state * channels,
        moved=2.0 * channels + maps + heads,
        kept_elements=channels + maps + heads,
        state=channels * state,
        state_bytes=shape.state_bytes_per_element,
    )
    if shape.norm:
        yield at.norm("norm", norm, channels, stream=COMPUTE, divided=True)
    yield at.lone_linear("output", channels, hidden_size, bias=shape.output_bias, divided=True)


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


def causal_convolution(at: Rows, channels: int, kernel: int, *, bias: bool) -> Operator:
    """Return the row of a depthwise convolution along the sequence.

    Serving keeps the last ``kernel`` inputs of every channel.
    """
    return at.elementwise(
        "convolution",
        kind=OperatorKind.CONVOLUTION,
        division=TENSOR,
        parameters=channels * (kernel + bias),
        flops_per_token=2.0 * kernel * channels,
        fused=2.0 * channels,
        # The convolution, then its activation.
        unfused=4.0 * channels,
        launches=2,
        state_elements_per_sequence=channels * kernel,
        saved=(kept("input", channels, divided=True),),
    )


def scan(
    at: Rows,
    *,
    heads: int,
    flops: float,
    moved: float,
    kept_elements: float,
    state: int,
    parameters: int = 0,
    state_bytes: float = 2.0,
) -> Operator:
    """Return the row of a recurrence: its work per token, and the state of one sequence."""
    return at.elementwise(
        "scan",
        kind=OperatorKind.SCAN,
        division=TENSOR,
        parameters=parameters,
        flops_per_token=flops,
        fused=moved,
        unfused=UNFUSED_SCAN_PASSES * moved,
        launches=8,
        heads=heads,
        state_elements_per_sequence=state,
        state_bytes_per_element=state_bytes,
        saved=(kept("inputs", kept_elements, divided=True),),
    )
