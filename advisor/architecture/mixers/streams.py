"""Rows beside the branches of a block: several residual streams, embeddings of each layer."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from advisor.architecture.mixers.attention import Count
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.table.rows import (
    COMPUTE,
    FUSED_PASSES,
    REPLICATED,
    STREAM,
    TENSOR,
    Rows,
    kept,
    linear_input,
)
from advisor.foundation.noun import Noun

MIX_SCALES: Final = 3
"""A hyper-connection has one learned scale for each of its mappings: in, out and across."""


class LayerInputs(Noun):
    """Per-layer embeddings: each block gets its own besides the stream (Gemma 3n and 4)."""

    vocab_size: Count
    width: Count

    def embedding(self, at: Rows, layers: int) -> Iterator[Operator]:
        """Yield the table of per-layer embeddings, and the projection that is added to them."""
        width = layers * self.width
        yield at.elementwise(
            "layer_inputs",
            kind=OperatorKind.EMBEDDING,
            division=TENSOR,
            parameters=self.vocab_size * width,
            fused=FUSED_PASSES * width,
        )
        yield at.linear("layer_input_projection", at.hidden_size, width, division=REPLICATED)
        yield at.norm("layer_input_norm", self.width, rows=layers)

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of a block's own embedding: gate, product, projection, norm."""
        hidden = at.hidden_size
        sides = {"gate": (hidden, self.width), "projection": (self.width, hidden)}
        for name, (read, made) in sides.items():
            saved = (linear_input(read, (f"layer_input_{name}",)),)
            yield at.linear(name, read, made, division=REPLICATED, saved=saved)
        yield at.norm("norm", hidden, stream=COMPUTE)


class AlternatingUpdates(Noun):
    """Residual streams: each block computes one of them and predicts the others (Gemma 3n).

    References
    ----------
    .. [1] Baykal et al., Alternating updates for efficient transformers, 2023,
       arXiv:2301.13310, algorithm 1.
    """

    streams: Annotated[int, Field(ge=2)]
    low_rank: Count
    """Width of the learned shortcut around the attention."""

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of every block's work on its streams."""
        hidden, streams, rank = at.hidden_size, self.streams, self.low_rank
        mixed = float(streams * hidden)
        yield at.elementwise(
            "mix",
            # Predict and correct: each reads all streams and writes them.
            fused=4.0 * mixed,
            unfused=8.0 * mixed,
            launches=8,
            # Coefficients of the prediction and of the correction, and the scale of the output.
            parameters=streams**3 + streams**2 + hidden,
            flops_per_token=2.0 * hidden * (streams**2 + streams),
        )
        yield at.lone_linear("router", hidden, streams, division=REPLICATED)
        yield at.norm("norm", hidden)
        yield at.lone_linear("shortcut_in", hidden, rank, division=REPLICATED)
        yield at.lone_linear("shortcut_out", rank, hidden, division=REPLICATED)
        yield at.norm("shortcut_norm", hidden, stream=COMPUTE)

    def head(self, hidden_size: int) -> Iterator[Operator]:
        """Yield the projections that create the additional streams and merge them."""
        others = (self.streams - 1) * hidden_size
        for name, part in (("streams_open", Part.EMBEDDING), ("streams_close", Part.HEAD)):
            at = Rows(part.value, 1, part)
            yield at.lone_linear(name, hidden_size, others, division=REPLICATED)


def hyper_connection_rows(at: Rows, streams: int, *, mixed: bool = True) -> Iterator[Operator]:
    """Yield the rows that mix several residual streams around both branches of a block.

    References
    ----------
    .. [1] Xie et al., mHC: manifold-constrained hyper-connections, 2025, arXiv:2512.24880.
    """
    wide = streams * at.hidden_size
    saved = (kept("streams", wide, STREAM),)
    for branch in ("attention", "feed_forward"):
        # Into the branch, out of it, and (but in Hunyuan 4) across the streams.
        out = streams * (2 + streams * mixed)
        mapping = at.linear(f"{branch}_mix", wide, out, bias=True, division=REPLICATED, saved=saved)
        yield _scaled(mapping, MIX_SCALES - (not mixed))
        yield at.elementwise(
            f"{branch}_streams",
            # Read for the branch's input; read, mixed and written with its output.
            fused=3.0 * wide + 2.0 * at.hidden_size,
            unfused=9.0 * wide + 2.0 * at.hidden_size,
            launches=12,
        )


def hyper_connection_head(at: Rows, streams: int) -> Operator:
    """Return the row that merges the residual streams before the head."""
    wide = streams * at.hidden_size
    return _scaled(at.linear("mix", wide, streams, bias=True, division=REPLICATED), 1)


def _scaled(row: Operator, scales: int) -> Operator:
    """Return the row with learned scalars besides its matrix."""
    return row.changed(
        parameters=row.parameters + scales, active_parameters=row.active_parameters + scales
    )


class GatedStreams(Noun):
    """Residual streams that a gate of low rank mixes before each branch (Qwen 4)."""

    streams: Annotated[int, Field(ge=2)]
    rank: Count

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of a block: both branches read a mixture and write to all streams."""
        for branch in ("attention", "feed_forward"):
            yield from self._mixture(at, f"{branch}_mix")
            wide = self.streams * at.hidden_size
            yield at.linear(f"{branch}_write", wide, self.streams, division=REPLICATED)

    def head(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows that merge the streams before the head."""
        yield from self._mixture(at, "mix")

    def _mixture(self, at: Rows, name: str) -> Iterator[Operator]:
        hidden, wide = at.hidden_size, self.streams * at.hidden_size
        yield at.norm(f"{name}_norm", hidden, rows=self.streams, scales=wide)
        yield at.lone_linear(f"{name}_gate_down", wide, self.rank, division=REPLICATED)
        yield at.lone_linear(f"{name}_gate_up", self.rank, wide, division=REPLICATED)
        yield at.elementwise(
            f"{name}_streams",
            # Gates and streams in, the branch's input out; then all streams with its output.
            fused=4.0 * wide + 2.0 * hidden,
            unfused=9.0 * wide + 2.0 * hidden,
            launches=8,
        )


class WordSequences(Noun):
    """Embeddings of hashed word sequences, gated into the streams of some layers (Qwen 4)."""

    layers: Count
    rows_of_tables: Count
    """Rows of all layers' tables."""
    heads: Count
    """Rows that a token reads in each layer."""
    width: Count
    """Width of these rows together."""
    kernel: Count
    streams: Count

    def embedding(self, at: Rows) -> Operator:
        """Return the row of the tables."""
        read = self.layers * self.width
        return at.elementwise(
            "word_sequences",
            kind=OperatorKind.EMBEDDING,
            division=TENSOR,
            parameters=self.rows_of_tables * (self.width // self.heads),
            active_parameters=read,
            fused=FUSED_PASSES * read,
        )

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of the layers that read the tables."""
        hidden, wide = at.hidden_size, self.streams * at.hidden_size
        yield at.lone_linear("key", self.width, wide, division=REPLICATED)
        yield at.lone_linear("value", self.width, hidden, division=REPLICATED)
        for name in ("key", "query", "convolution"):
            yield at.norm(f"{name}_norm", hidden, rows=self.streams, scales=wide)
        yield at.elementwise(
            "convolution",
            parameters=wide * self.kernel,
            flops_per_token=2.0 * wide * self.kernel,
            fused=4.0 * wide,
            unfused=12.0 * wide,
            launches=6,
        )
