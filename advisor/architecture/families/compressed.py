"""Model families that attend to compressed entries.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.decoder import SLIDING, decoder, experts_shape, layer_count
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.shapes import TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import CompressedAttention, CompressedIndexer

SPARSE: Final = "compressed_sparse_attention"
HEAVY: Final = "heavily_compressed_attention"

RATIOS: Final = {0: SLIDING, 4: SPARSE, 128: HEAVY}
"""Kinds of layers by their number in ``compress_ratios``."""


def _kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Kinds of the layers; the list may go on with layers of multi-token prediction."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(SLIDING, SPARSE, HEAVY))
    if types is not None:
        return types
    if not fields.has("compress_ratios"):
        return tuple(SPARSE if i > 1 and i % 2 else HEAVY for i in range(layers))
    ratios = fields.counts("compress_ratios", maximum=max(RATIOS))[:layers]
    if len(ratios) != layers or set(ratios) - set(RATIOS):
        fields.fail(
            "config field compress_ratios does not fit the layers",
            "compress_ratios",
            f"{len(ratios)} values",
            f"a list of {layers} values out of {', '.join(map(str, RATIOS))}",
        )
    return tuple(RATIOS[ratio] for ratio in ratios)


def deepseek_v4(fields: ConfigFields) -> TransformerShape:
    """DeepSeek V4: compressed attention, hyper-connections, experts on every layer.

    The first layers choose experts by a table of token ids, which is no parameter.
    """
    kinds = _kinds(fields)
    width = fields.count("moe_intermediate_size", 2048)
    # One shared expert, whatever n_shared_experts says.
    experts = experts_shape(
        fields,
        layers=len(kinds),
        width=width,
        shared_width=width,
        shared_bias=fields.flag("mlp_bias", False),
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
        residual_streams=fields.count("hc_mult", 4, maximum=64),
    )


def _attention(fields: ConfigFields, kind: str, layers: int) -> CompressedAttention:
    heads = fields.count("num_attention_heads", 64)
    groups = fields.count("o_groups", 8, maximum=heads)
    if heads % groups:
        fields.fail(
            "config field o_groups does not divide num_attention_heads",
            "o_groups",
            groups,
            f"a divisor of {heads}",
        )
    indexer = None
    if kind == SPARSE:
        indexer = CompressedIndexer(
            heads=fields.count("index_n_heads", 64),
            head_dim=fields.count("index_head_dim", 128),
            top_k=fields.count("index_topk", 512),
        )
    ratios = {name: ratio for ratio, name in RATIOS.items()}
    return CompressedAttention(
        layers=layers,
        heads=heads,
        head_dim=fields.count("head_dim", 512),
        query_rank=fields.count("q_lora_rank", 1024),
        window=fields.count("sliding_window", 128),
        ratio=ratios[kind] or None,
        indexer=indexer,
        output_groups=groups,
        output_rank=fields.count("o_lora_rank", 1024),
    )
