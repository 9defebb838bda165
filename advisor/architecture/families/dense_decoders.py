"""Dense decoders that need their own reader: GPT-2 and relatives, Falcon, StableLM, ChatGLM."""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.decoder import (
    LAYER_NORM,
    LAYER_NORM_NO_BIAS,
    ONE_NORM,
    attention_shape,
    decoder,
    feed_forward_shape,
    layer_count,
    refuse_cross_attention,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.mixers.shapes import Norm, NormKind, NormPlaces, TransformerShape

OPT_POSITION_OFFSET = 2
"""OPT's position table starts with two unused rows."""

HEADS: Final = LIMITS["num_attention_heads"]

IMAGE_ROWS: Final = 8
"""Rows for image tokens after Llama 3.2 Vision's vocabulary."""


def gpt2(fields: ConfigFields) -> TransformerShape:
    """GPT-2: learned positions, biases, tied head."""
    refuse_cross_attention(fields)
    return decoder(
        fields,
        norm=LAYER_NORM,
        dropout=fields.share("resid_pdrop") > 0,
        positions=fields.count("max_position_embeddings"),
        attention=[
            attention_shape(
                fields,
                bias=True,
                fused_projection=True,
                rotary=False,
                fp32_softmax=False,
                dropout=fields.share("attn_pdrop") > 0,
            )
        ],
        feed_forward=[feed_forward_shape(fields, times_hidden=4, gated=False, bias=True)],
    )


def gptj(fields: ConfigFields) -> TransformerShape:
    """GPT-J: parallel attention and feed-forward on one norm."""
    return decoder(
        fields,
        norm=LAYER_NORM,
        places=ONE_NORM,
        parallel=True,
        head_bias=True,
        feed_forward=[feed_forward_shape(fields, times_hidden=4, gated=False, bias=True)],
    )


def opt(fields: ConfigFields) -> TransformerShape:
    """OPT: learned positions, ReLU, biases. The 350M model normalises after each sublayer."""
    bias = fields.flag("enable_bias", True)
    hidden = fields.count("hidden_size")
    embedding = fields.count("word_embed_proj_dim", hidden)
    before = fields.flag("do_layer_norm_before", True)
    scaled = fields.flag("layer_norm_elementwise_affine", True)
    return decoder(
        fields,
        norm=LAYER_NORM if scaled else Norm(kind=NormKind.LAYER, scale=False),
        dropout=fields.share("dropout", 0.1) > 0,
        final_norm=before and not fields.flag("_remove_final_layer_norm"),
        positions=fields.count("max_position_embeddings") + OPT_POSITION_OFFSET,
        embedding_width=None if embedding == hidden else embedding,
        attention=[attention_shape(fields, bias=bias, rotary=False)],
        feed_forward=[feed_forward_shape(fields, gated=False, bias=bias)],
    )


def xglm(fields: ConfigFields) -> TransformerShape:
    """XGLM: like GPT, with sinusoidal positions and biases except in the tied head."""
    refuse_cross_attention(fields)
    heads = fields.count("attention_heads", maximum=LIMITS["num_attention_heads"])
    attention = attention_shape(fields, heads=heads, bias=True, rotary=False)
    return decoder(
        fields,
        norm=LAYER_NORM,
        dropout=fields.share("dropout") > 0,
        attention=[attention],
        feed_forward=[feed_forward_shape(fields, gated=False, bias=True)],
    )


def falcon(fields: ConfigFields) -> TransformerShape:
    """Falcon: parallel attention and feed-forward on one norm (7B) or two (40B, 180B)."""
    heads = fields.count("num_attention_heads")
    modern = fields.flag("new_decoder_architecture")
    if modern:
        groups = fields.count("num_key_value_heads", heads)
    else:
        groups = 1 if fields.flag("multi_query") else heads
    parallel = modern or fields.flag("parallel_attn")
    norms = fields.count("num_ln_in_parallel_attn", 2 if modern else 1, maximum=2)
    bias = fields.flag("bias")
    one_norm = parallel and norms == 1
    attention = attention_shape(
        fields, bias=bias, fused_projection=True, rotary=not fields.flag("alibi")
    )
    return decoder(
        fields,
        norm=LAYER_NORM,
        places=ONE_NORM if one_norm else NormPlaces(),
        parallel=one_norm,
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[feed_forward_shape(fields, times_hidden=4, gated=False, bias=bias)],
    )


def bloom(fields: ConfigFields) -> TransformerShape:
    """BLOOM: ALiBi positions, a norm on the embedding, biases, tied head."""
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        norm=LAYER_NORM,
        embedding_norm=True,
        attention=[attention_shape(fields, bias=True, fused_projection=True, rotary=False)],
        feed_forward=[
            feed_forward_shape(fields, width=4 * hidden, gated=False, act="gelu", bias=True)
        ],
    )


def mpt(fields: ConfigFields) -> TransformerShape:
    """MPT: ALiBi positions, no biases, tied head."""
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        norm=LAYER_NORM_NO_BIAS,
        attention=[attention_shape(fields, fused_projection=True, rotary=False)],
        # The class reads no expansion_ratio.
        feed_forward=[feed_forward_shape(fields, width=4 * hidden, gated=False, act="gelu")],
    )


def gpt_bigcode(fields: ConfigFields) -> TransformerShape:
    """StarCoder 1 and SantaCoder: GPT-2 with one key-value head."""
    attention = attention_shape(fields, bias=True, fused_projection=True, rotary=False)
    groups = 1 if fields.flag("multi_query") else attention.heads
    return decoder(
        fields,
        norm=LAYER_NORM,
        dropout=fields.share("resid_pdrop") > 0,
        positions=fields.count("max_position_embeddings"),
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[feed_forward_shape(fields, times_hidden=4, gated=False, bias=True)],
    )


def gpt_neo(fields: ConfigFields) -> TransformerShape:
    """GPT-Neo: learned positions, a window on every other layer, no biases in projections."""
    layers = layer_count(fields)
    window = fields.count("window_size")
    windows = [window if i % 2 else None for i in range(layers)]
    attention = attention_shape(
        fields,
        heads=fields.count("num_heads", maximum=HEADS),
        windows=windows,
        output_bias=True,
        rotary=False,
    )
    wide = feed_forward_shape(fields, times_hidden=4, gated=False, bias=True)
    return decoder(
        fields,
        norm=LAYER_NORM,
        positions=fields.count("max_position_embeddings"),
        attention=[attention],
        feed_forward=[wide],
    )


def chatglm(fields: ConfigFields) -> TransformerShape:
    """ChatGLM 2, 3 and the first GLM-4: fused projections, few key-value heads."""
    heads = fields.count("num_attention_heads")
    groups = heads
    if fields.flag("multi_query_attention"):
        groups = fields.count("multi_query_group_num", 1, maximum=heads)
    bias = fields.flag("add_bias_linear")
    attention = attention_shape(
        fields,
        head_dim=fields.count("kv_channels", 128, maximum=LIMITS["head_dim"]),
        input_bias=bias or fields.flag("add_qkv_bias"),
        output_bias=bias,
        fused_projection=True,
    )
    return decoder(
        fields,
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[feed_forward_shape(fields, fused_gate=True, bias=bias)],
    )


def stablelm(fields: ConfigFields) -> TransformerShape:
    """StableLM: Llama with LayerNorm; some models have one norm per block and norms per head."""
    parallel = fields.flag("use_parallel_residual")
    scaled = fields.flag("qk_layernorm")
    attention = attention_shape(
        fields,
        input_bias=fields.flag("use_qkv_bias"),
        query_key_norm="head" if scaled else "none",
        query_key_norm_per_head_scale=scaled,
    )
    return decoder(
        fields,
        norm=LAYER_NORM,
        places=ONE_NORM if parallel else NormPlaces(),
        parallel=parallel,
        attention=[attention.model_copy(update={"query_key_norm_bias": False})],
    )


def mllama(fields: ConfigFields) -> TransformerShape:
    """Llama 3.2 Vision: Llama 3.1 with additional layers that attend to the image.

    Text without an image skips these layers: they count with their parameters and one key.
    """
    layers = layer_count(fields)
    listed = fields.counts("cross_attention_layers", maximum=layers - 1)
    # The class's default list is for 40 layers.
    crossing = set(listed) if fields.has("cross_attention_layers") else set(range(3, layers, 5))
    attention = attention_shape(fields, windows=[None] * (layers - len(crossing)))
    cross = attention_shape(
        fields, windows=[1] * len(crossing), query_key_norm="head", rotary=False
    ).model_copy(update={"gates": 2})
    return decoder(
        fields,
        attention=[shape for shape in (attention, cross) if shape.layers],
        extra_embeddings=IMAGE_ROWS,
    )


def cohere(fields: ConfigFields) -> TransformerShape:
    """Command-R: parallel attention and feed-forward on one norm without bias, tied head."""
    bias = fields.flag("attention_bias")
    scaled = fields.flag("use_qk_norm")
    return decoder(
        fields,
        norm=LAYER_NORM_NO_BIAS,
        places=ONE_NORM,
        parallel=True,
        attention=[
            attention_shape(
                fields,
                bias=bias,
                query_key_norm="head" if scaled else "none",
                query_key_norm_per_head_scale=scaled,
            )
        ],
    )


def qwen1(fields: ConfigFields) -> TransformerShape:
    """Qwen 1: fused projection with biases; ``intermediate_size`` counts gate and up together."""
    width = fields.count("intermediate_size", minimum=2) // 2
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=True, fused_projection=True)],
        feed_forward=[feed_forward_shape(fields, width=width)],
    )
