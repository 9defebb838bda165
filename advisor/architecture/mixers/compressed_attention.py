"""Operator rows of compressed attention and hyper-connections (DeepSeek V4)."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import Norm
from advisor.architecture.mixers.shapes_of_mixers import CompressedAttention, CompressedIndexer
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.rows import elementwise, linear, linear_input, normalization

MIX_SCALES = 3
"""A hyper-connection has one learned scale for each of its mappings: in, out and across."""


def compressed_attention_rows(
    shape: CompressedAttention, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows of one kind of compressed attention.

    Parameters
    ----------
    path : str
        Dotted name of the parent row.
    norm : Norm
        Norm of the model. Latent norms are of the same kind.

    Notes
    -----
    Every token attends to a window of uncompressed keys, and to entries that cover ``ratio``
    tokens each: all of them, or those that an indexer picks. One head holds keys that are also
    the values. A row's figures per key refer to tokens of the context, so they are divided by the
    ratio. Leaves out the buffer of tokens that no entry covers yet.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V4, 2026, sections 2.2 and 2.3, as transformers 5.23 builds it.
    """
    layers, width = shape.layers, shape.heads * shape.head_dim
    block_input = linear_input(hidden_size, ("q", "k"))
    yield linear(
        f"{path}.query_compress",
        layers=layers,
        in_features=hidden_size,
        out_features=shape.query_rank,
        target="q",
        division=Division.REPLICATED,
        saved=(block_input,),
    )
    yield normalization(
        f"{path}.query_latent_norm",
        norm=norm,
        layers=layers,
        width=shape.query_rank,
        stream=SavedFormat.COMPUTE,
    )
    yield linear(
        f"{path}.query",
        layers=layers,
        in_features=shape.query_rank,
        out_features=width,
        target="q",
        saved=(linear_input(shape.query_rank, ("q",)),),
    )
    yield linear(
        f"{path}.key_value",
        layers=layers,
        in_features=hidden_size,
        out_features=shape.head_dim,
        target="k",
        division=Division.REPLICATED,
    )
    yield normalization(
        f"{path}.key_value_norm",
        norm=norm,
        layers=layers,
        width=shape.head_dim,
        stream=SavedFormat.COMPUTE,
    )
    yield _scores(shape, f"{path}.scores", window=shape.window, ratio=1, sinks=shape.heads)
    if shape.ratio is not None:
        yield from _entries(shape, shape.ratio, path=path, hidden_size=hidden_size, norm=norm)
    yield linear(
        f"{path}.output_compress",
        layers=layers,
        # Each group of heads has a matrix of its own.
        in_features=width // shape.output_groups,
        out_features=shape.output_groups * shape.output_rank,
        target="o",
        saved=(linear_input(width, ("o",), divided=True, remade=False),),
    )
    yield linear(
        f"{path}.output",
        layers=layers,
        in_features=shape.output_groups * shape.output_rank,
        out_features=hidden_size,
        target="o",
        saved=(linear_input(shape.output_groups * shape.output_rank, ("o",), divided=True),),
    )


def _scores(
    shape: CompressedAttention,
    name: str,
    *,
    window: int | None,
    ratio: int,
    sinks: int = 0,
    cached: bool = True,
) -> Operator:
    width = shape.heads * shape.head_dim
    kept = (
        SavedTensor(
            name="query_and_output",
            elements_per_token=2.0 * width,
            format=SavedFormat.COMPUTE,
            divided=True,
        ),
    )
    return Operator(
        name=name,
        kind=OperatorKind.ATTENTION,
        part=Part.BLOCK,
        layers=shape.layers,
        division=Division.TENSOR,
        parameters=sinks,
        active_parameters=sinks,
        flops_per_token_per_key=4.0 * width / ratio,
        causal=True,
        window=window,
        heads=shape.heads,
        cache_heads=1,
        cache_elements_per_token=shape.head_dim / ratio if cached else 0.0,
        saved=kept if ratio == 1 else (),
    )


def _entries(
    shape: CompressedAttention, ratio: int, *, path: str, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows that compute compressed entries and attend to them."""
    indexer = shape.indexer
    yield from _compressor(
        f"{path}.compressor",
        layers=shape.layers,
        hidden_size=hidden_size,
        head_dim=shape.head_dim,
        ratio=ratio,
        overlapping=indexer is not None,
        norm=norm,
    )
    if indexer is None:
        yield _scores(shape, f"{path}.entries", window=None, ratio=ratio)
        return
    yield _scores(shape, f"{path}.entries", window=indexer.top_k * ratio, ratio=ratio, cached=False)
    # Few entries are read, yet all of them stay cached.
    yield _scores(shape, f"{path}.entry_cache", window=None, ratio=ratio).model_copy(
        update={"flops_per_token_per_key": 0.0}
    )
    yield from _indexer(shape, indexer, ratio, path=path, hidden_size=hidden_size, norm=norm)


def _indexer(
    shape: CompressedAttention,
    indexer: CompressedIndexer,
    ratio: int,
    *,
    path: str,
    hidden_size: int,
    norm: Norm,
) -> Iterator[Operator]:
    """Yield the rows that pick entries. They are trained separately, so they save nothing here."""
    yield from _compressor(
        f"{path}.index",
        layers=shape.layers,
        hidden_size=hidden_size,
        head_dim=indexer.head_dim,
        ratio=ratio,
        overlapping=True,
        norm=norm,
    )
    matrices = {
        "index_query": (shape.query_rank, indexer.heads * indexer.head_dim),
        "index_weights": (hidden_size, indexer.heads),
    }
    for name, (inner, outer) in matrices.items():
        yield linear(
            f"{path}.{name}",
            layers=shape.layers,
            in_features=inner,
            out_features=outer,
            division=Division.REPLICATED,
        )
    yield Operator(
        name=f"{path}.index_scores",
        kind=OperatorKind.ATTENTION,
        part=Part.BLOCK,
        layers=shape.layers,
        division=Division.REPLICATED,
        flops_per_token_per_key=2.0 * indexer.heads * indexer.head_dim / ratio,
        causal=True,
        heads=indexer.heads,
        cache_heads=1,
        cache_elements_per_token=indexer.head_dim / ratio,
    )


def _compressor(
    path: str,
    *,
    layers: int,
    hidden_size: int,
    head_dim: int,
    ratio: int,
    overlapping: bool,
    norm: Norm,
) -> Iterator[Operator]:
    """Yield the rows that pool ``ratio`` tokens into one entry. Windows may overlap by one."""
    width = head_dim * (2 if overlapping else 1)
    for name in ("entry", "weight"):
        yield linear(
            f"{path}.{name}",
            layers=layers,
            in_features=hidden_size,
            out_features=width,
            division=Division.REPLICATED,
        )
    pooling = elementwise(
        f"{path}.pooling",
        layers=layers,
        fused=2.0 * width,
        unfused=8.0 * width,
        launches=6,
    )
    positions = ratio * width
    yield pooling.model_copy(update={"parameters": positions, "active_parameters": positions})
    yield normalization(
        f"{path}.norm", norm=norm, layers=layers, width=head_dim, stream=SavedFormat.COMPUTE
    )


def hyper_connection_rows(*, layers: int, hidden_size: int, streams: int) -> Iterator[Operator]:
    """Yield the rows that mix several residual streams around both branches of a block.

    Parameters
    ----------
    streams : int
        Number of copies of the residual stream.

    References
    ----------
    .. [1] Xie et al., mHC: manifold-constrained hyper-connections, 2025, arXiv:2512.24880.
    """
    wide = streams * hidden_size
    for branch in ("attention", "feed_forward"):
        mapping = linear(
            f"block.{branch}_mix",
            layers=layers,
            in_features=wide,
            # Into the branch, out of it, and across the streams.
            out_features=streams * (2 + streams),
            bias=True,
            division=Division.REPLICATED,
            saved=(
                SavedTensor(name="streams", elements_per_token=wide, format=SavedFormat.STREAM),
            ),
        )
        yield mapping.model_copy(
            update={
                "parameters": mapping.parameters + MIX_SCALES,
                "active_parameters": mapping.active_parameters + MIX_SCALES,
            }
        )
        yield elementwise(
            f"block.{branch}_streams",
            layers=layers,
            # Read for the branch's input; read, mixed and written with its output.
            fused=3.0 * wide + 2.0 * hidden_size,
            unfused=9.0 * wide + 2.0 * hidden_size,
            launches=12,
        )


def hyper_connection_head(*, hidden_size: int, streams: int) -> Operator:
    """Return the row that merges the residual streams before the head."""
    mapping = linear(
        "head.mix",
        part=Part.HEAD,
        layers=1,
        in_features=streams * hidden_size,
        out_features=streams,
        bias=True,
        division=Division.REPLICATED,
    )
    return mapping.model_copy(
        update={
            "parameters": mapping.parameters + 1,
            "active_parameters": mapping.active_parameters + 1,
        }
    )
