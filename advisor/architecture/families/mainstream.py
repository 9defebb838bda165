"""Model families: how each one's configuration becomes a shape. Only here have they names.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0),
as their documentation states them.
"""

from __future__ import annotations

from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    LAYER_NORM_NO_BIAS,
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
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.shapes import NormPlaces, TransformerShape

GEMMA_HEAD_DIM = 256


def llama(fields: ConfigFields) -> TransformerShape:
    """Llama 1 to 3, Yi, DeepSeek LLM, SmolLM, Granite: pre-norm, gated, grouped queries."""
    bias = fields.flag("attention_bias", False)
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))],
    )


def smollm3(fields: ConfigFields) -> TransformerShape:
    """SmolLM3: Llama with a tied head; rotary embeddings on three layers of four."""
    bias = fields.flag("attention_bias", False)
    return decoder(
        fields,
        tied=True,
        attention=[attention_shape(fields, input_bias=bias, output_bias=bias)],
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias", False))],
    )


def mistral(fields: ConfigFields) -> TransformerShape:
    """Mistral and Ministral: Llama with an optional window on every layer."""
    window = fields.optional_count("sliding_window")
    windows = [window] * layer_count(fields)
    if fields.has("layer_types"):
        windows = typed_windows(fields, window=window, default=())
    return decoder(
        fields,
        attention=[attention_shape(fields, windows=windows, key_value_heads=None)],
    )


def qwen_windows(fields: ConfigFields) -> list[int | None]:
    """Windows from layer ``max_window_layers`` on, where they are used at all."""
    layers = layer_count(fields)
    if not fields.flag("use_sliding_window", False):
        return [None] * layers
    window = fields.optional_count("sliding_window")
    first = fields.count("max_window_layers", 28, minimum=0)
    default = ["full_attention" if i < first else "sliding_attention" for i in range(layers)]
    return typed_windows(fields, window=window, default=default)


def qwen1(fields: ConfigFields) -> TransformerShape:
    """Qwen 1: fused projection with biases; ``intermediate_size`` counts gate and up together."""
    width = fields.count("intermediate_size", minimum=2) // 2
    return decoder(
        fields,
        attention=[attention_shape(fields, input_bias=True, fused_projection=True)],
        feed_forward=[feed_forward_shape(fields, width=width)],
    )


def qwen2(fields: ConfigFields) -> TransformerShape:
    """Qwen 1.5, 2 and 2.5: Llama with biases on queries, keys and values."""
    windows = qwen_windows(fields)
    return decoder(
        fields,
        attention=[attention_shape(fields, windows=windows, input_bias=True)],
    )


def qwen3(fields: ConfigFields) -> TransformerShape:
    """Qwen 3: norms on queries and keys instead of biases."""
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields,
        head_dim=128,
        windows=qwen_windows(fields),
        input_bias=bias,
        output_bias=bias,
        query_key_norm="head",
    )
    return decoder(fields, attention=[attention])


def gemma(fields: ConfigFields) -> TransformerShape:
    """Gemma 1: wide heads, GELU gate, tied head."""
    bias = fields.flag("attention_bias", False)
    return decoder(
        fields,
        tied=True,
        norm=FP32_SCALED_NORM,
        attention=[
            attention_shape(fields, head_dim=GEMMA_HEAD_DIM, input_bias=bias, output_bias=bias)
        ],
        feed_forward=[feed_forward_shape(fields, act="gelu_pytorch_tanh")],
    )


def vaultgemma(fields: ConfigFields) -> TransformerShape:
    """VaultGemma: Gemma 2 with norms before the branches alone."""
    return gemma2(fields).model_copy(update={"places": NormPlaces()})


def gemma2(fields: ConfigFields) -> TransformerShape:
    """Gemma 2: four norms per block, windows on every other layer, capped scores."""
    bias = fields.flag("attention_bias", False)
    windows = typed_windows(
        fields,
        window=fields.count("sliding_window", 4096),
        default=every_nth_full(layer_count(fields), 2),
    )
    return decoder(
        fields,
        tied=True,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=[
            attention_shape(
                fields,
                head_dim=GEMMA_HEAD_DIM,
                windows=windows,
                input_bias=bias,
                output_bias=bias,
                softcap=True,
            )
        ],
        feed_forward=[feed_forward_shape(fields, act="gelu_pytorch_tanh")],
    )


def gemma3(fields: ConfigFields) -> TransformerShape:
    """Gemma 3: five windowed layers to one full, norms on queries and keys.

    Multimodal configurations state only what differs from the class's defaults.
    """
    bias = fields.flag("attention_bias", False)
    period = fields.count("sliding_window_pattern", 6)
    windows = typed_windows(
        fields,
        window=fields.count("sliding_window", 4096),
        default=every_nth_full(layer_count(fields), period),
    )
    return decoder(
        fields,
        tied=True,
        norm=FP32_SCALED_NORM,
        places=SANDWICH_NORMS,
        attention=[
            attention_shape(
                fields,
                heads=8,
                key_value_heads=4,
                head_dim=GEMMA_HEAD_DIM,
                windows=windows,
                input_bias=bias,
                output_bias=bias,
                query_key_norm="head",
            )
        ],
        feed_forward=[feed_forward_shape(fields, act="gelu_pytorch_tanh")],
        vocab_size=262_208,
    )


def phi3(fields: ConfigFields) -> TransformerShape:
    """Phi 3, 3.5 and 4: Llama with fused projections and an optional window."""
    windows = [fields.optional_count("sliding_window")] * layer_count(fields)
    return decoder(
        fields,
        attention=[attention_shape(fields, windows=windows, fused_projection=True)],
        feed_forward=[feed_forward_shape(fields, fused_gate=True)],
    )


def cohere(fields: ConfigFields) -> TransformerShape:
    """Command-R: parallel attention and feed-forward on one norm without bias, tied head."""
    bias = fields.flag("attention_bias", False)
    scaled = fields.flag("use_qk_norm", False)
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM_NO_BIAS,
        places=ONE_NORM,
        parallel=True,
        attention=[
            attention_shape(
                fields,
                input_bias=bias,
                output_bias=bias,
                query_key_norm="head" if scaled else "none",
                query_key_norm_per_head_scale=scaled,
            )
        ],
    )


def cohere2(fields: ConfigFields) -> TransformerShape:
    """Command-R7B and Command A: Command-R with three windowed layers to one full."""
    bias = fields.flag("attention_bias", False)
    layers = layer_count(fields)
    period = fields.count("sliding_window_pattern", 4)
    windows = typed_windows(
        fields,
        window=fields.count("sliding_window", 4096),
        default=every_nth_full(layers, period),
    )
    return decoder(
        fields,
        tied=True,
        norm=LAYER_NORM_NO_BIAS,
        places=ONE_NORM,
        parallel=True,
        attention=[attention_shape(fields, windows=windows, input_bias=bias, output_bias=bias)],
    )


def olmo2(fields: ConfigFields) -> TransformerShape:
    """OLMo 2 and 3: norms after each sublayer, and over whole queries and keys."""
    bias = fields.flag("attention_bias", False)
    window = fields.optional_count("sliding_window")
    layers = layer_count(fields)
    default = every_nth_full(layers, 4) if window else ["full_attention"] * layers
    return decoder(
        fields,
        places=POST_NORMS,
        attention=[
            attention_shape(
                fields,
                windows=typed_windows(fields, window=window, default=default),
                input_bias=bias,
                output_bias=bias,
                query_key_norm="width",
            )
        ],
    )


def glm4(fields: ConfigFields) -> TransformerShape:
    """GLM-4 0414: four norms per block, biases on queries, keys and values, fused gate."""
    return decoder(
        fields,
        places=SANDWICH_NORMS,
        attention=[attention_shape(fields, input_bias=fields.flag("attention_bias", False))],
        feed_forward=[feed_forward_shape(fields, fused_gate=True)],
    )
