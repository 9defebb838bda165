"""Operator rows of feed-forward layers, dense and routed, and costs of activation functions."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import (
    COMPUTE,
    REPLICATED,
    STREAM,
    TENSOR,
    Rows,
    kept,
    linear_input,
)
from advisor.foundation.data_records import checked, read_json
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path

ROUTING_BYTES_PER_VISIT: Final = 34.0
"""Bytes of indices and weights that eager routing keeps per token and visited expert. An exact fit
to PyTorch's own accounting of Qwen3-MoE (transformers 5.23, grouped matmul)."""
ROUTING_LAUNCHES: Final = 12
"""Softmax, top-k, renormalise, sort, count, gather in, gather back, weight, sum and the small
index kernels between them."""


def expert_rows(
    shape: ExpertsShape, *, path: str, hidden_size: int, saved: tuple[SavedTensor, ...]
) -> Iterator[Operator]:
    """Yield the rows of one kind of routed feed-forward layer.

    Eager code runs the experts in the format of the residual stream, because autocast does not
    affect PyTorch's grouped matmul.

    ``path``: dotted name of the parent row. ``saved``: the block's input; empty if the attention's
    rows already save it.
    """
    at, outer = Rows(path, shape.layers), shape.latent_size or hidden_size
    yield _router(shape, at, hidden_size, saved)
    if shape.latent_size is not None:
        yield from _latent(shape, at, hidden_size, shape.latent_size)
    yield _dispatch(shape, at, outer)
    sides = {"gate": (outer, shape.width)} if shape.gated else {}
    sides |= {"up": (outer, shape.width), "down": (shape.width, outer)}
    products = _by_stack("input", shape.active * shape.width, read_by=("down",), divided=True)
    for name, (inner, made) in sides.items():
        if name == "down":
            yield _expert_activation(shape, at, outer)
        yield at.linear(
            f"experts.{name}",
            inner,
            made,
            bias=shape.bias,
            target=name,
            division=Division.EXPERT,
            experts=shape.experts,
            active_experts=shape.active,
            expert_groups=shape.groups,
            active_groups=shape.active_groups,
            visits=True,
            saved=products if name == "down" else (),
        )
    if shape.shared_width:
        shared = FeedForwardShape(
            layers=shape.layers,
            width=shape.shared_width,
            gated=shape.gated,
            activation=shape.activation,
            bias=shape.shared_bias,
        )
        yield from feed_forward_rows(
            shared, path=f"{path}.shared_expert", hidden_size=hidden_size, saved=()
        )
    if shape.shared_gate:
        yield at.elementwise(
            "shared_expert_gate",
            kind=OperatorKind.ROUTING,
            parameters=hidden_size,
            flops_per_token=2.0 * hidden_size,
            fused=2.0 * hidden_size,
            unfused=4.0 * hidden_size,
            launches=3,
            saved=(kept("shared_output", hidden_size),),
        )


def _router(
    shape: ExpertsShape, at: Rows, hidden_size: int, saved: tuple[SavedTensor, ...]
) -> Operator:
    return at.elementwise(
        "router",
        kind=OperatorKind.ROUTING,
        # Correction biases that steer the choice (DeepSeek V3) are buffers, not parameters.
        parameters=shape.experts * (hidden_size + shape.router_bias) + shape.router_scales,
        in_features=hidden_size,
        out_features=shape.experts,
        flops_per_token=2.0 * hidden_size * shape.experts,
        fused=hidden_size + 2 * shape.experts,
        unfused=hidden_size + 8 * shape.experts,
        launches=ROUTING_LAUNCHES,
        saved=(
            *saved,
            kept("choices", ROUTING_BYTES_PER_VISIT * shape.active, SavedFormat.BYTE),
            kept("router_probabilities", shape.experts, SavedFormat.FP32),
        ),
    )


def _latent(
    shape: ExpertsShape, at: Rows, hidden_size: int, latent_size: int
) -> Iterator[Operator]:
    """Yield the projections into the experts' narrower space and back."""
    bias = shape.shared_bias
    yield at.linear("latent", hidden_size, latent_size, bias=bias, division=REPLICATED)
    yield at.lone_linear("latent_output", latent_size, hidden_size, bias=bias, division=REPLICATED)


def _dispatch(shape: ExpertsShape, at: Rows, hidden_size: int) -> Operator:
    """Return the row that sends tokens to their experts and the outputs back."""
    copies = shape.active * hidden_size
    return at.elementwise(
        "dispatch",
        # In: read and write each copy. Back: read each copy, write the sum.
        fused=3.0 * copies + hidden_size,
        # Gather in, gather back and weighting read and write each copy; the sum reads them.
        unfused=7.0 * copies + hidden_size,
        launches=4,
        visits=True,
        saved=(
            *_by_stack("expert_input", copies, read_by=("gate+up",) if shape.gated else ("up",)),
            *_by_stack("expert_output", copies),
        ),
    )


def _expert_activation(shape: ExpertsShape, at: Rows, outer_size: int) -> Operator:
    width = float(shape.active * shape.width)
    activation = ACTIVATIONS[shape.activation]
    # Clamping gate and up keeps both clamped tensors, the sigmoid and its product besides.
    unfused = 4.0 if shape.clamped else 1.0
    inputs = 2 if shape.gated else 1
    # Elements read and written for each of the token's experts.
    biases = 2.0 * shape.active * (inputs * shape.width + outer_size) if shape.bias else 0.0
    passes = activation.passes + (3.0 if shape.gated else 0.0) + (8.0 if shape.clamped else 0.0)
    activated = kept("activated", unfused * width, STREAM, when=SavedWhen.UNFUSED, divided=True)
    name = "gate_and_up" if shape.gated else "up"
    return at.elementwise(
        "experts.activation",
        kind=OperatorKind.ACTIVATION,
        # Nobody ships one kernel for clamped gates; biases of experts are added on their own.
        fused=(passes if shape.clamped else inputs + 1.0) * width + biases,
        unfused=passes * width + biases,
        launches=activation.launches + int(shape.gated) + (5 if shape.clamped else 0),
        division=Division.EXPERT,
        visits=True,
        saved=(*_by_stack(name, inputs * width, divided=True), activated),
    )


def _by_stack(
    name: str, elements: float, *, read_by: tuple[str, ...] | None = None, divided: bool = False
) -> tuple[SavedTensor, SavedTensor]:
    """Return one tensor, in the stream's format for eager code and the matmul's for fused code."""
    facts: dict[str, object] = {
        "divided": divided,
        "gathered": not divided,
        "remade": read_by == ("down",),
        "read_by": read_by,
    }
    return (
        kept(name, elements, STREAM, when=SavedWhen.UNFUSED, **facts),
        kept(name, elements, COMPUTE, when=SavedWhen.FUSED, **facts),
    )


class Activation(Noun):
    """An activation function, and its cost where its operations run one by one."""

    names: tuple[str, ...]
    """In published configurations."""
    gates: tuple[str, ...] = ()
    """Names that only gates have."""
    keeps_input: bool = True
    """False if the gradient needs only the output (ReLU)."""
    stream_intermediates: int = 0
    """Additional tensors kept in the stream's format."""
    compute_intermediates: int = 0
    passes: float = 2.0
    launches: int = 1
    parameters: int = 0
    """Number of learned scalars."""


class Activations(Noun):
    """Content of the file."""

    about: str
    functions: dict[str, Activation]


@cache
def activations() -> Mapping[str, Activation]:
    """Read the activation functions."""
    content = read_json(data_path("activations.json"))
    return checked(Activations.model_validate, content, file="activations.json").functions


ACTIVATIONS: Final = {
    name: item for item in activations().values() for name in (*item.names, *item.gates)
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

    ``path``: dotted name of the parent row. ``saved``: the block's input; empty if the attention's
    rows already save it.
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
