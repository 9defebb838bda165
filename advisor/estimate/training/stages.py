"""Pipeline stages that can be the fullest: the first, the last, and an uneven second."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from advisor.equations.training.memory import end_stage_layers, in_flight, stage_share
from advisor.equations.training.peaks import dualpipe_in_flight
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import ParameterFold, fold_parameters
from advisor.estimate.serving.images import tower_parameters
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record

SHARD_GRAD_OP = 2.0
"""Sharding level of ZeRO-2."""


@record
class Stage:
    """One pipeline stage on one model-parallel rank, one element per configuration."""

    layers: Floats
    dense: Floats
    """Parameters that every token passes, including embedding and head. [elements]"""
    expert: Floats
    """Parameters of routed experts. [elements]"""
    block: Floats
    """Parameters of its layers, dense and expert. [elements]"""
    whole: Floats
    """All its parameters. [elements]"""
    ends: Floats
    """Embedding and head, if the stage has them. [elements]"""
    lookup: Floats
    """The embedding's part of ``dense``; its gradient comes last in a backward pass. [elements]"""
    in_flight: Floats
    """Micro-batches whose activations it holds."""
    accumulates: NDArray[np.bool_]
    """Whether a step has several micro-batches."""
    has_head: NDArray[np.bool_]
    is_last: bool


def in_effect(layout: LayoutArrays) -> LayoutArrays:
    """Return the layout with the sharding that takes effect and its ranks.

    Pipelines sum gradients until the last micro-batch, so ZeRO-2 becomes ZeRO-1. If ranks hold two
    stages, twice as many ranks hold each stage.
    """
    summed = (layout.pipeline > 1) & (layout.sharding == SHARD_GRAD_OP)
    sharding = np.where(summed, 1.0, layout.sharding)
    return replace(layout, data=layout.data * _copies(layout), sharding=sharding)


def stages_of(run: TrainingRun, layout: LayoutArrays) -> tuple[Stage, ...]:
    """Return the stages that can be the fullest.

    The first and the last, and the second if the first holds one layer less. Without a pipeline,
    only the last.

    ``layout``: as asked; see :func:`in_effect`.
    """
    fold = fold_parameters(run.architecture)
    if run.method is not None:  # Tools load the whole checkpoint, and pretrain the text alone.
        tables = fold.embedding_replicated + tower_parameters(run.architecture)
        fold = replace(fold, embedding_replicated=tables)
    layers = float(run.architecture.num_hidden_layers)
    micro_batches = np.ceil(run.global_batch / (layout.micro_batch * layout.data))
    stage = partial(_stage, fold, layers, layout, micro_batches)
    tensor, pipeline, piped = layout.tensor, layout.pipeline, layout.pipeline > 1
    chunks = layout.virtual_stages
    # Ranks that hold two stages hold two shares.
    share = stage_share(layers=layers, pipeline=pipeline, virtual_stages=chunks) * _copies(layout)
    held = layers * np.asarray(share)
    given_up = ~layout.dual * np.asarray(
        end_stage_layers(layers=layers, pipeline=pipeline, virtual_stages=chunks)
    )
    embedding = fold.embedding_divided / tensor + fold.embedding_replicated
    head = fold.head_divided / tensor + fold.head_replicated
    head_copy = head + (fold.embedding_divided / tensor if fold.tied else 0.0) * piped
    last = stage(
        index=pipeline - 1,
        held=held - np.maximum(given_up - 1.0, 0.0),
        ends=head_copy + np.where(piped, 0.0, embedding),
        lookup=np.where(piped, 0.0, embedding),
        is_last=True,
    )
    if not piped.any():  # The only stage is the last.
        return (last,)
    fewer = held - np.minimum(given_up, 1.0)
    ends = embedding + np.where(piped, 0.0, head)
    first = stage(index=0.0 * pipeline, held=fewer, ends=ends, lookup=embedding)
    uneven = (given_up > 0) & (pipeline > 2)
    if not uneven.any():
        return first, last
    # If the second stage has one layer more than the first, use it; otherwise repeat the first.
    index, nothing = np.asarray(uneven, dtype=np.float64), 0.0 * embedding
    more = np.where(uneven, held, fewer)
    return first, last, stage(index=index, held=more, ends=nothing, lookup=nothing)


def _stage(
    fold: ParameterFold,
    layers: float,
    layout: LayoutArrays,
    micro_batches: Floats,
    *,
    index: Floats,
    held: Floats,
    ends: Floats,
    lookup: Floats,
    is_last: bool = False,
) -> Stage:
    """Return the stage at a place, with ``held`` of the layers; its ends in parameters."""
    share = held / layers
    block = share * (fold.block_divided / layout.tensor + fold.block_replicated)
    expert = share * fold.block_expert / (layout.tensor * layout.expert)
    dense, block = block + ends, block + expert
    flying = in_flight(
        stage=index,
        pipeline=layout.pipeline,
        virtual_stages=layout.virtual_stages,
        micro_batches=micro_batches,
        beside=layout.overlapped.astype(np.float64),
    )
    if layout.dual.any():
        both = dualpipe_in_flight(pipeline=layout.pipeline, micro_batches=micro_batches)
        flying = np.where(layout.dual, both, flying)
    return Stage(
        layers=held,
        dense=dense,
        expert=expert,
        block=block,
        whole=dense + expert,
        ends=dense + expert - block,
        lookup=lookup,
        in_flight=np.asarray(flying),
        accumulates=micro_batches > 1,
        has_head=np.asarray((layout.pipeline <= 1) | is_last),
        is_last=is_last,
    )


def _copies(layout: LayoutArrays) -> Floats:
    """Stages of the pipeline that each rank holds."""
    return np.where(layout.dual, 2.0, 1.0)
