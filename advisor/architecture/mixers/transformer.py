"""Builds the operator rows of a decoder-only transformer from its shape."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers import residual_streams as streams
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
    CompressedAttention,
    ExpertsShape,
    LightningAttention,
    Mixer,
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
    REPLICATED,
    STREAM,
    TENSOR,
    Rows,
    kept,
    linear_input,
)

DROPOUT_PASSES: Final = 2.5
"""Dropout reads a branch and writes it and a mask of one byte for each element."""

LOSS_PASSES: Final = 7.0
"""Unfused cross-entropy per logit, in 16-bit elements: upcast 1+2, log-softmax 2+2."""


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
        yield from streams.layer_input_embedding(
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
        yield from streams.layer_input_rows(
            shape.layer_inputs, layers=layers, hidden_size=hidden, norm=norm
        )
    if shape.alternating is not None:
        yield from streams.alternating_rows(
            shape.alternating, layers=layers, hidden_size=hidden, norm=norm
        )
    if shape.residual_streams > 1:
        yield from streams.hyper_connection_rows(
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
        yield from streams.alternating_head(shape.alternating, hidden_size=width)
    if shape.residual_streams > 1 and not shape.streams_averaged:
        yield streams.hyper_connection_head(hidden_size=width, streams=shape.residual_streams)
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
