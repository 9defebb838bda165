"""Decoders with routed experts that need their own reader: gpt-oss, DBRX, Llama 4, Step 3."""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.checks import check_divides, check_length
from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    LAYER_NORM_NO_BIAS,
    SANDWICH_NORMS,
    SLIDING,
    attention_shape,
    decoder,
    experts_shape,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.expert_layers import FeedForwards, dense_then_routed
from advisor.architecture.mixers.shapes import (
    AttentionShape,
    ExpertsShape,
    TransformerShape,
    WindowLayers,
)

CHUNKED: Final = "chunked_attention"


def gpt_oss(fields: ConfigFields) -> TransformerShape:
    """gpt-oss: windows on every other layer, attention sinks, experts with biases."""
    layers = layer_count(fields)
    alternating = ["full_attention" if i % 2 else SLIDING for i in range(layers)]
    windows = typed_windows(fields, window=fields.count("sliding_window"), default=alternating)
    attention = attention_shape(
        fields, windows=windows, bias=fields.flag("attention_bias"), sinks=True, fp32_softmax=False
    )
    experts = experts_shape(
        fields,
        layers=layers,
        width=fields.count("intermediate_size"),
        bias=True,
        router_bias=True,
        clamped=True,
    )
    return decoder(fields, norm=FP32_SCALED_NORM, attention=[attention], feed_forward=[experts])


def dbrx(fields: ConfigFields) -> TransformerShape:
    """DBRX: sixteen gated experts on every layer, LayerNorm without biases."""
    attended = ConfigFields(fields.mapping("attn_config") or {})
    routed = ConfigFields(fields.mapping("ffn_config") or {})
    layers = layer_count(fields)
    attention = attention_shape(
        fields, key_value_heads=attended.count("kv_n_heads", 1), fused_projection=True
    )
    experts = ExpertsShape(
        layers=layers,
        experts=routed.count("num_experts", 4, minimum=2),
        active=routed.count("num_experts_per_tok", 1),
        width=routed.count("intermediate_size", 3584),
    )
    return decoder(fields, norm=LAYER_NORM_NO_BIAS, attention=[attention], feed_forward=[experts])


def ernie_moe(fields: ConfigFields) -> TransformerShape:
    """ERNIE 4.5 with routed experts on a range of layers, and shared experts."""
    layers = layer_count(fields)
    bias = fields.flag("use_bias")
    first = fields.count("moe_layer_start_index", minimum=0)
    last = fields.count("moe_layer_end_index", layers - 1, minimum=-1)
    last = layers - 1 if last == -1 else min(last, layers - 1)
    period = fields.count("moe_layer_interval")
    routed = sum(1 for i in range(first, last + 1) if (i + 1) % period == 0)
    experts = None
    if routed:
        width = fields.count("moe_intermediate_size")
        shared = fields.count("moe_num_shared_experts", minimum=0)
        experts = experts_shape(
            fields, layers=routed, width=width, shared_width=shared * width, shared_bias=bias
        )
        # Only in this family, the correction of the choice is a parameter.
        experts = experts.model_copy(update={"router_scales": experts.experts})
    return decoder(
        fields,
        head_bias=bias,
        attention=[attention_shape(fields, bias=bias)],
        feed_forward=dense_then_routed(fields, dense=layers - routed, routed=experts, bias=bias),
    )


def grok(fields: ConfigFields) -> TransformerShape:
    """Grok 1: eight wide experts, norms around both branches."""
    width = fields.count("intermediate_size")
    experts = experts_shape(fields, layers=layer_count(fields), width=width, act="gelu")
    return decoder(fields, places=SANDWICH_NORMS, feed_forward=[experts])


def arctic(fields: ConfigFields) -> TransformerShape:
    """Arctic: routed experts beside a dense layer as wide as the residual stream."""
    layers, width = layer_count(fields), fields.count("intermediate_size")
    step = fields.count("moe_layer_frequency", maximum=layers)
    routed = layers // step
    beside = fields.flag("parallel_attn_mlp_res")
    if beside and routed < layers:
        fields.fail(
            "config field moe_layer_frequency is not supported beside a dense layer",
            "moe_layer_frequency",
            step,
            "1",
        )
    shared = fields.count("hidden_size") if beside else 0
    experts = experts_shape(fields, layers=routed, width=width, shared_width=shared)
    return decoder(
        fields,
        feed_forward=dense_then_routed(fields, dense=layers - routed, routed=experts),
        extra_norms=int(beside),
    )


def llama4(fields: ConfigFields) -> TransformerShape:
    """Llama 4: chunked attention on three layers of four, one routed and one shared expert.

    A chunk counts as a window of the same length. The cache is the same, and a window reads at most
    twice the keys. Norms of queries and keys have no parameters.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, CHUNKED))
    if types is None:
        period = fields.count("no_rope_layer_interval")
        rotated = [(i + 1) % period != 0 for i in range(layers)]
        listed = fields.counts("no_rope_layers", maximum=1)
        if listed:
            rotated = [bool(flag) for flag in listed]
        types = tuple(CHUNKED if flag else FULL for flag in rotated)
    check_length(fields, "no_rope_layers", len(types), layers)
    chunk = fields.count("attention_chunk_size")
    attention = attention_shape(
        fields,
        windows=[chunk if kind == CHUNKED else None for kind in types],
        bias=fields.flag("attention_bias"),
    )
    return decoder(fields, attention=[attention], feed_forward=_llama4_feed_forward(fields))


def _llama4_feed_forward(fields: ConfigFields) -> FeedForwards:
    layers = layer_count(fields)
    step = fields.count("interleave_moe_layer_step")
    routed = sum(1 for i in range(layers) if (i + 1) % step == 0)
    if fields.has("moe_layers"):
        routed = len(set(fields.counts("moe_layers", maximum=layers - 1)))
    width = fields.count("intermediate_size")
    dense = fields.count("intermediate_size_mlp")
    return dense_then_routed(
        fields,
        dense=layers - routed,
        dense_width=dense,
        routed=experts_shape(fields, layers=routed, width=width, shared_width=width)
        if routed
        else None,
    )


def mimo_v2(fields: ConfigFields) -> TransformerShape:
    """MiMo-V2-Flash: windows with sinks on five of six layers; each kind has its own heads."""
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
        check_length(fields, name, found or layers, layers)
    attention = [
        _mimo_attention(fields, kind, types.count(kind))
        for kind in (FULL, SLIDING)
        if types.count(kind)
    ]
    width = fields.count("moe_intermediate_size")
    experts = experts_shape(fields, layers=routed, width=width) if routed else None
    return decoder(
        fields,
        attention=attention,
        feed_forward=dense_then_routed(fields, dense=layers - routed, routed=experts),
    )


def _mimo_attention(fields: ConfigFields, kind: str, layers: int) -> AttentionShape:
    shape = attention_shape(
        fields, windows=[None] * layers, input_bias=fields.flag("attention_bias")
    )
    value_dim = fields.count("v_head_dim")
    update: dict[str, object] = {"value_head_dim": value_dim}
    sinks = fields.flag("add_full_attention_sink_bias")
    if kind == SLIDING:
        heads = fields.count("swa_num_attention_heads", shape.heads, maximum=65_536)
        groups = fields.count("swa_num_key_value_heads", 2 * shape.key_value_heads, maximum=heads)
        check_divides(fields, "swa_num_key_value_heads", groups, heads)
        window = fields.count("sliding_window")
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
    """Step 3.5 and 3.7 Flash: windows on three of four layers, one gate per attention head."""
    layers = layer_count(fields)
    window = fields.optional_count("sliding_window")
    predicted = fields.count("num_nextn_predict_layers", 0, minimum=0, maximum=64)
    windows = typed_windows(fields, window=window, default=[FULL] * layers, trailing=predicted)
    shape = attention_shape(fields, windows=windows, query_key_norm="head").model_copy(
        update={"output_gate": "head"}
    )
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
            width=fields.count("moe_intermediate_size"),
            shared_width=fields.count("share_expert_dim"),
        )
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=_step_attention(fields, shape),
        feed_forward=dense_then_routed(fields, dense=dense, routed=experts),
    )


def _step_attention(fields: ConfigFields, shape: AttentionShape) -> list[AttentionShape]:
    """Return full and windowed layers separately if their numbers of heads differ."""
    other = ConfigFields(fields.mapping("attention_other_setting") or {})
    heads = other.count("num_attention_heads", shape.heads)
    most = LIMITS["num_attention_heads"]
    heads = fields.count("num_sliding_attention_heads", heads, maximum=most)
    if heads == shape.heads:
        return [shape]
    if heads % shape.key_value_heads:
        fields.fail(
            "config field num_sliding_attention_heads is not a multiple of the key-value heads",
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
