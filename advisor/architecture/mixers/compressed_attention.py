"""Operator rows of compressed attention (DeepSeek V4)."""

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import CompressedAttention, CompressedIndexer, Norm
from advisor.architecture.table.operators import Operator, OperatorKind
from advisor.architecture.table.rows import COMPUTE, REPLICATED, TENSOR, Rows, kept, linear_input


def compressed_attention_rows(
    shape: CompressedAttention, at: Rows, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows of one kind of compressed attention. Latent norms are of the kind ``norm``.

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
    rank, width, dim = shape.query_rank, shape.heads * shape.head_dim, shape.head_dim
    read = linear_input(hidden_size, ("q", "k"))
    yield at.linear(
        "query_compress", hidden_size, rank, target="q", division=REPLICATED, saved=(read,)
    )
    yield at.norm("query_latent_norm", norm, rank, stream=COMPUTE)
    yield at.linear("query", rank, width, target="q", saved=(linear_input(rank, ("q",)),))
    yield at.linear("key_value", hidden_size, dim, target="k", division=REPLICATED)
    yield at.norm("key_value_norm", norm, dim, stream=COMPUTE)
    yield _scores(shape, at, "scores", window=shape.window, ratio=1, sinks=shape.heads)
    if shape.ratio is not None:
        yield from _entries(shape, shape.ratio, at, hidden_size, norm)
    groups, latent = shape.output_groups, shape.output_groups * shape.output_rank
    mixed = linear_input(width, ("o",), divided=True, remade=False)
    # Each group of heads has a matrix of its own.
    yield at.linear("output_compress", width // groups, latent, target="o", saved=(mixed,))
    saved = (linear_input(latent, ("o",), divided=True),)
    yield at.linear("output", latent, hidden_size, target="o", saved=saved)


def _scores(
    shape: CompressedAttention,
    at: Rows,
    name: str,
    *,
    window: int | None,
    ratio: int,
    sinks: int = 0,
    cached: bool = True,
) -> Operator:
    width = shape.heads * shape.head_dim
    return at.row(
        name,
        OperatorKind.ATTENTION,
        division=TENSOR,
        parameters=sinks,
        flops_per_token_per_key=4.0 * width / ratio,
        causal=True,
        window=window,
        heads=shape.heads,
        cache_heads=1,
        cache_elements_per_token=shape.head_dim / ratio if cached else 0.0,
        saved=(kept("query_and_output", 2.0 * width, divided=True),) if ratio == 1 else (),
    )


def _entries(
    shape: CompressedAttention, ratio: int, at: Rows, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows that compute compressed entries and attend to them."""
    indexer, dim = shape.indexer, shape.head_dim
    twice = 1 if indexer is None else 2
    yield from _compressor(at, "compressor", hidden_size, dim, ratio, twice, norm)
    if indexer is None:
        yield _scores(shape, at, "entries", window=None, ratio=ratio)
        return
    picked = indexer.top_k * ratio
    yield _scores(shape, at, "entries", window=picked, ratio=ratio, cached=False)
    # Few entries are read, yet all of them stay cached.
    cache = _scores(shape, at, "entry_cache", window=None, ratio=ratio)
    yield cache.changed(flops_per_token_per_key=0.0)
    yield from _indexer(shape, indexer, ratio, at, hidden_size, norm)


def _indexer(
    shape: CompressedAttention,
    indexer: CompressedIndexer,
    ratio: int,
    at: Rows,
    hidden_size: int,
    norm: Norm,
) -> Iterator[Operator]:
    """Yield the rows that pick entries. They are trained separately, so they save nothing here."""
    heads, dim = indexer.heads, indexer.head_dim
    yield from _compressor(at, "index", hidden_size, dim, ratio, 2, norm)
    yield at.linear("index_query", shape.query_rank, heads * dim, division=REPLICATED)
    yield at.linear("index_weights", hidden_size, heads, division=REPLICATED)
    yield at.row(
        "index_scores",
        OperatorKind.ATTENTION,
        flops_per_token_per_key=2.0 * heads * dim / ratio,
        causal=True,
        heads=heads,
        cache_heads=1,
        cache_elements_per_token=dim / ratio,
    )


def _compressor(
    at: Rows, name: str, hidden_size: int, head_dim: int, ratio: int, windows: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows that pool ``ratio`` tokens into one entry.

    With two ``windows``, an entry also reads the tokens of its neighbour.
    """
    at, width = Rows(f"{at.path}.{name}", at.layers), windows * head_dim
    for matrix in ("entry", "weight"):
        yield at.linear(matrix, hidden_size, width, division=REPLICATED)
    yield at.elementwise(
        "pooling",
        fused=2.0 * width,
        unfused=8.0 * width,
        launches=6,
        # A place of each token in its entry.
        parameters=ratio * width,
    )
    yield at.norm("norm", norm, head_dim, stream=COMPUTE)
