"""What one accelerator holds of the parameters: weights, gradients, optimizer states, buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Part
from advisor.equations.memory import nf4_bytes, stage_share, state_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import (
    block_matrices,
    fold_adapters,
    fold_parameters,
)
from advisor.estimate.training.optimizer_states import (
    gradient_cast_bytes,
    optimizer_bytes_per_parameter,
    update_temporary_bytes,
)
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import (
    SHARD_GRAD_OP,
    StageParameters,
    gathered_end_parameters,
    gathered_format_bytes,
    gradient_bytes_per_parameter,
    master_format_bytes,
    pending_gradients,
    sharded_passing,
)
from advisor.nouns.efficiency import MemoryFacts
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.workload import FineTuningMethod


@dataclass(frozen=True, slots=True)
class StageStates:
    """What a stage holds of its parameters, and what passes through at each moment. [bytes]"""

    weights: Floats
    """In the working format, and of a reference model."""
    master: Floats
    gradients: Floats
    """All of them, at the end of the backward pass."""
    gradients_at_last_block: Floats
    """Those that exist while the backward pass goes through its last block."""
    gradients_at_end: Floats
    """Those that exist at the moment of ``at_end``."""
    optimizer: Floats
    held_gradients: Floats
    """Gradients that exist before the backward pass of a micro-batch."""
    always: Floats
    """Workspaces of libraries, and the buckets of DDP."""
    at_loss: Floats
    """Gathered weights while the loss is computed."""
    at_first_block: Floats
    """Gathered weights and gradients on their way at the start of the blocks' backward pass."""
    at_last_block: Floats
    """The same at its end, when the accumulated gradients are there too."""
    at_end: Floats
    """Gradients of the embedding on their way."""
    at_update: Floats
    """Temporaries of the optimizer."""
    host: Floats
    """What one accelerator needs of its host's memory."""


def _shards(layout: LayoutArrays, level: float) -> tuple[Floats, Floats]:
    """Ranks that share a copy from sharding ``level`` on: of dense and of expert parameters."""
    group = layout.data * layout.context
    dense = np.where(layout.sharding >= level, group, 1.0)
    expert = np.where(layout.sharding >= level, group / layout.expert, 1.0)
    return dense, expert


def _elements(stage: StageParameters, layout: LayoutArrays) -> tuple[Floats, ...]:
    """Parameters that a rank keeps: all, and those left by sharding from level 1, 2 and 3 on."""
    group = layout.data * layout.context
    whole = stage.dense + stage.expert
    divided = np.asarray(
        state_bytes(parameters=stage.dense, bytes_per_parameter=1.0, shards=group)
        + state_bytes(
            parameters=stage.expert, bytes_per_parameter=1.0, shards=group / layout.expert
        )
    )
    return whole, *(np.where(layout.sharding >= level, divided, whole) for level in (1, 2, 3))


def stage_states(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
    block_parameters: Floats,
    layers_held: Floats,
    accumulates: NDArray[np.bool_],
    facts: MemoryFacts,
) -> StageStates:
    """Weights, gradients, optimizer states and what passes through, of one stage.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    layout : LayoutArrays
    stage : StageParameters
        Parameters of the stage on one model-parallel rank.
    block_parameters : ndarray
        Those of its blocks. [elements]
    layers_held : ndarray
        Layers of the stage.
    accumulates : ndarray of bool
        Whether a step has several micro-batches.
    facts : MemoryFacts
        Library workspaces.

    Returns
    -------
    StageStates
        [bytes]

    Notes
    -----
    Fully sharded stacks hold, beside their shards, the gathered weights of a block and of the
    one fetched ahead, the whole gradients of a block, and the message that reduces those of the
    block before (Zhao et al. 2023, arXiv:2304.11277, section 4.2). ``SHARD_GRAD_OP`` keeps what
    it gathered until the backward pass of each block. DDP owns one set of buckets as large as
    the gradients, for good (Li et al. 2020, arXiv:2006.15704, section 4.2).
    """
    zero = np.zeros_like(layers_held)
    always = zero + facts.workspace_bytes
    if run.frozen:
        return _frozen_states(
            architecture, run, layout, stage, block_parameters, layers_held, accumulates, always
        )
    recipe = run.recipe
    working = FORMAT_BYTES[recipe.working]
    _, level1, level2, level3 = _elements(stage, layout)
    group = layout.data * layout.context
    gradient_size = gradient_bytes_per_parameter(run)

    weights = working * level3
    master = zero
    if recipe.master is not None:
        master = FORMAT_BYTES[recipe.master] * level1
    if run.has_reference:
        weights = weights + FORMAT_BYTES["bf16"] * level3
    gradients = gradient_size * level2
    optimizer = optimizer_bytes_per_parameter(architecture, run) * level1
    if recipe.master is None:
        weights = np.where(layout.sharding == SHARD_GRAD_OP, working * level2, weights)
    buckets = (layout.sharding < 1) & (group > 1) & run.stack.copies_gradients_to_buckets
    gradient_sets = gradients * buckets
    if run.switches.gradient_bucket_view:
        gradients = np.where(buckets, 0.0, gradients)
    foreach = master_format_bytes(run) * level1
    foreach = np.where(layout.sharding > SHARD_GRAD_OP, working * level3, foreach)
    passing = sharded_passing(
        architecture, run, layout, stage, block_parameters, layers_held, accumulates
    )
    pending = pending_gradients(architecture, run, layout, stage, block_parameters, layers_held)
    existing = gradients * (1.0 - np.minimum(1.0, pending / np.maximum(level2, 1.0)))
    if run.switches.update_in_backward:
        # Each gradient is used and freed as soon as it exists; a block's are there at most.
        gradients = np.minimum(gradients, block_parameters / layers_held * gradient_size)
        existing = gradients
    kept = run.stack.keeps_gradients or run.switches.kept_gradients
    held = np.where(accumulates | kept, gradients, 0.0)
    return StageStates(
        weights=weights,
        master=master,
        gradients=gradients + passing.undivided_lookup,
        gradients_at_last_block=np.where(passing.waits, 0.0, existing),
        gradients_at_end=gradients - passing.reduced_at_end,
        optimizer=optimizer,
        held_gradients=np.where(passing.waits, 0.0, held),
        always=always + gradient_sets,
        at_loss=passing.at_loss,
        at_first_block=passing.at_first_block,
        at_last_block=passing.at_last_block,
        at_end=passing.at_end,
        at_update=np.where(run.switches.foreach_optimizer, foreach, passing.summed_lookup)
        + update_temporary_bytes(architecture, run) / layout.tensor
        + gradient_cast_bytes(architecture, run, layout, level1),
        host=zero,
    )


def _frozen_states(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
    block_parameters: Floats,
    layers_held: Floats,
    accumulates: NDArray[np.bool_],
    always: Floats,
) -> StageStates:
    """States of adapters on a frozen base, which has neither gradients nor optimizer states."""
    zero = np.zeros_like(layers_held)
    shards = _shards(layout, 3)
    dense, routed = fold_adapters(architecture, run)
    adapters = dense + routed / layout.expert
    adapters = adapters / layout.tensor / layout.pipeline
    adapters = adapters / np.where(layout.sharding >= 1, layout.data, 1.0)
    fold = fold_parameters(architecture)
    ends = stage.dense + stage.expert - block_parameters
    apart, gathered_ends = gathered_end_parameters(run, fold, ends, layout)
    gathers = (layout.sharding > SHARD_GRAD_OP) & (layout.data * layout.context > 1)
    size = gathered_format_bytes(run)
    # A 4-bit base is gathered as it is held, and unpacked product by product.
    packed = float(nf4_bytes(parameters=1.0)) if run.method is FineTuningMethod.QLORA else size
    one_layer = gathers * block_parameters / layers_held * packed
    some_ends = gathers * gathered_ends * size
    weights = _frozen_weights(architecture, run, layout, stage, shards)
    if run.switches.base_raised:
        raised = ends + fold.block_replicated * layers_held / architecture.num_hidden_layers
        weights = weights + 2.0 * raised / shards[0]
    frozen_gradients = zero
    if run.switches.flat_units:
        whole = FORMAT_BYTES["bf16"] * (stage.dense + stage.expert)
        frozen_gradients = (layout.sharding > SHARD_GRAD_OP) * whole
    ends_size = 2.0 * run.switches.trained_ends
    in_block = some_ends + (1.0 if apart else 2.0) * one_layer
    if run.method is FineTuningMethod.QLORA:
        widest = max(op.in_features * op.out_features for op in architecture.in_part(Part.BLOCK))
        in_block = in_block + (2 + 1 / 16) * widest / layout.tensor
    # Trained ends are in the format of the base, and so are their gradients and states.
    gradients = adapters * gradient_bytes_per_parameter(run) + ends * ends_size + frozen_gradients
    return StageStates(
        weights=weights + adapters * FORMAT_BYTES[run.switches.adapter_format] + ends * ends_size,
        master=zero,
        gradients=gradients,
        gradients_at_last_block=gradients,
        gradients_at_end=gradients,
        optimizer=adapters * optimizer_bytes_per_parameter(architecture, run)
        + 2 * ends * ends_size,
        held_gradients=np.where(accumulates, gradients, 0.0),
        always=always,
        at_loss=some_ends + (0.0 if apart else 1.0) * one_layer,
        at_first_block=in_block,
        at_last_block=in_block,
        at_end=zero,
        at_update=zero,
        host=zero,
    )


def _frozen_weights(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
    shards: tuple[Floats, Floats],
) -> Floats:
    """Frozen base weights: 16 bits, or NF4 for the matrices of the blocks. [bytes]"""
    sixteen = 2.0 * _elements(stage, layout)[3]
    if run.method is not FineTuningMethod.QLORA:
        return sixteen
    dense, expert = block_matrices(architecture)
    share = stage_share(
        layers=float(architecture.num_hidden_layers),
        pipeline=layout.pipeline,
        virtual_stages=layout.virtual_stages,
    )
    local = (
        np.asarray(share) / layout.tensor * (dense / shards[0] + expert / layout.expert / shards[1])
    )
    return np.asarray(sixteen - 2.0 * local + np.asarray(nf4_bytes(parameters=local)))


def autocast_copies(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    layers_held: Floats,
    has_head: NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """16-bit copies of fp32 weights that eager autocast keeps: at the end of forward, at the loss.

    The cache lives until the forward pass ends; without recomputation the graph keeps each copy
    until its backward. Autocast leaves the grouped products of experts alone. [bytes]
    """
    cached = run.recipe.autocast and not run.frozen
    if not run.stack.keeps_autocast_copies or not (cached or run.switches.base_raised):
        return np.zeros_like(layers_held), np.zeros_like(layers_held)
    layers = float(architecture.num_hidden_layers)
    dense, _ = block_matrices(architecture)
    head = sum(
        op.in_features * op.out_features for op in architecture.matmuls() if op.part is Part.HEAD
    )
    whole = layout.sharding < SHARD_GRAD_OP + 1
    # Of a frozen base only a raised head is in fp32.
    per_layer = whole * (not run.frozen) * 2.0 * dense / layers / layout.tensor
    heads = whole * 2.0 * head * has_head / layout.tensor
    kept = np.where(layout.recompute >= 2, 1.0, layers_held)
    return per_layer * layers_held + heads, per_layer * kept + heads
