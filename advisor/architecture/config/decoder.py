"""Reads the parts of decoder-only configurations that most families share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from advisor.architecture.config.checks import check_divides
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.feed_forward import ACTIVATIONS
from advisor.architecture.mixers.shapes import (
    AlternatingUpdates,
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    Indexer,
    LatentAttention,
    LayerInputs,
    Norm,
    NormKind,
    NormPlaces,
    TransformerShape,
    WindowLayers,
)
from advisor.architecture.mixers.shapes_of_mixers import Mixer

LAYER_NORM: Final = Norm(kind=NormKind.LAYER, bias=True)
LAYER_NORM_NO_BIAS: Final = Norm(kind=NormKind.LAYER)
FP32_SCALED_NORM: Final = Norm(fp32_scale=True)
ONE_NORM: Final = NormPlaces(feed_forward_input=False)
POST_NORMS: Final = NormPlaces(
    attention_input=False,
    feed_forward_input=False,
    attention_output=True,
    feed_forward_output=True,
)
SANDWICH_NORMS: Final = NormPlaces(attention_output=True, feed_forward_output=True)

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def decoder(
    fields: ConfigFields,
    *,
    tied: bool = False,
    norm: Norm = Norm(),  # noqa: B008 - nouns are frozen
    places: NormPlaces = NormPlaces(),  # noqa: B008
    parallel: bool = False,
    attention: Sequence[AttentionShape] | None = None,
    feed_forward: Sequence[FeedForwardShape | ExpertsShape] | None = None,
    head_bias: bool = False,
    dropout: bool = False,
    positions: int = 0,
    embedding_norm: bool = False,
    embedding_width: int | None = None,
    final_norm: bool = True,
    other_mixers: Sequence[Mixer] = (),
    single_branch: bool = False,
    extra_norms: int = 0,
    layer_inputs: LayerInputs | None = None,
    residual_streams: int = 1,
    parallel_mixers: bool = False,
    alternating: AlternatingUpdates | None = None,
    extra_embeddings: int = 0,
) -> TransformerShape:
    """Return the shape of a decoder from its configuration and its family's settings.

    Parameters
    ----------
    tied : bool
        Value of ``tie_word_embeddings`` if neither the file nor its class has it.
    attention, feed_forward : sequence, optional
        Layers that differ from :func:`attention_shape` and :func:`feed_forward_shape`. Attention
        without any layer is left out.
    norm, places, parallel, head_bias, dropout, positions
        As in :class:`TransformerShape`.
    embedding_norm, embedding_width, final_norm
        As in :class:`TransformerShape`.
    other_mixers, single_branch, extra_norms, layer_inputs, residual_streams
        As in :class:`TransformerShape`.
    parallel_mixers, alternating, extra_embeddings
        As in :class:`TransformerShape`.

    Raises
    ------
    InputError
        If a field is missing or unusable.
    """
    return TransformerShape(
        hidden_size=fields.count("hidden_size"),
        vocab_size=fields.count("vocab_size"),
        attention=(attention_shape(fields),) if attention is None else _held(attention),
        feed_forward=(
            (feed_forward_shape(fields),) if feed_forward is None else tuple(feed_forward)
        ),
        other_mixers=tuple(other_mixers),
        single_branch=single_branch,
        extra_norms=extra_norms,
        layer_inputs=layer_inputs,
        residual_streams=residual_streams,
        parallel_mixers=parallel_mixers,
        alternating=alternating,
        extra_embeddings=extra_embeddings,
        norm=norm,
        places=places,
        final_norm=final_norm,
        parallel=parallel,
        tied=fields.flag("tie_word_embeddings", tied),
        head_bias=head_bias,
        dropout=dropout,
        positions=positions,
        embedding_width=embedding_width,
        embedding_norm=embedding_norm,
    )


def _held(attention: Sequence[AttentionShape]) -> tuple[AttentionShape, ...]:
    return tuple(shape for shape in attention if shape.layers)


def refuse_cross_attention(fields: ConfigFields) -> None:
    """Refuse a configuration whose layers attend to an encoder that the file does not describe."""
    if fields.flag("add_cross_attention", False):
        fields.fail(
            "config field add_cross_attention is not supported",
            "add_cross_attention",
            True,
            "false",
        )


def layer_count(fields: ConfigFields) -> int:
    """Return the number of blocks."""
    return fields.count("num_hidden_layers")


def attention_shape(
    fields: ConfigFields,
    *,
    heads: int | None = None,
    key_value_heads: int | None = None,
    head_dim: int | None = None,
    windows: Sequence[int | None] | None = None,
    bias: bool = False,
    input_bias: bool = False,
    output_bias: bool = False,
    fused_projection: bool = False,
    query_key_norm: Literal["none", "head", "width"] = "none",
    query_key_norm_per_head_scale: bool = False,
    rotary: bool = True,
    sinks: bool = False,
    softcap: bool = False,
    fp32_softmax: bool = True,
    dropout: bool = False,
) -> AttentionShape:
    """Return the attention layers of a configuration.

    Parameters
    ----------
    heads, key_value_heads, head_dim : int, optional
        Family defaults: query heads, key-value heads (otherwise the query heads), and the head
        dimension (otherwise hidden size divided by heads).
    windows : sequence of int or None, optional
        Window of each layer with this attention. Default: all layers, without a window.
    bias : bool
        Whether all projections have biases: sets ``input_bias`` and ``output_bias``.

    Raises
    ------
    InputError
        If the key-value heads do not divide the query heads, or the heads the hidden size.
    """
    heads = fields.count("num_attention_heads", heads)
    groups = fields.count("num_key_value_heads", key_value_heads or heads)
    check_divides(fields, "num_key_value_heads", groups, heads, "num_attention_heads")
    dim = head_dimension(fields, heads, head_dim)
    every = [None] * layer_count(fields) if windows is None else windows
    return AttentionShape(
        windows=grouped(every),
        heads=heads,
        key_value_heads=groups,
        head_dim=dim,
        value_head_dim=dim,
        input_bias=bias or input_bias,
        output_bias=bias or output_bias,
        fused_projection=fused_projection,
        query_key_norm=query_key_norm,
        query_key_norm_per_head_scale=query_key_norm_per_head_scale,
        rotary=rotary,
        sinks=sinks,
        softcap=softcap,
        fp32_softmax=fp32_softmax,
        dropout=dropout,
    )


def head_dimension(fields: ConfigFields, heads: int, default: int | None) -> int:
    """Return the head dimension: from the file, from the family, or hidden size / heads."""
    given = fields.optional_count("head_dim")
    if given is not None:
        return given
    if default is not None:
        return default
    hidden = fields.count("hidden_size")
    if hidden % heads:
        fields.fail(
            "config field num_attention_heads does not divide hidden_size",
            "num_attention_heads",
            heads,
            f"a divisor of {hidden:,}, or a head_dim",
        )
    return hidden // heads


def latent_attention(
    fields: ConfigFields,
    *,
    query_rank: int | None,
    indexer: Indexer | None = None,
    layers: int | None = None,
) -> AttentionShape:
    """Return attention with compressed queries, keys and values, by default on every layer."""
    heads = fields.count("num_attention_heads")
    bias = fields.flag("attention_bias", False)
    latent = LatentAttention(
        query_rank=query_rank,
        key_value_rank=fields.count("kv_lora_rank"),
        rope_head_dim=fields.count("qk_rope_head_dim", minimum=0),
        nope_head_dim=fields.count("qk_nope_head_dim"),
    )
    return AttentionShape(
        windows=(WindowLayers(layers=layers or layer_count(fields)),),
        heads=heads,
        key_value_heads=heads,
        head_dim=latent.nope_head_dim + latent.rope_head_dim,
        value_head_dim=fields.count("v_head_dim", max(fields.count("hidden_size") // heads, 1)),
        input_bias=bias,
        output_bias=bias,
        latent=latent,
        indexer=indexer,
    )


def grouped(windows: Sequence[int | None]) -> tuple[WindowLayers, ...]:
    """Count the layers of each window, widest first."""
    counted = Counter(windows)
    ordered = sorted(counted, key=lambda window: (window is not None, -(window or 0)))
    return tuple(WindowLayers(layers=counted[window], window=window) for window in ordered)


def typed_windows(
    fields: ConfigFields, *, window: int | None, default: Sequence[str], trailing: int = 0
) -> list[int | None]:
    """Return the windows from ``layer_types``, or from the family's pattern if that is absent.

    The list may name ``trailing`` more layers for multi-token prediction; they are left out.
    """
    layers = layer_count(fields)
    listed = layers + trailing
    length = listed if fields.length("layer_types") == listed else layers
    types = fields.texts("layer_types", length=length, allowed=(FULL, SLIDING))
    chosen = types[:layers] if types is not None else tuple(default)
    return [window if kind == SLIDING else None for kind in chosen]


def every_nth_full(layers: int, period: int) -> list[str]:
    """Return windows with full attention on every ``period``-th layer."""
    return [FULL if (index + 1) % period == 0 else SLIDING for index in range(layers)]


def activation(fields: ConfigFields, default: str = "silu", name: str = "hidden_act") -> str:
    """Return the name of the activation from the field ``name``.

    Raises
    ------
    InputError
        If the activation is unknown.
    """
    chosen = fields.text(name, default)
    if chosen not in ACTIVATIONS:
        fields.fail(
            f"config field {name} is not a known activation", name, chosen, ", ".join(ACTIVATIONS)
        )
    return chosen


def feed_forward_shape(
    fields: ConfigFields,
    *,
    layers: int | None = None,
    width: int | None = None,
    times_hidden: int | None = None,
    gated: bool = True,
    act: str = "silu",
    bias: bool = False,
    fused_gate: bool = False,
) -> FeedForwardShape:
    """Return the dense feed-forward layers; ``layers`` and ``width`` override the configuration.

    ``times_hidden`` is the width divided by the hidden size, used if the file states no width.
    """
    wide = times_hidden * fields.count("hidden_size") if times_hidden else None
    return FeedForwardShape(
        layers=layers or layer_count(fields),
        width=width or fields.count("intermediate_size", wide),
        gated=gated,
        activation=activation(fields, act),
        bias=bias,
        fused_gate=fused_gate,
    )


def experts_shape(
    fields: ConfigFields,
    *,
    layers: int,
    width: int,
    shared_width: int = 0,
    shared_gate: bool = False,
    shared_bias: bool = False,
    bias: bool = False,
    router_bias: bool = False,
    clamped: bool = False,
    act: str = "silu",
) -> ExpertsShape:
    """Return the routed expert layers of a configuration.

    Raises
    ------
    InputError
        If a token visits more experts than the layer has.
    """
    experts = fields.count("num_experts", minimum=2)
    active = fields.count("num_experts_per_tok")
    if active > experts:
        fields.fail(
            "config field num_experts_per_tok exceeds the experts",
            "num_experts_per_tok",
            active,
            f"1 to {experts}",
        )
    groups = fields.count("n_group", 1, maximum=experts)
    visited = fields.count("topk_group", groups, maximum=experts)
    if visited >= groups:
        # A token's experts may be in any group.
        groups = visited = 1
    return ExpertsShape(
        layers=layers,
        experts=experts,
        active=active,
        groups=groups,
        active_groups=visited,
        width=width,
        activation=activation(fields, act),
        bias=bias,
        router_bias=router_bias,
        shared_width=shared_width,
        shared_gate=shared_gate,
        shared_bias=shared_bias,
        clamped=clamped,
    )
