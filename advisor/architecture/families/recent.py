"""Routed and windowed families of 2025 and 2026: Llama 4, Gemma 4, MiMo-V2 and Step 3.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

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
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.routed import FeedForwards, dense_then_routed
from advisor.architecture.mixers.shapes import (
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    LayerInputs,
    TransformerShape,
    WindowLayers,
)

CHUNKED: Final = "chunked_attention"


def llama4(fields: ConfigFields) -> TransformerShape:
    """Llama 4: chunked attention on three layers of four, one routed and one shared expert.

    A chunk is counted as a window of its length: its cache is the same, and attention beyond one
    chunk reads at most twice the keys. Norms of queries and keys have no parameters.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, CHUNKED))
    if types is None:
        period = fields.count("no_rope_layer_interval", 4)
        rotated = [(i + 1) % period != 0 for i in range(layers)]
        listed = fields.counts("no_rope_layers", maximum=1)
        if listed:
            rotated = [bool(flag) for flag in listed]
        types = tuple(CHUNKED if flag else FULL for flag in rotated)
    if len(types) != layers:
        fields.fail(
            "config field no_rope_layers does not fit the layers",
            "no_rope_layers",
            f"{len(types)} values",
            f"a list of {layers} values",
        )
    chunk = fields.count("attention_chunk_size", 8192)
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields,
        head_dim=128,
        windows=[chunk if kind == CHUNKED else None for kind in types],
        input_bias=bias,
        output_bias=bias,
    )
    return decoder(fields, attention=[attention], feed_forward=_llama4_feed_forward(fields))


def _llama4_feed_forward(fields: ConfigFields) -> FeedForwards:
    layers = layer_count(fields)
    step = fields.count("interleave_moe_layer_step", 1)
    routed = sum(1 for i in range(layers) if (i + 1) % step == 0)
    if fields.has("moe_layers"):
        routed = len(set(fields.counts("moe_layers", maximum=layers - 1)))
    width = fields.count("intermediate_size")
    dense = fields.count("intermediate_size_mlp", 16_384)
    return dense_then_routed(
        fields,
        dense=layers - routed,
        dense_width=dense,
        routed=experts_shape(fields, layers=routed, width=width, shared_width=width)
        if routed
        else None,
    )


def _grouped_layers(kinds: list[tuple[str, bool]]) -> list[tuple[str, bool, int]]:
    return [(kind, shared, count) for (kind, shared), count in Counter(kinds).items()]


def gemma4(fields: ConfigFields) -> TransformerShape:
    """Gemma 4: wide heads on full layers, experts beside a dense layer, per-layer embeddings.

    Where full layers use keys as values both are cached all the same: only keys are rotated.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    kinds = list(types) if types is not None else every_nth_full(layers, 6)
    # The class makes the last layer a full one whatever the list says.
    kinds[-1] = FULL
    shared = fields.count("num_kv_shared_layers", 0, minimum=0, maximum=layers - 1)
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
    routed = fields.flag("enable_moe_block", False)
    return decoder(
        fields,
        tied=True,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=attention,
        feed_forward=_gemma4_feed_forward(fields, own=own, shared=shared, routed=routed),
        extra_norms=3 if routed else 0,
        layer_inputs=layer_inputs(fields),
        vocab_size=262_144,
    )


def gemma4_unified(fields: ConfigFields) -> TransformerShape:
    """Gemma 4 unified: Gemma 4 without experts and per-layer embeddings."""
    shape = gemma4(fields)
    dense = tuple(layer for layer in shape.feed_forward if isinstance(layer, FeedForwardShape))
    return shape.model_copy(update={"feed_forward": dense, "extra_norms": 0, "layer_inputs": None})


def layer_inputs(fields: ConfigFields) -> LayerInputs | None:
    """Embeddings that every block receives of its own (Gemma 3n and 4), if there are any."""
    width = fields.count("hidden_size_per_layer_input", 256, minimum=0)
    if not width:
        return None
    rows = fields.count("vocab_size_per_layer_input", 262_144, maximum=LIMITS["vocab_size"])
    return LayerInputs(vocab_size=rows, width=width)


def _gemma4_attention(fields: ConfigFields, kind: str, shared: bool, layers: int) -> AttentionShape:
    bias = fields.flag("attention_bias", False)
    window = fields.count("sliding_window", 512) if kind == SLIDING else None
    shape = attention_shape(
        fields,
        heads=8,
        key_value_heads=4,
        head_dim=256,
        windows=[window] * layers,
        input_bias=bias,
        output_bias=bias,
        query_key_norm="head",
    )
    update: dict[str, object] = {"own_key_value": not shared}
    if kind == FULL:
        full = _full_layer_fields(fields)
        dim = full.count("global_head_dim", 512, maximum=LIMITS["head_dim"])
        keys_as_values = fields.flag("attention_k_eq_v", False)
        groups = shape.key_value_heads
        if keys_as_values:
            groups = full.count("num_global_key_value_heads", groups, maximum=shape.heads)
        if shape.heads % groups:
            fields.fail(
                "config field num_global_key_value_heads does not divide num_attention_heads",
                "num_global_key_value_heads",
                groups,
                f"a divisor of {shape.heads}",
            )
        update |= {
            "head_dim": dim,
            "value_head_dim": dim,
            "key_value_heads": groups,
            "value_projection": not keys_as_values,
        }
    return shape.model_copy(update=update)


def _full_layer_fields(fields: ConfigFields) -> ConfigFields:
    """Return the fields of full layers; newer files list them by layer."""
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
    width = fields.count("intermediate_size", 9216)
    double = 2 if fields.flag("use_double_wide_mlp", False) else 1
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


def mimo_v2(fields: ConfigFields) -> TransformerShape:
    """MiMo-V2-Flash: windows with sinks on five layers of six, own heads for each kind."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    pattern = fields.counts("hybrid_layer_pattern", maximum=1)
    if types is None and pattern:
        types = tuple(SLIDING if flag else FULL for flag in pattern)
    if types is None:
        types = tuple(FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING for i in range(layers))
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    listed = fields.counts("moe_layer_freq", maximum=1)
    routed = kinds.count("sparse") if kinds is not None else layers - 1
    if kinds is None and listed:
        routed = sum(listed)
    for name, found in (("hybrid_layer_pattern", len(types)), ("moe_layer_freq", len(listed))):
        if found not in {0, layers}:
            fields.fail(
                f"config field {name} does not fit the layers",
                name,
                f"{found} values",
                f"a list of {layers} values",
            )
    attention = [
        _mimo_attention(fields, kind, types.count(kind))
        for kind in (FULL, SLIDING)
        if types.count(kind)
    ]
    width = fields.count("moe_intermediate_size", 2048)
    experts = experts_shape(fields, layers=routed, width=width) if routed else None
    return decoder(
        fields,
        attention=attention,
        feed_forward=dense_then_routed(fields, dense=layers - routed, routed=experts),
    )


def _mimo_attention(fields: ConfigFields, kind: str, layers: int) -> AttentionShape:
    bias = fields.flag("attention_bias", False)
    shape = attention_shape(
        fields, heads=64, key_value_heads=4, head_dim=192, windows=[None] * layers, input_bias=bias
    )
    value_dim = fields.count("v_head_dim", 128)
    update: dict[str, object] = {"value_head_dim": value_dim}
    sinks = fields.flag("add_full_attention_sink_bias", False)
    if kind == SLIDING:
        heads = fields.count("swa_num_attention_heads", shape.heads, maximum=65_536)
        groups = fields.count("swa_num_key_value_heads", 2 * shape.key_value_heads, maximum=heads)
        if heads % groups:
            fields.fail(
                "config field swa_num_key_value_heads does not divide the heads",
                "swa_num_key_value_heads",
                groups,
                f"a divisor of {heads}",
            )
        window = fields.count("sliding_window", 128)
        update |= {
            "windows": (WindowLayers(layers=layers, window=window),),
            "heads": heads,
            "key_value_heads": groups,
            "head_dim": fields.count("swa_head_dim", shape.head_dim, maximum=LIMITS["head_dim"]),
            "value_head_dim": fields.count(
                "swa_v_head_dim", value_dim, maximum=LIMITS["v_head_dim"]
            ),
        }
        sinks = fields.flag("add_swa_attention_sink_bias", True)
    return shape.model_copy(update={**update, "sinks": sinks})


def step3(fields: ConfigFields) -> TransformerShape:
    """Step 3.5 and 3.7 Flash: windows on three layers of four, one gate per attention head."""
    layers = layer_count(fields)
    window = fields.optional_count("sliding_window")
    predicted = fields.count("num_nextn_predict_layers", 0, minimum=0, maximum=64)
    windows = typed_windows(fields, window=window, default=[FULL] * layers, trailing=predicted)
    shape = attention_shape(
        fields, key_value_heads=8, head_dim=128, windows=windows, query_key_norm="head"
    ).model_copy(update={"output_gate": "head"})
    dense = min(fields.count("first_k_dense_replace", 3, minimum=0), layers)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    if kinds is not None:
        dense = kinds.count("dense")
    elif fields.is_text("moe_layers_enum"):
        listed = {item.strip() for item in fields.text("moe_layers_enum", "").split(",")}
        dense = sum(str(index) not in listed for index in range(layers))
    experts = None
    if dense < layers:
        experts = experts_shape(
            fields,
            layers=layers - dense,
            width=fields.count("moe_intermediate_size", 1280),
            shared_width=fields.count("share_expert_dim", 1280),
        )
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=_step_attention(fields, shape),
        feed_forward=dense_then_routed(fields, dense=dense, routed=experts),
    )


def _step_attention(fields: ConfigFields, shape: AttentionShape) -> list[AttentionShape]:
    """Return full and windowed layers apart where these have heads of their own number."""
    other = ConfigFields(fields.mapping("attention_other_setting") or {})
    heads = other.count("num_attention_heads", shape.heads)
    most = LIMITS["num_attention_heads"]
    heads = fields.count("num_sliding_attention_heads", heads, maximum=most)
    if heads == shape.heads:
        return [shape]
    if heads % shape.key_value_heads:
        fields.fail(
            "config field num_sliding_attention_heads is no multiple of the key-value heads",
            "num_sliding_attention_heads",
            heads,
            f"a multiple of {shape.key_value_heads}",
        )
    return [
        shape.model_copy(update={"windows": windows, "heads": count})
        for count, windows in (
            (shape.heads, tuple(item for item in shape.windows if item.window is None)),
            (heads, tuple(item for item in shape.windows if item.window is not None)),
        )
        if windows
    ]
