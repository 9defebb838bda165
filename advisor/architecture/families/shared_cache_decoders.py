"""Decoders whose last layers share a cache: Gemma 3n and 4."""

from collections import Counter

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, SLIDING, FeedForwards, layer_count
from advisor.architecture.config.fields import DEFAULT_LIMIT, ConfigFields
from advisor.architecture.mixers.attention import AttentionShape
from advisor.architecture.mixers.feed_forward import FeedForwardShape
from advisor.architecture.mixers.streams import AlternatingUpdates, LayerInputs
from advisor.architecture.mixers.transformer import TransformerShape


def gemma3n(fields: ConfigFields) -> TransformerShape:
    """Gemma 3n: alternating updates, per-layer embeddings, shared caches on the last layers."""
    layers = layer_count(fields)
    windows = parts.typed_windows(
        fields, window=fields.count("sliding_window"), default=parts.every_nth_full(layers, 5)
    )
    own = layers - fields.count("num_kv_shared_layers", minimum=0, maximum=layers - 1)
    bias = fields.flag("attention_bias")
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        places=parts.SANDWICH_NORMS,
        attention=[
            parts.attention_shape(
                fields, windows=some, bias=bias, query_key_norm="head", own_key_value=owned
            )
            for owned, some in ((True, windows[:own]), (False, windows[own:]))
        ],
        feed_forward=_layered_widths(fields),
        layer_inputs=layer_inputs(fields),
        alternating=AlternatingUpdates(
            streams=fields.count("altup_num_inputs", minimum=2),
            low_rank=fields.count("laurel_rank"),
        ),
    )


def _layered_widths(fields: ConfigFields) -> list[FeedForwardShape]:
    """Return feed-forward layers whose width may be a list with one value per layer."""
    if not fields.length("intermediate_size"):
        return [parts.feed_forward_shape(fields)]
    widths = fields.counts("intermediate_size", maximum=DEFAULT_LIMIT)
    layers = layer_count(fields)
    if len(widths) != layers or 0 in widths:
        what, wanted = "does not match the layers", f"one width, or a list of {layers}"
        fields.refuse("intermediate_size", what, f"{len(widths)} values", wanted)
    return [
        parts.feed_forward_shape(fields, layers=widths.count(width), width=width)
        for width in sorted(set(widths))
    ]


def gemma4(fields: ConfigFields, *, unified: bool = False) -> TransformerShape:
    """Gemma 4: wide heads on full layers, experts beside a dense layer, per-layer embeddings.

    If full layers use keys as values, both are still cached, because only keys are rotated.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    kinds = list(types) if types is not None else parts.every_nth_full(layers, 6)
    # The class gives the last layer full attention and ignores the list there.
    kinds[-1] = FULL
    shared = fields.count("num_kv_shared_layers", minimum=0, maximum=layers - 1)
    own = layers - shared
    if set(kinds[own:]) - set(kinds[:own]):
        what = "leaves a kind of layer without a cache"
        fields.refuse("num_kv_shared_layers", what, shared, "fewer shared layers")
    groups = Counter((kind, index >= own) for index, kind in enumerate(kinds))
    routed = fields.flag("enable_moe_block") and not unified
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        places=parts.SANDWICH_NORMS,
        attention=[_gemma4_attention(fields, *group, count) for group, count in groups.items()],
        feed_forward=_gemma4_feed_forward(fields, own=own, shared=shared, routed=routed),
        extra_norms=3 if routed else 0,
        layer_inputs=None if unified else layer_inputs(fields),
    )


def layer_inputs(fields: ConfigFields) -> LayerInputs | None:
    """Return the per-layer embeddings of Gemma 3n and 4, or None."""
    name = "hidden_size_per_layer_input"
    width = fields.count(name, minimum=0) if fields.has(name) else 0
    if not width:
        return None
    return LayerInputs(vocab_size=fields.count("vocab_size_per_layer_input"), width=width)


def _gemma4_attention(fields: ConfigFields, kind: str, shared: bool, layers: int) -> AttentionShape:
    window = fields.count("sliding_window") if kind == SLIDING else None
    shape = parts.attention_shape(
        fields,
        windows=[window] * layers,
        bias=fields.flag("attention_bias"),
        query_key_norm="head",
        own_key_value=not shared,
    )
    if kind == SLIDING:
        return shape
    full = _full_layer_fields(fields)
    dim = full.count("global_head_dim", 512)
    keys_as_values = fields.flag("attention_k_eq_v")
    groups = shape.key_value_heads
    if keys_as_values:
        groups = full.count("num_global_key_value_heads", groups, maximum=shape.heads)
    name = "num_global_key_value_heads"
    fields.must_divide(name, groups, shape.heads, "num_attention_heads")
    return shape.changed(
        head_dim=dim,
        value_head_dim=dim,
        key_value_heads=groups,
        value_projection=not keys_as_values,
    )


def _full_layer_fields(fields: ConfigFields) -> ConfigFields:
    """Return the fields of full layers, which newer files list by layer."""
    listed = fields.mapping("per_layer_config")
    if not listed:
        return fields
    last = ConfigFields(listed).mapping(max(listed, key=lambda name: (len(name), name)))
    own = ConfigFields(last or {})
    names = {"global_head_dim": "head_dim", "num_global_key_value_heads": "num_key_value_heads"}
    return ConfigFields({name: own.count(old) for name, old in names.items() if own.has(old)})


def _gemma4_feed_forward(
    fields: ConfigFields, *, own: int, shared: int, routed: bool
) -> FeedForwards:
    width = fields.count("intermediate_size")
    double = 2 if fields.flag("use_double_wide_mlp") else 1
    layers: FeedForwards = (parts.feed_forward_shape(fields, layers=own, width=width),)
    if shared:
        layers += (parts.feed_forward_shape(fields, layers=shared, width=double * width),)
    if routed:
        wide = fields.count("moe_intermediate_size")
        experts = parts.experts_shape(fields, layers=own + shared, width=wide)
        scales = fields.count("hidden_size") + experts.experts
        layers += (experts.changed(router_scales=scales),)
    return layers
