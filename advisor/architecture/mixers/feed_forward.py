"""Operator rows of dense feed-forward layers, and costs of activation functions."""

from collections.abc import Iterator
from typing import Any, Final

from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape
from advisor.architecture.table.operators import Operator, OperatorKind, SavedTensor, SavedWhen
from advisor.architecture.table.rows import STREAM, TENSOR, Rows, kept, linear_input
from advisor.foundation.noun import Noun


class Activation(Noun):
    """The cost of an activation function whose operations run one by one."""

    title: str
    keeps_input: bool = True
    """False if the gradient needs only the output (ReLU)."""
    stream_intermediates: int = 0
    """Additional tensors kept in the stream's format (autocast computes powers in fp32)."""
    compute_intermediates: int = 0
    passes: float = 2.0
    launches: int = 1
    parameters: int = 0
    """Number of learned scalars."""


_TANH_CHAIN = Activation(
    title="GELU written out in Python",
    # Input of the cube, tanh and its sum with one; half of the input.
    stream_intermediates=3,
    compute_intermediates=1,
    passes=18.0,
    launches=8,
)
_GELU = Activation(title="GELU")
_SILU = Activation(title="SiLU")
_RELU = Activation(title="ReLU", keeps_input=False)
# The square's gradient needs the ReLU's output, which stands for its input.
_SQUARED_RELU = Activation(title="squared ReLU", passes=4.0, launches=2)
# Kernel by kernel both branches (8 and 14 passes), what they share, their choice; each branch
# learns a scalar (Huang and Schlag 2024, arXiv:2411.13010).
_XIELU = Activation(title="xIELU", passes=29.0, launches=12, parameters=2)
_QUICK_GELU = Activation(title="GELU by a sigmoid", compute_intermediates=1, passes=6.0, launches=3)

ACTIVATIONS: Final[dict[str, Activation]] = {
    "silu": _SILU,
    # Gates of the same passes with other constants: MiniMax-M3 and Kimi K3.
    "swigluoai": _SILU,
    "situ": _SILU,
    "swish": _SILU,
    "gelu": _GELU,
    "gelu_pytorch_tanh": _GELU,
    "gelu_tanh": _GELU,
    "gelu_new": _TANH_CHAIN,
    "gelu_fast": _TANH_CHAIN,
    "relu": _RELU,
    "relu2": _SQUARED_RELU,
    "quick_gelu": _QUICK_GELU,
    "xielu": _XIELU,
}
"""Activation functions by their name in published configurations."""


def input_readers(shape: FeedForwardShape | ExpertsShape) -> tuple[str, ...]:
    """Return the linear layers that read the block's input, by adapter target or role."""
    if isinstance(shape, FeedForwardShape):
        if not shape.gated:
            return ("up",)
        return ("gate+up",) if shape.fused_gate else ("gate", "up")
    readers = ["router"]
    if shape.latent_size is not None:
        readers.append("latent")
    if shape.shared_width:
        readers += ["gate", "up"] if shape.gated else ["up"]
    if shape.shared_gate:
        readers.append("shared_gate")
    return tuple(readers)


def feed_forward_rows(
    shape: FeedForwardShape, *, path: str, hidden_size: int, saved: tuple[SavedTensor, ...]
) -> Iterator[Operator]:
    """Yield the rows of one kind of dense feed-forward layer.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    saved : tuple of SavedTensor
        The block's input; empty if the attention's rows already save it.
    """
    at, width, bias = Rows(path, shape.layers), shape.width, shape.bias
    for name in ("gate", "up") if shape.gated else ("up",):
        yield at.linear(name, hidden_size, width, bias=bias, target=name, saved=saved)
        saved = ()
    yield _activation(at, width, ACTIVATIONS[shape.activation], gated=shape.gated)
    product = linear_input(width, ("down",), divided=True)
    yield at.linear("down", width, hidden_size, bias=bias, target="down", saved=(product,))


def _activation(at: Rows, width: int, activation: Activation, *, gated: bool) -> Operator:
    """Return the row of the activation, with the product of a gated layer."""
    unfused: dict[str, Any] = {"when": SavedWhen.UNFUSED, "divided": True}
    saved = []
    if activation.stream_intermediates:
        steps = activation.stream_intermediates * width
        saved.append(kept("intermediates", steps, STREAM, **unfused))
        saved.append(kept("half_input", activation.compute_intermediates * width, **unfused))
        saved.append(kept("input", width, when=SavedWhen.FUSED, divided=True))
    elif activation.keeps_input:
        saved.append(kept("input", width, divided=True))
    if gated:
        # Gradients of the product and of both its sides, where the product itself is freed.
        saved.append(kept("activated", width, backward=2.0, **unfused))
        saved.append(kept("up", width, divided=True))
    # A product reads two tensors and writes one.
    return at.elementwise(
        "activation",
        kind=OperatorKind.ACTIVATION,
        division=TENSOR,
        parameters=activation.parameters,
        fused=(3.0 if gated else 2.0) * width,
        unfused=(activation.passes + (3.0 if gated else 0.0)) * width,
        launches=activation.launches + gated,
        saved=tuple(saved),
    )
