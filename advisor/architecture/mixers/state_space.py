"""Operator rows of state-space layers: Mamba and Mamba-2."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import Norm
from advisor.architecture.mixers.shapes_of_mixers import SelectiveScan, StateSpaceDuality
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.rows import lone_linear, normalization

UNFUSED_SCAN_PASSES = 6.0
"""Eager scans write decay, input and state of every token, and read each of them back."""


def selective_scan_rows(shape: SelectiveScan, *, path: str, hidden_size: int) -> Iterator[Operator]:
    r"""Yield the rows of Mamba layers.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.

    Notes
    -----
    .. math:: h_t = e^{\Delta A} h_{t-1} + \Delta B x_t, \quad y_t = C h_t + D x_t

    One state element costs 7 FLOPs per token: one product in the decay, two in the input, a
    multiply-add in the recurrence and one in the output. Exponentials are left out.

    References
    ----------
    .. [1] Gu, Dao, Mamba, 2023, arXiv:2312.00752, equations 2 and 4, algorithm 2.
    """
    layers, channels, state = shape.layers, shape.channels, shape.state_size
    yield lone_linear(
        f"{path}.input",
        layers=layers,
        in_features=hidden_size,
        out_features=2 * channels,
        bias=shape.bias,
    )
    yield causal_convolution(
        f"{path}.convolution",
        layers=layers,
        channels=channels,
        kernel=shape.kernel,
        bias=shape.kernel_bias,
    )
    yield lone_linear(
        f"{path}.selection",
        layers=layers,
        in_features=channels,
        out_features=shape.rank + 2 * state,
        divided=True,
    )
    if shape.inner_norms:
        yield normalization(
            f"{path}.selection_norm",
            norm=Norm(),
            layers=layers,
            width=shape.rank + 2 * state,
            stream=SavedFormat.COMPUTE,
        )
    yield lone_linear(
        f"{path}.step",
        layers=layers,
        in_features=shape.rank,
        out_features=channels,
        bias=True,
    )
    yield scan(
        f"{path}.scan",
        layers=layers,
        heads=1,
        # State matrix and the skip connection.
        parameters=channels * (state + 1),
        flops=channels * (7.0 * state + 2.0),
        # Input, step size, gate and output; the two maps of the token.
        moved=4.0 * channels + 2.0 * state,
        kept=3.0 * channels + 2.0 * state,
        state=channels * state,
        state_bytes=2.0,
    )
    yield lone_linear(
        f"{path}.output",
        layers=layers,
        in_features=channels,
        out_features=hidden_size,
        bias=shape.bias,
        divided=True,
    )


def state_space_duality_rows(
    shape: StateSpaceDuality, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    r"""Yield the rows of Mamba-2 layers.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    norm : Norm
        Norm of the model. The gated norm before the output is of the same kind.

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
    layers, channels, state = shape.layers, shape.channels, shape.state_size
    maps = 2 * shape.groups * state
    yield lone_linear(
        f"{path}.input",
        layers=layers,
        in_features=hidden_size,
        out_features=2 * channels + maps + shape.heads,
        bias=shape.bias,
    )
    yield causal_convolution(
        f"{path}.convolution",
        layers=layers,
        channels=channels + maps,
        kernel=shape.kernel,
        bias=shape.kernel_bias,
    )
    inside = 2.0 * shape.chunk * (shape.groups * state + channels)
    yield scan(
        f"{path}.scan",
        layers=layers,
        heads=shape.heads,
        # Decay, skip connection and step bias of each head.
        parameters=3 * shape.heads,
        flops=inside + 4.0 * state * channels,
        moved=2.0 * channels + maps + shape.heads,
        kept=float(channels + maps + shape.heads),
        state=channels * state,
        state_bytes=shape.state_bytes_per_element,
    )
    if shape.norm:
        yield normalization(
            f"{path}.norm",
            norm=norm,
            layers=layers,
            width=channels,
            stream=SavedFormat.COMPUTE,
            divided=True,
        )
    yield lone_linear(
        f"{path}.output",
        layers=layers,
        in_features=channels,
        out_features=hidden_size,
        bias=shape.output_bias,
        divided=True,
    )


def causal_convolution(
    name: str, *, layers: int, channels: int, kernel: int, bias: bool
) -> Operator:
    """Return the row of a depthwise convolution along the sequence.

    Serving keeps the last ``kernel`` inputs of every channel.
    """
    parameters = channels * (kernel + bias)
    return Operator(
        name=name,
        kind=OperatorKind.CONVOLUTION,
        part=Part.BLOCK,
        layers=layers,
        division=Division.TENSOR,
        parameters=parameters,
        active_parameters=parameters,
        flops_per_token=2.0 * kernel * channels,
        moved_elements_per_token=2.0 * channels,
        # The convolution, then its activation.
        moved_elements_per_token_unfused=4.0 * channels,
        launches=2,
        state_elements_per_sequence=float(channels * kernel),
        saved=(_kept("input", channels),),
    )


def scan(
    name: str,
    *,
    layers: int,
    heads: int,
    parameters: int,
    flops: float,
    moved: float,
    kept: float,
    state: int,
    state_bytes: float,
) -> Operator:
    """Return the row of a recurrence: its work per token, and the state of one sequence."""
    return Operator(
        name=name,
        kind=OperatorKind.SCAN,
        part=Part.BLOCK,
        layers=layers,
        division=Division.TENSOR,
        parameters=parameters,
        active_parameters=parameters,
        flops_per_token=flops,
        moved_elements_per_token=moved,
        moved_elements_per_token_unfused=UNFUSED_SCAN_PASSES * moved,
        launches=8,
        heads=heads,
        state_elements_per_sequence=float(state),
        state_bytes_per_element=state_bytes,
        saved=(_kept("inputs", kept),),
    )


def _kept(name: str, elements: float) -> SavedTensor:
    return SavedTensor(
        name=name, elements_per_token=float(elements), format=SavedFormat.COMPUTE, divided=True
    )
