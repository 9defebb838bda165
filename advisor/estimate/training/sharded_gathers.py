"""What sharded stacks gather and reduce of one pipeline stage, and which gradients still wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import ParameterFold, fold_parameters
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.workload import GradientSync

SHARD_GRAD_OP: Final = 2.0
"""Sharding level of ZeRO-2."""


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters of one pipeline stage on one model-parallel rank. [elements]"""

    dense: Floats
    expert: Floats
    lookup: Floats
    """The embedding among the dense ones: its gradient is the last of a backward pass."""


def gradient_bytes_per_parameter(run: TrainingRun) -> float:
    """Size of one accumulated gradient under the run's software. [bytes]"""
    if run.frozen:
        return FORMAT_BYTES[run.switches.adapter_format]
    summed_in = run.stack.gradient_format
    if run.recipe.master is not None and summed_in is not None:
        return FORMAT_BYTES[run.switches.reduce_format or summed_in]
    return FORMAT_BYTES[run.recipe.gradients]


@dataclass(frozen=True, slots=True)
class ShardedPassing:
    """Gathered weights and gradients on their way, by moment. [bytes]"""

    at_loss: Floats
    at_first_block: Floats
    at_last_block: Floats
    at_end: Floats
    reduced_at_end: Floats
    """Gradients that are on their way at that moment."""
    waits: NDArray[np.bool_]
    """Whether whole gradients wait for the last micro-batch, and no share of them exists before."""
    undivided_lookup: Floats
    summed_lookup: Floats
    """Its part of this rank, beside the undivided one, for the optimizer."""


def sharded_passing(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
    block_parameters: Floats,
    layers_held: Floats,
    accumulates: NDArray[np.bool_],
) -> ShardedPassing:
    """What sharded stacks gather and reduce, see :func:`stage_states`. [bytes]"""
    recipe = run.recipe
    gradient_size = gradient_bytes_per_parameter(run)
    gathered_size = gathered_format_bytes(run)
    reduce_size = FORMAT_BYTES[run.switches.reduce_format or recipe.gradients]
    group = layout.data * layout.context
    together = group > 1
    full = layout.sharding > SHARD_GRAD_OP
    # A pipeline would gather anew for each micro-batch; stacks keep the weights instead.
    kept = (layout.sharding == SHARD_GRAD_OP) & (recipe.master is None) | full & (
        layout.pipeline > 1
    )
    kept = kept & together
    gathers = full & together & ~kept
    reduces = (layout.sharding >= SHARD_GRAD_OP) & together

    fold = fold_parameters(architecture)
    whole = stage.dense + stage.expert
    ends = whole - block_parameters
    apart, gathered_ends = gathered_end_parameters(run, fold, ends, layout)
    ahead = 0.0 if apart else 1.0
    one_layer = block_parameters / layers_held
    everything = kept * (gathered_size * whole)
    some_ends = gathers * gathered_ends * gathered_size
    blocks = gathers * one_layer * gathered_size
    head = np.minimum(ends, fold.head_divided / layout.tensor)
    gradients = (one_layer + ahead * head) * gathered_size + one_layer * reduce_size
    if run.stack.reduces_in_place:
        gradients = one_layer * gradient_size
    # Nor does it reduce before the last micro-batch: whole gradients gather in the master's format.
    defers = accumulates & (run.switches.gradient_sync is GradientSync.LAST)
    waits = reduces & (full & (layout.pipeline > 1) | defers)
    summed = waits * (max(reduce_size, master_format_bytes(run)) * whole)
    # The lookup's gradient is not divided on its way: DTensor sums it over the tensor ranks.
    embedding = np.minimum(ends, fold.embedding_divided / layout.tensor)
    undivided = np.minimum(ends * layout.tensor, fold.embedding_divided)
    lookup = embedding if run.stack.divides_lookup_gradient else undivided
    reduced_ends = embedding + ahead * head
    # Beside the message the root unit's gradients exist whole until they are reduced, or a lookup's
    # sum; then the lookup's still does, unless it was added to a tied head's.
    undivided = lookup > embedding
    summed_lookup = np.asarray(undivided * embedding, dtype=np.float64)
    own = reduced_ends * gradient_size / group
    alone = 0.0 if architecture.tied_embeddings else 1.0
    after = (alone * lookup + summed_lookup) * gathered_size
    before = np.where(undivided, after, ahead * reduced_ends * gathered_size)
    first = undivided | (before - own > after)
    return ShardedPassing(
        at_loss=everything + some_ends + ahead * blocks + summed,
        at_first_block=everything + some_ends + (1 + ahead) * blocks + reduces * gradients + summed,
        at_last_block=some_ends
        + summed
        + kept * (ends + one_layer) * gathered_size
        + (1 + ahead) * blocks
        + reduces * gradients,
        at_end=reduces * (np.where(first, before, after) + reduced_ends * reduce_size),
        reduced_at_end=reduces * first * own,
        waits=waits,
        undivided_lookup=(lookup - embedding) * gradient_size * ~reduces,
        summed_lookup=summed_lookup * gradient_size * ~reduces,
    )


def pending_gradients(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
    block_parameters: Floats,
    layers_held: Floats,
) -> Floats:
    """Gradients that a rank has not yet while the backward pass is in its last block. [elements]

    The embedding's, unless a tied head made it before. Sharded stacks reduce those of the root
    unit together at the end, and two blocks are on their way.
    """
    alone = (layout.pipeline > 1) | (not architecture.tied_embeddings)
    group = layout.data * layout.context
    reduces = (layout.sharding >= SHARD_GRAD_OP) & (group > 1)
    apart, _ = gathered_end_parameters(run, fold_parameters(architecture), stage.lookup, layout)
    ends = stage.lookup * alone
    if not apart:
        ends = np.where(reduces, stage.dense + stage.expert - block_parameters, ends)
    blocks = np.minimum(2.0, layers_held) * block_parameters / layers_held
    return np.asarray(np.where(reduces, (ends + blocks) / group, ends))


def master_format_bytes(run: TrainingRun) -> float:
    """Size of a weight that the optimizer updates. [bytes]"""
    return FORMAT_BYTES[run.recipe.master or run.recipe.working]


def gathered_format_bytes(run: TrainingRun) -> float:
    """Size of a gathered weight: the working format, yet no wider than the arithmetic."""
    working = FORMAT_BYTES[run.recipe.working]
    return min(working, 2.0) if run.recipe.compute != "fp32" else working


def gathered_end_parameters(
    run: TrainingRun, fold: ParameterFold, ends: Floats, layout: LayoutArrays
) -> tuple[bool, Floats]:
    """Whether the ends are sharded apart, and how much of them is held gathered. [elements]

    Stacks that shard them apart hold the larger at a time, others both throughout (Zhao et al.
    2023, section 4.2).
    """
    apart = run.switches.ends_apart
    if apart is None:
        apart = run.stack.shards_ends_apart
    if not apart:
        return apart, ends
    larger = max(fold.embedding_divided, fold.head_divided) / layout.tensor
    return apart, np.minimum(ends, larger)
