"""Model families with LayerNorm and plain feed-forward layers: GPT-2 to Falcon.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0),
as their documentation states them.
"""

from __future__ import annotations

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


def phi(fields: ConfigFields) -> TransformerShape:
    """Phi 1 and 2: parallel attention and feed-forward, biases everywhere, head included."""
    norm = "head" if fields.flag("qk_layernorm", False) else "none"
    return decoder(
        fields,
        norm=LAYER_NORM,
        places=ONE_NORM,
        parallel=True,
        head_bias=True,
        attention=[
            attention_shape(
                fields,
                input_bias=True,
                output_bias=True,
                query_key_norm="head" if norm == "head" else "none",
            )
        ],
        feed_forward=[feed_forward_shape(fields, gated=False, act="gelu_new", bias=True)],
    )


def gpt2(fields: ConfigFields) -> TransformerShape:
    """GPT-2: learned positions, biases, tied head."""
    refuse_cross_attention(fields)
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        dropout=fields.share("resid_pdrop", 0.1) > 0,
        positions=fields.count("max_position_embeddings", 1024),
        attention=[
            attention_shape(
                fields,
                input_bias=True,
                output_bias=True,
                fused_projection=True,
                rotary=False,
                fp32_softmax=False,
                dropout=fields.share("attn_pdrop", 0.1) > 0,
            )
        ],
        feed_forward=[
            feed_forward_shape(
                fields, width=_width(fields, 4 * hidden), gated=False, act="gelu_new", bias=True
            )
        ],
    )


def _width(fields: ConfigFields, default: int) -> int:
    return fields.count("intermediate_size", default)


def gptj(fields: ConfigFields) -> TransformerShape:
    """GPT-J: parallel attention and feed-forward on one norm."""
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        norm=LAYER_NORM,
        places=ONE_NORM,
        parallel=True,
        head_bias=True,
        feed_forward=[
            feed_forward_shape(
                fields, width=_width(fields, 4 * hidden), gated=False, act="gelu_new", bias=True
            )
        ],
    )


def gpt_neox(fields: ConfigFields) -> TransformerShape:
    """GPT-NeoX and Pythia: fused projection, biases, two norms; parallel by default."""
    bias = fields.flag("attention_bias", True)
    return decoder(
        fields,
        norm=LAYER_NORM,
        attention=[
            attention_shape(fields, input_bias=bias, output_bias=bias, fused_projection=True)
        ],
        feed_forward=[feed_forward_shape(fields, gated=False, act="gelu", bias=True)],
    )


def opt(fields: ConfigFields) -> TransformerShape:
    """OPT: learned positions, ReLU, biases; the 350M one normalises after each sublayer."""
    bias = fields.flag("enable_bias", True)
    hidden = fields.count("hidden_size")
    embedding = fields.count("word_embed_proj_dim", hidden)
    before = fields.flag("do_layer_norm_before", True)
    scaled = fields.flag("layer_norm_elementwise_affine", True)
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM if scaled else Norm(kind=NormKind.LAYER, scale=False),
        dropout=fields.share("dropout", 0.1) > 0,
        final_norm=before and not fields.flag("_remove_final_layer_norm", False),
        positions=fields.count("max_position_embeddings", 2048) + OPT_POSITION_OFFSET,
        embedding_width=None if embedding == hidden else embedding,
        attention=[
            attention_shape(fields, input_bias=bias, output_bias=bias, rotary=False),
        ],
        feed_forward=[feed_forward_shape(fields, gated=False, act="relu", bias=bias)],
    )


def xglm(fields: ConfigFields) -> TransformerShape:
    """XGLM: GPT-like, positions are sines, biases but for the tied head."""
    refuse_cross_attention(fields)
    heads = fields.count("attention_heads", 16, maximum=LIMITS["num_attention_heads"])
    attention = attention_shape(
        fields, heads=heads, input_bias=True, output_bias=True, rotary=False
    )
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        dropout=fields.share("dropout", 0.1) > 0,
        attention=[attention],
        feed_forward=[feed_forward_shape(fields, gated=False, act="gelu", bias=True)],
    )


def falcon(fields: ConfigFields) -> TransformerShape:
    """Falcon: parallel attention and feed-forward on one norm (7B) or two (40B, 180B)."""
    hidden = fields.count("hidden_size")
    heads = fields.count("num_attention_heads")
    modern = fields.flag("new_decoder_architecture", False)
    if modern:
        groups = fields.count("num_key_value_heads", heads)
    else:
        groups = 1 if fields.flag("multi_query", True) else heads
    parallel = modern or fields.flag("parallel_attn", True)
    norms = fields.count("num_ln_in_parallel_attn", 2 if modern else 1, maximum=2)
    bias = fields.flag("bias", False)
    one_norm = parallel and norms == 1
    attention = attention_shape(
        fields,
        input_bias=bias,
        output_bias=bias,
        fused_projection=True,
        rotary=not fields.flag("alibi", False),
    )
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        places=ONE_NORM if one_norm else NormPlaces(),
        parallel=one_norm,
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[
            feed_forward_shape(
                fields, width=_width(fields, 4 * hidden), gated=False, act="gelu", bias=bias
            )
        ],
    )


def bloom(fields: ConfigFields) -> TransformerShape:
    """BLOOM: ALiBi positions, a norm on the embedding, biases, tied head."""
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        embedding_norm=True,
        attention=[
            attention_shape(
                fields, input_bias=True, output_bias=True, fused_projection=True, rotary=False
            )
        ],
        feed_forward=[
            feed_forward_shape(fields, width=4 * hidden, gated=False, act="gelu", bias=True)
        ],
    )


def mpt(fields: ConfigFields) -> TransformerShape:
    """MPT: ALiBi positions, no biases, tied head."""
    hidden = fields.count("hidden_size")
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM_NO_BIAS,
        attention=[attention_shape(fields, fused_projection=True, rotary=False)],
        # The class reads no expansion_ratio.
        feed_forward=[feed_forward_shape(fields, width=4 * hidden, gated=False, act="gelu")],
    )


def starcoder2(fields: ConfigFields) -> TransformerShape:
    """StarCoder 2: biases, LayerNorm, plain GELU, a window on every layer."""
    bias = fields.flag("use_bias", True)
    windows = [fields.optional_count("sliding_window")] * layer_count(fields)
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        attention=[attention_shape(fields, windows=windows, input_bias=bias, output_bias=bias)],
        feed_forward=[feed_forward_shape(fields, gated=False, act="gelu_pytorch_tanh", bias=bias)],
    )
