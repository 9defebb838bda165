"""Decoders that mix attention with linear attention or short convolutions: Qwen3-Next, LFM 2."""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.checks import check_divides
from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    LINEAR,
    POST_NORMS,
    attention_shape,
    decoder,
    experts_shape,
    feed_forward_shape,
    latent_attention,
    layer_count,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.expert_layers import (
    FeedForwards,
    after_dense,
    by_step,
    dense_then_routed,
)
from advisor.architecture.families.state_space_hybrids import layer_kinds, state_bytes
from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape, TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import (
    GatedDelta,
    LightningAttention,
    ShortConvolution,
)

HEADS: Final = LIMITS["num_attention_heads"]

DIM: Final = LIMITS["head_dim"]


def _gated_delta(
    fields: ConfigFields,
    layers: int,
    *,
    heads: tuple[int | None, int | None] = (None, None),
    dims: tuple[int | None, int | None] = (None, None),
) -> GatedDelta:
    """Return the layers. ``heads`` and ``dims`` apply if neither file nor class states them."""
    most = LIMITS["num_attention_heads"]
    key_heads = fields.count("linear_num_key_heads", heads[0], maximum=most)
    value_heads = fields.count("linear_num_value_heads", heads[1], maximum=most)
    check_divides(fields, "linear_num_key_heads", key_heads, value_heads, "linear_num_value_heads")
    return GatedDelta(
        layers=layers,
        key_heads=key_heads,
        value_heads=value_heads,
        key_head_dim=fields.count("linear_key_head_dim", dims[0], maximum=LIMITS["head_dim"]),
        value_head_dim=fields.count("linear_value_head_dim", dims[1], maximum=LIMITS["head_dim"]),
        kernel=fields.count("linear_conv_kernel_dim", maximum=LIMITS["head_dim"]),
        state_bytes_per_element=state_bytes(fields, "mamba_ssm_dtype", "auto"),
    )


def _gated_hybrid(fields: ConfigFields, feed_forward: FeedForwards) -> TransformerShape:
    """Gated delta layers, with gated attention on every fourth layer."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR))
    if types is None:
        period = fields.count("full_attention_interval", 4)
        types = tuple(LINEAR if (i + 1) % period else FULL for i in range(layers))
    full = types.count(FULL)
    bias = fields.flag("attention_bias")
    shape = attention_shape(fields, windows=[None] * full, bias=bias, query_key_norm="head")
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=[shape.model_copy(update={"output_gate": "element"})],
        other_mixers=[_gated_delta(fields, layers - full)] if full < layers else [],
        feed_forward=feed_forward,
    )


def qwen3_5(fields: ConfigFields) -> TransformerShape:
    """Qwen 3.5 and 3.6, dense: gated delta layers and gated attention."""
    return _gated_hybrid(fields, (feed_forward_shape(fields),))


def qwen3_next(fields: ConfigFields) -> TransformerShape:
    """Qwen3-Next and Qwen 3.5 MoE: gated delta layers, gated attention, routed experts."""
    return _gated_hybrid(fields, by_step(fields, shared_width="shared_expert_intermediate_size"))


def olmo_hybrid(fields: ConfigFields) -> TransformerShape:
    """OLMo Hybrid: OLMo 3 with gated delta layers, and full attention on every fourth layer."""
    layers, hidden = layer_count(fields), fields.count("hidden_size")
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR))
    if types is None:
        # With fewer than four layers, the last one has attention.
        last = layers - 1 if layers < 4 else layers
        types = tuple(LINEAR if (i + 1) % 4 and i != last else FULL for i in range(layers))
    heads = fields.count("num_attention_heads")
    keys = fields.count("linear_num_key_heads", heads, maximum=LIMITS["num_attention_heads"])
    dim = fields.count(
        "linear_key_head_dim", max(3 * hidden // (4 * keys), 1), maximum=LIMITS["head_dim"]
    )
    recurrent = _gated_delta(
        fields, max(types.count(LINEAR), 1), heads=(keys, heads), dims=(dim, 2 * dim)
    )
    attention = attention_shape(
        fields,
        windows=[None] * types.count(FULL),
        bias=fields.flag("attention_bias"),
        query_key_norm="width",
    )
    return decoder(
        fields,
        places=POST_NORMS,
        attention=[attention],
        other_mixers=[recurrent] if LINEAR in types else [],
    )


def minimax(fields: ConfigFields) -> TransformerShape:
    """MiniMax-01 and M1: lightning attention, some full attention, experts on every layer."""
    layers = layer_count(fields)
    listed = fields.counts("attn_type_list", maximum=1)
    default = [FULL if (i + 1) % 2 else LINEAR for i in range(layers)]
    if len(listed) == layers:
        default = [FULL if flag else LINEAR for flag in listed]
    kinds = layer_kinds(fields, default)
    full = kinds.count(FULL)
    attention = attention_shape(fields, windows=[None] * full)
    lightning = []
    if full < layers:
        lightning.append(
            LightningAttention(
                layers=layers - full,
                heads=attention.heads,
                head_dim=attention.head_dim,
                chunk=fields.count("block_size", maximum=DIM),
            )
        )
    return decoder(
        fields,
        attention=[attention],
        other_mixers=lightning,
        feed_forward=[
            experts_shape(fields, layers=layers, width=fields.count("intermediate_size"))
        ],
    )


def kimi_linear(fields: ConfigFields) -> TransformerShape:
    """Kimi Linear: three delta-rule layers with a decay per channel for each latent attention."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    listed = nested.counts("full_attn_layers", maximum=layers)
    default = [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    if listed:
        default = [FULL if i + 1 in listed else LINEAR for i in range(layers)]
    kinds = layer_kinds(fields, default)
    full = kinds.count(FULL)
    heads = nested.count("num_heads", fields.count("linear_num_heads", maximum=HEADS))
    dim = nested.count("head_dim", fields.count("linear_head_dim", maximum=DIM))
    kernel = fields.count("linear_conv_kernel_dim", maximum=DIM)
    mixers = []
    if full < layers:
        mixers.append(
            GatedDelta(
                layers=layers - full,
                key_heads=heads,
                value_heads=heads,
                key_head_dim=dim,
                value_head_dim=dim,
                kernel=nested.count("short_conv_kernel_size", kernel, maximum=DIM),
                decay_rank=dim,
                gate_rank=None if nested.flag("use_full_rank_gate") else dim,
                # Serving engines keep these states in fp32 (vLLM, kda_state_dtype).
                state_bytes_per_element=4.0,
            )
        )
    gated = fields.flag("mla_use_output_gate")
    attention = latent_attention(
        fields, layers=max(full, 1), query_rank=fields.optional_count("q_lora_rank")
    ).model_copy(update={"rotary": False, "output_gate": "element" if gated else "none"})
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=mixers,
        feed_forward=[_into_latent(fields, layer) for layer in after_dense(fields)],
        # The class has two matrices and ignores tie_word_embeddings.
    ).model_copy(update={"tied": False})


def _into_latent(
    fields: ConfigFields, layer: FeedForwardShape | ExpertsShape
) -> FeedForwardShape | ExpertsShape:
    """Return experts in a narrower space if the configuration states one (Kimi K3)."""
    if isinstance(layer, FeedForwardShape) or not fields.has("routed_expert_hidden_size"):
        return layer
    return layer.model_copy(update={"latent_size": fields.count("routed_expert_hidden_size")})


def lfm2_moe(fields: ConfigFields) -> TransformerShape:
    """LFM 2 MoE: LFM 2 with routed experts after the first layers."""
    layers = layer_count(fields)
    dense = fields.count("num_dense_layers", minimum=0, maximum=layers)
    width = fields.count("moe_intermediate_size")
    experts = experts_shape(fields, layers=layers - dense, width=width) if dense < layers else None
    return lfm2(fields).model_copy(
        update={"feed_forward": dense_then_routed(fields, dense=dense, routed=experts)}
    )


def lfm2(fields: ConfigFields) -> TransformerShape:
    """LFM 2: gated short convolutions and a few attention layers."""
    layers = layer_count(fields)
    listed = set(fields.counts("full_attn_idxs", maximum=layers - 1))
    attends = listed if fields.has("full_attn_idxs") else set(range(layers))
    kinds = layer_kinds(fields, [FULL if i in attends else LINEAR for i in range(layers)])
    full = kinds.count(FULL)
    width = fields.count("block_ff_dim", fields.count("intermediate_size"))
    if fields.flag("block_auto_adjust_ff_dim", True):
        step = fields.count("block_multiple_of", 256)
        factor = fields.number("block_ffn_dim_multiplier", 1.0, minimum=0.01, maximum=100)
        width = -(-int(factor * int(2 * width / 3)) // step) * step
    attention = attention_shape(fields, windows=[None] * full, query_key_norm="head")
    convolution = None
    if full < layers:
        convolution = ShortConvolution(
            layers=layers - full,
            kernel=fields.count("conv_L_cache", maximum=DIM),
            bias=fields.flag("conv_bias"),
        )
    return decoder(
        fields,
        tied=fields.flag("tie_embedding", True),
        attention=[attention],
        other_mixers=[convolution] if convolution else [],
        feed_forward=[feed_forward_shape(fields, width=width)],
    )
