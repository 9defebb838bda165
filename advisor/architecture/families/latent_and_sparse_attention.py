"""Decoders that attend to latents, to keys that an indexer picks, or to compressed entries."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, SLIDING, layer_count
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.decoder_settings import after_dense
from advisor.architecture.mixers.attention import AttentionShape, Indexer, WindowLayers
from advisor.architecture.mixers.compressed_attention import CompressedAttention, CompressedIndexer
from advisor.architecture.mixers.transformer import TransformerShape

SPARSE: Final = "compressed_sparse_attention"
HEAVY: Final = "heavily_compressed_attention"
INDEXED: Final = "indexed_attention"
SWA_SIZES: Final = {
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
"""Sizes of dots 3's windowed layers (transformers 5.24.0, configuration_dots3_note.py)."""
RATIOS: Final = {0: SLIDING, 4: SPARSE, 128: HEAVY}
"""Kinds of layers by their number in ``compress_ratios``."""


def longcat(fields: ConfigFields) -> TransformerShape:
    """LongCat-Flash: two latent attentions, two dense layers and one of experts in each block.

    A block counts as two layers, like its cache. Some experts compute nothing. With uniform
    routing, a token then visits fewer of the others, and that average counts. The class has gates
    for empty experts; no checkpoint has them, so they are left out.
    """
    blocks = layer_count(fields)
    attention = parts.latent_attention(
        fields, query_rank=fields.optional_count("q_lora_rank"), layers=2 * blocks
    )
    width, bias = fields.count("expert_ffn_hidden_size"), fields.flag("router_bias")
    experts = parts.experts_shape(fields, layers=blocks, width=width, router_bias=bias)
    empty = fields.count("zero_expert_num", minimum=0)
    visited = round(experts.active * experts.experts / (experts.experts + empty))
    scales = empty * (fields.count("hidden_size") + bias)
    routed = experts.changed(active=max(visited, 1), router_scales=scales)
    dense = parts.feed_forward_shape(fields, layers=2 * blocks)
    return parts.decoder(fields, attention=[attention], feed_forward=[dense, routed])


def hunyuan4(fields: ConfigFields) -> TransformerShape:
    """Hunyuan 4: gated latent attention with sinks to picked keys, in residual streams."""
    layers = layer_count(fields)
    fields.texts("layer_types", length=layers, allowed=("indexed_attention",))
    picks = [index == 0 or index % 4 == 1 for index in range(layers)]
    kinds = fields.texts("indexer_types", length=layers, allowed=("full", "shared"))
    own = sum(picks) if kinds is None else kinds.count("full")
    attention = parts.latent_attention(
        fields,
        query_rank=fields.count("q_lora_rank"),
        indexer=parts.indexer_shape(fields, own),
    ).changed(sinks=True, output_gate="element")
    return parts.decoder(
        fields,
        attention=[attention],
        feed_forward=after_dense(fields, clamped=True),
        residual_streams=fields.count("hc_mult"),
        streams_mixed=False,
    )


def dots3(fields: ConfigFields) -> TransformerShape:
    """Dots 3 Note: gated latent attention; windowed layers have their own heads and ranks."""
    layers = layer_count(fields)
    default = [INDEXED if i < 2 or i % 4 == 1 else SLIDING for i in range(layers)]
    types = fields.texts("layer_types", length=layers, allowed=(FULL, INDEXED, SLIDING))
    kinds = ["" if kind == SLIDING else kind for kind in types or default]
    whole, windowed = len(kinds) - kinds.count(""), kinds.count("")
    rank = fields.optional_count("q_lora_rank")
    dense = fields.flag("use_dsa", True) is False
    indexer = None if dense else parts.indexer_shape(fields, whole)
    attention = []
    if whole:
        attention.append(
            parts.latent_attention(fields, query_rank=rank, indexer=indexer, layers=whole)
        )
    if windowed:
        own = _own_sizes(fields, list(types or default).index(SLIDING))
        shape = parts.latent_attention(own, query_rank=own.count("q_lora_rank"), layers=windowed)
        window = fields.count("sliding_window", fields.count("sliding_window_size", 512))
        attention.append(shape.changed(windows=(WindowLayers(layers=windowed, window=window),)))
    shared = fields.count(
        "moe_shared_expert_intermediate_size", fields.count("shared_experts_intermediate_size")
    )
    routed = parts.sparse_layers(fields, layers - fields.count("first_k_dense_replace", minimum=0))
    return parts.decoder(
        fields,
        attention=[shape.changed(output_gate="head", key_rope_norm=True) for shape in attention],
        feed_forward=parts.mixed_layers(fields, routed=routed, shared_width=shared),
    )


def _own_sizes(fields: ConfigFields, layer: int) -> ConfigFields:
    """Return the sizes of dots 3's windowed layers: by layer, by ``swa_*`` fields, or defaults."""
    own = {name: fields.count(f"swa_{name}", size) for name, size in SWA_SIZES.items()}
    rotated = own["head_dim"] - own["qk_nope_head_dim"]
    own["qk_rope_head_dim"] = fields.count("swa_qk_rope_head_dim", rotated)
    listed = fields.mapping("per_layer_config") or {}
    for key, sizes in listed.items():
        if key.isdigit() and int(key) == layer and isinstance(sizes, Mapping):
            own.update(sizes)
    flags = {"attention_bias": fields.flag("attention_bias")}
    return ConfigFields({**own, **flags, "hidden_size": fields.count("hidden_size")})


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
        fields.must_match(name, len(found), layers)
    picks = parts.indexer_picks(fields)
    kinds = [(bool(rotated[index]), source[index] == index) for index in range(layers)]
    picking = Counter(kind for kind, picks_itself in zip(kinds, picks, strict=True) if picks_itself)
    rope = fields.count("qk_rope_head_dim")
    attention = []
    for (rotates, owns), count in Counter(kinds).items():
        indexer = parts.indexer_shape(fields, picking[rotates, owns])
        # Each head has a scale and a bias; the queries pass a norm.
        scalars = 2 * (indexer.heads + fields.count("hidden_size"))
        indexer = indexer.changed(scalars=scalars)
        shape = parts.latent_attention(fields, indexer=indexer, query_rank=None, layers=count)
        attention.append(_unrotated(shape, 0 if rotates else rope, owns=owns))
    return parts.decoder(fields, attention=attention, feed_forward=after_dense(fields))


def _unrotated(shape: AttentionShape, moved: int, *, owns: bool) -> AttentionShape:
    """Return the layers with ``moved`` dimensions of each head in the latent, without rotation."""
    latent = shape.latent
    if latent is None:
        return shape
    update = {
        "rope_head_dim": latent.rope_head_dim - moved,
        "nope_head_dim": latent.nope_head_dim + moved,
    }
    return shape.changed(
        latent=latent.changed(**update), own_key_value=owns, gates=2 * shape.heads, rotary=not moved
    )


def minimax_m3(fields: ConfigFields) -> TransformerShape:
    """MiniMax-M3: dense layers first, then experts and attention to picked blocks of keys."""
    layers = layer_count(fields)
    nested = ConfigFields(fields.mapping("sparse_attention_config") or {})
    sparse = sum(nested.counts("sparse_attention_freq", maximum=1))
    types = fields.texts("layer_types", length=layers, allowed=(FULL, "minimax_m3_sparse"))
    if types is not None:
        sparse = types.count("minimax_m3_sparse")
    listed = fields.counts("moe_layer_freq", maximum=1)
    routed = parts.sparse_layers(fields, sum(listed) if listed else layers)
    if sparse > layers or routed > layers:
        what = "config field moe_layer_freq or sparse_attention_freq does not match the layers"
        found = f"{max(sparse, routed)} layers"
        fields.fail(what, "moe_layer_freq", found, f"lists of {layers} values")
    full = parts.attention_shape(fields, layers=layers - sparse, query_key_norm="head")
    indexer = _block_indexer(fields, nested, sparse) if sparse else None
    picking = parts.attention_shape(fields, layers=sparse, query_key_norm="head", indexer=indexer)
    layered = parts.mixed_layers(
        fields,
        routed=routed,
        width="intermediate_size",
        shared_width=fields.count("shared_intermediate_size", minimum=0),
        dense_width=fields.count("dense_intermediate_size"),
        clamped=True,
    )
    return parts.decoder(
        fields, norm=parts.FP32_SCALED_NORM, attention=[full, picking], feed_forward=layered
    )


def _block_indexer(fields: ConfigFields, nested: ConfigFields, layers: int) -> Indexer:
    block = nested.count("sparse_block_size", fields.count("index_block_size"))
    blocks = nested.count("sparse_topk_blocks", fields.count("index_topk_blocks"))
    return Indexer(
        layers=layers,
        heads=nested.count("sparse_num_index_heads", fields.count("index_n_heads")),
        head_dim=nested.count("sparse_index_dim", fields.count("index_head_dim")),
        top_k=block * blocks,
        weighted=False,
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
        wanted = f"a list of {layers} values out of {', '.join(map(str, RATIOS))}"
        found = f"{len(ratios)} values"
        fields.refuse("compress_ratios", "does not match the layers", found, wanted)
    return tuple(RATIOS[ratio] for ratio in ratios)


def deepseek_v4(fields: ConfigFields) -> TransformerShape:
    """DeepSeek V4: compressed attention, hyper-connections, experts on every layer.

    The first layers choose experts by a table of token ids, which is not a parameter.
    """
    kinds = _kinds(fields)
    width = fields.count("moe_intermediate_size")
    # The class builds one shared expert and ignores n_shared_experts.
    experts = parts.experts_shape(
        fields,
        layers=len(kinds),
        width=width,
        shared_width=width,
        shared_bias=fields.flag("mlp_bias"),
        clamped=True,
    )
    return parts.decoder(
        fields,
        attention=(),
        other_mixers=[
            _compressed_attention(fields, ratio, kinds.count(kind))
            for ratio, kind in RATIOS.items()
        ],
        feed_forward=[experts],
        residual_streams=fields.count("hc_mult"),
    )


def _compressed_attention(fields: ConfigFields, ratio: int, layers: int) -> CompressedAttention:
    heads = fields.count("num_attention_heads")
    groups = fields.count("o_groups", maximum=heads)
    fields.must_divide("o_groups", groups, heads, "num_attention_heads")
    indexer = None
    if RATIOS[ratio] == SPARSE:
        indexer = CompressedIndexer(
            heads=fields.count("index_n_heads"),
            head_dim=fields.count("index_head_dim"),
            top_k=fields.count("index_topk"),
        )
    return CompressedAttention(
        layers=layers,
        heads=heads,
        head_dim=fields.count("head_dim"),
        query_rank=fields.count("q_lora_rank"),
        window=fields.count("sliding_window"),
        ratio=ratio or None,
        indexer=indexer,
        output_groups=groups,
        output_rank=fields.count("o_lora_rank"),
    )
