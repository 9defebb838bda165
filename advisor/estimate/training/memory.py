"""Training memory of the fullest accelerator: states, activations, logits, and the rest.

The peak is the largest of the moments of a step, on the first and on the last pipeline stage;
it is not the sum of all terms. The same code serves one configuration and a million.
"""

import functools
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import Part
from advisor.equations.training.memory import saved_activation_bytes, stage_share
from advisor.equations.training.peaks import backward_block_bytes, resident_share
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import as_computed, fold_parameters
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.host_memory import activations_on_host, states_on_host
from advisor.estimate.training.activations import (
    SavedBytes,
    backward_bytes,
    fold_saved_bytes,
    selective_saved_bytes,
    stream_bytes,
)
from advisor.estimate.training.peak_moments import (
    BlockBytes,
    TrainingMemory,
    block_phases,
    fullest,
    larger,
)
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sample_memory import (
    BackwardWalk,
    answers_per_sample,
    backward_walk,
    sample_phases,
)
from advisor.estimate.training.stages import SHARD_GRAD_OP, Stage, in_effect, stages_of
from advisor.estimate.training.states import StageStates, autocast_copies, stage_states
from advisor.foundation.record import by_identity
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.links_and_memory import MemoryFacts
from advisor.nouns.software.stacks import SelectiveRecompute
from advisor.nouns.training_choices import CrossEntropy, Optimizer

MOST_KNOWN: Final = 64
"""Settings of software and adapters whose tensors are remembered for a model."""


def training_memory(
    run: TrainingRun, layout: LayoutArrays, facts: MemoryFacts, lengths: Floats | None = None
) -> TrainingMemory:
    """Memory terms at the peak of a training step. [bytes]

    Terms of the fullest stage at the fullest moment.

    ``lengths``: sequence length of each configuration, if it is not the run's. [tokens]

    Leaves out imbalance between experts, padding of shards, and the few kilobytes of inputs.
    """
    stages = stages_of(run, layout)
    layout = in_effect(layout)
    sequence = np.full_like(layout.tensor, run.sequence_length) if lengths is None else lengths
    blocks = _blocks(run, layout, sequence)
    loss = _loss_bytes(run, layout, sequence)
    walk = None
    if run.architecture.unit is not Unit.TOKEN:
        walk = backward_walk(run, facts)
    return functools.reduce(
        larger, (_peak_of_stage(run, layout, stage, facts, blocks, loss, walk) for stage in stages)
    )


def _peak_of_stage(
    run: TrainingRun,
    layout: LayoutArrays,
    stage: Stage,
    facts: MemoryFacts,
    blocks: BlockBytes,
    head_loss: Floats,
    walk: BackwardWalk | None,
) -> TrainingMemory:
    """Return one stage at its fullest moment, for like blocks or for rows of different size."""
    states = stage_states(run, layout, stage, facts)
    stored = blocks.stored * stage.layers * stage.in_flight
    states, stored = _with_host(run, layout, stage, states, stored, facts.gradient_bucket)
    loss = head_loss * stage.has_head
    # Both gradients of a tied table exist before they are added, unless a pipeline holds the copies
    # on two stages or a sharded stack sums before it reduces.
    apart = (layout.pipeline > 1) | (layout.sharding >= SHARD_GRAD_OP)
    two_tied = np.where(apart, 0.0, 1.0)
    if walk is not None:
        samples = _tokens(run, layout, run.sequence_length)
        phases = sample_phases(walk, samples, layout.recompute, states, loss, two_tied)
    else:
        phases = block_phases(
            states,
            blocks,
            stored=stored,
            loss=loss,
            head=blocks.head * stage.has_head,
            casts=autocast_copies(run, layout, stage),
            tied_gradient=two_tied * _tied_gradient(run, layout),
        )
    return fullest(phases, states, is_last=stage.is_last)


def _with_host(
    run: TrainingRun,
    layout: LayoutArrays,
    stage: Stage,
    states: StageStates,
    stored: Floats,
    bucket: int,
) -> tuple[StageStates, Floats]:
    """Move states and kept activations to the host, as the layout asks.

    ``bucket``: gradients that wait for their way there. [elements]
    """
    if not (layout.offload.any() or run.optimizer is Optimizer.PAGED_ADAMW_8BIT):
        return states, stored
    resident = stage.whole - stage.block * (1 - resident_share(layers=stage.layers))
    kept_weights = states.weights * resident / np.maximum(stage.whole, 1.0)
    ends = stage.whole - stage.block
    leaving = np.maximum(stage.block / stage.layers, ends) / np.maximum(stage.whole, 1.0)
    waiting = FORMAT_BYTES[run.recipe.gradients] * np.minimum(bucket, stage.whole)
    states = states_on_host(states, run, layout, kept_weights, leaving, waiting)
    left, moved = activations_on_host(stored, stage.layers, layout)
    return replace(states, host=states.host + moved), left


def _tied_gradient(run: TrainingRun, layout: LayoutArrays) -> Floats:
    """One of the two gradients of a table that embedding and head share. [bytes]"""
    fold = fold_parameters(run.architecture)
    if run.frozen or not fold.tied:
        return np.zeros_like(layout.tensor)
    return fold.embedding_divided / layout.tensor * FORMAT_BYTES[run.recipe.working]


def _tokens(run: TrainingRun, layout: LayoutArrays, sequence: Floats | float) -> Floats:
    """Tokens or samples of a micro-batch on one rank."""
    sequences = run.tokens_per_sample // run.sequence_length
    return layout.micro_batch * sequences * sequence / layout.context


def stored_per_micro_batch(run: TrainingRun, layout: LayoutArrays) -> Floats:
    """Activations that one micro-batch leaves on the fullest stage. [bytes]"""
    layers = float(run.architecture.num_hidden_layers)
    share = np.asarray(
        stage_share(layers=layers, pipeline=layout.pipeline, virtual_stages=layout.virtual_stages)
    )
    sequence = np.full_like(layout.tensor, run.sequence_length)
    return np.asarray(_blocks(run, layout, sequence).stored * layers * share)


def _loss_bytes(run: TrainingRun, layout: LayoutArrays, sequence: Floats) -> Floats:
    """Logits and the loss's tensors, on a rank with the head. [bytes]"""
    chosen, facts = run.cross_entropy, kernel_facts()
    plain = chosen is CrossEntropy.PLAIN or (chosen is None and run.stack.plain_loss)
    size = run.stack.loss_bytes_per_logit if chosen is None else facts.loss_bytes[chosen]
    if plain and not run.architecture.upcast_logits and not run.recipe.single:
        size = facts.autocast_loss_bytes if run.recipe.autocast else facts.narrow_loss_bytes
    if plain and run.switches.shifted_logits:
        size += FORMAT_BYTES["fp32"]
    tensor = layout.tensor
    entry, spread = np.full_like(tensor, size), tensor
    if run.switches.gathered_logits:
        spread = np.ones_like(tensor)
    elif plain:
        entry = np.where(tensor > 1, facts.sharded_loss_bytes, entry)
    tokens = _tokens(run, layout, sequence)
    answers = tokens * answers_per_sample(run.architecture) * run.switches.answered_share
    return entry * answers * float(run.architecture.vocab_size) / spread


@by_identity(64)
def _known(architecture: ModelArchitecture) -> dict[tuple[object, ...], tuple[SavedBytes, ...]]:
    """What :func:`_saved` has found for a model, by the settings that it depends on."""
    return {}


def _saved(run: TrainingRun) -> tuple[SavedBytes, ...]:
    """What blocks keep, keep under selective recomputation, and pass on; what the head keeps."""
    known = _known(run.architecture)
    adapters = (run.method, run.lora_rank, run.lora_targets, run.adapts_experts)
    settings = (run.recipe, run.software, run.attention, run.switches, *adapters)
    if settings not in known:
        if len(known) >= MOST_KNOWN:
            known.clear()
        block = as_computed(run).architecture.in_part(Part.BLOCK)
        known[settings] = (
            fold_saved_bytes(block, run),
            selective_saved_bytes(block, run),
            *backward_bytes(block, run),
            fold_saved_bytes(run.architecture.in_part(Part.HEAD), run),
        )
    return known[settings]


def _blocks(run: TrainingRun, layout: LayoutArrays, sequence: Floats) -> BlockBytes:
    """Activations of one layer, and of the head, on one rank."""
    layers = float(run.architecture.num_hidden_layers)
    tokens = _tokens(run, layout, sequence)

    def on_rank(saved: SavedBytes) -> Floats:
        return np.asarray(
            saved_activation_bytes(
                tokens=tokens,
                divided_bytes=saved.divided_bytes + sequence * saved.per_key_bytes,
                gathered_bytes=saved.gathered_bytes,
                replicated_bytes=saved.replicated_bytes,
                tensor=layout.tensor,
                sequence_parallel=layout.sequence_parallel,
            )
        )

    kept, selected, beside, scores, head = _saved(run)
    whole = on_rank(kept) / layers
    # What a block hands on to the next (Korthikanti et al. 2022, section 5): all that full
    # recomputation keeps of it.
    ranks = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
    boundary = tokens * run.architecture.hidden_size * stream_bytes(run) / ranks
    selective = on_rank(selected) / layers
    if run.stack.selective_recompute is SelectiveRecompute.EVERY_SECOND_PRODUCT:
        selective = np.minimum(selective + boundary, whole)
    stored = np.where(
        layout.recompute >= 2, boundary, np.where(layout.recompute >= 1, selective, whole)
    )
    return BlockBytes(
        stored=stored,
        backward=np.asarray(
            backward_block_bytes(
                kept=whole, transient=on_rank(beside), boundary=boundary, scores=on_rank(scores)
            )
        ),
        input_apart=layout.recompute >= 2,
        head=on_rank(head),
    )
