"""Operator rows of latent attention: compressed projections and the indexer."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import AttentionShape, Indexer, Norm, NormKind
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.rows import linear, linear_input, normalization


def latent_projections(
    shape: AttentionShape,
    *,
    path: str,
    hidden_size: int,
    norm: Norm,
    saved: tuple[SavedTensor, ...],
) -> Iterator[Operator]:
    """Yield the projections of latent attention: compressed, normalised, expanded.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    norm : Norm
        Norm of the model.
    saved : tuple of SavedTensor
        The block's input.

    Notes
    -----
    Tensor parallelism replicates the compressing matrices and divides the expanding ones by
    heads. The rows show training and prompt processing; decoding may merge the expanding matrices
    into their neighbours.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V2, 2024, arXiv:2405.04434, section 2.1.
    """
    latent = shape.latent
    if latent is None:
        return
    query_input, query_width = hidden_size, shape.heads * shape.head_dim
    expanded = shape.heads * (latent.nope_head_dim + shape.value_head_dim)
    layers = shape.layers
    if latent.query_rank is not None:
        query_input = latent.query_rank
        yield linear(
            f"{path}.query_compress",
            layers=layers,
            in_features=hidden_size,
            out_features=latent.query_rank,
            bias=shape.input_bias,
            target="q",
            division=Division.REPLICATED,
            saved=saved,
        )
        yield normalization(
            f"{path}.query_latent_norm",
            norm=norm,
            layers=layers,
            width=latent.query_rank,
            stream=SavedFormat.COMPUTE,
        )
    yield linear(
        f"{path}.query",
        layers=layers,
        in_features=query_input,
        out_features=query_width,
        target="q",
        saved=saved if latent.query_rank is None else (linear_input(query_input, ("q",)),),
    )
    if shape.own_key_value:
        yield linear(
            f"{path}.key_value_compress",
            layers=layers,
            in_features=hidden_size,
            out_features=latent.key_value_rank + latent.rope_head_dim,
            bias=shape.input_bias,
            target="k",
            division=Division.REPLICATED,
        )
        yield normalization(
            f"{path}.key_value_latent_norm",
            norm=norm,
            layers=layers,
            width=latent.key_value_rank,
            stream=SavedFormat.COMPUTE,
        )
    yield linear(
        f"{path}.key_value",
        layers=layers,
        in_features=latent.key_value_rank,
        out_features=expanded,
        target="v",
        saved=(linear_input(latent.key_value_rank, ("v",)),),
    )


def indexer_rows(
    shape: AttentionShape, indexer: Indexer, *, path: str, hidden_size: int
) -> Iterator[Operator]:
    """Yield the rows of the lightning indexer. It is trained separately and saves nothing here."""
    latent = shape.latent
    query_input = hidden_size
    if latent is not None and latent.query_rank is not None:
        query_input = latent.query_rank
    layers = indexer.layers
    matrices = {
        "index_query": (query_input, indexer.heads * indexer.head_dim),
        "index_key": (hidden_size, indexer.head_dim),
    }
    if indexer.weighted:
        matrices["index_weights"] = (hidden_size, indexer.heads)
    if indexer.pool:
        matrices["index_gate"] = (hidden_size, indexer.head_dim)
    for name, (inner, outer) in matrices.items():
        yield linear(
            f"{path}.{name}",
            layers=layers,
            in_features=inner,
            out_features=outer,
            division=Division.REPLICATED,
        )
    norm = Norm(kind=NormKind.LAYER, bias=True) if indexer.weighted else Norm(fp32_scale=True)
    for name, heads in (("index_key_norm", 1), ("index_query_norm", indexer.heads)):
        if name == "index_query_norm" and indexer.weighted:
            continue
        yield normalization(
            f"{path}.{name}",
            norm=norm,
            layers=layers,
            width=indexer.head_dim,
            rows=heads,
            stream=SavedFormat.COMPUTE,
        ).model_copy(update={"saved": ()})
    yield Operator(
        name=f"{path}.index_scores",
        kind=OperatorKind.ATTENTION,
        part=Part.BLOCK,
        layers=layers,
        division=Division.REPLICATED,
        parameters=indexer.scalars,
        active_parameters=indexer.scalars,
        flops_per_token_per_key=2.0 * indexer.heads * indexer.head_dim / (indexer.pool or 1),
        causal=True,
        heads=indexer.heads,
        cache_heads=1,
        # Of pools the class keeps gates and a mark, too.
        cache_elements_per_token=float(
            2 * indexer.head_dim + 1 if indexer.pool else indexer.head_dim
        ),
    )
