"""Decoders whose last layers share a cache: Gemma 3n and 4."""

from __future__ import annotations

from collections import Counter

from advisor.architecture.config.checks import check_divides
from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    SANDWICH_NORMS,
    SLIDING,
    attention_shape,
    decoder,
    every_nth_full,
    experts_shape,
    feed_forward_shape,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import DEFAULT_LIMIT, LIMITS, ConfigFields
from advisor.architecture.families.expert_layers import FeedForwards
from advisor.architecture.mixers.shapes import (
    AlternatingUpdates,
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    LayerInputs,
    TransformerShape,
)


def gemma3n(fields: ConfigFields) -> TransformerShape:
    """Gemma 3n: alternating updates, per-layer embeddings, shared caches on the last layers."""
    layers = layer_count(fields)
    windows = typed_windows(
        fields, window=fields.count("sliding_window"), default=every_nth_full(layers, 5)
    )
    shared = fields.count("num_kv_shared_layers", minimum=0, maximum=layers - 1)
    parts = []
    for owned, part in ((True, windows[: layers - shared]), (False, windows[layers - shared :])):
        if part:
            shape = attention_shape(
                fields, windows=part, bias=fields.flag("attention_bias"), query_key_norm="head"
            )
            parts.append(shape.model_copy(update={"own_key_value": owned}))
    widths: tuple[int, ...] = ()
    if fields.length("intermediate_size") is not None:
        widths = fields.counts("intermediate_size", maximum=DEFAULT_LIMIT)
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=parts,
        feed_forward=_layered_widths(fields, widths),
        layer_inputs=layer_inputs(fields),
        alternating=AlternatingUpdates(
            streams=fields.count("altup_num_inputs", minimum=2, maximum=64),
            low_rank=fields.count("laurel_rank"),
        ),
    )


def _layered_widths(fields: ConfigFields, widths: tuple[int, ...]) -> list[FeedForwardShape]:
    """Return feed-forward layers whose width may be a list with one value per layer."""
    act = "gelu_pytorch_tanh"
    if not widths:
        return [feed_forward_shape(fields, act=act)]
    if len(widths) != layer_count(fields) or 0 in widths:
        fields.fail(
            "config field intermediate_size does not match the layers",
            "intermediate_size",
            f"{len(widths)} values",
            f"one width, or a list of {layer_count(fields)}",
        )
    return [
        feed_forward_shape(fields, layers=widths.count(width), width=width, act=act)
        for width in sorted(set(widths))
    ]


def _grouped_layers(kinds: list[tuple[str, bool]]) -> list[tuple[str, bool, int]]:
    return [(kind, shared, count) for (kind, shared), count in Counter(kinds).items()]


def gemma4(fields: ConfigFields) -> TransformerShape:
    """Gemma 4: wide heads on full layers, experts beside a dense layer, per-layer embeddings.

    If full layers use keys as values, both are still cached, because only keys are rotated.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    kinds = list(types) if types is not None else every_nth_full(layers, 6)
    # The class gives the last layer full attention and ignores the list there.
    kinds[-1] = FULL
    shared = fields.count("num_kv_shared_layers", minimum=0, maximum=layers - 1)
    own = layers - shared
    if set(kinds[own:]) - set(kinds[:own]):
        fields.fail(
            "config field num_kv_shared_layers leaves a kind of layer without a cache",
            "num_kv_shared_layers",
            shared,
            "fewer shared layers",
        )
    pairs = [(kind, index >= own) for index, kind in enumerate(kinds)]
    attention = [_gemma4_attention(fields, *group) for group in _grouped_layers(pairs)]
    routed = fields.flag("enable_moe_block")
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=attention,
        feed_forward=_gemma4_feed_forward(fields, own=own, shared=shared, routed=routed),
        extra_norms=3 if routed else 0,
        layer_inputs=layer_inputs(fields),
    )


def gemma4_unified(fields: ConfigFields) -> TransformerShape:
    """Gemma 4 unified: Gemma 4 without experts and per-layer embeddings."""
    shape = gemma4(fields)
    dense = tuple(layer for layer in shape.feed_forward if isinstance(layer, FeedForwardShape))
    return shape.model_copy(update={"feed_forward": dense, "extra_norms": 0, "layer_inputs": None})


def layer_inputs(fields: ConfigFields) -> LayerInputs | None:
    """Return the per-layer embeddings of Gemma 3n and 4, or None."""
    name = "hidden_size_per_layer_input"
    width = fields.count(name, minimum=0) if fields.has(name) else 0
    if not width:
        return None
    rows = fields.count("vocab_size_per_layer_input", maximum=LIMITS["vocab_size"])
    return LayerInputs(vocab_size=rows, width=width)


def _gemma4_attention(fields: ConfigFields, kind: str, shared: bool, layers: int) -> AttentionShape:
    window = fields.count("sliding_window") if kind == SLIDING else None
    shape = attention_shape(
        fields, windows=[window] * layers, bias=fields.flag("attention_bias"), query_key_norm="head"
    )
    update: dict[str, object] = {"own_key_value": not shared}
    if kind == FULL:
        full = _full_layer_fields(fields)
        dim = full.count("global_head_dim", 512, maximum=LIMITS["head_dim"])
        keys_as_values = fields.flag("attention_k_eq_v")
        groups = shape.key_value_heads
        if keys_as_values:
            groups = full.count("num_global_key_value_heads", groups, maximum=shape.heads)
        check_divides(
            fields, "num_global_key_value_heads", groups, shape.heads, "num_attention_heads"
        )
        update |= {
            "head_dim": dim,
            "value_head_dim": dim,
            "key_value_heads": groups,
            "value_projection": not keys_as_values,
        }
    return shape.model_copy(update=update)


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
    act = "gelu_pytorch_tanh"
    layers: list[FeedForwardShape | ExpertsShape] = [
        feed_forward_shape(fields, layers=own, width=width, act=act)
    ]
    if shared:
        layers.append(feed_forward_shape(fields, layers=shared, width=double * width, act=act))
    if routed:
        experts = experts_shape(
            fields, layers=own + shared, width=fields.count("moe_intermediate_size"), act=act
        )
        scales = fields.count("hidden_size") + experts.experts
        layers.append(experts.model_copy(update={"router_scales": scales}))
    return tuple(layers)
