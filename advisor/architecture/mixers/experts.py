"""Operator rows of routed feed-forward layers: router, dispatch, experts, shared expert."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.feed_forward import ACTIVATIONS, feed_forward_rows
from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import COMPUTE, REPLICATED, STREAM, Rows, kept

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

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    saved : tuple of SavedTensor
        The block's input; empty if the attention's rows already save it.

    Notes
    -----
    Eager code runs the experts in the format of the residual stream, because autocast does not
    affect PyTorch's grouped matmul.
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
