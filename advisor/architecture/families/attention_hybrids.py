"""Hybrids of attention with recurrences or convolutions: Jamba, Falcon-H1, Granite 4, Kimi Linear.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.decoder import (
    FULL,
    attention_shape,
    decoder,
    experts_shape,
    feed_forward_shape,
    layer_count,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.routed import (
    dense_then_routed,
    first_dense,
    latent_attention,
)
from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape, TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import (
    GatedDelta,
    LightningAttention,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDuality,
)

LINEAR: Final = "linear_attention"
HEADS: Final = LIMITS["num_attention_heads"]
DIM: Final = LIMITS["head_dim"]

LAYER_KINDS: Final = {
    FULL: FULL,
    "attention": FULL,
    LINEAR: LINEAR,
    "mamba": LINEAR,
    "conv": LINEAR,
}
"""Names of layer types, old and new."""


def _kinds(fields: ConfigFields, default: list[str]) -> list[str]:
    """Kinds of the layers, by list or by the family's pattern."""
    layers = layer_count(fields)
    for name in ("layer_types", "layers_block_type"):
        listed = fields.texts(name, length=layers, allowed=LAYER_KINDS)
        if listed is not None:
            return [LAYER_KINDS[kind] for kind in listed]
    return default


def jamba(fields: ConfigFields) -> TransformerShape:
    """Jamba: seven Mamba layers to one of attention, experts on every other layer."""
    layers, hidden = layer_count(fields), fields.count("hidden_size")
    period = fields.count("attn_layer_period", 8)
    offset = fields.count("attn_layer_offset", 4, minimum=0)
    full = sum(1 for i in range(layers) if i % period == offset)
    routed_period = fields.count("expert_layer_period", 2)
    routed_offset = fields.count("expert_layer_offset", 1, minimum=0)
    routed = sum(1 for i in range(layers) if i % routed_period == routed_offset)
    width = fields.count("intermediate_size")
    if fields.count("num_experts", 16) == 1:
        routed = 0
    feed_forward: list[FeedForwardShape | ExpertsShape] = []
    if routed < layers:
        feed_forward.append(feed_forward_shape(fields, layers=layers - routed))
    if routed:
        feed_forward.append(experts_shape(fields, layers=routed, width=width))
    automatic = fields.is_text("mamba_dt_rank") or not fields.has("mamba_dt_rank")
    scan = None
    if full < layers:
        scan = SelectiveScan(
            layers=layers - full,
            channels=hidden * fields.count("mamba_expand", 2, maximum=64),
            state_size=fields.count("mamba_d_state", 16, maximum=DIM),
            rank=-(-hidden // 16) if automatic else fields.count("mamba_dt_rank"),
            kernel=fields.count("mamba_d_conv", 4, maximum=DIM),
            bias=fields.flag("mamba_proj_bias", False),
            kernel_bias=fields.flag("mamba_conv_bias", True),
            inner_norms=True,
        )
    attention = attention_shape(fields, windows=[None] * max(full, 1), rotary=False)
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=[scan] if scan else [],
        feed_forward=feed_forward,
    )


def _duality(fields: ConfigFields, *, layers: int, norm: bool = True) -> StateSpaceDuality:
    """Mamba-2 layers by the fields of Bamba, Granite 4 and Falcon-H1."""
    heads = fields.count("mamba_n_heads", 128, maximum=HEADS)
    channels = fields.count("mamba_expand", 2, maximum=64) * fields.count("hidden_size")
    if fields.has("mamba_d_ssm"):
        channels = fields.count("mamba_d_ssm")
    if channels % heads:
        fields.fail(
            "config field mamba_n_heads does not divide the inner width",
            "mamba_n_heads",
            heads,
            f"a divisor of {channels:,}",
        )
    bias = fields.flag("mamba_proj_bias", False)
    return StateSpaceDuality(
        layers=layers,
        heads=heads,
        head_dim=channels // heads,
        state_size=fields.count("mamba_d_state", 256, maximum=DIM),
        groups=fields.count("mamba_n_groups", 1, maximum=HEADS),
        kernel=fields.count("mamba_d_conv", 4, maximum=DIM),
        chunk=fields.count("mamba_chunk_size", 256, maximum=DIM),
        bias=bias,
        output_bias=bias,
        kernel_bias=fields.flag("mamba_conv_bias", True),
        norm=norm,
    )


def falcon_h1(fields: ConfigFields) -> TransformerShape:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    layers = layer_count(fields)
    bias = fields.flag("attention_bias", False)
    scan = _duality(fields, layers=layers, norm=fields.flag("mamba_rms_norm", False)).model_copy(
        update={"output_bias": fields.flag("projectors_bias", False)}
    )
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        other_mixers=[scan],
        parallel_mixers=True,
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))],
    )


def bamba(fields: ConfigFields) -> TransformerShape:
    """Bamba: Mamba-2 layers with a few of attention between."""
    layers = layer_count(fields)
    full = len(set(fields.counts("attn_layer_indices", maximum=layers - 1)))
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields, windows=[None] * max(full, 1), input_bias=bias, output_bias=bias
    )
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=[_duality(fields, layers=layers - full)] if full < layers else [],
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))],
    )


def granite_hybrid(fields: ConfigFields) -> TransformerShape:
    """Granite 4: Mamba-2 layers with a few of attention, experts beside a shared one or none."""
    layers = layer_count(fields)
    kinds = _kinds(fields, [LINEAR] * layers)
    full = kinds.count(FULL)
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields,
        windows=[None] * max(full, 1),
        input_bias=bias,
        output_bias=bias,
        rotary=fields.text("position_embedding_type", "rope") == "rope",
    )
    shared = fields.count("shared_intermediate_size", 1024)
    feed_forward: FeedForwardShape | ExpertsShape
    if fields.count("num_experts", 8, minimum=0):
        feed_forward = experts_shape(
            fields, layers=layers, width=fields.count("intermediate_size"), shared_width=shared
        )
    else:
        feed_forward = feed_forward_shape(fields, width=shared, fused_gate=True)
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=[_duality(fields, layers=layers - full)] if full < layers else [],
        feed_forward=[feed_forward],
    )


def minimax(fields: ConfigFields) -> TransformerShape:
    """MiniMax-01 and M1: lightning attention with full attention between, experts everywhere."""
    layers = layer_count(fields)
    listed = fields.counts("attn_type_list", maximum=1)
    default = [FULL if (i + 1) % 2 else LINEAR for i in range(layers)]
    if len(listed) == layers:
        default = [FULL if flag else LINEAR for flag in listed]
    kinds = _kinds(fields, default)
    full = kinds.count(FULL)
    attention = attention_shape(fields, windows=[None] * max(full, 1))
    lightning = []
    if full < layers:
        lightning.append(
            LightningAttention(
                layers=layers - full,
                heads=attention.heads,
                head_dim=attention.head_dim,
                chunk=fields.count("block_size", 256, maximum=DIM),
            )
        )
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=lightning,
        feed_forward=[
            experts_shape(fields, layers=layers, width=fields.count("intermediate_size"))
        ],
    )


def kimi_linear(fields: ConfigFields) -> TransformerShape:
    """Kimi Linear: three delta-rule layers with a decay per channel to one of latent attention."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    listed = nested.counts("full_attn_layers", maximum=layers)
    default = [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    if listed:
        default = [FULL if i + 1 in listed else LINEAR for i in range(layers)]
    kinds = _kinds(fields, default)
    full = kinds.count(FULL)
    heads = nested.count("num_heads", fields.count("linear_num_heads", 32, maximum=HEADS))
    dim = nested.count("head_dim", fields.count("linear_head_dim", 128, maximum=DIM))
    kernel = fields.count("linear_conv_kernel_dim", 4, maximum=DIM)
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
                gate_rank=None if nested.flag("use_full_rank_gate", False) else dim,
                # Serving engines keep these states in fp32 (vLLM, kda_state_dtype).
                state_bytes_per_element=4.0,
            )
        )
    gated = fields.flag("mla_use_output_gate", False)
    attention = latent_attention(
        fields,
        layers=max(full, 1),
        indexer=None,
        query_rank=fields.optional_count("q_lora_rank"),
    ).model_copy(update={"rotary": False, "output_gate": "element" if gated else "none"})
    return decoder(
        fields,
        attention=[attention] if full else [],
        other_mixers=mixers,
        feed_forward=[_into_latent(fields, layer) for layer in first_dense(fields, first=1)],
        # The class has two matrices whatever tie_word_embeddings says.
    ).model_copy(update={"tied": False})


def _into_latent(
    fields: ConfigFields, layer: FeedForwardShape | ExpertsShape
) -> FeedForwardShape | ExpertsShape:
    """Experts in a narrower space where the configuration states one (Kimi K3)."""
    if isinstance(layer, FeedForwardShape) or not fields.has("routed_expert_hidden_size"):
        return layer
    return layer.model_copy(update={"latent_size": fields.count("routed_expert_hidden_size")})


def lfm2_moe(fields: ConfigFields) -> TransformerShape:
    """LFM 2 MoE: LFM 2 with routed experts after the first layers."""
    layers = layer_count(fields)
    dense = fields.count("num_dense_layers", 2, minimum=0, maximum=layers)
    width = fields.count("moe_intermediate_size", 1792)
    experts = experts_shape(fields, layers=layers - dense, width=width) if dense < layers else None
    return lfm2(fields).model_copy(
        update={"feed_forward": dense_then_routed(fields, dense=dense, routed=experts)}
    )


def lfm2(fields: ConfigFields) -> TransformerShape:
    """LFM 2: gated short convolutions with a few layers of attention between."""
    layers = layer_count(fields)
    listed = set(fields.counts("full_attn_idxs", maximum=layers - 1))
    attends = listed if fields.has("full_attn_idxs") else set(range(layers))
    kinds = _kinds(fields, [FULL if i in attends else LINEAR for i in range(layers)])
    full = kinds.count(FULL)
    width = fields.count("block_ff_dim", fields.count("intermediate_size", 12_288))
    if fields.flag("block_auto_adjust_ff_dim", True):
        step = fields.count("block_multiple_of", 256)
        factor = fields.number("block_ffn_dim_multiplier", 1.0, minimum=0.01, maximum=100)
        width = -(-int(factor * int(2 * width / 3)) // step) * step
    attention = attention_shape(fields, windows=[None] * max(full, 1), query_key_norm="head")
    convolution = None
    if full < layers:
        convolution = ShortConvolution(
            layers=layers - full,
            kernel=fields.count("conv_L_cache", 3, maximum=DIM),
            bias=fields.flag("conv_bias", False),
        )
    return decoder(
        fields,
        tied=fields.flag("tie_embedding", True),
        attention=[attention] if full else [],
        other_mixers=[convolution] if convolution else [],
        feed_forward=[feed_forward_shape(fields, width=width)],
    )
