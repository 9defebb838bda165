"""Training memory of the fullest accelerator: states, activations, logits, and the rest.

The peak is the largest of the moments of a step, on the first and on the last pipeline stage;
it is not the sum of all terms. The same code serves one configuration and a million.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit
from advisor.equations.memory import (
    end_stage_layers,
    in_flight,
    logits_bytes,
    saved_activation_bytes,
    stage_share,
)
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import fold_parameters
from advisor.estimate.host_memory import (
    RESIDENT_LAYERS,
    activations_on_host,
    states_on_host,
)
from advisor.estimate.training.activations import (
    SavedBytes,
    backward_bytes,
    fold_saved_bytes,
    selective_saved_bytes,
    stream_bytes,
)
from advisor.estimate.training.peak_moments import (
    FORWARD_PEAK_OF_LOSS,
    BlockBytes,
    TrainingMemory,
    fullest,
    larger,
    peak_of_blocks,
)
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sample_memory import answers_per_sample, sample_moments
from advisor.estimate.training.sharded_gathers import SHARD_GRAD_OP, StageParameters
from advisor.estimate.training.states import autocast_copies, stage_states
from advisor.nouns.efficiency import MemoryFacts
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.stacks import SelectiveRecompute
from advisor.nouns.workload import CrossEntropy, Optimizer

LOSS_BYTES: Final[dict[CrossEntropy, float]] = {
    CrossEntropy.PLAIN: 12.0,
    CrossEntropy.FUSED: 4.0,
    CrossEntropy.CHUNKED: 2 + 10 / 8,
    CrossEntropy.LINEAR: 0.0,
}
"""Bytes per token and vocabulary entry at the backward of the loss, where it is chosen apart from
the stack. Plain: 16-bit logits, their fp32 upcast, its softmax and gradient (PyTorch's own
accounting of the unfused code). Fused: 16-bit logits and gradient
(flash-attention's kernel). Chunked: all logits in 16 bits, and of one chunk in eight the fp32 copy,
its softmax and the 16-bit gradient (torchtune's ``CEWithChunkedOutputLoss``)."""

PLAIN_LOGITS_BYTES: Final = {True: 10.0, False: 6.0}
"""Plain where the class does not cast 16-bit logits first (BERT, Whisper), by autocast: softmax
and its gradient in fp32 beside the logits, or all of them in 16 bits (same source)."""

PARALLEL_LOSS_BYTES: Final = 16.0
"""The plain loss with the vocabulary sharded (PyTorch's own accounting of ``loss_parallel``)."""


def training_memory(
    architecture: ModelArchitecture, run: TrainingRun, layout: LayoutArrays, facts: MemoryFacts
) -> TrainingMemory:
    """Memory terms at the peak of a training step.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    layout : LayoutArrays
        One element per configuration.
    facts : MemoryFacts
        Library workspaces.

    Returns
    -------
    TrainingMemory
        Terms of the fullest stage at the fullest moment. [bytes]

    Notes
    -----
    Leaves out imbalance between experts, padding of shards, and the few kilobytes of inputs.
    """
    parameters = fold_parameters(architecture)
    layers = float(architecture.num_hidden_layers)
    tensor, pipeline = layout.tensor, layout.pipeline
    share = np.asarray(
        stage_share(layers=layers, pipeline=pipeline, virtual_stages=layout.virtual_stages)
    )
    micro_batches = np.ceil(run.global_batch / (layout.micro_batch * layout.data))
    dual = bool(np.any(layout.dual))
    # Ranks that hold two stages hold two shares; twice as many ranks hold each of them.
    copies = np.where(layout.dual, 2.0, 1.0)
    share, layout = share * copies, _in_effect(layout, copies)
    piped = pipeline > 1
    embedding = parameters.embedding_divided / tensor + parameters.embedding_replicated
    head = parameters.head_divided / tensor + parameters.head_replicated
    head_copy = head + (parameters.embedding_divided / tensor if parameters.tied else 0.0) * piped
    given_up = ~layout.dual * np.asarray(
        end_stage_layers(layers=layers, pipeline=pipeline, virtual_stages=layout.virtual_stages)
    )
    # Index, layers, parameters of the ends, the lookup among them, and whether it has the loss.
    stages: list[tuple[Floats, Floats, Floats, Floats, bool]] = [
        (
            0.0 * pipeline,
            layers * share - np.minimum(given_up, 1.0),
            embedding + np.where(piped, 0.0, head),
            embedding,
            False,
        ),
        (
            pipeline - 1,
            layers * share - np.maximum(given_up - 1.0, 0.0),
            head_copy + np.where(piped, 0.0, embedding),
            np.where(piped, 0.0, embedding),
            True,
        ),
    ]
    uneven = (given_up > 0) & (pipeline > 2)
    if np.any(uneven):
        # The second stage has a layer more than the first; elsewhere it is the first again.
        second = np.asarray(uneven, dtype=np.float64)
        held_by_second = np.where(uneven, layers * share, stages[0][1])
        stages.append((second, held_by_second, 0.0 * embedding, 0.0 * embedding, False))

    tokens = layout.micro_batch * run.tokens_per_sample / layout.context
    blocks = _blocks(architecture, run, layout, tokens)
    accumulates = micro_batches > 1

    results = []
    for index, held_layers, ends, lookup, is_last in stages:
        block_dense = (
            held_layers / layers * (parameters.block_divided / tensor + parameters.block_replicated)
        )
        block_expert = held_layers / layers * parameters.block_expert / (tensor * layout.expert)
        stage = StageParameters(dense=block_dense + ends, expert=block_expert, lookup=lookup)
        held = in_flight(
            stage=index,
            pipeline=pipeline,
            virtual_stages=layout.virtual_stages,
            micro_batches=micro_batches,
            beside=layout.overlapped.astype(np.float64),
        )
        if dual:
            # One more than there are ranks, each through one of the two stages.
            held = np.where(layout.dual, np.minimum(pipeline + 1, micro_batches) / copies, held)
        states = stage_states(
            architecture,
            run,
            layout,
            stage,
            block_dense + block_expert,
            held_layers,
            accumulates,
            facts,
        )
        has_head = np.asarray(~piped | is_last)
        stored = blocks.stored * held_layers * np.asarray(held)
        if np.any(layout.offload) or run.optimizer is Optimizer.PAGED_ADAMW_8BIT:
            whole = stage.dense + stage.expert
            resident = whole - (block_dense + block_expert) * (
                1 - np.minimum(1.0, RESIDENT_LAYERS / held_layers)
            )
            kept_weights = states.weights * resident / np.maximum(whole, 1.0)
            states = states_on_host(states, run, layout, kept_weights)
            stored, moved = activations_on_host(stored, held_layers, layout)
            states = replace(states, host=states.host + moved)
        loss = _loss_bytes(architecture, run, tokens, tensor) * has_head
        casts = autocast_copies(architecture, run, layout, held_layers, has_head)
        # A tied table's two gradients exist side by side before they are added.
        # A sharded stack sums them before it reduces them.
        side_by_side = np.where(piped | (layout.sharding >= SHARD_GRAD_OP), 0.0, 1.0)
        tied_gradient = np.where(
            (not parameters.tied) | run.frozen,
            0.0,
            side_by_side
            * (parameters.embedding_divided / tensor * FORMAT_BYTES[run.recipe.working]),
        )
        if architecture.unit is not Unit.TOKEN:
            moments = sample_moments(
                architecture,
                run,
                tokens,
                layout.recompute,
                facts,
                states.gradients,
                states.held_gradients,
                np.maximum(states.at_first_block, states.at_last_block),
                (loss * FORWARD_PEAK_OF_LOSS, loss),
                side_by_side,
            )
            update = (states.gradients, 0.0 * stored, 0.0 * stored, states.at_update, 2.0)
            results.append(fullest((*moments, update), states, is_last=is_last))
            continue
        results.append(
            peak_of_blocks(
                states=states,
                stored=stored,
                blocks=blocks,
                loss=loss,
                head=blocks.head * has_head,
                casts=casts,
                tied_gradient=tied_gradient,
                is_last=is_last,
            )
        )
    return functools.reduce(larger, results)


def _in_effect(layout: LayoutArrays, copies: Floats) -> LayoutArrays:
    """Ranks that share states, and how: pipelines sum gradients until the last micro-batch.

    So ZeRO-2 is ZeRO-1 there.
    """
    summed = (layout.pipeline > 1) & (layout.sharding == SHARD_GRAD_OP)
    sharding = np.where(summed, 1.0, layout.sharding)
    return replace(layout, data=layout.data * copies, sharding=sharding)


def stored_per_micro_batch(
    architecture: ModelArchitecture, run: TrainingRun, layout: LayoutArrays
) -> Floats:
    """Activations that one micro-batch leaves on the fullest stage. [bytes]"""
    layers = float(architecture.num_hidden_layers)
    share = np.asarray(
        stage_share(layers=layers, pipeline=layout.pipeline, virtual_stages=layout.virtual_stages)
    )
    tokens = layout.micro_batch * run.tokens_per_sample / layout.context
    return np.asarray(_blocks(architecture, run, layout, tokens).stored * layers * share)


def _loss_bytes(
    architecture: ModelArchitecture, run: TrainingRun, tokens: Floats, tensor: Floats
) -> Floats:
    """Logits and what the loss makes of them, on a rank that has the head. [bytes]"""
    chosen = run.cross_entropy
    plain = chosen is CrossEntropy.PLAIN or (chosen is None and run.stack.plain_loss)
    size = run.stack.loss_bytes_per_logit if chosen is None else LOSS_BYTES[chosen]
    if plain and not architecture.upcast_logits and run.recipe.compute != "fp32":
        size = PLAIN_LOGITS_BYTES[run.recipe.autocast]
    entry, spread = np.full_like(tensor, size), tensor
    if run.switches.gathered_logits:
        spread = np.ones_like(tensor)
    elif plain:
        entry = np.where(tensor > 1, PARALLEL_LOSS_BYTES, entry)
    return np.asarray(
        logits_bytes(
            tokens=tokens * answers_per_sample(architecture),
            vocabulary=float(architecture.vocab_size),
            bytes_per_entry=entry,
            tensor=spread,
        )
    )


def _blocks(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    tokens: Floats,
) -> BlockBytes:
    """Activations of one layer, and of the head, on one rank."""
    layers = float(architecture.num_hidden_layers)

    def on_rank(saved: SavedBytes) -> Floats:
        return np.asarray(
            saved_activation_bytes(
                tokens=tokens,
                divided_bytes=saved.divided_bytes + run.sequence_length * saved.per_key_bytes,
                gathered_bytes=saved.gathered_bytes,
                replicated_bytes=saved.replicated_bytes,
                tensor=layout.tensor,
                sequence_parallel=layout.sequence_parallel,
            )
        )

    block = architecture.in_part(Part.BLOCK)
    whole = on_rank(fold_saved_bytes(block, run)) / layers
    stream = stream_bytes(run)
    spread = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
    boundary = tokens * architecture.hidden_size * stream / spread
    selective = on_rank(selective_saved_bytes(block, run)) / layers
    if run.stack.selective_recompute is SelectiveRecompute.EVERY_SECOND_PRODUCT:
        selective = np.minimum(selective + boundary, whole)
    stored = np.where(
        layout.recompute >= 2, boundary, np.where(layout.recompute >= 1, selective, whole)
    )
    beside, scores = backward_bytes(block, run)
    return BlockBytes(
        stored=stored,
        # The block's input has a gradient, and its output.
        backward=np.maximum(whole + on_rank(beside) + 2.0 * boundary, on_rank(scores)),
        input_apart=layout.recompute >= 2,
        head=on_rank(fold_saved_bytes(architecture.in_part(Part.HEAD), run)),
    )
