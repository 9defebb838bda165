"""Dense decoders near to Llama: OLMo 1, GLM, StableLM, Nemotron, EXAONE 4 and their like.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    LAYER_NORM,
    ONE_NORM,
    POST_NORMS,
    SANDWICH_NORMS,
    attention_shape,
    decoder,
    every_nth_full,
    feed_forward_shape,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import DEFAULT_LIMIT, LIMITS, ConfigFields
from advisor.architecture.families.recent import layer_inputs
from advisor.architecture.mixers.shapes import (
    AlternatingUpdates,
    FeedForwardShape,
    Norm,
    NormKind,
    NormPlaces,
    TransformerShape,
)

HEADS: Final = LIMITS["num_attention_heads"]


def olmo(fields: ConfigFields) -> TransformerShape:
    """OLMo 1: Llama whose norms have no parameters."""
    bias = fields.flag("attention_bias", False)
    return decoder(
        fields,
        norm=Norm(kind=NormKind.LAYER, scale=False),
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
    )


def glm(fields: ConfigFields) -> TransformerShape:
    """GLM-4 of 2024: biases on queries, keys and values, fused gate."""
    bias = fields.flag("attention_bias", False)
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias)],
        feed_forward=[feed_forward_shape(fields, fused_gate=True)],
    )


def chatglm(fields: ConfigFields) -> TransformerShape:
    """ChatGLM 2 and 3 and GLM-4 as first published: fused projections, few key-value heads."""
    heads = fields.count("num_attention_heads")
    groups = heads
    if fields.flag("multi_query_attention", False):
        groups = fields.count("multi_query_group_num", 1, maximum=heads)
    bias = fields.flag("add_bias_linear", False)
    attention = attention_shape(
        fields,
        head_dim=fields.count("kv_channels", 128, maximum=LIMITS["head_dim"]),
        input_bias=bias or fields.flag("add_qkv_bias", False),
        output_bias=bias,
        fused_projection=True,
    )
    return decoder(
        fields,
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[feed_forward_shape(fields, fused_gate=True, bias=bias)],
    )


def stablelm(fields: ConfigFields) -> TransformerShape:
    """StableLM: Llama with LayerNorm, some with one norm per block and norms of each head."""
    parallel = fields.flag("use_parallel_residual", False)
    scaled = fields.flag("qk_layernorm", False)
    attention = attention_shape(
        fields,
        input_bias=fields.flag("use_qkv_bias", False),
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


def nemotron(fields: ConfigFields) -> TransformerShape:
    """Nemotron 4 and Minitron: LayerNorm and squared ReLU without a gate."""
    bias = fields.flag("attention_bias", False)
    wide = feed_forward_shape(fields, gated=False, act="relu2", bias=fields.flag("mlp_bias", False))
    return decoder(
        fields,
        norm=LAYER_NORM,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[wide],
    )


def arcee(fields: ConfigFields) -> TransformerShape:
    """Arcee AFM: Llama with squared ReLU without a gate."""
    bias = fields.flag("attention_bias", False)
    wide = feed_forward_shape(fields, gated=False, act="relu2", bias=fields.flag("mlp_bias", False))
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[wide],
    )


def apertus(fields: ConfigFields) -> TransformerShape:
    """Apertus: Llama with norms on queries and keys, xIELU without a gate."""
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(fields, input_bias=bias, output_bias=bias, query_key_norm="head")
    wide = feed_forward_shape(fields, gated=False, act="xielu")
    return decoder(fields, attention=[attention], feed_forward=[wide])


def helium(fields: ConfigFields) -> TransformerShape:
    """Helium: Llama whose attention has biases on the way in alone."""
    attention = attention_shape(fields, input_bias=fields.flag("attention_bias", False))
    wide = feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))
    return decoder(fields, attention=[attention], feed_forward=[wide])


def seed_oss(fields: ConfigFields) -> TransformerShape:
    """Seed-OSS: Llama with biases on queries, keys and values."""
    attention = attention_shape(
        fields,
        input_bias=fields.flag("attention_bias", True),
        output_bias=fields.flag("attention_out_bias", False),
    )
    return decoder(
        fields,
        attention=[attention],
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))],
    )


def ernie4_5(fields: ConfigFields) -> TransformerShape:
    """ERNIE 4.5, dense: Llama, optionally with biases everywhere."""
    bias = fields.flag("use_bias", False)
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[feed_forward_shape(fields, bias=bias)],
    )


def exaone_windows(fields: ConfigFields) -> list[int | None]:
    """Windows of EXAONE 4: a pattern as a number, or as a letter for each layer of a period."""
    layers = layer_count(fields)
    window = fields.optional_count("sliding_window")
    name = "sliding_window_pattern"
    period = len(fields.text(name, "")) if fields.is_text(name) else fields.count(name, 4)
    kinds = every_nth_full(layers, max(period, 1)) if window else [FULL] * layers
    return typed_windows(fields, window=window, default=kinds)


def exaone4(fields: ConfigFields) -> TransformerShape:
    """EXAONE 4: norms after each sublayer, norms on queries and keys, three windows to one full."""
    attention = attention_shape(fields, windows=exaone_windows(fields), query_key_norm="head")
    return decoder(fields, places=POST_NORMS, attention=[attention])


def gpt_bigcode(fields: ConfigFields) -> TransformerShape:
    """StarCoder 1 and SantaCoder: GPT-2 with one key-value head."""
    hidden = fields.count("hidden_size")
    attention = attention_shape(
        fields, input_bias=True, output_bias=True, fused_projection=True, rotary=False
    )
    groups = 1 if fields.flag("multi_query", True) else attention.heads
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        dropout=fields.share("resid_pdrop", 0.1) > 0,
        positions=fields.count("max_position_embeddings", 1024),
        attention=[attention.model_copy(update={"key_value_heads": groups})],
        feed_forward=[
            feed_forward_shape(
                fields,
                width=fields.count("intermediate_size", 4 * hidden),
                gated=False,
                act="gelu_pytorch_tanh",
                bias=True,
            )
        ],
    )


def gpt_neo(fields: ConfigFields) -> TransformerShape:
    """GPT-Neo: learned positions, a window on every other layer, biases but for the projections."""
    hidden, layers = fields.count("hidden_size"), layer_count(fields)
    window = fields.count("window_size", 256)
    windows = [window if i % 2 else None for i in range(layers)]
    attention = attention_shape(
        fields,
        heads=fields.count("num_heads", 16, maximum=HEADS),
        windows=windows,
        output_bias=True,
        rotary=False,
    )
    wide = feed_forward_shape(
        fields,
        width=fields.count("intermediate_size", 4 * hidden),
        gated=False,
        act="gelu_new",
        bias=True,
    )
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM,
        positions=fields.count("max_position_embeddings", 2048),
        attention=[attention],
        feed_forward=[wide],
    )


IMAGE_ROWS: Final = 8
"""Rows for image tokens that Llama 3.2 Vision has behind its vocabulary."""


def mllama(fields: ConfigFields) -> TransformerShape:
    """Llama 3.2 Vision: Llama 3.1 with layers between that attend to the image.

    Text alone passes them by: they are counted with their parameters and one key.
    """
    layers = layer_count(fields)
    listed = fields.counts("cross_attention_layers", maximum=layers - 1)
    # The class's default list belongs to its 40 layers.
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


def gemma3n(fields: ConfigFields) -> TransformerShape:
    """Gemma 3n: alternating updates, per-layer embeddings, shared caches on the last layers."""
    layers = layer_count(fields)
    bias = fields.flag("attention_bias", False)
    windows = typed_windows(
        fields, window=fields.count("sliding_window", 512), default=every_nth_full(layers, 5)
    )
    shared = fields.count("num_kv_shared_layers", 15, minimum=0, maximum=layers - 1)
    parts = []
    for owned, part in ((True, windows[: layers - shared]), (False, windows[layers - shared :])):
        if part:
            shape = attention_shape(
                fields,
                windows=part,
                input_bias=bias,
                output_bias=bias,
                query_key_norm="head",
            )
            parts.append(shape.model_copy(update={"own_key_value": owned}))
    widths: tuple[int, ...] = ()
    if fields.length("intermediate_size") is not None:
        widths = fields.counts("intermediate_size", maximum=DEFAULT_LIMIT)
    return decoder(
        fields,
        tied=True,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=parts,
        feed_forward=_layered_widths(fields, widths),
        layer_inputs=layer_inputs(fields),
        alternating=AlternatingUpdates(
            streams=fields.count("altup_num_inputs", 4, minimum=2, maximum=64),
            low_rank=fields.count("laurel_rank", 64),
        ),
    )


def _layered_widths(fields: ConfigFields, widths: tuple[int, ...]) -> list[FeedForwardShape]:
    """Feed-forward layers whose width may be listed by layer."""
    act = "gelu_pytorch_tanh"
    if not widths:
        return [feed_forward_shape(fields, act=act)]
    if len(widths) != layer_count(fields) or 0 in widths:
        fields.fail(
            "config field intermediate_size does not fit the layers",
            "intermediate_size",
            f"{len(widths)} values",
            f"one width, or a list of {layer_count(fields)}",
        )
    return [
        feed_forward_shape(fields, layers=widths.count(width), width=width, act=act)
        for width in sorted(set(widths))
    ]
