"""Transformer blocks of encoders, and of decoders that attend to one, as layers."""

from typing import Annotated, Final, get_args

from pydantic import Field

from advisor.architecture import stack as nn
from advisor.architecture.config.decoder import activation
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.feed_forward import activations
from advisor.foundation.noun import Noun

LAYER_NORM: Final = nn.Normalization(kind="layer")
Count = Annotated[int, Field(ge=1)]

FUNCTIONS: Final[dict[str, nn.Function]] = {
    name: function
    for function in get_args(nn.Function)
    if function in activations()
    for name in activations()[function].names
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
    function: nn.Function = "gelu"
    bias: bool = True
    input_bias: bool = True
    """Whether queries, keys and values have biases, if the other layers have them."""
    key_bias: bool = True
    up_bias: bool = True
    """Whether the first matrix of the feed-forward layers has one, if the other layers do (GTE)."""
    causal: bool = False
    memory: str | None = None
    """Name of a saved tensor that the blocks also attend to."""
    norm: nn.Normalization = LAYER_NORM
    post_norm: bool = False
    """Whether the norm follows the sum (BERT); otherwise it precedes the branch."""
    dropout: bool = False
    """Whether training applies dropout to branches and attention probabilities."""
    inner_dropout: bool = False
    """Whether training also drops out the inner activations of the feed-forward layers (T5)."""
    layer_scale: bool = False
    """Whether each channel of a branch has a learned factor (DeiT III)."""


def block_shape(
    fields: ConfigFields, tower: str = "", *, width: int | None = None, **settings: object
) -> BlockShape:
    """Return the blocks of a configuration, or of the encoder or decoder of a pair.

    ``tower``: ``encoder`` or ``decoder`` of a pair, which precedes the names of its fields.
    ``width``: width of the feed-forward layers, if no field states it. ``**settings``: further
    fields of :class:`BlockShape`.
    """
    layers, heads_field, inner = "num_hidden_layers", "num_attention_heads", "intermediate_size"
    if tower:
        layers, heads_field, inner = (
            f"{tower}_{name}" for name in ("layers", "attention_heads", "ffn_dim")
        )
    hidden, heads = fields.count("hidden_size"), fields.count(heads_field)
    fields.must_divide(heads_field, heads, hidden, "the hidden size")
    shape: dict[str, object] = {
        "layers": fields.count(layers),
        "hidden_size": hidden,
        "heads": heads,
        "head_dim": hidden // heads,
        "width": width or fields.count(inner),
        "function": function_named(fields),
    }
    return BlockShape.model_validate({**shape, **settings})


def transformer_blocks(shape: BlockShape) -> nn.Layers:
    """Return the blocks as layers."""
    after = (
        *((nn.Scale(),) if shape.layer_scale else ()),
        *((nn.Dropout(),) if shape.dropout else ()),
    )

    def branch(*body: nn.Layer) -> nn.Layers:
        if shape.post_norm:
            return (nn.residual(*body, *after), shape.norm)
        return (nn.residual(shape.norm, *body, *after),)

    def attention(memory: str | None) -> nn.Attention:
        return nn.Attention(
            heads=shape.heads,
            width=shape.heads * shape.head_dim,
            bias=shape.bias and shape.input_bias,
            key_bias=shape.key_bias,
            output_bias=shape.bias,
            causal=shape.causal and memory is None,
            cached=shape.causal and memory is None and shape.memory is not None,
            memory=memory,
            dropout=shape.dropout,
        )

    cross = branch(attention(shape.memory)) if shape.memory else ()
    block = (*branch(attention(None)), *cross, *branch(*feed_forward(shape)))
    return (nn.repeat(shape.layers, *block),)


def feed_forward(shape: BlockShape) -> nn.Layers:
    """Return the feed-forward layers of a block; a gate is part of the first matrix."""
    middle: nn.Layer = nn.Activation(function=shape.function)
    if shape.gated:
        middle = nn.GatedProduct(function=shape.function)
    mask = (nn.Dropout(),) if shape.inner_dropout else ()
    inner = shape.width * (2 if shape.gated else 1)
    return nn.feed_forward(
        shape.hidden_size, inner, middle, bias=shape.bias, up_bias=shape.up_bias, mask=mask
    )


def function_named(fields: ConfigFields) -> nn.Function:
    """Return the activation that a configuration names.

    Raises InputError if encoder blocks do not support the activation.
    """
    chosen = activation(fields, "gelu")
    if chosen not in FUNCTIONS:
        what = "is not an activation of encoders"
        fields.refuse("hidden_act", what, chosen, ", ".join(FUNCTIONS))
    return FUNCTIONS[chosen]


def ends(fields: ConfigFields, *endings: str) -> bool:
    """Return whether the file's class name ends in one of these."""
    return any(name.endswith(endings) for name in fields.names("architectures"))
