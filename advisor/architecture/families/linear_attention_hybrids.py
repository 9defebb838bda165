"""Decoders that mix attention with linear attention or short convolutions: Qwen3-Next, LFM 2."""

from collections.abc import Sequence
from itertools import count
from math import isqrt
from typing import Any, Final

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, LINEAR, SLIDING, FeedForwards, layer_count
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.decoder_settings import after_dense, by_step
from advisor.architecture.families.state_space_hybrids import layer_kinds, state_bytes
from advisor.architecture.mixers.attention import AttentionShape, Indexer
from advisor.architecture.mixers.recurrences import GatedDelta, LightningAttention, ShortConvolution
from advisor.architecture.mixers.streams import GatedStreams, WordSequences
from advisor.architecture.mixers.transformer import NormPlaces, TransformerShape

INDEXED: Final = "indexed_attention"
SHARED: Final = "shared_expert_intermediate_size"
MOST_TABLES: Final = 512
"""Tables of word sequences that are counted: each needs a search for a prime number."""


def _gated_delta(
    fields: ConfigFields,
    layers: int,
    *,
    heads: tuple[int | None, int | None] = (None, None),
    dims: tuple[int | None, int | None] = (None, None),
) -> GatedDelta:
    """Return the layers. ``heads`` and ``dims`` apply if neither file nor class states them."""
    key_heads = fields.count("linear_num_key_heads", heads[0])
    value_heads = fields.count("linear_num_value_heads", heads[1])
    fields.must_divide("linear_num_key_heads", key_heads, value_heads, "linear_num_value_heads")
    return GatedDelta(
        layers=layers,
        key_heads=key_heads,
        value_heads=value_heads,
        key_head_dim=fields.count("linear_key_head_dim", dims[0]),
        value_head_dim=fields.count("linear_value_head_dim", dims[1]),
        kernel=fields.count("linear_conv_kernel_dim"),
        state_bytes_per_element=state_bytes(fields, "mamba_ssm_dtype", "auto"),
    )


def gated_hybrid(fields: ConfigFields, *, routed: bool) -> TransformerShape:
    """Qwen3-Next to 3.6: gated delta layers, with gated attention on every fourth layer."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR)) or tuple(
        parts.every_nth_full(layers, fields.count("full_attention_interval", 4), other=LINEAR)
    )
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        attention=[_gated_attention(fields, layers=types.count(FULL))],
        other_mixers=[_gated_delta(fields, types.count(LINEAR))],
        feed_forward=by_step(fields, shared_width=SHARED, shared_gate=True) if routed else None,
    )


def _gated_attention(fields: ConfigFields, **settings: Any) -> AttentionShape:
    return parts.attention_shape(
        fields,
        bias=fields.flag("attention_bias"),
        query_key_norm="head",
        output_gate="element",
        **settings,
    )


def qwen4(fields: ConfigFields) -> TransformerShape:
    """Qwen 4: as Qwen3-Next with gated streams; attention picks keys by the means of blocks."""
    layers, streams = layer_count(fields), fields.count("hc_count", minimum=2)
    kinds = (FULL, INDEXED, LINEAR)
    types = fields.texts("layer_types", length=layers, allowed=kinds) or tuple(
        parts.every_nth_full(layers, fields.count("full_attention_interval", 4), other=LINEAR)
    )
    full = layers - types.count(LINEAR)
    indexer = None
    if full and fields.has("indexer_n_heads"):
        indexer = Indexer(
            layers=full,
            heads=fields.count("indexer_n_heads"),
            head_dim=fields.count("indexer_head_dim"),
            top_k=fields.count("indexer_budget"),
            weighted=False,
            averaged=fields.count("indexer_compress_ratio"),
        )
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        places=NormPlaces(attention_input=False, feed_forward_input=False),
        final_norm=False,
        gated_streams=GatedStreams(streams=streams, rank=fields.count("hc_lowrank")),
        word_sequences=_word_sequences(fields, streams),
        attention=[_gated_attention(fields, layers=full, indexer=indexer)],
        other_mixers=[_gated_delta(fields, types.count(LINEAR))],
        feed_forward=parts.mixed_layers(
            fields, routed=layers, shared_width=SHARED, shared_gate=True
        ),
    )


def _word_sequences(fields: ConfigFields, streams: int) -> WordSequences | None:
    """Return the tables of word sequences: each head has the next prime number of rows."""
    listed = set(fields.counts("ple_layer_ids", maximum=layer_count(fields)))
    if not listed:
        return None
    heads = (fields.count("ngram_size", minimum=2, maximum=16) - 1) * fields.count(
        "heads_per_ngram", maximum=64
    )
    if len(listed) * heads > MOST_TABLES:
        wanted = f"at most {MOST_TABLES} tables"
        fields.refuse("ple_layer_ids", "asks for too many tables", len(listed) * heads, wanted)
    step = fields.count("make_ngram_vocab_size_divisible_by")
    size, rows = fields.count("ngram_vocab_size_base", minimum=2) - 1, 0
    for _ in listed:
        table = 0
        for _ in range(heads):
            size = _next_prime(size)
            table += size
        rows += -(-table // step) * step
    return WordSequences(
        layers=len(listed),
        rows_of_tables=rows,
        heads=heads,
        width=fields.count("ple_embed_dim", fields.count("hidden_size"), minimum=heads),
        kernel=fields.count("ple_conv_kernel_size"),
        streams=streams,
    )


def _next_prime(after: int) -> int:
    """Return the smallest prime number above another number."""
    return next(
        number
        for number in count(after + 1)
        if number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
    )


def olmo_hybrid(fields: ConfigFields) -> TransformerShape:
    """OLMo Hybrid: OLMo 3 with gated delta layers, and full attention on every fourth layer."""
    layers, hidden = layer_count(fields), fields.count("hidden_size")
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR))
    if types is None:
        # With fewer than four layers, the last one has attention.
        last = layers - 1 if layers < 4 else layers
        types = tuple(LINEAR if (i + 1) % 4 and i != last else FULL for i in range(layers))
    heads = fields.count("num_attention_heads")
    keys = fields.count("linear_num_key_heads", heads)
    dim = fields.count("linear_key_head_dim", max(3 * hidden // (4 * keys), 1))
    attention = parts.attention_shape(
        fields, layers=types.count(FULL), bias=fields.flag("attention_bias"), query_key_norm="width"
    )
    recurrent = _gated_delta(fields, types.count(LINEAR), heads=(keys, heads), dims=(dim, 2 * dim))
    return parts.decoder(
        fields, places=parts.POST_NORMS, attention=[attention], other_mixers=[recurrent]
    )


def minimax(fields: ConfigFields) -> TransformerShape:
    """MiniMax-01 and M1: lightning attention, some full attention, experts on every layer."""
    layers = layer_count(fields)
    listed = fields.counts("attn_type_list", maximum=1)
    default = [FULL if (i + 1) % 2 else LINEAR for i in range(layers)]
    if len(listed) == layers:
        default = [FULL if flag else LINEAR for flag in listed]
    full = layer_kinds(fields, default).count(FULL)
    attention = parts.attention_shape(fields, layers=full)
    lightning = LightningAttention(
        layers=layers - full,
        heads=attention.heads,
        head_dim=attention.head_dim,
        chunk=fields.count("block_size"),
    )
    return parts.decoder(
        fields,
        attention=[attention],
        other_mixers=[lightning],
        feed_forward=parts.mixed_layers(fields, routed=layers, width="intermediate_size"),
    )


def _channelwise_delta(
    fields: ConfigFields,
    nested: ConfigFields,
    layers: int,
    *,
    full_rank_gate: bool,
    full_rank_decay: bool = False,
) -> GatedDelta:
    """Return delta-rule layers with a decay for each channel (Kimi Linear, GLM-5.3 Flash)."""
    heads = nested.count("num_heads", fields.count("linear_num_heads"))
    dim = nested.optional_count("head_dim") or fields.count("linear_head_dim")
    return GatedDelta(
        layers=layers,
        key_heads=heads,
        value_heads=heads,
        key_head_dim=dim,
        value_head_dim=dim,
        kernel=nested.count("short_conv_kernel_size", fields.count("linear_conv_kernel_dim")),
        decay_rank=None if full_rank_decay else dim,
        channelwise=True,
        gate_rank=None if full_rank_gate else dim,
        # Serving engines keep these states in fp32 (vLLM, kda_state_dtype).
        state_bytes_per_element=4.0,
    )


def kimi_linear(fields: ConfigFields) -> TransformerShape:
    """Kimi Linear: three delta-rule layers with a decay per channel for each latent attention."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    listed = nested.counts("full_attn_layers", maximum=layers)
    default = [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    if listed:
        default = [FULL if i + 1 in listed else LINEAR for i in range(layers)]
    full = layer_kinds(fields, default).count(FULL)
    full_rank = nested.flag("use_full_rank_gate")
    gate = "element" if fields.flag("mla_use_output_gate") else "none"
    return parts.decoder(
        fields,
        attention=_latent(fields, full, rotary=False, output_gate=gate),
        other_mixers=[_channelwise_delta(fields, nested, layers - full, full_rank_gate=full_rank)],
        # Kimi K3 runs its experts in a narrower space.
        feed_forward=after_dense(
            fields, latent_size=fields.optional_count("routed_expert_hidden_size")
        ),
        # The class has two matrices and ignores tie_word_embeddings.
        tied=False,
    )


def _latent(fields: ConfigFields, layers: int, **traits: object) -> list[AttentionShape]:
    """Return the layers of latent attention, if there are some."""
    rank = fields.optional_count("q_lora_rank")
    shape = parts.latent_attention(fields, layers=max(layers, 1), query_rank=rank)
    return [shape.changed(**traits)] if layers else []


def bailing(fields: ConfigFields) -> TransformerShape:
    """Ling 3: delta-rule layers with a decay per channel; the last of each group attends."""
    if fields.has("group_norm_size"):
        what = "belongs to Ling 2.5, whose lightning attention is not supported"
        fields.refuse("group_norm_size", what, fields.count("group_norm_size"), "Ling 3")
    layers = layer_count(fields)
    default = parts.every_nth_full(layers, fields.count("layer_group_size"), other=LINEAR)
    full = layer_kinds(fields, default).count(FULL)
    head_dim = fields.count("linear_head_dim", fields.count("head_dim"))
    delta = _channelwise_delta(
        fields,
        ConfigFields({"head_dim": head_dim}),
        layers - full,
        full_rank_gate=True,
        full_rank_decay=True,
    )
    return parts.decoder(
        fields,
        attention=_latent(fields, full, output_gate="head"),
        other_mixers=[delta],
        feed_forward=after_dense(fields),
    )


def lara_mini(fields: ConfigFields) -> TransformerShape:
    """Lara Mini: gated delta layers between layers with a window and few with full attention."""
    layers = layer_count(fields)
    pattern = (LINEAR, SLIDING, LINEAR, FULL, SLIDING)
    types = fields.texts("layer_types", length=layers, allowed=set(pattern)) or tuple(
        pattern[index % len(pattern)] for index in range(layers)
    )
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        attention=[_windowed(fields, types, bias=fields.flag("attention_bias"))],
        other_mixers=[_gated_delta(fields, types.count(LINEAR))],
        feed_forward=parts.mixed_layers(fields, routed=layers, shared_width=SHARED),
    )


def _windowed(fields: ConfigFields, types: Sequence[str], **settings: Any) -> AttentionShape:
    """Return the full and windowed layers among others, with norms on queries and keys."""
    window = fields.count("sliding_window")
    windows = [window if kind == SLIDING else None for kind in types if kind in (FULL, SLIDING)]
    return parts.attention_shape(fields, windows=windows, query_key_norm="head", **settings)


def glm5_next(fields: ConfigFields) -> TransformerShape:
    """GLM-5.3 Flash: delta-rule layers; every fourth layer picks pools of keys."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(LINEAR, INDEXED, FULL)) or tuple(
        LINEAR if index % 4 != 3 else INDEXED for index in range(layers)
    )
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    attending = [index for index in range(layers) if types[index] != LINEAR]
    recurrent = layers - len(attending)
    attention = []
    if attending:
        pool = fields.count("index_kpool")
        indexer = parts.picking_indexer(fields, attending)
        pooled = {"pool": pool, "scalars": pool * indexer.head_dim}
        shape = parts.latent_attention(
            fields,
            indexer=indexer.changed(**pooled),
            query_rank=fields.count("q_lora_rank"),
            layers=len(attending),
        )
        rotates = fields.count("qk_rope_head_dim", minimum=0) > 0
        attention.append(shape.changed(rotary=rotates))
    return parts.decoder(
        fields,
        attention=attention,
        other_mixers=[_channelwise_delta(fields, nested, recurrent, full_rank_gate=False)],
        feed_forward=after_dense(fields),
        residual_streams=fields.count("hc_mult"),
        streams_averaged=True,
    )


def lfm2_moe(fields: ConfigFields) -> TransformerShape:
    """LFM 2 MoE: LFM 2 with routed experts after the first layers."""
    layers = layer_count(fields)
    dense = fields.count("num_dense_layers", minimum=0, maximum=layers)
    return _convolved(fields, parts.mixed_layers(fields, routed=layers - dense))


def lfm2(fields: ConfigFields) -> TransformerShape:
    """LFM 2: gated short convolutions and a few attention layers."""
    width = fields.count("block_ff_dim", fields.count("intermediate_size"))
    if fields.flag("block_auto_adjust_ff_dim"):
        step = fields.count("block_multiple_of")
        factor = fields.number("block_ffn_dim_multiplier", minimum=0.01, maximum=100)
        width = -(-int(factor * int(2 * width / 3)) // step) * step
    return _convolved(fields, (parts.feed_forward_shape(fields, width=width),))


def lfm3(fields: ConfigFields) -> TransformerShape:
    """LFM 3: LFM 2 with windows on half of the attention layers, gates and outer norms."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=("conv", FULL, SLIDING)) or tuple(
        FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else "conv" for i in range(layers)
    )
    convolution = ShortConvolution(
        layers=types.count("conv"),
        kernel=fields.count("conv_L_cache"),
        bias=fields.flag("conv_bias"),
    )
    gate = "head" if fields.flag("use_attention_gate") else "none"
    attention = _windowed(fields, types, output_gate=gate, bias=fields.flag("attention_bias"))
    return parts.decoder(
        fields,
        places=parts.SANDWICH_NORMS if fields.flag("use_sandwich_norm") else NormPlaces(),
        attention=[attention],
        other_mixers=[convolution],
    )


def _convolved(fields: ConfigFields, feed_forward: FeedForwards) -> TransformerShape:
    layers = layer_count(fields)
    listed = set(fields.counts("full_attn_idxs", maximum=layers - 1))
    attends = listed if fields.has("full_attn_idxs") else set(range(layers))
    default = [FULL if i in attends else LINEAR for i in range(layers)]
    full = layer_kinds(fields, default).count(FULL)
    convolution = ShortConvolution(
        layers=layers - full, kernel=fields.count("conv_L_cache"), bias=fields.flag("conv_bias")
    )
    return parts.decoder(
        fields,
        attention=[parts.attention_shape(fields, layers=full, query_key_norm="head")],
        other_mixers=[convolution],
        feed_forward=feed_forward,
        # The class reads its older name first.
        tied=fields.flag("tie_embedding", fields.flag("tie_word_embeddings")),
    )
