"""Builds the operator rows of a decoder-only transformer from its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.alternating_updates import alternating_head, alternating_rows
from advisor.architecture.mixers.attention import attention_rows
from advisor.architecture.mixers.attention import input_readers as attention_readers
from advisor.architecture.mixers.compressed_attention import (
    compressed_attention_rows,
    hyper_connection_head,
    hyper_connection_rows,
)
from advisor.architecture.mixers.experts import expert_rows
from advisor.architecture.mixers.feed_forward import feed_forward_rows
from advisor.architecture.mixers.feed_forward import input_readers as feed_forward_readers
from advisor.architecture.mixers.linear_attention import (
    gated_delta_rows,
    lightning_rows,
    short_convolution_rows,
)
from advisor.architecture.mixers.shapes import (
    ExpertsShape,
    LayerInputs,
    NormPlaces,
    TransformerShape,
)
from advisor.architecture.mixers.shapes_of_mixers import (
    CompressedAttention,
    LightningAttention,
    Mixer,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDuality,
)
from advisor.architecture.mixers.state_space import selective_scan_rows, state_space_duality_rows
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.rows import (
    FUSED_PASSES,
    elementwise,
    linear,
    linear_input,
    normalization,
)

DROPOUT_PASSES: Final = 2.5
"""Dropout reads a branch and writes it and a mask of one byte for each element."""

LOSS_PASSES: Final = 7.0
"""Unfused cross-entropy per logit, in 16-bit elements: upcast 1+2, log-softmax 2+2."""


def transformer_operators(shape: TransformerShape) -> tuple[Operator, ...]:
    """Return the operator table of a decoder-only transformer.

    Returns
    -------
    tuple of Operator
        Rows in the order of the forward pass; names are unique.
    """
    return (*_embedding(shape), *_blocks(shape), *_head(shape))


def _embedding(shape: TransformerShape) -> Iterator[Operator]:
    for tower in shape.towers:
        yield elementwise(
            f"tower.{tower.name.replace(' ', '_')}",
            kind=OperatorKind.EMBEDDING,
            part=Part.EMBEDDING,
            layers=1,
            fused=0.0,
            unfused=0.0,
            launches=0,
        ).model_copy(update={"parameters": tower.parameters})
    width = shape.embedding_width or shape.hidden_size
    table = (shape.vocab_size + shape.extra_embeddings) * width
    yield elementwise(
        "embedding.tokens",
        kind=OperatorKind.EMBEDDING,
        part=Part.EMBEDDING,
        layers=1,
        division=Division.TENSOR,
        fused=FUSED_PASSES * width,
        unfused=FUSED_PASSES * width,
        launches=1,
    ).model_copy(
        # A tied table is one matrix: its use counts at the head, its storage here.
        update={"parameters": table, "active_parameters": 0 if shape.tied else table}
    )
    if shape.layer_inputs is not None:
        yield from _layer_input_embedding(shape, shape.layer_inputs)
    if shape.positions:
        learned = shape.positions * shape.hidden_size
        yield elementwise(
            "embedding.positions",
            kind=OperatorKind.EMBEDDING,
            part=Part.EMBEDDING,
            layers=1,
            fused=FUSED_PASSES * shape.hidden_size,
            # Look up, and add to the token's vector.
            unfused=5.0 * shape.hidden_size,
            launches=2,
        ).model_copy(update={"parameters": learned, "active_parameters": learned})
    if shape.embedding_width is not None:
        yield linear(
            "embedding.projection",
            part=Part.EMBEDDING,
            layers=1,
            in_features=shape.embedding_width,
            out_features=shape.hidden_size,
            division=Division.REPLICATED,
        )
    if shape.embedding_norm:
        yield normalization(
            "embedding.norm",
            norm=shape.norm,
            part=Part.EMBEDDING,
            layers=1,
            width=shape.hidden_size,
        )


def _layer_input_embedding(shape: TransformerShape, inputs: LayerInputs) -> Iterator[Operator]:
    """Yield the table of per-layer embeddings, and the projection that is added to them."""
    width = shape.layers * inputs.width
    table = inputs.vocab_size * width
    yield elementwise(
        "embedding.layer_inputs",
        kind=OperatorKind.EMBEDDING,
        part=Part.EMBEDDING,
        layers=1,
        division=Division.TENSOR,
        fused=FUSED_PASSES * width,
        unfused=FUSED_PASSES * width,
        launches=1,
    ).model_copy(update={"parameters": table, "active_parameters": table})
    yield linear(
        "embedding.layer_input_projection",
        part=Part.EMBEDDING,
        layers=1,
        in_features=shape.hidden_size,
        out_features=width,
        division=Division.REPLICATED,
    )
    yield normalization(
        "embedding.layer_input_norm",
        norm=shape.norm,
        part=Part.EMBEDDING,
        layers=1,
        width=inputs.width,
        rows=shape.layers,
    )


def _blocks(shape: TransformerShape) -> Iterator[Operator]:
    hidden, norm = shape.hidden_size, shape.norm
    for index, attention in enumerate(shape.attention):
        readers = attention_readers(attention)
        if shape.parallel:
            readers += feed_forward_readers(shape.feed_forward[0])
        yield from attention_rows(
            attention,
            path=f"block.attention{_ordinal(index)}",
            hidden_size=hidden,
            norm=norm,
            block_input=readers,
        )
    for index, mixer in enumerate(shape.other_mixers):
        yield from _mixer_rows(shape, mixer, path=f"block.mixer{_ordinal(index)}")
    for index, layer in enumerate(shape.feed_forward):
        saved = () if shape.parallel else (linear_input(hidden, feed_forward_readers(layer)),)
        path = f"block.feed_forward{_ordinal(index)}"
        if isinstance(layer, ExpertsShape):
            yield from expert_rows(layer, path=path, hidden_size=hidden, saved=saved)
        else:
            yield from feed_forward_rows(layer, path=path, hidden_size=hidden, saved=saved)
    for place in NormPlaces.model_fields:
        if getattr(shape.places, place) and _normalised_layers(shape, place):
            # What a matmul just wrote is in its format; the residual stream has its own.
            after = place.endswith("output")
            yield normalization(
                f"block.{place}_norm",
                norm=norm,
                layers=_normalised_layers(shape, place),
                width=hidden,
                stream=SavedFormat.COMPUTE if after else SavedFormat.STREAM,
            )
    for index in range(shape.extra_norms):
        yield normalization(
            f"block.extra_norm{_ordinal(index)}", norm=norm, layers=shape.layers, width=hidden
        )
    if shape.layer_inputs is not None:
        yield from _layer_input_rows(shape, shape.layer_inputs)
    if shape.alternating is not None:
        yield from alternating_rows(
            shape.alternating, layers=shape.layers, hidden_size=hidden, norm=norm
        )
    if shape.residual_streams > 1:
        yield from hyper_connection_rows(
            layers=shape.layers, hidden_size=hidden, streams=shape.residual_streams
        )
    branches = 1 if shape.single_branch else 2
    dropout = DROPOUT_PASSES if shape.dropout else 0.0
    yield elementwise(
        "block.residual",
        layers=shape.layers,
        # An addition for each branch; fused with a neighbour it reads the branch, writes the sum.
        fused=branches * FUSED_PASSES * hidden,
        unfused=branches * (3.0 + dropout) * hidden,
        launches=branches * (2 if shape.dropout else 1),
        saved=_dropout_masks(shape),
    )


def _mixer_rows(shape: TransformerShape, mixer: Mixer, *, path: str) -> Iterator[Operator]:
    hidden = shape.hidden_size
    if isinstance(mixer, SelectiveScan):
        return selective_scan_rows(mixer, path=path, hidden_size=hidden)
    if isinstance(mixer, StateSpaceDuality):
        return state_space_duality_rows(mixer, path=path, hidden_size=hidden, norm=shape.norm)
    if isinstance(mixer, CompressedAttention):
        return compressed_attention_rows(mixer, path=path, hidden_size=hidden, norm=shape.norm)
    if isinstance(mixer, LightningAttention):
        return lightning_rows(mixer, path=path, hidden_size=hidden, norm=shape.norm)
    if isinstance(mixer, ShortConvolution):
        return short_convolution_rows(mixer, path=path, hidden_size=hidden)
    return gated_delta_rows(mixer, path=path, hidden_size=hidden, norm=shape.norm)


def _normalised_layers(shape: TransformerShape, place: str) -> int:
    """Return the number of layers with a norm: all, or those with the branch if there is one."""
    if not shape.single_branch:
        return shape.layers
    return shape.mixers if place.startswith("attention") else shape.layers - shape.mixers


def _layer_input_rows(shape: TransformerShape, inputs: LayerInputs) -> Iterator[Operator]:
    """Yield the rows of a block's own embedding: gate, product, projection, norm."""
    hidden, width, layers = shape.hidden_size, inputs.width, shape.layers
    yield linear(
        "block.layer_input.gate",
        layers=layers,
        in_features=hidden,
        out_features=width,
        division=Division.REPLICATED,
        saved=(linear_input(hidden, ("layer_input_gate",)),),
    )
    yield linear(
        "block.layer_input.projection",
        layers=layers,
        in_features=width,
        out_features=hidden,
        division=Division.REPLICATED,
        saved=(linear_input(width, ("layer_input_projection",)),),
    )
    yield normalization(
        "block.layer_input.norm",
        norm=shape.norm,
        layers=layers,
        width=hidden,
        stream=SavedFormat.COMPUTE,
    )


def _dropout_masks(shape: TransformerShape) -> tuple[SavedTensor, ...]:
    """Return one mask for each of the block's two branches."""
    if not shape.dropout:
        return ()
    elements = 2.0 * shape.hidden_size
    return (
        SavedTensor(name="dropout_masks", elements_per_token=elements, format=SavedFormat.BYTE),
    )


def _ordinal(index: int) -> str:
    return f"_{index + 1}" if index else ""


def _head(shape: TransformerShape) -> Iterator[Operator]:
    width = shape.hidden_size
    if shape.alternating is not None:
        yield from alternating_head(shape.alternating, hidden_size=width)
    if shape.residual_streams > 1 and not shape.streams_averaged:
        yield hyper_connection_head(hidden_size=width, streams=shape.residual_streams)
    if shape.final_norm:
        yield normalization(
            "head.norm", norm=shape.norm, part=Part.HEAD, layers=1, width=shape.hidden_size
        )
    if shape.embedding_width is not None:
        width = shape.embedding_width
        yield linear(
            "head.projection",
            part=Part.HEAD,
            layers=1,
            in_features=shape.hidden_size,
            out_features=width,
            division=Division.REPLICATED,
        )
    yield linear(
        "head.logits",
        part=Part.HEAD,
        layers=1,
        in_features=width,
        out_features=shape.vocab_size,
        bias=shape.head_bias,
        tied=shape.tied,
        saved=(linear_input(width, ("head",)),),
    )
    yield Operator(
        name="head.loss",
        kind=OperatorKind.CROSS_ENTROPY,
        part=Part.HEAD,
        layers=1,
        division=Division.TENSOR,
        out_features=shape.vocab_size,
        moved_elements_per_token=FUSED_PASSES * shape.vocab_size,
        moved_elements_per_token_unfused=LOSS_PASSES * shape.vocab_size,
        launches=3,
    )


def routed(shape: TransformerShape) -> ExpertsShape | None:
    """Return the routed layers with the most experts, or None for a dense model."""
    layers = [layer for layer in shape.feed_forward if isinstance(layer, ExpertsShape)]
    return max(layers, key=lambda layer: layer.experts, default=None)
