"""Operator rows of models with several residual streams, and of per-layer embeddings."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.shapes import AlternatingUpdates, LayerInputs, Norm
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

MIX_SCALES: Final = 3
"""A hyper-connection has one learned scale for each of its mappings: in, out and across."""


def alternating_rows(
    shape: AlternatingUpdates, *, layers: int, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows of every block's work on its streams, of which each block computes one.

    References
    ----------
    .. [1] Baykal et al., Alternating updates for efficient transformers, 2023,
       arXiv:2301.13310, algorithm 1.
    """
    at, streams, rank = Rows("block.alternating", layers), shape.streams, shape.low_rank
    mixed = float(streams * hidden_size)
    yield at.elementwise(
        "mix",
        # Predict and correct: each reads all streams and writes them.
        fused=4.0 * mixed,
        unfused=8.0 * mixed,
        launches=8,
        # Coefficients of the prediction and of the correction, and the scale of the output.
        parameters=streams**3 + streams**2 + hidden_size,
        flops_per_token=2.0 * hidden_size * (streams**2 + streams),
    )
    yield at.lone_linear("router", hidden_size, streams, division=REPLICATED)
    yield at.norm("norm", norm, hidden_size)
    yield at.lone_linear("shortcut_in", hidden_size, rank, division=REPLICATED)
    yield at.lone_linear("shortcut_out", rank, hidden_size, division=REPLICATED)
    yield at.norm("shortcut_norm", norm, hidden_size, stream=COMPUTE)


def alternating_head(shape: AlternatingUpdates, *, hidden_size: int) -> Iterator[Operator]:
    """Yield the projections that create the additional streams and merge them."""
    others = (shape.streams - 1) * hidden_size
    for name, part in (("streams_open", Part.EMBEDDING), ("streams_close", Part.HEAD)):
        at = Rows(part.value, 1, part)
        yield at.lone_linear(name, hidden_size, others, division=REPLICATED)


def hyper_connection_rows(*, layers: int, hidden_size: int, streams: int) -> Iterator[Operator]:
    """Yield the rows that mix several residual streams around both branches of a block.

    References
    ----------
    .. [1] Xie et al., mHC: manifold-constrained hyper-connections, 2025, arXiv:2512.24880.
    """
    at, wide = Rows("block", layers), streams * hidden_size
    saved = (kept("streams", wide, STREAM),)
    for branch in ("attention", "feed_forward"):
        # Into the branch, out of it, and across the streams.
        out = streams * (2 + streams)
        mapping = at.linear(f"{branch}_mix", wide, out, bias=True, division=REPLICATED, saved=saved)
        yield _scaled(mapping, MIX_SCALES)
        yield at.elementwise(
            f"{branch}_streams",
            # Read for the branch's input; read, mixed and written with its output.
            fused=3.0 * wide + 2.0 * hidden_size,
            unfused=9.0 * wide + 2.0 * hidden_size,
            launches=12,
        )


def hyper_connection_head(*, hidden_size: int, streams: int) -> Operator:
    """Return the row that merges the residual streams before the head."""
    at = Rows("head", 1, Part.HEAD)
    mapping = at.linear("mix", streams * hidden_size, streams, bias=True, division=REPLICATED)
    return _scaled(mapping, 1)


def _scaled(row: Operator, scales: int) -> Operator:
    """Return the row with learned scalars besides its matrix."""
    return row.changed(
        parameters=row.parameters + scales, active_parameters=row.active_parameters + scales
    )


def layer_input_embedding(
    inputs: LayerInputs, *, layers: int, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the table of per-layer embeddings, and the projection that is added to them."""
    at, width = Rows("embedding", 1, Part.EMBEDDING), layers * inputs.width
    moved = FUSED_PASSES * width
    yield at.elementwise(
        "layer_inputs",
        kind=OperatorKind.EMBEDDING,
        division=TENSOR,
        parameters=inputs.vocab_size * width,
        fused=moved,
        unfused=moved,
    )
    yield at.linear("layer_input_projection", hidden_size, width, division=REPLICATED)
    yield at.norm("layer_input_norm", norm, inputs.width, rows=layers)


def layer_input_rows(
    inputs: LayerInputs, *, layers: int, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows of a block's own embedding: gate, product, projection, norm."""
    at = Rows("block.layer_input", layers)
    sides = {"gate": (hidden_size, inputs.width), "projection": (inputs.width, hidden_size)}
    for name, (read, made) in sides.items():
        saved = (linear_input(read, (f"layer_input_{name}",)),)
        yield at.linear(name, read, made, division=REPLICATED, saved=saved)
    yield at.norm("norm", norm, hidden_size, stream=COMPUTE)
