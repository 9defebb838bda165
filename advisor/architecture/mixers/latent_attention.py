"""Operator rows of latent attention: compressed projections and the indexer."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import (
    AttentionShape,
    Indexer,
    LatentAttention,
    Norm,
    NormKind,
)
from advisor.architecture.table.operators import Operator, OperatorKind, SavedTensor
from advisor.architecture.table.rows import COMPUTE, REPLICATED, Rows, linear_input


def latent_projections(
    shape: AttentionShape,
    latent: LatentAttention,
    at: Rows,
    hidden_size: int,
    norm: Norm,
    block_input: SavedTensor,
) -> Iterator[Operator]:
    """Yield the projections of latent attention: compressed, normalised, expanded.

    Notes
    -----
    Tensor parallelism replicates the compressing matrices and divides the expanding ones by
    heads. The rows show training and prompt processing; decoding may merge the expanding matrices
    into their neighbours.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V2, 2024, arXiv:2405.04434, section 2.1.
    """
    rank, key_rank, bias = latent.query_rank, latent.key_value_rank, shape.input_bias
    read, saved = hidden_size, block_input
    if rank is not None:
        yield at.linear(
            "query_compress",
            hidden_size,
            rank,
            bias=bias,
            target="q",
            division=REPLICATED,
            saved=(block_input,),
        )
        yield at.norm("query_latent_norm", norm, rank, stream=COMPUTE)
        read, saved = rank, linear_input(rank, ("q",))
    yield at.linear("query", read, shape.heads * shape.head_dim, target="q", saved=(saved,))
    if shape.own_key_value:
        compressed = key_rank + latent.rope_head_dim
        yield at.linear(
            "key_value_compress",
            hidden_size,
            compressed,
            bias=bias,
            target="k",
            division=REPLICATED,
        )
        yield at.norm("key_value_latent_norm", norm, key_rank, stream=COMPUTE)
    expanded = shape.heads * (latent.nope_head_dim + shape.value_head_dim)
    saved = linear_input(key_rank, ("v",))
    yield at.linear("key_value", key_rank, expanded, target="v", saved=(saved,))


def indexer_rows(
    shape: AttentionShape, indexer: Indexer, path: str, hidden_size: int
) -> Iterator[Operator]:
    """Yield the rows of the lightning indexer. It is trained separately and saves nothing here."""
    at, dim = Rows(path, indexer.layers), indexer.head_dim
    read = (shape.latent and shape.latent.query_rank) or hidden_size
    yield at.linear("index_query", read, indexer.heads * dim, division=REPLICATED)
    yield at.linear("index_key", hidden_size, dim, division=REPLICATED)
    if indexer.weighted:
        yield at.linear("index_weights", hidden_size, indexer.heads, division=REPLICATED)
    if indexer.pool:
        yield at.linear("index_gate", hidden_size, dim, division=REPLICATED)
    norm = Norm(kind=NormKind.LAYER, bias=True) if indexer.weighted else Norm(fp32_scale=True)
    norms = [at.norm("index_key_norm", norm, dim, stream=COMPUTE)]
    if not indexer.weighted:
        norms.append(at.norm("index_query_norm", norm, dim, rows=indexer.heads, stream=COMPUTE))
    yield from (row.model_copy(update={"saved": ()}) for row in norms)
    yield at.row(
        "index_scores",
        OperatorKind.ATTENTION,
        parameters=indexer.scalars,
        flops_per_token_per_key=2.0 * indexer.heads * dim / (indexer.pool or 1),
        causal=True,
        heads=indexer.heads,
        cache_heads=1,
        # Of pools the class keeps gates and a mark, too.
        cache_elements_per_token=2 * dim + 1 if indexer.pool else dim,
    )
