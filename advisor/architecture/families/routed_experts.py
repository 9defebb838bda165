"""Decoders with routed experts beside those of Mixtral, Qwen and DeepSeek: OLMoE to MiniMax-M3.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    LAYER_NORM,
    LAYER_NORM_NO_BIAS,
    ONE_NORM,
    POST_NORMS,
    SANDWICH_NORMS,
    SLIDING,
    attention_shape,
    decoder,
    every_nth_full,
    experts_shape,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.dense import exaone_windows
from advisor.architecture.families.routed import dense_then_routed, first_dense
from advisor.architecture.mixers.shapes import ExpertsShape, Indexer, TransformerShape


def olmoe(fields: ConfigFields) -> TransformerShape:
    """OLMoE: experts on every layer, norms over whole queries and keys."""
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(fields, input_bias=bias, output_bias=bias, query_key_norm="width")
    return decoder(fields, attention=[attention], feed_forward=[_experts_everywhere(fields)])


def flex_olmo(fields: ConfigFields) -> TransformerShape:
    """FlexOlmo: OLMoE with norms after the branches."""
    return olmoe(fields).model_copy(update={"places": POST_NORMS})


def _experts_everywhere(fields: ConfigFields) -> ExpertsShape:
    width = fields.count("intermediate_size")
    return experts_shape(fields, layers=layer_count(fields), width=width)


def phimoe(fields: ConfigFields) -> TransformerShape:
    """Phi-3.5-MoE: LayerNorm with biases, experts on every layer, optionally a biased head."""
    bias = fields.flag("attention_bias", False)
    windows = [fields.optional_count("sliding_window")] * layer_count(fields)
    return decoder(
        fields,
        norm=LAYER_NORM,
        head_bias=fields.flag("lm_head_bias", False),
        attention=[attention_shape(fields, windows=windows, input_bias=bias, output_bias=bias)],
        feed_forward=[_experts_everywhere(fields)],
    )


def granite_moe(fields: ConfigFields) -> TransformerShape:
    """Granite 3 MoE: experts on every layer, some beside a shared one."""
    bias = fields.flag("attention_bias", False)
    experts = experts_shape(
        fields,
        layers=layer_count(fields),
        width=fields.count("intermediate_size"),
        shared_width=fields.count("shared_intermediate_size", 0, minimum=0),
    )
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[experts],
    )


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
    """ERNIE 4.5 with experts from one layer to another, beside shared ones."""
    layers = layer_count(fields)
    bias = fields.flag("use_bias", False)
    first = fields.count("moe_layer_start_index", 1, minimum=0)
    last = fields.count("moe_layer_end_index", layers - 1, minimum=-1)
    last = layers - 1 if last == -1 else min(last, layers - 1)
    period = fields.count("moe_layer_interval", 1)
    routed = sum(1 for i in range(first, last + 1) if (i + 1) % period == 0)
    experts = None
    if routed:
        width = fields.count("moe_intermediate_size")
        shared = fields.count("moe_num_shared_experts", 0, minimum=0)
        experts = experts_shape(
            fields, layers=routed, width=width, shared_width=shared * width, shared_bias=bias
        )
        # Of this family alone the correction of the choice is a parameter.
        experts = experts.model_copy(update={"router_scales": experts.experts})
    return decoder(
        fields,
        head_bias=bias,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=dense_then_routed(fields, dense=layers - routed, routed=experts, bias=bias),
    )


def hunyuan_moe(fields: ConfigFields) -> TransformerShape:
    """Hunyuan: experts on every layer beside a shared one, norms on queries and keys."""
    bias = fields.flag("attention_bias", False)
    width = fields.count("intermediate_size")
    experts = experts_shape(fields, layers=layer_count(fields), width=width, shared_width=width)
    attention = attention_shape(fields, input_bias=bias, output_bias=bias, query_key_norm="head")
    return decoder(fields, attention=[attention], feed_forward=[experts])


def cohere2_moe(fields: ConfigFields) -> TransformerShape:
    """Command A with experts: parallel branches on one norm, three windows to one full layer."""
    bias = fields.flag("attention_bias", False)
    layers = layer_count(fields)
    windows = typed_windows(
        fields,
        window=fields.count("sliding_window", 4096),
        default=every_nth_full(layers, fields.count("sliding_window_pattern", 4)),
    )
    width = fields.count("intermediate_size")
    shared = fields.count("n_shared_experts", 0, minimum=0)
    dense = fields.count("first_k_dense_replace", 0, minimum=0, maximum=layers - 1)
    routed = experts_shape(fields, layers=layers - dense, width=width, shared_width=shared * width)
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM_NO_BIAS,
        places=ONE_NORM,
        parallel=True,
        attention=[attention_shape(fields, windows=windows, input_bias=bias, output_bias=bias)],
        feed_forward=dense_then_routed(fields, dense=dense, routed=routed),
    )


def scaled_routed(fields: ConfigFields) -> TransformerShape:
    """dots.llm1: dense layers first, then routed and shared experts, norms on queries and keys."""
    bias = fields.flag("attention_bias", False)
    layers = layer_count(fields)
    window = fields.optional_count("sliding_window")
    first = fields.count("max_window_layers", layers, minimum=0)
    default = [SLIDING if window and i >= first else FULL for i in range(layers)]
    attention = attention_shape(
        fields,
        windows=typed_windows(fields, window=window, default=default),
        input_bias=bias,
        output_bias=bias,
        query_key_norm="head",
    )
    return decoder(fields, attention=[attention], feed_forward=first_dense(fields, first=1))


def exaone_moe(fields: ConfigFields) -> TransformerShape:
    """K-EXAONE: norms on queries and keys, three windows to one full layer, shared experts."""
    attention = attention_shape(fields, windows=exaone_windows(fields), query_key_norm="head")
    return decoder(
        fields, attention=[attention], feed_forward=first_dense(fields, first=1, shared=1)
    )


def minimax_m3(fields: ConfigFields) -> TransformerShape:
    """MiniMax-M3: dense layers first, then experts and attention to picked blocks of keys."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("sparse_attention_config") or {})
    sparse = sum(nested.counts("sparse_attention_freq", maximum=1))
    types = fields.texts("layer_types", length=layers, allowed=(FULL, "minimax_m3_sparse"))
    if types is not None:
        sparse = types.count("minimax_m3_sparse")
    listed = fields.counts("moe_layer_freq", maximum=1)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    routed = sum(listed) if listed else layers
    if kinds is not None:
        routed = kinds.count("sparse")
    if sparse > layers or routed > layers:
        fields.fail(
            "config field moe_layer_freq or sparse_attention_freq does not fit the layers",
            "moe_layer_freq",
            f"{max(sparse, routed)} layers",
            f"lists of {layers} values",
        )
    attention = []
    if sparse < layers:
        full = [None] * (layers - sparse)
        attention.append(attention_shape(fields, windows=full, query_key_norm="head"))
    if sparse:
        block = nested.count("sparse_block_size", fields.count("index_block_size", 128))
        blocks = nested.count("sparse_topk_blocks", fields.count("index_topk_blocks", 16))
        indexer = Indexer(
            layers=sparse,
            heads=nested.count("sparse_num_index_heads", fields.count("index_n_heads", 4)),
            head_dim=nested.count("sparse_index_dim", fields.count("index_head_dim", 128)),
            top_k=block * blocks,
            weighted=False,
        )
        picking = attention_shape(fields, windows=[None] * sparse, query_key_norm="head")
        attention.append(picking.model_copy(update={"indexer": indexer}))
    experts = None
    if routed:
        experts = experts_shape(
            fields,
            layers=routed,
            width=fields.count("intermediate_size"),
            shared_width=fields.count("shared_intermediate_size", 0, minimum=0),
            clamped=True,
        )
    dense = fields.count("dense_intermediate_size", 12_288)
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=attention,
        feed_forward=dense_then_routed(
            fields, dense=layers - routed, dense_width=dense, routed=experts
        ),
    )


def grok(fields: ConfigFields) -> TransformerShape:
    """Grok 1: eight wide experts, norms around both branches."""
    width = fields.count("intermediate_size", 32_768)
    experts = experts_shape(fields, layers=layer_count(fields), width=width, act="gelu")
    return decoder(
        fields, tied=True, places=SANDWICH_NORMS, feed_forward=[experts], vocab_size=131_072
    )


def arctic(fields: ConfigFields) -> TransformerShape:
    """Arctic: routed experts beside a dense layer as wide as the residual stream."""
    layers, width = layer_count(fields), fields.count("intermediate_size", 4864)
    step = fields.count("moe_layer_frequency", 2, maximum=layers)
    routed = layers // step
    beside = fields.flag("parallel_attn_mlp_res", False)
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
