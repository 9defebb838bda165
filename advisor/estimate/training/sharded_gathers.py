"""Gathers and reductions of sharded stacks on one pipeline stage, and waiting gradients."""

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Candidates, Floats, LayoutArrays
from advisor.estimate.fold import ParameterFold, adapted, fold_parameters
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.stages import SHARD_GRAD_OP, Stage
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.training_choices import GradientSync


def gradient_bytes_per_parameter(run: TrainingRun) -> float:
    """Size of one accumulated gradient under the run's software. [bytes]"""
    if run.frozen:
        return FORMAT_BYTES[run.switches.adapter_format]
    summed_in = run.stack.gradient_format
    if run.recipe.master is not None and summed_in is not None:
        return FORMAT_BYTES[run.switches.reduce_format or summed_in]
    return FORMAT_BYTES[run.recipe.gradients]


@record
class ShardedPassing:
    """Gathered weights and gradients in transit, by moment. [bytes]"""

    at_loss: Floats
    at_first_block: Floats
    at_last_block: Floats
    at_end: Floats
    reduced_at_end: Floats
    """Gradients in transit at that moment."""
    waits: NDArray[np.bool_]
    """Whether whole gradients wait for the last micro-batch; no shard exists before it."""
    undivided_lookup: Floats
    summed_lookup: Floats
    """The rank's shard, which the optimizer needs besides the whole gradient."""


@record
class _Habits:
    """How the ranks of each configuration gather and reduce sharded states."""

    keeps: NDArray[np.bool_]
    """Weights are gathered in the forward pass and stay until each block's backward pass."""
    gathers: NDArray[np.bool_]
    """Weights are gathered for each pass."""
    reduces: NDArray[np.bool_]
    """Gradients are reduced and scattered during the backward pass."""
    waits: NDArray[np.bool_]


@record
class _EndGradients:
    """Gradients of embedding and head in transit at the end of a backward pass. [bytes]"""

    transient: Floats
    own: Floats
    """This rank's share of the gradients that are not reduced yet at the fuller moment."""
    undivided: Floats
    summed: Floats


def sharded_transients(run: TrainingRun, layout: LayoutArrays, stage: Stage) -> ShardedPassing:
    """Gathers and reductions of sharded stacks; see :func:`stage_states`. [bytes]"""
    habits = _habits(run, layout, stage)
    fold = fold_parameters(run.architecture)
    gathered_size = gathered_format_bytes(run)
    apart, gathered_ends = gathered_end_parameters(run, fold, stage.ends, layout)
    ahead = 0.0 if apart else 1.0
    one_layer = stage.block / stage.layers
    everything = habits.keeps * (gathered_size * stage.whole)
    ends = habits.gathers * gathered_ends * gathered_size
    blocks = habits.gathers * one_layer * gathered_size
    head = ahead * np.minimum(stage.ends, fold.head_divided / layout.tensor)
    reduced = habits.reduces * _gradients_of_block(run, one_layer, head)
    # Whole gradients wait in the wider of two formats: the master's and their message's.
    widest = max(_message_format_bytes(run), master_format_bytes(run))
    waiting = habits.waits * (widest * stage.whole)
    last = _end_gradients(run, layout, stage, head)
    return ShardedPassing(
        at_loss=everything + ends + ahead * blocks + waiting,
        at_first_block=everything + ends + (1 + ahead) * blocks + reduced + waiting,
        at_last_block=ends
        + waiting
        + habits.keeps * (stage.ends + one_layer) * gathered_size
        + (1 + ahead) * blocks
        + reduced,
        at_end=habits.reduces * last.transient,
        reduced_at_end=habits.reduces * last.own,
        waits=habits.waits,
        undivided_lookup=last.undivided * ~habits.reduces,
        summed_lookup=last.summed * ~habits.reduces,
    )


def _habits(run: TrainingRun, layout: LayoutArrays, stage: Stage) -> _Habits:
    together = layout.data * layout.context > 1
    full = layout.sharding > SHARD_GRAD_OP
    piped = layout.pipeline > 1
    # A pipeline would gather weights for each micro-batch; stacks keep them instead.
    half = (layout.sharding == SHARD_GRAD_OP) & (run.recipe.master is None)
    keeps = (half | full & piped) & together
    reduces = (layout.sharding >= SHARD_GRAD_OP) & together
    # A pipeline does not reduce before the last micro-batch either.
    defers = stage.accumulates & (run.switches.gradient_sync is GradientSync.LAST)
    return _Habits(
        keeps=keeps,
        gathers=full & together & ~keeps,
        reduces=reduces,
        waits=reduces & (full & piped | defers),
    )


def _message_format_bytes(run: TrainingRun) -> float:
    """Size of a gradient in the message that reduces it. [bytes]"""
    return FORMAT_BYTES[run.switches.reduce_format or run.recipe.gradients]


def _gradients_of_block(run: TrainingRun, one_layer: Floats, head: Floats) -> Floats:
    """Whole gradients of a block, and of the head before it, and the block's message. [bytes]"""
    if run.stack.reduces_in_place:
        return one_layer * gradient_bytes_per_parameter(run)
    whole = (one_layer + head) * gathered_format_bytes(run)
    return whole + one_layer * _message_format_bytes(run)


def _end_gradients(
    run: TrainingRun, layout: LayoutArrays, stage: Stage, head: Floats
) -> _EndGradients:
    """Return what is left after all blocks' backward pass; ``head``: its part, if it waits."""
    gradient_size, gathered_size = gradient_bytes_per_parameter(run), gathered_format_bytes(run)
    divided = fold_parameters(run.architecture).embedding_divided
    embedding = np.minimum(stage.ends, divided / layout.tensor)
    # The lookup's gradient is not divided in transit: DTensor sums it over the tensor ranks.
    undivided = np.minimum(stage.ends * layout.tensor, divided)
    lookup = embedding if run.stack.divides_lookup_gradient else undivided
    # Beside the message, the root unit's whole gradients (or a lookup's sum) exist until they are
    # reduced. Then only the lookup's is left, unless it was added to a tied head's.
    sums = lookup > embedding
    summed = np.asarray(sums * embedding, dtype=np.float64)
    reduced = embedding + head
    own = reduced * gradient_size / (layout.data * layout.context)
    alone = 0.0 if run.architecture.tied_embeddings else 1.0
    ahead = 0.0 if _ends_apart(run) else 1.0
    after = (alone * lookup + summed) * gathered_size
    before = np.where(sums, after, ahead * reduced * gathered_size)
    first = sums | (before - own > after)
    return _EndGradients(
        transient=np.where(first, before, after) + reduced * _message_format_bytes(run),
        own=first * own,
        undivided=(lookup - embedding) * gradient_size,
        summed=summed * gradient_size,
    )


def pending_gradients(run: TrainingRun, layout: LayoutArrays, stage: Stage) -> Floats:
    """Gradients that do not exist yet when the backward pass is in its last block. [elements]

    The embedding's gradient, unless a tied head made it before. Sharded stacks reduce the root
    unit's gradients together at the end, and two blocks are in transit.
    """
    alone = (layout.pipeline > 1) | (not run.architecture.tied_embeddings)
    group = layout.data * layout.context
    reduces = (layout.sharding >= SHARD_GRAD_OP) & (group > 1)
    apart, _ = gathered_end_parameters(run, fold_parameters(run.architecture), stage.lookup, layout)
    ends = stage.lookup * alone
    if not apart:
        ends = np.where(reduces, stage.ends, ends)
    blocks = np.minimum(2.0, stage.layers) * stage.block / stage.layers
    return np.asarray(np.where(reduces, (ends + blocks) / group, ends))


def master_format_bytes(run: TrainingRun) -> float:
    """Size of a weight that the optimizer updates. [bytes]"""
    return FORMAT_BYTES[run.recipe.master or run.recipe.working]


def gathered_format_bytes(run: TrainingRun) -> float:
    """Size of a gathered weight: the working format, but not wider than the compute format."""
    return min(FORMAT_BYTES[run.recipe.working], run.recipe.element_bytes)


def _ends_apart(run: TrainingRun) -> bool:
    """Whether embedding and head are sharded separately."""
    asked = run.switches.ends_apart
    return run.stack.shards_ends_apart if asked is None else asked


def gathered_end_parameters(
    run: TrainingRun, fold: ParameterFold, ends: Floats, layout: LayoutArrays
) -> tuple[bool, Floats]:
    """Whether embedding and head are sharded separately, and their gathered part. [elements]

    Stacks that shard them separately hold only the larger one at a time; others always hold both
    (Zhao et al. 2023, section 4.2).
    """
    apart = _ends_apart(run)
    if not apart:
        return apart, ends
    larger = max(fold.embedding_divided, fold.head_divided) / layout.tensor
    return apart, np.minimum(ends, larger)


def sharded_units(run: TrainingRun, candidates: Candidates, share: Floats) -> Floats:
    """Gathers and scatters of one micro-batch that the host starts, one for each layer.

    ZeRO-3 gathers weights twice; it and ZeRO-2 scatter gradients, of which adapters have few. In
    a pipeline, both are done once in a step. DeepSpeed's ZeRO-2 scatters them in the update.
    """
    level = candidates.layout.sharding
    scatters = (level >= 3 if run.stack.runs_deepspeed else level >= 2) & (not run.frozen)
    each = 2.0 * (level >= 3) + scatters
    return each * _sharded_apart(candidates) * run.architecture.num_hidden_layers * share


def updated_units(run: TrainingRun, candidates: Candidates, share: Floats) -> Floats:
    """Layers whose gradients the host handles one by one in each step, while the device waits.

    Under ZeRO, DeepSpeed's code goes tensor by tensor.
    """
    handled = (candidates.layout.sharding >= 1) & (run.stack.runs_deepspeed and not run.frozen)
    return handled * run.architecture.num_hidden_layers * share


def adapter_units(run: TrainingRun, candidates: Candidates, share: Floats) -> Floats:
    """Gathers and scatters of adapters that are sharded units of their own.

    Each adapted matrix has two, so small that little runs beside them.
    """
    layout = candidates.layout
    if not (run.frozen and run.stack.wraps_adapters):
        return np.zeros_like(share)
    units = sum(2 * op.layers for op in run.architecture.operators if adapted(op, run))
    # Gathered for each pass, or once if what is gathered stays; and scattered.
    each = 2.0 * (layout.sharding >= 2) + (layout.sharding >= 3)
    return each * _sharded_apart(candidates) * units * share


def _sharded_apart(candidates: Candidates) -> NDArray[np.bool_]:
    layout = candidates.layout
    return np.asarray((layout.data * layout.context > 1) & (layout.pipeline <= 1))
