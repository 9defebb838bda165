"""Decoders as records: the settings of a row of ``data/model_families.yaml``, and their shape.

A value is a constant or the name of a configuration field. A family that needs more has a reader
in Python, which its row names.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

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
    feed_forward_shape,
    latent_attention,
    layer_count,
    typed_windows,
)
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.expert_layers import (
    FeedForwards,
    after_dense,
    by_step,
    everywhere,
)
from advisor.architecture.mixers.shapes import (
    AttentionShape,
    Norm,
    NormKind,
    NormPlaces,
    TransformerShape,
)
from advisor.foundation.noun import Noun

Flag = bool | str
"""A truth value, or the name of the field that holds it."""

NORMS: Final = {
    "rms": Norm(),
    "rms_fp32_scale": FP32_SCALED_NORM,
    "layer": LAYER_NORM,
    "layer_without_bias": LAYER_NORM_NO_BIAS,
    "layer_without_scale": Norm(kind=NormKind.LAYER, scale=False),
}

PLACES: Final = {
    "before": NormPlaces(),
    "parallel": ONE_NORM,
    "after": POST_NORMS,
    "around": SANDWICH_NORMS,
}


class WindowSettings(Noun):
    """Which layers attend only to ``sliding_window`` keys: all, except as these settings state."""

    listed: bool = True
    """Whether ``layer_types`` decides if the file has it."""
    full_every: Annotated[int, Field(ge=1)] | None = None
    """Every n-th layer attends to all keys."""
    full_every_field: str | None = None
    """Field that holds n, or a text with one letter for each layer of a period (EXAONE)."""
    first_field: str | None = None
    """Field with the first layer that has a window. Without this field, no layer has one."""
    used: Flag = True
    """False if no layer has a window, independent of the other fields."""


class AttentionSettings(Noun):
    """Settings of attention layers beyond heads and their sizes."""

    bias: Flag = False
    """Whether all projections have biases."""
    input_bias: Flag = False
    """Whether the projections of queries, keys and values have biases."""
    output_bias: Flag = False
    query_key_norm: Literal["none", "head", "width"] = "none"
    query_key_normed: Flag = True
    """Whether queries and keys pass norms."""
    fused_projection: bool = False
    softcap: bool = False
    latent: bool = False
    """Whether queries, keys and values are compressed (DeepSeek V2)."""
    windows: WindowSettings | None = None


class FeedForwardSettings(Noun):
    """Settings of dense feed-forward layers."""

    gated: bool = True
    bias: Flag = False
    fused_gate: bool = False


class ExpertSettings(Noun):
    """Routed experts; ``width`` and ``shared_width`` name fields."""

    placed: Literal["everywhere", "by_step", "after_dense"]
    """A function of :mod:`advisor.architecture.families.expert_layers`."""
    width: str = "moe_intermediate_size"
    shared_width: str | None = None


class DecoderSettings(Noun):
    """A decoder that differs from Llama only in settings."""

    norm: Literal["rms", "rms_fp32_scale", "layer", "layer_without_bias", "layer_without_scale"] = (
        "rms"
    )
    norm_places: Literal["before", "parallel", "after", "around"] = "before"
    """``parallel``: attention and feed-forward read the same norm, and their outputs are added."""
    head_bias: Flag = False
    attention: AttentionSettings = AttentionSettings()
    feed_forward: FeedForwardSettings = FeedForwardSettings()
    experts: ExpertSettings | None = None


def decoder_of(settings: DecoderSettings, fields: ConfigFields) -> TransformerShape:
    """Return the shape of a configuration whose family is a record.

    Raises
    ------
    InputError
        If a field is missing or unusable.
    """
    return decoder(
        fields,
        norm=NORMS[settings.norm],
        places=PLACES[settings.norm_places],
        parallel=settings.norm_places == "parallel",
        head_bias=_flag(fields, settings.head_bias),
        attention=[_attention(fields, settings.attention)],
        feed_forward=_feed_forward(fields, settings),
    )


def _flag(fields: ConfigFields, flag: Flag) -> bool:
    return fields.flag(flag) if isinstance(flag, str) else flag


def _attention(fields: ConfigFields, settings: AttentionSettings) -> AttentionShape:
    if settings.latent:
        return latent_attention(fields, query_rank=fields.optional_count("q_lora_rank"))
    bias = _flag(fields, settings.bias)
    normed = _flag(fields, settings.query_key_normed)
    return attention_shape(
        fields,
        windows=windows_of(fields, settings.windows) if settings.windows else None,
        input_bias=bias or _flag(fields, settings.input_bias),
        output_bias=bias or _flag(fields, settings.output_bias),
        query_key_norm=settings.query_key_norm if normed else "none",
        fused_projection=settings.fused_projection,
        softcap=settings.softcap,
    )


def windows_of(fields: ConfigFields, settings: WindowSettings) -> list[int | None]:
    """Return the window of each layer; None for layers that attend to all keys."""
    layers = layer_count(fields)
    if not _flag(fields, settings.used):
        return [None] * layers
    window = fields.optional_count("sliding_window")
    kinds = [SLIDING] * layers
    if settings.full_every:
        kinds = every_nth_full(
            layers, _period(fields, settings.full_every, settings.full_every_field)
        )
    if settings.first_field:
        first = fields.count(settings.first_field, layers, minimum=0)
        kinds = [FULL if index < first else SLIDING for index in range(layers)]
    if not settings.listed:
        return [window] * layers
    return typed_windows(fields, window=window, default=kinds)


def _period(fields: ConfigFields, period: int, field: str | None) -> int:
    if field is None:
        return period
    if fields.is_text(field):
        return max(len(fields.text(field, "")), 1)
    return fields.count(field, period)


def _feed_forward(fields: ConfigFields, settings: DecoderSettings) -> FeedForwards:
    dense, experts = settings.feed_forward, settings.experts
    bias = _flag(fields, dense.bias)
    if experts is None:
        fused = dense.fused_gate
        return (feed_forward_shape(fields, gated=dense.gated, bias=bias, fused_gate=fused),)
    if experts.placed == "everywhere":
        return everywhere(fields, width=experts.width, shared_width=experts.shared_width)
    if experts.placed == "by_step":
        return by_step(fields, shared_width=experts.shared_width)
    return after_dense(fields, width=experts.width, bias=bias)
