"""Reads the parts of decoder-only configurations that most families share."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.attention import (
    AttentionShape,
    Indexer,
    LatentAttention,
    WindowLayers,
)
from advisor.architecture.mixers.feed_forward import ACTIVATIONS, ExpertsShape, FeedForwardShape
from advisor.architecture.mixers.recurrences import Mixer
from advisor.architecture.mixers.transformer import NormPlaces, TransformerShape
from advisor.architecture.table.rows import Norm, NormKind

LAYER_NORM: Final = Norm(kind=NormKind.LAYER, bias=True)
LAYER_NORM_NO_BIAS: Final = Norm(kind=NormKind.LAYER)
FP32_SCALED_NORM: Final = Norm(fp32_scale=True)
ONE_NORM: Final = NormPlaces(feed_forward_input=False)
POST_NORMS: Final = NormPlaces(
    attention_input=False, feed_forward_input=False, attention_output=True, feed_forward_output=True
)
SANDWICH_NORMS: Final = NormPlaces(attention_output=True, feed_forward_output=True)

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"

FeedForwards = tuple[FeedForwardShape | ExpertsShape, ...]


def decoder(
    fields: ConfigFields,
    *,
    attention: Sequence[AttentionShape] | None = None,
    feed_forward: Sequence[FeedForwardShape | ExpertsShape] | None = None,
    other_mixers: Sequence[Mixer] = (),
    **settings: object,
) -> TransformerShape:
    """Return the shape of a decoder from its configuration and its family's settings.

    Raises InputError if a field is missing or unusable.

    ``attention`` and ``feed_forward``: layers that differ from :func:`attention_shape` and
    :func:`feed_forward_shape`. Attention and other mixers without any layer are left out.
    ``**settings``: further fields of :class:`TransformerShape`.
    """
    shape: dict[str, object] = {
        "hidden_size": fields.count("hidden_size"),
        "vocab_size": fields.count("vocab_size"),
        "attention": (
            (attention_shape(fields),)
            if attention is None
            else tuple(item for item in attention if item.layers)
        ),
        "feed_forward": (
            (feed_forward_shape(fields),) if feed_forward is None else tuple(feed_forward)
        ),
        "other_mixers": tuple(mixer for mixer in other_mixers if mixer.layers),
        "tied": fields.flag("tie_word_embeddings"),
    }
    return TransformerShape.model_validate({**shape, **settings})


def refuse_cross_attention(fields: ConfigFields) -> None:
    """Refuse a configuration whose layers attend to an encoder that the file does not describe."""
    if fields.flag("add_cross_attention", False):
        fields.refuse("add_cross_attention", "is not supported", True, "false")


def layer_count(fields: ConfigFields) -> int:
    """Return the number of blocks."""
    return fields.count("num_hidden_layers")


def attention_shape(
    fields: ConfigFields,
    *,
    heads: int | None = None,
    key_value_heads: int | None = None,
    head_dim: int | None = None,
    layers: int | None = None,
    windows: Sequence[int | None] | None = None,
    bias: bool = False,
    **settings: object,
) -> AttentionShape:
    """Return the attention layers of a configuration.

    Raises InputError if the key-value heads do not divide the query heads, or the heads the hidden
    size.

    ``heads``, ``key_value_heads``, ``head_dim``: family defaults: query heads, key-value heads
    (otherwise the query heads), and the head dimension (otherwise hidden size divided by heads).
    ``layers``, ``windows``: number of layers without a window, or the window of each layer.
    Default: all layers, without a window. ``bias``: whether all projections have biases: sets
    ``input_bias`` and ``output_bias``. ``**settings``: further fields of :class:`AttentionShape`.
    """
    heads = fields.count("num_attention_heads", heads)
    groups = fields.count("num_key_value_heads", key_value_heads or heads)
    fields.must_divide("num_key_value_heads", groups, heads, "num_attention_heads")
    dim = head_dimension(fields, heads, head_dim)
    if windows is None:
        windows = [None] * (layer_count(fields) if layers is None else layers)
    shape: dict[str, object] = {
        "windows": grouped(windows),
        "heads": heads,
        "key_value_heads": groups,
        "head_dim": dim,
        "value_head_dim": dim,
        "input_bias": bias,
        "output_bias": bias,
    }
    return AttentionShape.model_validate({**shape, **settings})


def head_dimension(fields: ConfigFields, heads: int, default: int | None) -> int:
    """Return the head dimension: from the file, from the family, or hidden size / heads."""
    given = fields.optional_count("head_dim")
    if given is not None:
        return given
    if default is not None:
        return default
    hidden = fields.count("hidden_size")
    if hidden % heads:
        wanted = f"a divisor of {hidden:,}, or a head_dim"
        fields.refuse("num_attention_heads", "does not divide hidden_size", heads, wanted)
    return hidden // heads


def latent_attention(
    fields: ConfigFields,
    *,
    query_rank: int | None,
    indexer: Indexer | None = None,
    layers: int | None = None,
    value_dim: int | None = None,
) -> AttentionShape:
    """Return attention with compressed queries, keys and values, by default on every layer.

    ``value_dim`` is the default of ``v_head_dim`` where the class derives it from other fields.
    """
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
        value_head_dim=fields.count("v_head_dim", value_dim),
        input_bias=bias,
        output_bias=bias,
        latent=latent,
        indexer=indexer,
    )


def indexer_picks(fields: ConfigFields) -> list[bool]:
    """Return for each layer whether it has its own indexer, by list, pattern or period."""
    layers = layer_count(fields)
    kinds = fields.texts("indexer_types", length=layers, allowed=("full", "shared"))
    if kinds is not None:
        return [kind == "full" for kind in kinds]
    if fields.is_text("index_topk_pattern"):
        pattern = fields.text("index_topk_pattern", "")
        if len(pattern) != layers or set(pattern) - {"F", "S"}:
            wanted = f"{layers} letters F or S"
            name = "index_topk_pattern"
            fields.refuse(name, "does not match the layers", pattern[:40], wanted)
        return [letter == "F" for letter in pattern]
    period = fields.count("index_topk_freq", 1)
    offset = fields.count("index_skip_topk_offset", 2, minimum=0)
    return [max(index - offset + 1, 0) % period == 0 for index in range(layers)]


def indexer_shape(fields: ConfigFields, layers: int) -> Indexer:
    """Return the lightning indexer of this many layers."""
    return Indexer(
        layers=layers,
        heads=fields.count("index_n_heads"),
        head_dim=fields.count("index_head_dim"),
        top_k=fields.count("index_topk"),
    )


def picking_indexer(fields: ConfigFields, among: Sequence[int]) -> Indexer:
    """Return the indexer of some layers, at least one of which must have its own."""
    picks = indexer_picks(fields)
    own = sum(picks[index] for index in among)
    if not own:
        what = "has no layer with its own indexer"
        fields.refuse("indexer_types", what, "shared everywhere", "at least one full layer")
    return indexer_shape(fields, own)


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


def every_nth_full(layers: int, period: int, *, other: str = SLIDING) -> list[str]:
    """Return kinds of layers with full attention on every ``period``-th layer."""
    return [FULL if (index + 1) % period == 0 else other for index in range(layers)]


def activation(fields: ConfigFields, default: str = "silu", name: str = "hidden_act") -> str:
    """Return the name of the activation from the field ``name``.

    Raises InputError if the activation is unknown.
    """
    chosen = fields.text(name, default)
    if chosen not in ACTIVATIONS:
        fields.refuse(name, "is not a known activation", chosen, ", ".join(ACTIVATIONS))
    return chosen


def feed_forward_shape(
    fields: ConfigFields,
    *,
    layers: int | None = None,
    width: int | None = None,
    times_hidden: int | None = None,
    act: str = "silu",
    **settings: object,
) -> FeedForwardShape:
    """Return the dense feed-forward layers.

    ``layers``, ``width``: override the configuration. ``times_hidden``: width divided by the hidden
    size, used if the file states no width. ``act``: activation, used if neither file nor class
    states one. ``**settings``: further fields of :class:`FeedForwardShape`.
    """
    wide = times_hidden * fields.count("hidden_size") if times_hidden else None
    shape: dict[str, object] = {
        "layers": layers or layer_count(fields),
        "width": width or fields.count("intermediate_size", wide),
        "activation": activation(fields, act),
    }
    return FeedForwardShape.model_validate({**shape, **settings})


def experts_shape(
    fields: ConfigFields, *, layers: int, width: int, act: str = "silu", **settings: object
) -> ExpertsShape:
    """Return the routed expert layers of a configuration.

    Raises InputError if a token visits more experts than the layer has.

    ``act``: activation, used if neither file nor class states one. ``**settings``: further fields
    of :class:`ExpertsShape`.
    """
    experts = fields.count("num_experts", minimum=2)
    active = fields.count("num_experts_per_tok")
    if active > experts:
        fields.refuse("num_experts_per_tok", "exceeds the experts", active, f"1 to {experts}")
    groups = fields.count("n_group", 1, maximum=experts)
    visited = fields.count("topk_group", groups, maximum=experts)
    if visited >= groups:
        # A token's experts may be in any group.
        groups = visited = 1
    shape: dict[str, object] = {
        "layers": layers,
        "experts": experts,
        "active": active,
        "groups": groups,
        "active_groups": visited,
        "width": width,
        "activation": activation(fields, act),
    }
    return ExpertsShape.model_validate({**shape, **settings})


def sparse_layers(fields: ConfigFields, default: int) -> int:
    """Return the number of routed layers: of ``mlp_layer_types`` if the file has it."""
    layers = layer_count(fields)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    return default if kinds is None else kinds.count("sparse")


def mixed_layers(
    fields: ConfigFields,
    *,
    routed: int,
    width: str = "moe_intermediate_size",
    shared_width: int | str = 0,
    shared_experts: int = 0,
    dense_width: int | None = None,
    bias: bool = False,
    **settings: Any,
) -> FeedForwards:
    """Return first the dense feed-forward layers, then the ``routed`` ones; either may be absent.

    ``width`` names the field with an expert's width. Every token visits a layer of
    ``shared_width``, a number or a field, and ``shared_experts`` of an expert's width. ``bias`` is
    of dense layers, ``settings`` are those of :func:`experts_shape`.
    """
    layers: list[FeedForwardShape | ExpertsShape] = []
    if dense := layer_count(fields) - routed:
        layers.append(feed_forward_shape(fields, layers=dense, width=dense_width, bias=bias))
    if routed:
        wide = fields.count(width)
        beside = fields.count(shared_width) if isinstance(shared_width, str) else shared_width
        beside += shared_experts * wide
        layers.append(
            experts_shape(fields, layers=routed, width=wide, shared_width=beside, **settings)
        )
    return tuple(layers)
