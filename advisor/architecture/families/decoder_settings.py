"""Decoders as records: the settings of a row of ``data/model_families.yaml``, and their shape.

A value is a constant or the name of a configuration field; the head of the file explains each. A
family that needs more has a reader in Python, which its row names.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, SLIDING, FeedForwards, layer_count
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.attention import AttentionShape, AttentionTraits
from advisor.architecture.mixers.feed_forward import FeedForwardShape
from advisor.architecture.mixers.transformer import NormPlaces, TransformerShape
from advisor.architecture.table.rows import Norm, NormKind
from advisor.foundation.noun import Noun

Flag = bool | str
"""A truth value, or the name of the field that holds it."""

NORMS: Final = {
    "rms": Norm(),
    "rms_fp32_scale": parts.FP32_SCALED_NORM,
    "rms_without_scale": Norm(scale=False),
    "layer": parts.LAYER_NORM,
    "layer_without_bias": parts.LAYER_NORM_NO_BIAS,
    "layer_without_scale": Norm(kind=NormKind.LAYER, scale=False),
}

PLACES: Final = {"before": NormPlaces(), "after": parts.POST_NORMS, "around": parts.SANDWICH_NORMS}


class WindowSettings(Noun):
    """Which layers attend only to a window of keys: all, except as these settings state."""

    field: str = "sliding_window"
    nullable: bool = True
    listed: bool = True
    full_every: Annotated[int, Field(ge=1)] | None = None
    full_every_field: str | None = None
    full_at: int = -1
    also_full: tuple[int, ...] = ()
    first_field: str | None = None
    used: Flag = True


class AttentionSettings(AttentionTraits):
    """Settings of attention layers beyond heads and their sizes."""

    heads: str | None = None
    head_dim: str | None = None
    multi_query: str | None = None
    multi_query_heads: Annotated[int, Field(ge=1)] | str = 1
    bias: Flag = False
    input_bias: Flag = False
    output_bias: Flag = False
    query_key_normed: Flag = True
    dropout: str | None = None
    latent: bool = False
    values_share_hidden: bool = False
    indexed: bool = False
    windows: WindowSettings | None = None


class FeedForwardSettings(Noun):
    """Settings of dense feed-forward layers."""

    gated: bool = True
    bias: Flag = False
    fused_gate: bool = False
    inner_norm: bool = False
    activation: str = "silu"
    times_hidden: Annotated[int, Field(ge=1)] | None = None
    ignores_width: bool = False
    width_divisor: Annotated[int, Field(ge=1)] = 1


class ExpertSettings(Noun):
    """Routed experts; ``width`` and ``shared_width`` name fields."""

    placed: Literal["everywhere", "by_step", "after_dense"]
    width: str = "moe_intermediate_size"
    shared_width: str | None = None
    bias: bool = False
    router_bias: bool = False
    clamped: bool = False
    shared_gate: bool = False
    output_norm: bool = False


class DecoderSettings(Noun):
    """A decoder that differs from Llama only in settings."""

    norm: Literal[
        "rms",
        "rms_fp32_scale",
        "rms_without_scale",
        "layer",
        "layer_without_bias",
        "layer_without_scale",
    ] = "rms"
    norm_places: Literal["before", "after", "around"] = "before"
    output_norms: Flag = False
    parallel: Flag = False
    head_bias: Flag = False
    head_rows: str | None = None
    dropout: str | None = None
    learned_positions: bool = False
    embedding_norm: bool = False
    embedding_norm_scaled: bool = True
    decoder_only: bool = False
    attention: AttentionSettings = AttentionSettings()
    feed_forward: FeedForwardSettings = FeedForwardSettings()
    experts: ExpertSettings | None = None


def decoder_of(settings: DecoderSettings, fields: ConfigFields) -> TransformerShape:
    """Return the shape of a configuration whose family is a record.

    Raises InputError if a field is missing or unusable.
    """
    if settings.decoder_only:
        parts.refuse_cross_attention(fields)
    parallel = _flag(fields, settings.parallel)
    places = "around" if _flag(fields, settings.output_norms) else settings.norm_places
    rows = fields.count("vocab_size")
    predicted = fields.count(settings.head_rows, rows, maximum=rows) if settings.head_rows else rows
    return parts.decoder(
        fields,
        vocab_size=predicted,
        extra_embeddings=rows - predicted,
        norm=NORMS[settings.norm],
        places=parts.ONE_NORM if parallel else PLACES[places],
        parallel=parallel,
        head_bias=_flag(fields, settings.head_bias),
        dropout=_drops(fields, settings.dropout),
        positions=fields.count("max_position_embeddings") if settings.learned_positions else 0,
        embedding_norm=settings.embedding_norm,
        embedding_norm_scaled=settings.embedding_norm_scaled,
        attention=[_attention(fields, settings.attention)],
        feed_forward=_feed_forward(fields, settings.feed_forward, settings.experts),
    )


def _flag(fields: ConfigFields, flag: Flag) -> bool:
    return fields.flag(flag) if isinstance(flag, str) else flag


def _drops(fields: ConfigFields, field: str | None) -> bool:
    return field is not None and fields.share(field) > 0


def _attention(fields: ConfigFields, settings: AttentionSettings) -> AttentionShape:
    if settings.latent:
        heads = fields.count("num_attention_heads")
        per_head = max(fields.count("hidden_size") // heads, 1)
        every = range(layer_count(fields))
        return parts.latent_attention(
            fields,
            query_rank=fields.optional_count("q_lora_rank"),
            indexer=parts.picking_indexer(fields, every) if settings.indexed else None,
            value_dim=per_head if settings.values_share_hidden else None,
        )
    bias = _flag(fields, settings.bias)
    traits = {name: getattr(settings, name) for name in AttentionTraits.model_fields}
    if not _flag(fields, settings.query_key_normed):
        traits |= {"query_key_norm": "none", "query_key_norm_per_head_scale": False}
    shape = parts.attention_shape(
        fields,
        heads=fields.count(settings.heads) if settings.heads else None,
        head_dim=fields.count(settings.head_dim) if settings.head_dim else None,
        windows=windows_of(fields, settings.windows) if settings.windows else None,
        input_bias=bias or _flag(fields, settings.input_bias),
        output_bias=bias or _flag(fields, settings.output_bias),
        dropout=_drops(fields, settings.dropout),
        **traits,
    )
    if settings.multi_query is None:
        return shape
    groups, shared = shape.heads, settings.multi_query_heads
    if fields.flag(settings.multi_query):
        groups = fields.count(shared, maximum=groups) if isinstance(shared, str) else shared
    return shape.changed(key_value_heads=groups)


def windows_of(fields: ConfigFields, settings: WindowSettings) -> list[int | None]:
    """Return the window of each layer; None for layers that attend to all keys."""
    layers = layer_count(fields)
    if not _flag(fields, settings.used):
        return [None] * layers
    read = fields.optional_count if settings.nullable else fields.count
    window = read(settings.field)
    kinds = [SLIDING] * layers
    if settings.full_every:
        period = _period(fields, settings.full_every, settings.full_every_field)
        full = {index % layers for index in settings.also_full}
        full |= set(range(settings.full_at % period, layers, period))
        kinds = [FULL if index in full else SLIDING for index in range(layers)]
    if settings.first_field:
        first = fields.count(settings.first_field, layers, minimum=0)
        kinds = [FULL if index < first else SLIDING for index in range(layers)]
    if not settings.listed:
        return [window if kind == SLIDING else None for kind in kinds]
    return parts.typed_windows(fields, window=window, default=kinds)


def _period(fields: ConfigFields, period: int, field: str | None) -> int:
    if field is None:
        return period
    if fields.is_text(field):
        return max(len(fields.text(field, "")), 1)
    return fields.count(field, period)


def _feed_forward(
    fields: ConfigFields, dense: FeedForwardSettings, experts: ExpertSettings | None
) -> FeedForwards:
    bias = _flag(fields, dense.bias)
    if experts is None:
        return (_dense(fields, dense, bias=bias),)
    names = ("router_bias", "clamped", "shared_gate", "output_norm")
    traits = {name: getattr(experts, name) for name in names}
    if experts.placed == "by_step":
        return by_step(fields, shared_width=experts.shared_width, **traits)
    if experts.placed == "after_dense":
        shared = experts.shared_width or 0
        return after_dense(fields, width=experts.width, bias=bias, shared_width=shared, **traits)
    layers, wide = layer_count(fields), fields.count(experts.width)
    shared = fields.count(experts.shared_width, 0, minimum=0) if experts.shared_width else 0
    routed = parts.experts_shape(
        fields,
        layers=layers,
        width=wide,
        shared_width=shared,
        act=dense.activation,
        bias=experts.bias,
        **traits,
    )
    return (routed,)


def _dense(fields: ConfigFields, settings: FeedForwardSettings, *, bias: bool) -> FeedForwardShape:
    width, times = None, settings.times_hidden
    if settings.ignores_width and times:
        width = times * fields.count("hidden_size")
    elif settings.width_divisor > 1:
        divisor = settings.width_divisor
        width = fields.count("intermediate_size", minimum=divisor) // divisor
    return parts.feed_forward_shape(
        fields,
        width=width,
        times_hidden=times,
        act=settings.activation,
        gated=settings.gated,
        bias=bias,
        fused_gate=settings.fused_gate,
        inner_norm=settings.inner_norm,
    )


def by_step(fields: ConfigFields, *, shared_width: str | None, **traits: Any) -> FeedForwards:
    """Return experts on every ``decoder_sparse_step``-th layer, except those listed as dense.

    ``shared_width`` names the field with the width of an expert that every token visits. ``traits``
    are settings of :func:`experts_shape`.
    """
    layers = layer_count(fields)
    step = fields.count("decoder_sparse_step", 1)
    listed = set(fields.counts("mlp_only_layers", maximum=layers - 1))
    routed = sum(1 for i in range(layers) if i not in listed and (i + 1) % step == 0)
    return parts.mixed_layers(fields, routed=routed, shared_width=shared_width or 0, **traits)


def after_dense(
    fields: ConfigFields,
    *,
    width: str = "moe_intermediate_size",
    bias: bool = False,
    **traits: Any,
) -> FeedForwards:
    """Return dense layers first, then experts on every ``moe_layer_freq``-th layer.

    ``width`` names the field with an expert's width. ``bias`` applies to dense and shared layers,
    ``traits`` are further settings of :func:`mixed_layers`.
    """
    layers = layer_count(fields)
    dense = min(fields.count("first_k_dense_replace", 0, minimum=0), layers)
    period = fields.count("moe_layer_freq", 1)
    routed = sum(1 for i in range(dense, layers) if i % period == 0)
    shared = fields.count("n_shared_experts", 0, minimum=0)
    return parts.mixed_layers(
        fields,
        routed=parts.sparse_layers(fields, routed),
        width=width,
        shared_experts=shared,
        bias=bias,
        shared_bias=bias,
        **traits,
    )
