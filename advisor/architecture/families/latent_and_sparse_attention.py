"""Decoders that attend to latents, to keys that an indexer picks, or to compressed entries."""

from __future__ import annotations

from collections import Counter
from typing import Final

from advisor.architecture.config.checks import check_divides, check_length
from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    LINEAR,
    SLIDING,
    attention_shape,
    decoder,
    experts_shape,
    latent_attention,
    layer_count,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.expert_layers import after_dense, dense_then_routed
from advisor.architecture.mixers.shapes import AttentionShape, Indexer, TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import (
    CompressedAttention,
    CompressedIndexer,
    GatedDelta,
)

INDEXED: Final = "indexed_attention"

HEADS: Final = LIMITS["num_attention_heads"]

DIM: Final = LIMITS["head_dim"]

SPARSE: Final = "compressed_sparse_attention"

HEAVY: Final = "heavily_compressed_attention"

RATIOS: Final = {0: SLIDING, 4: SPARSE, 128: HEAVY}
"""Kinds of layers by their number in ``compress_ratios``."""


def longcat(fields: ConfigFields) -> TransformerShape:
    """LongCat-Flash: two latent attentions, two dense layers and one of experts in each block.

    A block counts as two layers, like its cache. Some experts compute nothing. With uniform
    routing, a token then visits fewer of the others, and that average counts. The class has gates
    for empty experts; no checkpoint has them, so they are left out.
    """
    blocks = layer_count(fields)
    attention = latent_attention(
        fields, indexer=None, query_rank=fields.optional_count("q_lora_rank"), layers=2 * blocks
    )
    experts = experts_shape(
        fields,
        layers=blocks,
        width=fields.count("expert_ffn_hidden_size"),
        router_bias=fields.flag("router_bias"),
    )
    empty = fields.count("zero_expert_num", minimum=0, maximum=LIMITS["num_experts"])
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


def _picks(fields: ConfigFields) -> list[bool]:
    """Return for each layer whether it has its own indexer, by list, pattern or period."""
    layers = layer_count(fields)
    kinds = fields.texts("indexer_types", length=layers, allowed=("full", "shared"))
    if kinds is not None:
        return [kind == "full" for kind in kinds]
    if fields.is_text("index_topk_pattern"):
        pattern = fields.text("index_topk_pattern", "")
        if len(pattern) != layers or set(pattern) - {"F", "S"}:
            fields.fail(
                "config field index_topk_pattern does not match the layers",
                "index_topk_pattern",
                pattern[:40],
                f"{layers} letters F or S",
            )
        return [letter == "F" for letter in pattern]
    period = fields.count("index_topk_freq", 1)
    offset = fields.count("index_skip_topk_offset", 2, minimum=0)
    return [max(index - offset + 1, 0) % period == 0 for index in range(layers)]


def _indexer(fields: ConfigFields, layers: int) -> Indexer:
    return Indexer(
        layers=layers,
        heads=fields.count("index_n_heads"),
        head_dim=fields.count("index_head_dim"),
        top_k=fields.count("index_topk"),
    )


def _picked(fields: ConfigFields, layers: list[int]) -> Indexer:
    """Return the indexer of some layers. At least one layer must have its own indexer."""
    picks = _picks(fields)
    own = sum(picks[index] for index in layers)
    if not own:
        fields.fail(
            "config field indexer_types has no layer with its own indexer",
            "indexer_types",
            "shared everywhere",
            "at least one full layer",
        )
    return _indexer(fields, own)


def deepseek_sparse(fields: ConfigFields) -> TransformerShape:
    """DeepSeek V3.2 and GLM-5: latent attention to the keys that an indexer picks."""
    attention = latent_attention(
        fields,
        indexer=_picked(fields, list(range(layer_count(fields)))),
        query_rank=fields.optional_count("q_lora_rank"),
    )
    return decoder(fields, attention=[attention], feed_forward=after_dense(fields))


def mistral_large4(fields: ConfigFields) -> TransformerShape:
    """Mistral Large 4: layers may share picked keys of latents; each head scales its scores.

    Every fourth layer has no rotation. The dimensions that other layers rotate are part of its
    latent.
    """
    layers = layer_count(fields)
    period = fields.count("no_rope_layer_interval", 4)
    rotated = list(fields.counts("no_rope_layers", maximum=1)) or [
        int((index + 1) % period != 0) for index in range(layers)
    ]
    source = list(fields.counts("kv_source_layers", maximum=layers - 1)) or list(range(layers))
    for name, found in (("no_rope_layers", rotated), ("kv_source_layers", source)):
        check_length(fields, name, len(found), layers)
    picks = _picks(fields)
    kinds = [(bool(rotated[index]), source[index] == index) for index in range(layers)]
    picking = Counter(kind for kind, picks_itself in zip(kinds, picks, strict=True) if picks_itself)
    rope = fields.count("qk_rope_head_dim")
    attention = []
    for (rotates, owns), count in Counter(kinds).items():
        indexer = _indexer(fields, picking[rotates, owns])
        # Each head has a scale and a bias; the queries pass a norm.
        scalars = 2 * (indexer.heads + fields.count("hidden_size"))
        shape = latent_attention(
            fields,
            indexer=indexer.model_copy(update={"scalars": scalars}),
            query_rank=None,
            layers=count,
        )
        attention.append(_unrotated(shape, 0 if rotates else rope, owns=owns))
    return decoder(fields, attention=attention, feed_forward=after_dense(fields))


def _unrotated(shape: AttentionShape, moved: int, *, owns: bool) -> AttentionShape:
    """Return the layers with ``moved`` dimensions of each head in the latent, without rotation."""
    latent = shape.latent
    if latent is None:
        return shape
    update = {
        "rope_head_dim": latent.rope_head_dim - moved,
        "nope_head_dim": latent.nope_head_dim + moved,
    }
    return shape.model_copy(
        update={
            "latent": latent.model_copy(update=update),
            "own_key_value": owns,
            "gates": 2 * shape.heads,
            "rotary": not moved,
        }
    )


def glm5_next(fields: ConfigFields) -> TransformerShape:
    """GLM-5.3 Flash: delta-rule layers; every fourth layer picks pools of keys."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(LINEAR, INDEXED, FULL))
    if types is None:
        types = tuple(LINEAR if index % 4 != 3 else INDEXED for index in range(layers))
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    dim = nested.count("head_dim", fields.count("linear_head_dim", maximum=DIM))
    kernel = fields.count("linear_conv_kernel_dim", maximum=DIM)
    heads = nested.count("num_heads", fields.count("linear_num_heads", maximum=HEADS))
    attending = [index for index in range(layers) if types[index] != LINEAR]
    mixers, attention = [], []
    if len(attending) < layers:
        mixers.append(
            GatedDelta(
                layers=layers - len(attending),
                key_heads=heads,
                value_heads=heads,
                key_head_dim=dim,
                value_head_dim=dim,
                kernel=nested.count("short_conv_kernel_size", kernel, maximum=DIM),
                decay_rank=dim,
                gate_rank=dim,
                # Serving engines keep these states in fp32 (vLLM, kda_state_dtype).
                state_bytes_per_element=4.0,
            )
        )
    if attending:
        pool = fields.count("index_kpool", maximum=65_536)
        indexer = _picked(fields, attending)
        shape = latent_attention(
            fields,
            indexer=indexer.model_copy(update={"pool": pool, "scalars": pool * indexer.head_dim}),
            query_rank=fields.count("q_lora_rank"),
            layers=len(attending),
        )
        rotates = fields.count("qk_rope_head_dim", minimum=0) > 0
        attention.append(shape.model_copy(update={"rotary": rotates}))
    return decoder(
        fields,
        attention=attention,
        other_mixers=mixers,
        feed_forward=after_dense(fields),
        residual_streams=fields.count("hc_mult", maximum=64),
    ).model_copy(update={"streams_averaged": True})


def minimax_m3(fields: ConfigFields) -> TransformerShape:
    """MiniMax-M3: dense layers first, then experts and attention to picked blocks of keys."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("sparse_attention_config") or {})
    sparse = sum(nested.counts("sparse_attention_freq", maximum=1))
    types = fields.texts("layer_types", length=layers, allowed=(FULL, "minimax_m3_sparse"))
    if types is not None:
        sparse = types.count("minimax_m3_sparse")
    listed = fields.counts("moe_layer_freq", maximum=1)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    routed = sum(listed) if listed else layers
    if kinds is not None:
        routed = kinds.count("sparse")
    if sparse > layers or routed > layers:
        fields.fail(
            "config field moe_layer_freq or sparse_attention_freq does not match the layers",
            "moe_layer_freq",
            f"{max(sparse, routed)} layers",
            f"lists of {layers} values",
        )
    attention = []
    if sparse < layers:
        full = [None] * (layers - sparse)
        attention.append(attention_shape(fields, windows=full, query_key_norm="head"))
    if sparse:
        block = nested.count("sparse_block_size", fields.count("index_block_size"))
        blocks = nested.count("sparse_topk_blocks", fields.count("index_topk_blocks"))
        indexer = Indexer(
            layers=sparse,
            heads=nested.count("sparse_num_index_heads", fields.count("index_n_heads")),
            head_dim=nested.count("sparse_index_dim", fields.count("index_head_dim")),
            top_k=block * blocks,
            weighted=False,
        )
        picking = attention_shape(fields, windows=[None] * sparse, query_key_norm="head")
        attention.append(picking.model_copy(update={"indexer": indexer}))
    experts = None
    if routed:
        experts = experts_shape(
            fields,
            layers=routed,
            width=fields.count("intermediate_size"),
            shared_width=fields.count("shared_intermediate_size", minimum=0),
            clamped=True,
        )
    dense = fields.count("dense_intermediate_size")
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=attention,
        feed_forward=dense_then_routed(
            fields, dense=layers - routed, dense_width=dense, routed=experts
        ),
    )


def _kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Return the kinds of the layers. The list may also name multi-token prediction layers."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(SLIDING, SPARSE, HEAVY))
    if types is not None:
        return types
    if not fields.has("compress_ratios"):
        return tuple(SPARSE if i > 1 and i % 2 else HEAVY for i in range(layers))
    ratios = fields.counts("compress_ratios", maximum=max(RATIOS))[:layers]
    if len(ratios) != layers or set(ratios) - set(RATIOS):
        fields.fail(
            "config field compress_ratios does not match the layers",
            "compress_ratios",
            f"{len(ratios)} values",
            f"a list of {layers} values out of {', '.join(map(str, RATIOS))}",
        )
    return tuple(RATIOS[ratio] for ratio in ratios)


def deepseek_v4(fields: ConfigFields) -> TransformerShape:
    """DeepSeek V4: compressed attention, hyper-connections, experts on every layer.

    The first layers choose experts by a table of token ids, which is not a parameter.
    """
    kinds = _kinds(fields)
    width = fields.count("moe_intermediate_size")
    # The class builds one shared expert and ignores n_shared_experts.
    experts = experts_shape(
        fields,
        layers=len(kinds),
        width=width,
        shared_width=width,
        shared_bias=fields.flag("mlp_bias"),
        clamped=True,
    )
    attention = [
        _attention(fields, kind, kinds.count(kind))
        for kind in (SLIDING, SPARSE, HEAVY)
        if kinds.count(kind)
    ]
    return decoder(
        fields,
        attention=(),
        other_mixers=attention,
        feed_forward=[experts],
        residual_streams=fields.count("hc_mult", maximum=64),
    )


def _attention(fields: ConfigFields, kind: str, layers: int) -> CompressedAttention:
    heads = fields.count("num_attention_heads")
    groups = fields.count("o_groups", maximum=heads)
    check_divides(fields, "o_groups", groups, heads, "num_attention_heads")
    indexer = None
    if kind == SPARSE:
        indexer = CompressedIndexer(
            heads=fields.count("index_n_heads"),
            head_dim=fields.count("index_head_dim"),
            top_k=fields.count("index_topk"),
        )
    ratios = {name: ratio for ratio, name in RATIOS.items()}
    return CompressedAttention(
        layers=layers,
        heads=heads,
        head_dim=fields.count("head_dim"),
        query_rank=fields.count("q_lora_rank"),
        window=fields.count("sliding_window"),
        ratio=ratios[kind] or None,
        indexer=indexer,
        output_groups=groups,
        output_rank=fields.count("o_lora_rank"),
    )
