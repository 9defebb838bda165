"""Families that attend to the keys that an indexer picks: DeepSeek V3.2, GLM-5, Mistral Large 4.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from advisor.architecture.config.decoder import FULL, decoder, layer_count
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.routed import first_dense, latent_attention
from advisor.architecture.mixers.shapes import AttentionShape, Indexer, TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import GatedDelta

LINEAR: Final = "linear_attention"
INDEXED: Final = "indexed_attention"
HEADS: Final = LIMITS["num_attention_heads"]
DIM: Final = LIMITS["head_dim"]


def _picks(fields: ConfigFields) -> list[bool]:
    """Whether each layer has an indexer of its own, by list, by pattern or by period."""
    layers = layer_count(fields)
    kinds = fields.texts("indexer_types", length=layers, allowed=("full", "shared"))
    if kinds is not None:
        return [kind == "full" for kind in kinds]
    if fields.is_text("index_topk_pattern"):
        pattern = fields.text("index_topk_pattern", "")
        if len(pattern) != layers or set(pattern) - {"F", "S"}:
            fields.fail(
                "config field index_topk_pattern does not fit the layers",
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
    """Return the indexer of some of the layers; one at least must have one of its own."""
    picks = _picks(fields)
    own = sum(picks[index] for index in layers)
    if not own:
        fields.fail(
            "config field indexer_types has no layer with an indexer of its own",
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
    return decoder(fields, attention=[attention], feed_forward=first_dense(fields, first=3))


def mistral_large4(fields: ConfigFields) -> TransformerShape:
    """Mistral Large 4: picked keys of latents that layers may share, scaled scores by head.

    Every fourth layer has no rotation: what others rotate is part of its latent.
    """
    layers = layer_count(fields)
    period = fields.count("no_rope_layer_interval", 4)
    rotated = list(fields.counts("no_rope_layers", maximum=1)) or [
        int((index + 1) % period != 0) for index in range(layers)
    ]
    source = list(fields.counts("kv_source_layers", maximum=layers - 1)) or list(range(layers))
    for name, found in (("no_rope_layers", rotated), ("kv_source_layers", source)):
        if len(found) != layers:
            fields.fail(
                f"config field {name} does not fit the layers",
                name,
                f"{len(found)} values",
                f"a list of {layers} values",
            )
    picks = _picks(fields)
    kinds = [(bool(rotated[index]), source[index] == index) for index in range(layers)]
    picking = Counter(kind for kind, picks_itself in zip(kinds, picks, strict=True) if picks_itself)
    rope = fields.count("qk_rope_head_dim")
    attention = []
    for (rotates, owns), count in Counter(kinds).items():
        indexer = _indexer(fields, picking[rotates, owns])
        # Of its heads a scale and a bias each; the queries come through a norm.
        scalars = 2 * (indexer.heads + fields.count("hidden_size"))
        shape = latent_attention(
            fields,
            indexer=indexer.model_copy(update={"scalars": scalars}),
            query_rank=None,
            layers=count,
        )
        attention.append(_unrotated(shape, 0 if rotates else rope, owns=owns))
    return decoder(fields, attention=attention, feed_forward=first_dense(fields, first=1, shared=1))


def _unrotated(shape: AttentionShape, moved: int, *, owns: bool) -> AttentionShape:
    """Return the layers with ``moved`` dimensions of a head in the latent, not rotated."""
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
    """GLM-5.3 Flash: delta-rule layers, every fourth one picks pools of keys; residual streams."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(LINEAR, INDEXED, FULL))
    if types is None:
        types = tuple(LINEAR if index % 4 != 3 else INDEXED for index in range(layers))
    nested = ConfigFields(fields.mapping("linear_attn_config") or {})
    dim = nested.count("head_dim", fields.count("linear_head_dim", 128, maximum=DIM))
    kernel = fields.count("linear_conv_kernel_dim", 4, maximum=DIM)
    heads = nested.count("num_heads", fields.count("linear_num_heads", 64, maximum=HEADS))
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
        pool = fields.count("index_kpool", 16, maximum=65_536)
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
        feed_forward=first_dense(fields, first=3, shared=1),
        residual_streams=fields.count("hc_mult", 4, maximum=64),
    ).model_copy(update={"streams_averaged": True})
