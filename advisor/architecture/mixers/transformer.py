"""Builds the operator rows of a decoder-only transformer from its shape."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.attention import attention_rows
from advisor.architecture.mixers.attention import input_readers as attention_readers
from advisor.architecture.mixers.compressed_attention import compressed_attention_rows
from advisor.architecture.mixers.feed_forward import expert_rows, feed_forward_rows
from advisor.architecture.mixers.feed_forward import input_readers as feed_forward_readers
from advisor.architecture.mixers.recurrences import (
    gated_delta_rows,
    lightning_rows,
    selective_scan_rows,
    short_convolution_rows,
    state_space_duality_rows,
)
from advisor.architecture.mixers.shapes import (
    AlternatingUpdates,
    CompressedAttention,
    ExpertsShape,
    LayerInputs,
    LightningAttention,
    Mixer,
    Norm,
    NormPlaces,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDuality,
    TransformerShape,
)
from advisor.architecture.table.operators import Operator, OperatorKind, Part, SavedFormat
from advisor.architecture.table.rows import (
    COMPUTE,
    FUSED_PASSES,
    LOSS_PASSES,
    REPLICATED,
    STREAM,
    TENSOR,
    Rows,
    kept,
    linear_input,
)

DROPOUT_PASSES: Final = 2.5
"""Dropout reads a branch and writes it and a mask of one byte for each element."""


def transformer_operators(shape: TransformerShape) -> tuple[Operator, ...]:
    """Return the operator table of a decoder, in the order of the forward pass, names unique."""
    return (*_embedding(shape), *_blocks(shape), *_head(shape))


def _embedding(shape: TransformerShape) -> Iterator[Operator]:
    for tower in shape.towers:
        row = Rows("tower", 1, Part.EMBEDDING).elementwise(
            tower.name.replace(" ", "_"),
            kind=OperatorKind.EMBEDDING,
            fused=0.0,
            unfused=0.0,
            launches=0,
        )
        yield row.changed(parameters=tower.parameters)
    at, hidden = Rows("embedding", 1, Part.EMBEDDING), shape.hidden_size
    width = shape.embedding_width or hidden
    table = (shape.vocab_size + shape.extra_embeddings) * width
    yield at.elementwise(
        "tokens",
        kind=OperatorKind.EMBEDDING,
        division=TENSOR,
        parameters=table,
        # A tied table is one matrix: its use counts at the head, its storage here.
        active_parameters=0 if shape.tied else table,
        fused=FUSED_PASSES * width,
        unfused=FUSED_PASSES * width,
    )
    if shape.layer_inputs is not None:
        yield from layer_input_embedding(
            shape.layer_inputs, layers=shape.layers, hidden_size=hidden, norm=shape.norm
        )
    if shape.positions:
        yield at.elementwise(
            "positions",
            kind=OperatorKind.EMBEDDING,
            parameters=shape.positions * hidden,
            fused=FUSED_PASSES * hidden,
            # Look up, and add to the token's vector.
            unfused=5.0 * hidden,
            launches=2,
        )
    if shape.embedding_width is not None:
        yield at.linear("projection", shape.embedding_width, hidden, division=REPLICATED)
    if shape.embedding_norm:
        yield at.norm("norm", shape.norm, hidden)


def _blocks(shape: TransformerShape) -> Iterator[Operator]:
    hidden, norm = shape.hidden_size, shape.norm
    for index, attention in enumerate(shape.attention):
        readers = attention_readers(attention)
        if shape.parallel:
            readers += feed_forward_readers(shape.feed_forward[0])
        path = f"block.attention{_ordinal(index)}"
        yield from attention_rows(
            attention, path=path, hidden_size=hidden, norm=norm, readers=readers
        )
    for index, mixer in enumerate(shape.other_mixers):
        at = Rows(f"block.mixer{_ordinal(index)}", mixer.layers)
        yield from _mixer_rows(shape, mixer, at)
    for index, layer in enumerate(shape.feed_forward):
        saved = () if shape.parallel else (linear_input(hidden, feed_forward_readers(layer)),)
        path = f"block.feed_forward{_ordinal(index)}"
        if isinstance(layer, ExpertsShape):
            yield from expert_rows(layer, path=path, hidden_size=hidden, saved=saved)
        else:
            yield from feed_forward_rows(layer, path=path, hidden_size=hidden, saved=saved)
    yield from _block_norms(shape)
    layers = shape.layers
    if shape.layer_inputs is not None:
        yield from layer_input_rows(
            shape.layer_inputs, layers=layers, hidden_size=hidden, norm=norm
        )
    if shape.alternating is not None:
        yield from alternating_rows(shape.alternating, layers=layers, hidden_size=hidden, norm=norm)
    if shape.residual_streams > 1:
        yield from hyper_connection_rows(
            layers=layers, hidden_size=hidden, streams=shape.residual_streams
        )
    yield _residual(shape)


def _mixer_rows(shape: TransformerShape, mixer: Mixer, at: Rows) -> Iterator[Operator]:
    hidden, norm = shape.hidden_size, shape.norm
    if isinstance(mixer, SelectiveScan):
        return selective_scan_rows(mixer, at, hidden)
    if isinstance(mixer, StateSpaceDuality):
        return state_space_duality_rows(mixer, at, hidden, norm)
    if isinstance(mixer, CompressedAttention):
        return compressed_attention_rows(mixer, at, hidden, norm)
    if isinstance(mixer, LightningAttention):
        return lightning_rows(mixer, at, hidden, norm)
    if isinstance(mixer, ShortConvolution):
        return short_convolution_rows(mixer, at, hidden)
    return gated_delta_rows(mixer, at, hidden, norm)


def _block_norms(shape: TransformerShape) -> Iterator[Operator]:
    for place in NormPlaces.model_fields:
        layers = shape.layers
        if shape.single_branch:
            # Each layer has only one branch and its norm.
            mixes = place.startswith("attention")
            layers = shape.mixers if mixes else shape.layers - shape.mixers
        if getattr(shape.places, place) and layers:
            # What a matmul just wrote is in its format; the residual stream has its own.
            stream = COMPUTE if place.endswith("output") else STREAM
            at = Rows("block", layers)
            yield at.norm(f"{place}_norm", shape.norm, shape.hidden_size, stream=stream)
    at = Rows("block", shape.layers)
    for index in range(shape.extra_norms):
        yield at.norm(f"extra_norm{_ordinal(index)}", shape.norm, shape.hidden_size)


def _residual(shape: TransformerShape) -> Operator:
    branches = 1 if shape.single_branch else 2
    moved = branches * shape.hidden_size
    # Each of the block's two branches has a mask.
    masks = kept("dropout_masks", 2 * shape.hidden_size, SavedFormat.BYTE)
    return Rows("block", shape.layers).elementwise(
        "residual",
        # An addition for each branch; fused with a neighbour it reads the branch, writes the sum.
        fused=FUSED_PASSES * moved,
        unfused=(3.0 + (DROPOUT_PASSES if shape.dropout else 0.0)) * moved,
        launches=branches * (2 if shape.dropout else 1),
        saved=(masks,) if shape.dropout else (),
    )


def _ordinal(index: int) -> str:
    return f"_{index + 1}" if index else ""


def _head(shape: TransformerShape) -> Iterator[Operator]:
    at, width, vocab = Rows("head", 1, Part.HEAD), shape.hidden_size, shape.vocab_size
    if shape.alternating is not None:
        yield from alternating_head(shape.alternating, hidden_size=width)
    if shape.residual_streams > 1 and not shape.streams_averaged:
        yield hyper_connection_head(hidden_size=width, streams=shape.residual_streams)
    if shape.final_norm:
        yield at.norm("norm", shape.norm, width)
    if shape.embedding_width is not None:
        yield at.linear("projection", width, shape.embedding_width, division=REPLICATED)
        width = shape.embedding_width
    saved = (linear_input(width, ("head",)),)
    yield at.linear("logits", width, vocab, bias=shape.head_bias, tied=shape.tied, saved=saved)
    yield at.elementwise(
        "loss",
        kind=OperatorKind.CROSS_ENTROPY,
        division=TENSOR,
        out_features=vocab,
        fused=FUSED_PASSES * vocab,
        unfused=LOSS_PASSES * vocab,
        launches=3,
    )


def routed(shape: TransformerShape) -> ExpertsShape | None:
    """Return the routed layers with the most experts, or None for a dense model."""
    layers = [layer for layer in shape.feed_forward if isinstance(layer, ExpertsShape)]
    return max(layers, key=lambda layer: layer.experts, default=None)


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
