"""Model families with routed experts or latent attention.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    SLIDING,
    attention_shape,
    decoder,
    experts_shape,
    feed_forward_shape,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.mainstream import qwen_windows
from advisor.architecture.mixers.shapes import (
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    Indexer,
    LatentAttention,
    TransformerShape,
    WindowLayers,
)

FeedForwards = tuple[FeedForwardShape | ExpertsShape, ...]


def dense_then_routed(
    fields: ConfigFields,
    *,
    dense: int,
    routed: ExpertsShape | None,
    dense_width: int | None = None,
    bias: bool = False,
) -> FeedForwards:
    """First ``dense`` feed-forward layers, then routed ones, either of which may be absent."""
    layers: list[FeedForwardShape | ExpertsShape] = []
    if dense:
        layers.append(feed_forward_shape(fields, layers=dense, width=dense_width, bias=bias))
    if routed is not None:
        layers.append(routed)
    return tuple(layers)


def mixtral(fields: ConfigFields) -> TransformerShape:
    """Mixtral: Mistral with experts on every layer."""
    layers = layer_count(fields)
    windows = [fields.optional_count("sliding_window")] * layers
    return decoder(
        fields,
        attention=[attention_shape(fields, windows=windows)],
        feed_forward=[
            experts_shape(fields, layers=layers, width=fields.count("intermediate_size"))
        ],
    )


def qwen_feed_forward(fields: ConfigFields, *, shared: bool) -> FeedForwards:
    """Experts on every ``decoder_sparse_step``-th layer but those listed as dense."""
    layers = layer_count(fields)
    step = fields.count("decoder_sparse_step", 1)
    listed = set(fields.counts("mlp_only_layers", maximum=layers - 1))
    routed = sum(1 for i in range(layers) if i not in listed and (i + 1) % step == 0)
    if not routed:
        return dense_then_routed(fields, dense=layers, routed=None)
    experts = experts_shape(
        fields,
        layers=routed,
        width=fields.count("moe_intermediate_size"),
        shared_width=fields.count("shared_expert_intermediate_size") if shared else 0,
        shared_gate=shared,
    )
    return dense_then_routed(fields, dense=layers - routed, routed=experts)


def qwen2_moe(fields: ConfigFields) -> TransformerShape:
    """Qwen 1.5 and 2 MoE: routed experts beside a gated shared one."""
    return decoder(
        fields,
        attention=[
            attention_shape(
                fields, windows=qwen_windows(fields), input_bias=fields.flag("qkv_bias", True)
            )
        ],
        feed_forward=qwen_feed_forward(fields, shared=True),
    )


def qwen3_moe(fields: ConfigFields) -> TransformerShape:
    """Qwen 3 MoE: routed experts only, norms on queries and keys."""
    feed_forward = qwen_feed_forward(fields, shared=False)
    return _normed_experts(fields, qwen_windows(fields), feed_forward)


def mellum(fields: ConfigFields) -> TransformerShape:
    """Mellum: Qwen 3 MoE with windows and dense layers by list."""
    full = [FULL] * layer_count(fields)
    windows = typed_windows(fields, window=fields.optional_count("sliding_window"), default=full)
    return _normed_experts(fields, windows, first_dense(fields, first=0))


def _normed_experts(
    fields: ConfigFields, windows: Sequence[int | None], feed_forward: FeedForwards
) -> TransformerShape:
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields, windows=windows, input_bias=bias, output_bias=bias, query_key_norm="head"
    )
    return decoder(fields, attention=[attention], feed_forward=feed_forward)


def gpt_oss(fields: ConfigFields) -> TransformerShape:
    """gpt-oss: windows on every other layer, attention sinks, experts with biases."""
    bias = fields.flag("attention_bias", True)
    layers = layer_count(fields)
    alternating = ["full_attention" if i % 2 else SLIDING for i in range(layers)]
    windows = typed_windows(fields, window=fields.count("sliding_window", 128), default=alternating)
    attention = attention_shape(
        fields,
        head_dim=64,
        windows=windows,
        input_bias=bias,
        output_bias=bias,
        sinks=True,
        fp32_softmax=False,
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


def minimax_m2(fields: ConfigFields) -> TransformerShape:
    """MiniMax-M2: experts on every layer, norms over whole queries and keys."""
    layers = layer_count(fields)
    attention = attention_shape(
        fields, query_key_norm="width" if fields.flag("use_qk_norm", True) else "none"
    )
    experts = experts_shape(fields, layers=layers, width=fields.count("intermediate_size"))
    return decoder(fields, attention=[attention], feed_forward=[experts])


def glm4_moe(fields: ConfigFields) -> TransformerShape:
    """GLM-4.5 to 4.7: dense layers first, then routed and shared experts."""
    attention = attention_shape(
        fields,
        input_bias=fields.flag("attention_bias", False),
        query_key_norm="head" if fields.flag("use_qk_norm", False) else "none",
    )
    return decoder(fields, attention=[attention], feed_forward=first_dense(fields, first=1))


def first_dense(
    fields: ConfigFields, *, first: int, shared: int = 0, bias: bool = False
) -> FeedForwards:
    """Dense layers first, then experts on every ``moe_layer_freq``-th layer.

    ``first`` and ``shared`` are the family's defaults of dense layers and of shared experts,
    ``bias`` is that of both.
    """
    layers = layer_count(fields)
    dense = min(fields.count("first_k_dense_replace", first, minimum=0), layers)
    period = fields.count("moe_layer_freq", 1)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    if kinds is not None:
        routed = kinds.count("sparse")
    else:
        routed = sum(1 for i in range(dense, layers) if i % period == 0)
    if not routed:
        return dense_then_routed(fields, dense=layers, routed=None, bias=bias)
    width = fields.count("moe_intermediate_size")
    beside = fields.count("n_shared_experts", shared, minimum=0) * width
    experts = experts_shape(
        fields, layers=routed, width=width, shared_width=beside, shared_bias=bias
    )
    return dense_then_routed(fields, dense=layers - routed, routed=experts, bias=bias)


def latent_attention(
    fields: ConfigFields,
    *,
    indexer: Indexer | None,
    query_rank: int | None,
    layers: int | None = None,
    value_dim: int | None = None,
) -> AttentionShape:
    """Attention through compressed queries, keys and values; by default on every layer.

    ``value_dim`` is the family's default of ``v_head_dim``.
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


def deepseek(fields: ConfigFields) -> TransformerShape:
    """DeepSeek V2, V3, R1 and Kimi K2: latent attention, routed and shared experts."""
    attention = latent_attention(
        fields, indexer=None, query_rank=fields.optional_count("q_lora_rank")
    )
    feed_forward = first_dense(fields, first=0, bias=fields.flag("mlp_bias", False))
    return decoder(fields, attention=[attention], feed_forward=feed_forward)


def longcat(fields: ConfigFields) -> TransformerShape:
    """LongCat-Flash: two latent attentions, two dense layers and one of experts in each block.

    A block counts as two layers, as its cache does. Some experts compute nothing: a token that
    is sent to all alike visits fewer of the others, and that average is counted. The class makes
    room for gates of empty experts, which no checkpoint has and which are left out.
    """
    blocks = layer_count(fields)
    attention = latent_attention(
        fields, indexer=None, query_rank=fields.optional_count("q_lora_rank"), layers=2 * blocks
    )
    experts = experts_shape(
        fields,
        layers=blocks,
        width=fields.count("expert_ffn_hidden_size", 2048),
        router_bias=fields.flag("router_bias", False),
    )
    empty = fields.count("zero_expert_num", 0, minimum=0, maximum=LIMITS["num_experts"])
    visited = round(experts.active * experts.experts / (experts.experts + empty))
    routed = experts.model_copy(
        update={
            "active": max(visited, 1),
            "router_scales": empty * (fields.count("hidden_size") + experts.router_bias),
        }
    )
    return decoder(
        fields,
        attention=[attention],
        feed_forward=dense_then_routed(fields, dense=2 * blocks, routed=routed),
    )


def minicpm3(fields: ConfigFields) -> TransformerShape:
    """MiniCPM 3: latent attention over dense layers, a tied head."""
    heads = fields.count("num_attention_heads")
    attention = latent_attention(
        fields,
        indexer=None,
        query_rank=fields.optional_count("q_lora_rank"),
        value_dim=fields.count("hidden_size") // heads,
    )
    wide = feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))
    return decoder(fields, tied=True, attention=[attention], feed_forward=[wide])


def deepseek_after_one(fields: ConfigFields) -> TransformerShape:
    """GLM-4.7 Flash: latent attention, one dense layer, then routed and shared experts."""
    attention = latent_attention(
        fields, indexer=None, query_rank=fields.optional_count("q_lora_rank")
    )
    return decoder(fields, attention=[attention], feed_forward=first_dense(fields, first=1))
