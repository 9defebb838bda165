"""Transformer blocks of encoders, and of decoders that attend to one, as layers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.architecture.config.decoder import activation
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.stack.layers import (
    Activation,
    Attention,
    Dropout,
    Function,
    GatedProduct,
    Layer,
    Linear,
    Normalization,
    Repeat,
    Residual,
    Scale,
    Section,
)
from advisor.architecture.table.operators import Part
from advisor.foundation.noun import Noun

LAYER_NORM: Final = Normalization(kind="layer")
Count = Annotated[int, Field(ge=1)]

FUNCTIONS: Final[dict[str, Function]] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_tanh": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_new",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "swish": "silu",
}
"""Activation functions by their name in published configurations."""


class BlockShape(Noun):
    """Equal transformer blocks."""

    layers: Count
    hidden_size: Count
    heads: Count
    head_dim: Count
    width: Count
    """Width of the feed-forward layers."""
    gated: bool = False
    function: Function = "gelu"
    bias: bool = True
    input_bias: bool = True
    """Whether queries, keys and values have biases, if the other layers have them."""
    key_bias: bool = True
    causal: bool = False
    memory: str | None = None
    """Name of a saved tensor that the blocks also attend to."""
    norm: Literal["layer", "rms"] = "layer"
    post_norm: bool = False
    """Whether the norm follows the sum (BERT); otherwise it precedes the branch."""
    dropout: bool = False
    """Whether training applies dropout to branches and attention probabilities."""
    biased_scores: bool = False
    """Whether the scores get a learned bias that depends on distance (T5)."""
    layer_scale: bool = False
    """Whether each channel of a branch has a learned factor (DeiT III)."""


def transformer_blocks(shape: BlockShape) -> tuple[Layer, ...]:
    """Return the blocks as layers."""
    norm = Normalization(kind=shape.norm)
    mask = (Dropout(),) if shape.dropout else ()
    factor = (Scale(),) if shape.layer_scale else ()

    def branch(*body: Layer) -> tuple[Layer, ...]:
        if shape.post_norm:
            return (Residual(body=(*body, *factor, *mask)), norm)
        return (Residual(body=(norm, *body, *factor, *mask)),)

    def attention(memory: str | None) -> Attention:
        return Attention(
            heads=shape.heads,
            width=shape.heads * shape.head_dim,
            bias=shape.bias and shape.input_bias,
            key_bias=shape.key_bias,
            output_bias=shape.bias,
            causal=shape.causal and memory is None,
            cached=shape.causal and memory is None and shape.memory is not None,
            memory=memory,
            dropout=shape.dropout,
            materialised=shape.biased_scores,
        )

    cross = branch(attention(shape.memory)) if shape.memory else ()
    block = (*branch(attention(None)), *cross, *branch(*feed_forward(shape)))
    return (Repeat(times=shape.layers, layers=block),)


def feed_forward(shape: BlockShape) -> tuple[Layer, ...]:
    """Return the feed-forward layers of a block; a gate is part of the first matrix."""
    inner = shape.width * (2 if shape.gated else 1)
    middle: Layer = Activation(function=shape.function)
    if shape.gated:
        middle = GatedProduct(function=shape.function)
    mask = (Dropout(),) if shape.dropout and shape.biased_scores else ()
    return (
        Linear(out=inner, bias=shape.bias, target="up"),
        middle,
        *mask,
        Linear(out=shape.hidden_size, bias=shape.bias, target="down"),
    )


def head_count(fields: ConfigFields, hidden: int, name: str = "num_attention_heads") -> int:
    """Return the number of heads, which must divide the hidden size."""
    heads = fields.count(name)
    fields.must_divide(name, heads, hidden, "the hidden size")
    return heads


def function_named(fields: ConfigFields, default: str = "gelu") -> Function:
    """Return the activation that a configuration names.

    Raises
    ------
    InputError
        If encoder blocks do not support the activation.
    """
    chosen = activation(fields, default)
    if chosen not in FUNCTIONS:
        fields.refuse(
            "hidden_act",
            "is not an activation of encoders",
            chosen,
            ", ".join(FUNCTIONS),
        )
    return FUNCTIONS[chosen]


def part(name: str, *layers: Layer, of: Part = Part.BLOCK) -> Section:
    """Return layers with a common name prefix."""
    return Section(name=name, part=of, layers=layers)
