"""Feed-forward layers and their rows, dense and routed, and costs of activation functions."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field

from advisor.architecture.mixers.attention import Count
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
from advisor.foundation.noun import Noun, read_record
from advisor.foundation.resources import data_path

ROUTING_BYTES_PER_VISIT: Final = 34.0
"""Bytes of indices and weights that eager routing keeps per token and visited expert. An exact fit
to PyTorch's own accounting of Qwen3-MoE (transformers 5.23, grouped matmul)."""
ROUTING_LAUNCHES: Final = 12
"""Softmax, top-k, renormalise, sort, count, gather in, gather back, weight, sum and the small
index kernels between them."""


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
    return read_record(data_path("activations.json"), Activations).functions


ACTIVATIONS: Final = {
    name: item for item in activations().values() for name in (*item.names, *item.gates)
}
"""Activation functions by their name in published configurations."""


class FeedForwardShape(Noun):
    """Equal dense feed-forward layers."""

    layers: Count
    width: Count
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused_gate: bool = False
    """Whether gate and up projections are one matrix."""
    inner_norm: bool = False
    """Whether a norm precedes the down projection (BitNet)."""
    scales: Annotated[int, Field(ge=0)] = 0
    """Learned scalars for the output (Inkling)."""

    @property
    def input_readers(self) -> tuple[str, ...]:
        """The linear layers that read the block's input, by adapter target."""
        if not self.gated:
            return ("up",)
        return ("gate+up",) if self.fused_gate else ("gate", "up")

    def rows(self, at: Rows, saved: tuple[SavedTensor, ...]) -> Iterator[Operator]:
        """Yield the rows. ``saved`` is the block's input; empty if the attention's rows save it."""
        hidden_size, width, bias = at.hidden_size, self.width, self.bias
        for name in ("gate", "up") if self.gated else ("up",):
            yield at.linear(name, hidden_size, width, bias=bias, target=name, saved=saved)
            saved = ()
        yield self._activation(at)
        if self.inner_norm:
            yield at.norm("inner_norm", width, stream=COMPUTE)
        product = linear_input(width, ("down",), divided=True)
        yield at.linear("down", width, hidden_size, bias=bias, target="down", saved=(product,))

    def _activation(self, at: Rows) -> Operator:
        """Return the row of the activation, with the product of a gated layer."""
        width, gated, activation = self.width, self.gated, ACTIVATIONS[self.activation]
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
            parameters=activation.parameters + self.scales,
            fused=(3.0 if gated else 2.0) * width,
            unfused=(activation.passes + (3.0 if gated else 0.0)) * width,
            launches=activation.launches + gated,
            saved=tuple(saved),
        )


class ExpertsShape(Noun):
    """Equal routed expert layers."""

    layers: Count
    experts: Annotated[int, Field(ge=2)]
    active: Count
    width: Count
    """Width of one expert."""
    gated: bool = True
    latent_size: Count | None = None
    """Width to which tokens are projected before the experts, and from which back (Nemotron 3)."""
    activation: str = "silu"
    bias: bool = False
    """Whether the experts have biases (gpt-oss)."""
    groups: Count = 1
    active_groups: Count = 1
    """Groups of experts that a token may visit (DeepSeek V2 and V3)."""
    router_bias: bool = False
    router_scales: Annotated[int, Field(ge=0)] = 0
    """Learned scales for the router's input and its choices (Gemma 4)."""
    shared_width: Annotated[int, Field(ge=0)] = 0
    """Total width of the experts that every token visits."""
    shared_bias: bool = False
    """Whether shared expert and projections to the latent width have biases (Nemotron-H)."""
    shared_gate: bool = False
    """Whether the shared expert's output passes a learned gate (Qwen2-MoE)."""
    clamped: bool = False
    """Whether the activation clamps its inputs (gpt-oss)."""
    output_norm: bool = False
    """Whether a norm follows the sum of the experts (A.X K1)."""

    @property
    def input_readers(self) -> tuple[str, ...]:
        """The linear layers that read the block's input, by adapter target or role."""
        readers = ["router"]
        if self.latent_size is not None:
            readers.append("latent")
        if self.shared_width:
            readers += ["gate", "up"] if self.gated else ["up"]
        if self.shared_gate:
            readers.append("shared_gate")
        return tuple(readers)

    def rows(self, at: Rows, saved: tuple[SavedTensor, ...]) -> Iterator[Operator]:
        """Yield the rows. ``saved`` is the block's input; empty if the attention's rows save it.

        Eager code runs the experts in the format of the residual stream, because autocast does not
        affect PyTorch's grouped matmul.
        """
        hidden_size = at.hidden_size
        outer = self.latent_size or hidden_size
        yield self._router(at, saved)
        if self.latent_size is not None:
            yield from self._latent(at, self.latent_size)
        yield self._dispatch(at, outer)
        sides = {"gate": (outer, self.width)} if self.gated else {}
        sides |= {"up": (outer, self.width), "down": (self.width, outer)}
        products = _by_stack("input", self.active * self.width, read_by=("down",), divided=True)
        for name, (inner, made) in sides.items():
            if name == "down":
                yield self._activation(at, outer)
            yield at.linear(
                f"experts.{name}",
                inner,
                made,
                bias=self.bias,
                target=name,
                division=Division.EXPERT,
                experts=self.experts,
                active_experts=self.active,
                expert_groups=self.groups,
                active_groups=self.active_groups,
                visits=True,
                saved=products if name == "down" else (),
            )
        if self.shared_width:
            shared = FeedForwardShape(
                layers=self.layers,
                width=self.shared_width,
                gated=self.gated,
                activation=self.activation,
                bias=self.shared_bias,
            )
            yield from shared.rows(at.under("shared_expert"), saved=())
        if self.shared_gate:
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
        if self.output_norm:
            yield at.norm("output_norm", hidden_size, stream=COMPUTE)

    def _router(self, at: Rows, saved: tuple[SavedTensor, ...]) -> Operator:
        hidden_size = at.hidden_size
        return at.elementwise(
            "router",
            kind=OperatorKind.ROUTING,
            # Correction biases that steer the choice (DeepSeek V3) are buffers, not parameters.
            parameters=self.experts * (hidden_size + self.router_bias) + self.router_scales,
            in_features=hidden_size,
            out_features=self.experts,
            flops_per_token=2.0 * hidden_size * self.experts,
            fused=hidden_size + 2 * self.experts,
            unfused=hidden_size + 8 * self.experts,
            launches=ROUTING_LAUNCHES,
            saved=(
                *saved,
                kept("choices", ROUTING_BYTES_PER_VISIT * self.active, SavedFormat.BYTE),
                kept("router_probabilities", self.experts, SavedFormat.FP32),
            ),
        )

    def _latent(self, at: Rows, latent_size: int) -> Iterator[Operator]:
        """Yield the projections into the experts' narrower space and back."""
        bias = self.shared_bias
        yield at.linear("latent", at.hidden_size, latent_size, bias=bias, division=REPLICATED)
        yield at.lone_linear(
            "latent_output", latent_size, at.hidden_size, bias=bias, division=REPLICATED
        )

    def _dispatch(self, at: Rows, hidden_size: int) -> Operator:
        """Return the row that sends tokens to their experts and the outputs back."""
        copies = self.active * hidden_size
        return at.elementwise(
            "dispatch",
            # In: read and write each copy. Back: read each copy, write the sum.
            fused=3.0 * copies + hidden_size,
            # Gather in, gather back and weighting read and write each copy; the sum reads them.
            unfused=7.0 * copies + hidden_size,
            launches=4,
            visits=True,
            saved=(
                *_by_stack("expert_input", copies, read_by=("gate+up",) if self.gated else ("up",)),
                *_by_stack("expert_output", copies),
            ),
        )

    def _activation(self, at: Rows, outer_size: int) -> Operator:
        width = float(self.active * self.width)
        activation = ACTIVATIONS[self.activation]
        # Clamping gate and up keeps both clamped tensors, the sigmoid and its product besides.
        unfused = 4.0 if self.clamped else 1.0
        inputs = 2 if self.gated else 1
        # Elements read and written for each of the token's experts.
        biases = 2.0 * self.active * (inputs * self.width + outer_size) if self.bias else 0.0
        # A product reads two tensors and writes one; gate and up are one matrix, so their gradients
        # are joined: four passes backward, or about one in each of three.
        passes = activation.passes + (3.0 if self.gated else 0.0) + (8.0 if self.clamped else 0.0)
        activated = kept("activated", unfused * width, STREAM, when=SavedWhen.UNFUSED, divided=True)
        name = "gate_and_up" if self.gated else "up"
        return at.elementwise(
            "experts.activation",
            kind=OperatorKind.ACTIVATION,
            # No training stack has one kernel for clamped gates, and biases of experts are added on
            # their own. Servers fuse both (vllm-project/vllm, pull 22951; ggml's SWIGLU_OAI).
            moved_elements_served=(inputs + 1.0) * width,
            fused=(passes if self.clamped else inputs + 1.0) * width + biases,
            unfused=(passes + self.gated) * width + biases,
            launches=activation.launches + int(self.gated) + (5 if self.clamped else 0),
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
