"""Parameter states of one accelerator: weights, gradients, optimizer states, buffers."""

import numpy as np

from advisor.architecture.table.operators import Part
from advisor.equations.training.memory import nf4_bytes, stage_share
from advisor.equations.training.peaks import gradients_present_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import block_matrices, fold_adapters, fold_parameters
from advisor.estimate.training.optimizer_states import (
    gradient_cast_bytes,
    optimizer_bytes_per_parameter,
    update_temporary_bytes,
)
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import (
    gathered_end_parameters,
    gathered_format_bytes,
    gradient_bytes_per_parameter,
    master_format_bytes,
    pending_gradients,
    sharded_transients,
)
from advisor.estimate.training.stages import SHARD_GRAD_OP, Stage
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.links_and_memory import MemoryFacts
from advisor.nouns.training_choices import FineTuningMethod


@record
class StageStates:
    """Parameter states of a stage, and its temporaries at each moment. [bytes]"""

    weights: Floats
    """Weights in the working format, including a reference model's."""
    master: Floats
    gradients: Floats
    """All gradients, at the end of the backward pass."""
    gradients_at_last_block: Floats
    """Gradients that exist while the backward pass is in its last block."""
    gradients_at_end: Floats
    """Gradients that exist at the moment of ``at_end``."""
    optimizer: Floats
    held_gradients: Floats
    """Gradients that exist before the backward pass of a micro-batch."""
    always: Floats
    """Workspaces of libraries, and the buckets of DDP."""
    at_loss: Floats
    """Gathered weights while the loss is computed."""
    at_first_block: Floats
    """Gathered weights and gradients in transit at the start of the blocks' backward pass."""
    at_last_block: Floats
    """The same at its end, when the accumulated gradients are there too."""
    at_end: Floats
    """Gradients of the embedding in transit."""
    at_update: Floats
    """Temporaries of the optimizer."""
    host: Floats
    """Host memory for one accelerator."""


@record
class _Kept:
    """Parameters that a rank keeps, by the sharding level that divides them. [elements]"""

    from_zero1: Floats
    from_zero2: Floats
    from_zero3: Floats


@record
class _Gradients:
    """Gradients of a stage's parameters. [bytes]"""

    whole: Floats
    at_last_block: Floats
    held: Floats
    """Before the backward pass of a micro-batch."""
    buckets: Floats
    """Second set of gradients, in which plain data parallelism sums."""


def _kept(stage: Stage, layout: LayoutArrays) -> _Kept:
    """Divide a stage's parameters (Rajbhandari et al. 2020, arXiv:1910.02054, section 5).

    Leaves out padding to multiples of the group's size.
    """
    group = layout.data * layout.context
    divided = stage.dense / group + stage.expert / (group / layout.expert)
    return _Kept(*(np.where(layout.sharding >= level, divided, stage.whole) for level in (1, 2, 3)))


def stage_states(
    run: TrainingRun, layout: LayoutArrays, stage: Stage, facts: MemoryFacts
) -> StageStates:
    """Weights, gradients, optimizer states and temporaries of one stage. [bytes]

    Besides their shards, fully sharded stacks hold the gathered weights of a block and of the
    prefetched one, the whole gradients of a block, and the message that reduces the gradients of
    the previous block (Zhao et al. 2023, arXiv:2304.11277, section 4.2). ``SHARD_GRAD_OP`` keeps
    gathered weights until the backward pass of each block. DDP permanently holds one set of
    buckets as large as the gradients (Li et al. 2020, arXiv:2006.15704, section 4.2).
    """
    if run.frozen:
        return _frozen_states(run, layout, stage, facts)
    kept = _kept(stage, layout)
    zero = np.zeros_like(stage.layers)
    master = zero
    if run.recipe.master is not None:
        master = FORMAT_BYTES[run.recipe.master] * kept.from_zero1
    transient = sharded_transients(run, layout, stage)
    gradients = _gradients(run, layout, stage, kept)
    return StageStates(
        weights=_weights(run, layout, kept),
        master=master,
        gradients=gradients.whole + transient.undivided_lookup,
        gradients_at_last_block=np.where(transient.waits, 0.0, gradients.at_last_block),
        gradients_at_end=gradients.whole - transient.reduced_at_end,
        optimizer=optimizer_bytes_per_parameter(run) * kept.from_zero1,
        held_gradients=np.where(transient.waits, 0.0, gradients.held),
        always=zero + facts.workspace_bytes + gradients.buckets,
        at_loss=transient.at_loss,
        at_first_block=transient.at_first_block,
        at_last_block=transient.at_last_block,
        at_end=transient.at_end,
        at_update=_at_update(run, layout, kept, transient.summed_lookup),
        host=zero,
    )


def _weights(run: TrainingRun, layout: LayoutArrays, kept: _Kept) -> Floats:
    """Weights in the working format, and of a reference model. [bytes]"""
    working = FORMAT_BYTES[run.recipe.working]
    weights = working * kept.from_zero3
    if run.has_reference:
        weights = weights + FORMAT_BYTES["bf16"] * kept.from_zero3
    if run.recipe.master is None:
        weights = np.where(layout.sharding == SHARD_GRAD_OP, working * kept.from_zero2, weights)
    return weights


def _gradients(run: TrainingRun, layout: LayoutArrays, stage: Stage, kept: _Kept) -> _Gradients:
    size = gradient_bytes_per_parameter(run)
    whole = size * kept.from_zero2
    copied = (layout.sharding < 1) & (layout.data * layout.context > 1)
    copied &= run.stack.copies_gradients_to_buckets
    buckets = whole * copied
    if run.switches.gradient_bucket_view:
        whole = np.where(copied, 0.0, whole)
    present = np.asarray(
        gradients_present_bytes(
            gradient_bytes=whole,
            pending=pending_gradients(run, layout, stage),
            parameters=kept.from_zero2,
        )
    )
    if run.switches.update_in_backward:
        # Each gradient is used and freed at once, so at most one block's gradients exist.
        whole = np.minimum(whole, stage.block / stage.layers * size)
        present = whole
    stays = run.stack.keeps_gradients or run.switches.kept_gradients
    held = np.where(stage.accumulates | stays, whole, 0.0)
    return _Gradients(whole=whole, at_last_block=present, held=held, buckets=buckets)


def _at_update(
    run: TrainingRun, layout: LayoutArrays, kept: _Kept, summed_lookup: Floats
) -> Floats:
    """Temporaries of the optimizer, and the lookup gradient's sum. [bytes]"""
    copies = master_format_bytes(run) * kept.from_zero1
    shards = FORMAT_BYTES[run.recipe.working] * kept.from_zero3
    copies = np.where(layout.sharding > SHARD_GRAD_OP, shards, copies)
    return np.asarray(
        np.where(run.switches.foreach_optimizer, copies, summed_lookup)
        + update_temporary_bytes(run) / layout.tensor
        + gradient_cast_bytes(run, layout, kept.from_zero1)
    )


def _frozen_states(
    run: TrainingRun, layout: LayoutArrays, stage: Stage, facts: MemoryFacts
) -> StageStates:
    """States of adapters on a frozen base, which has neither gradients nor optimizer states."""
    zero = np.zeros_like(stage.layers)
    adapters = _adapters(run, layout)
    apart, gathered_ends = gathered_end_parameters(
        run, fold_parameters(run.architecture), stage.ends, layout
    )
    gathers = (layout.sharding > SHARD_GRAD_OP) & (layout.data * layout.context > 1)
    size = gathered_format_bytes(run)
    four_bit = run.method is FineTuningMethod.QLORA
    # A 4-bit base is gathered in 4 bits, and unpacked product by product.
    packed = float(nf4_bytes(parameters=1.0)) if four_bit else size
    one_layer = gathers * stage.block / stage.layers * packed
    some_ends = gathers * gathered_ends * size
    in_block = some_ends + (1.0 if apart else 2.0) * one_layer
    if four_bit:
        widest = max(
            op.in_features * op.out_features for op in run.architecture.in_part(Part.BLOCK)
        )
        # Two bytes each, and an fp32 scale for each block of 64 (Dettmers et al. 2023, section 3).
        in_block = in_block + (2 + 1 / 16) * widest / layout.tensor
    # A trained embedding or head, its gradients and states are in the format of the base.
    trained_ends = stage.ends * (2.0 * run.switches.trained_ends)
    weights, host = _frozen_weights(run, layout, stage), zero
    if run.switches.embedding_on_host:
        host = zero + FORMAT_BYTES["bf16"] * fold_parameters(run.architecture).embedding_divided
    gradients = adapters * gradient_bytes_per_parameter(run) + trained_ends
    if run.switches.flat_units:  # Frozen weights have gradients where they share one with adapters.
        flat = layout.sharding > SHARD_GRAD_OP
        gradients = gradients + flat * (FORMAT_BYTES["bf16"] * stage.whole)
    return StageStates(
        weights=weights
        - host
        + adapters * FORMAT_BYTES[run.switches.adapter_format]
        + trained_ends,
        master=zero,
        gradients=gradients,
        gradients_at_last_block=gradients,
        gradients_at_end=gradients,
        optimizer=adapters * optimizer_bytes_per_parameter(run) + 2 * trained_ends,
        held_gradients=np.where(stage.accumulates, gradients, 0.0),
        always=zero + facts.workspace_bytes,
        at_loss=some_ends + (0.0 if apart else 1.0) * one_layer,
        at_first_block=in_block,
        at_last_block=in_block,
        at_end=zero,
        at_update=zero,
        host=host,
    )


def _adapters(run: TrainingRun, layout: LayoutArrays) -> Floats:
    """Parameters of adapters that a rank keeps. [elements]"""
    dense, routed = fold_adapters(run)
    adapters = (dense + routed / layout.expert) / layout.tensor / layout.pipeline
    return adapters / np.where(layout.sharding >= 1, layout.data, 1.0)


def _frozen_weights(run: TrainingRun, layout: LayoutArrays, stage: Stage) -> Floats:
    """Frozen base weights: 16 bits, or NF4 for the matrices of the blocks. [bytes]"""
    group = layout.data * layout.context
    full = layout.sharding >= SHARD_GRAD_OP + 1
    ranks = np.where(full, group, 1.0)
    four_bit: Floats = np.zeros_like(ranks)
    if run.method is FineTuningMethod.QLORA:
        dense, expert = block_matrices(run.architecture)
        share = stage_share(
            layers=float(run.architecture.num_hidden_layers),
            pipeline=layout.pipeline,
            virtual_stages=layout.virtual_stages,
        )
        of_expert = np.where(full, group / layout.expert, 1.0)
        each = dense / ranks + expert / layout.expert / of_expert
        four_bit = np.asarray(share) / layout.tensor * each
    weights = 2.0 * _kept(stage, layout).from_zero3 - 2.0 * four_bit
    weights = weights + nf4_bytes(parameters=four_bit)
    if not run.switches.base_raised:
        return weights
    replicated = fold_parameters(run.architecture).block_replicated
    raised = stage.ends + replicated * stage.layers / run.architecture.num_hidden_layers
    return weights + 2.0 * raised / ranks


def autocast_copies(run: TrainingRun, layout: LayoutArrays, stage: Stage) -> tuple[Floats, Floats]:
    """16-bit copies of fp32 weights that eager autocast keeps: at the end of forward, at the loss.

    The cache exists until the forward pass ends. Without recomputation, the graph keeps each copy
    until its backward pass. Autocast does not cast the grouped products of experts. [bytes]
    """
    cached = run.recipe.autocast and not run.frozen
    if not run.stack.keeps_autocast_copies or not (cached or run.switches.base_raised):
        return np.zeros_like(stage.layers), np.zeros_like(stage.layers)
    layers = float(run.architecture.num_hidden_layers)
    dense, _ = block_matrices(run.architecture)
    head = sum(
        op.in_features * op.out_features
        for op in run.architecture.matmuls()
        if op.part is Part.HEAD
    )
    whole = layout.sharding < SHARD_GRAD_OP + 1
    # In a frozen base, only a raised head is in fp32.
    per_layer = whole * (not run.frozen) * 2.0 * dense / layers / layout.tensor
    heads = whole * 2.0 * head * stage.has_head / layout.tensor
    kept = np.where(layout.recompute >= 2, 1.0, stage.layers)
    return per_layer * stage.layers + heads, per_layer * kept + heads
