"""Compressed attention layers and their rows (DeepSeek V4)."""

from collections.abc import Iterator

from advisor.architecture.mixers.attention import Count
from advisor.architecture.mixers.recurrences import Mixer
from advisor.architecture.table.operators import Operator, OperatorKind
from advisor.architecture.table.rows import COMPUTE, REPLICATED, TENSOR, Rows, kept, linear_input
from advisor.foundation.noun import Noun


class CompressedIndexer(Noun):
    """Picks the compressed entries that a token attends to."""

    heads: Count
    head_dim: Count
    top_k: Count


class CompressedAttention(Mixer):
    """Attention to a window and to compressed entries of several tokens each (DeepSeek V4)."""

    shared_cache = True
    heads: Count
    head_dim: Count
    """Dimension of queries and of the single key, which is also the value."""
    query_rank: Count
    window: Count
    ratio: Count | None = None
    """Tokens per compressed entry; None if the layers attend only to the window."""
    indexer: CompressedIndexer | None = None
    output_groups: Count
    output_rank: Count

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of these layers.

        Notes
        -----
        Every token attends to a window of uncompressed keys, and to entries that cover ``ratio``
        tokens each: all of them, or those that an indexer picks. One head holds keys that are also
        the values. A row's figures per key refer to tokens of the context, so they are divided by
        the ratio. Leaves out the buffer of tokens that no entry covers yet.

        References
        ----------
        .. [1] DeepSeek-AI, DeepSeek-V4, 2026, sections 2.2 and 2.3, as transformers 5.23 builds it.
        """
        rank, width, dim = self.query_rank, self.heads * self.head_dim, self.head_dim
        read = linear_input(at.hidden_size, ("q", "k"))
        yield at.linear(
            "query_compress", at.hidden_size, rank, target="q", division=REPLICATED, saved=(read,)
        )
        yield at.norm("query_latent_norm", rank, stream=COMPUTE)
        yield at.linear("query", rank, width, target="q", saved=(linear_input(rank, ("q",)),))
        yield at.linear("key_value", at.hidden_size, dim, target="k", division=REPLICATED)
        yield at.norm("key_value_norm", dim, stream=COMPUTE)
        yield self._scores(at, "scores", window=self.window, ratio=1, sinks=self.heads)
        if self.ratio is not None:
            yield from self._entries(self.ratio, at)
        groups, latent = self.output_groups, self.output_groups * self.output_rank
        mixed = linear_input(width, ("o",), divided=True, remade=False)
        # Each group of heads has a matrix of its own.
        yield at.linear("output_compress", width // groups, latent, target="o", saved=(mixed,))
        saved = (linear_input(latent, ("o",), divided=True),)
        yield at.linear("output", latent, at.hidden_size, target="o", saved=saved)

    def _scores(
        self,
        at: Rows,
        name: str,
        *,
        window: int | None,
        ratio: int,
        sinks: int = 0,
        cached: bool = True,
    ) -> Operator:
        width = self.heads * self.head_dim
        return at.row(
            name,
            OperatorKind.ATTENTION,
            division=TENSOR,
            parameters=sinks,
            flops_per_token_per_key=4.0 * width / ratio,
            causal=True,
            window=window,
            heads=self.heads,
            cache_heads=1,
            cache_elements_per_token=self.head_dim / ratio if cached else 0.0,
            saved=(kept("query_and_output", 2.0 * width, divided=True),) if ratio == 1 else (),
        )

    def _entries(self, ratio: int, at: Rows) -> Iterator[Operator]:
        """Yield the rows that compute compressed entries and attend to them."""
        indexer, dim = self.indexer, self.head_dim
        twice = 1 if indexer is None else 2
        yield from _compressor(at.under("compressor"), dim, ratio, twice)
        if indexer is None:
            yield self._scores(at, "entries", window=None, ratio=ratio)
            return
        picked = indexer.top_k * ratio
        yield self._scores(at, "entries", window=picked, ratio=ratio, cached=False)
        # Few entries are read, yet all of them stay cached.
        cache = self._scores(at, "entry_cache", window=None, ratio=ratio)
        yield cache.changed(flops_per_token_per_key=0.0, read_keys=picked)
        yield from self._indexer(indexer, ratio, at)

    def _indexer(self, indexer: CompressedIndexer, ratio: int, at: Rows) -> Iterator[Operator]:
        """Yield the rows that pick entries. Trained separately, they save nothing here."""
        heads, dim = indexer.heads, indexer.head_dim
        yield from _compressor(at.under("index"), dim, ratio, 2)
        yield at.linear("index_query", self.query_rank, heads * dim, division=REPLICATED)
        yield at.linear("index_weights", at.hidden_size, heads, division=REPLICATED)
        yield at.row(
            "index_scores",
            OperatorKind.ATTENTION,
            flops_per_token_per_key=2.0 * heads * dim / ratio,
            causal=True,
            heads=heads,
            cache_heads=1,
            cache_elements_per_token=dim / ratio,
        )


def _compressor(at: Rows, head_dim: int, ratio: int, windows: int) -> Iterator[Operator]:
    """Yield the rows that pool ``ratio`` tokens into one entry.

    With two ``windows``, an entry also reads the tokens of its neighbour.
    """
    width = windows * head_dim
    for matrix in ("entry", "weight"):
        yield at.linear(matrix, at.hidden_size, width, division=REPLICATED)
    yield at.elementwise(
        "pooling",
        fused=2.0 * width,
        unfused=8.0 * width,
        launches=6,
        # A place of each token in its entry.
        parameters=ratio * width,
    )
    yield at.norm("norm", head_dim, stream=COMPUTE)
