"""Training memory of the fullest accelerator: states, activations, logits, and the rest.

The peak is the largest of the moments of a step, on the first and on the last pipeline stage;
it is not the sum of all terms. The same code serves one configuration and a million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Part
from advisor.efficiency import MemoryFacts
from advisor.equations.memory import (
    in_flight,
    logits_bytes,
    nf4_bytes,
    saved_activation_bytes,
    stage_share,
    state_bytes,
)
from advisor.estimate.activations import SavedBytes, fold_saved_bytes, selective_saved_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import fold_parameters, trainable_parameters
from advisor.estimate.run import TrainingRun
from advisor.precision import FORMAT_BYTES
from advisor.workload import FineTuningMethod, SoftwareStack

LOGITS_BYTES: Final[dict[SoftwareStack, float]] = {
    SoftwareStack.HUGGINGFACE: 12.0,
    SoftwareStack.COMPILED: 6.0,
    SoftwareStack.MEGATRON: 8.0,
    SoftwareStack.LIGER: 0.0,
}
"""Bytes per token and vocabulary entry at the backward of the loss.

Hugging Face: 16-bit logits, their fp32 upcast, its softmax and gradient (12, PyTorch's own
accounting of the unfused code). Compiled: 16-bit logits kept, fp32 gradient. Megatron:
vocabulary-parallel loss on fp32 logits updated in place, and the 16-bit copy and gradient.
Liger: the loss is computed in chunks and the logits never exist whole."""

MEGATRON_GRADIENT: Final = "fp32"
"""Megatron-class software accumulates gradients in fp32 (its ``main_grad``)."""


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Terms at the peak, one element per configuration. [bytes]"""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    logits: Floats
    workspace: Floats
    moment: Floats
    """0 forward end (loss), 1 backward end, 2 optimizer step."""
    last_stage: Floats
    """1 where the last pipeline stage is the fullest."""

    @property
    def allocated(self) -> Floats:
        """Sum of all tensors."""
        return (
            self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.logits
            + self.workspace
        )


@dataclass(frozen=True, slots=True)
class _Stage:
    dense: Floats
    expert: Floats


def _shards(layout: LayoutArrays, level: int) -> tuple[Floats, Floats]:
    """Ranks that share a copy from sharding ``level`` on: of dense and of expert parameters."""
    group = layout.data * layout.context
    dense = np.where(layout.sharding >= level, group, 1.0)
    expert = np.where(layout.sharding >= level, group / layout.expert, 1.0)
    return dense, expert


def _copy(stage: _Stage, size: float, shards: tuple[Floats, Floats]) -> Floats:
    dense = state_bytes(parameters=stage.dense, bytes_per_parameter=size, shards=shards[0])
    expert = state_bytes(parameters=stage.expert, bytes_per_parameter=size, shards=shards[1])
    return np.asarray(dense + expert)


def gradient_bytes_per_parameter(run: TrainingRun) -> float:
    """Size of one accumulated gradient under the run's software. [bytes]"""
    if run.frozen:
        return FORMAT_BYTES["fp32"]
    mixed = run.recipe.master is not None
    if mixed and run.software is SoftwareStack.MEGATRON:
        return FORMAT_BYTES[MEGATRON_GRADIENT]
    return FORMAT_BYTES[run.recipe.gradients]


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
    block_dense = share * (parameters.block_divided / tensor + parameters.block_replicated)
    block_expert = share * parameters.block_expert / (tensor * layout.expert)
    embedding = parameters.embedding_divided / tensor + parameters.embedding_replicated
    head = parameters.head_divided / tensor + parameters.head_replicated
    piped = pipeline > 1
    head_copy = head + (parameters.embedding_divided / tensor if parameters.tied else 0.0) * piped
    first = _Stage(dense=block_dense + embedding + np.where(piped, 0.0, head), expert=block_expert)
    last = _Stage(
        dense=block_dense + head_copy + np.where(piped, 0.0, embedding), expert=block_expert
    )

    micro_batches = np.ceil(run.global_batch / (layout.micro_batch * layout.data))
    tokens = layout.micro_batch * run.sequence_length / layout.context
    one_block, stored_block = _blocks(architecture, run, layout, tokens, layers)
    accumulates = micro_batches > 1

    results = []
    for stage, index, is_last in ((first, 0.0 * pipeline, False), (last, pipeline - 1, True)):
        held = in_flight(
            stage=index,
            pipeline=pipeline,
            virtual_stages=layout.virtual_stages,
            micro_batches=micro_batches,
        )
        weights, gradients, optimizer, workspace = _states(
            architecture, run, layout, stage, block_dense + block_expert, layers * share, facts
        )
        has_head = np.asarray(~piped | is_last)
        stored = stored_block * layers * share * np.asarray(held)
        loss = np.where(
            has_head,
            np.asarray(
                logits_bytes(
                    tokens=tokens,
                    vocabulary=float(architecture.vocab_size),
                    bytes_per_entry=LOGITS_BYTES[run.software],
                    tensor=tensor,
                )
            ),
            0.0,
        )
        casts = _autocast_copies(architecture, run, layout, layers * share)
        results.append(
            _peak(
                weights=weights,
                gradients=gradients,
                optimizer=optimizer,
                workspace=workspace,
                stored=stored,
                one_block=one_block,
                layers_held=layers * share,
                loss=loss,
                casts=casts,
                accumulates=accumulates,
                is_last=is_last,
            )
        )
    return _larger(results[0], results[1])


def _blocks(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    tokens: Floats,
    layers: float,
) -> tuple[Floats, Floats]:
    """Activations of one whole layer, and what the recompute policy keeps of it. [bytes]"""

    def per_layer(saved: SavedBytes) -> Floats:
        return np.asarray(
            saved_activation_bytes(
                tokens=tokens,
                divided_bytes=saved.divided_bytes + run.sequence_length * saved.per_key_bytes,
                gathered_bytes=saved.gathered_bytes,
                replicated_bytes=saved.replicated_bytes,
                tensor=layout.tensor,
                sequence_parallel=layout.sequence_parallel,
            )
            / layers
        )

    block = architecture.in_part(Part.BLOCK)
    whole = per_layer(fold_saved_bytes(block, run))
    selective = per_layer(selective_saved_bytes(block, run))
    stream = FORMAT_BYTES[run.recipe.stream]
    spread = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
    boundary = tokens * architecture.hidden_size * stream / spread
    stored = np.where(
        layout.recompute >= 2, boundary, np.where(layout.recompute >= 1, selective, whole)
    )
    return whole, stored


def _states(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: _Stage,
    block_parameters: Floats,
    layers_held: Floats,
    facts: MemoryFacts,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Weights, gradients, optimizer states and workspaces of one stage. [bytes]"""
    recipe = run.recipe
    working = FORMAT_BYTES[recipe.working]
    whole, level1, level2, level3 = (_shards(layout, level) for level in (9, 1, 2, 3))
    gradient_size = gradient_bytes_per_parameter(run)
    gathered_size = min(working, 2.0) if recipe.compute != "fp32" else working
    one_layer = block_parameters / layers_held
    gathers = layout.sharding >= 3
    communicates = layout.accelerators > 1
    workspace = np.where(gathers, 2 * one_layer * gathered_size, 0.0)
    workspace = workspace + facts.workspace_bytes + communicates * facts.communication_bytes
    if run.frozen:
        adapters = trainable_parameters(architecture, run) / (
            layout.tensor * layout.pipeline * np.where(layout.sharding >= 1, layout.data, 1.0)
        )
        weights = _frozen_weights(architecture, run, layout, stage, level3)
        if run.method is FineTuningMethod.QLORA:
            widest = max(
                op.in_features * op.out_features for op in architecture.in_part(Part.BLOCK)
            )
            workspace = workspace + (2 + 1 / 16) * widest / layout.tensor
        return (
            weights + adapters * FORMAT_BYTES["fp32"],
            adapters * gradient_size,
            adapters * run.optimizer_bytes_per_parameter,
            workspace,
        )
    weights = _copy(stage, working, level3)
    if recipe.master is not None:
        weights = weights + _copy(stage, FORMAT_BYTES[recipe.master], level1)
    gradients = _copy(stage, gradient_size, level2)
    optimizer = _copy(stage, run.optimizer_bytes_per_parameter, level1)
    sharded_gradients = layout.sharding >= 2
    workspace = workspace + np.where(sharded_gradients & communicates, one_layer * gradient_size, 0)
    del whole
    return weights, gradients, optimizer, workspace


def _frozen_weights(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: _Stage,
    shards: tuple[Floats, Floats],
) -> Floats:
    """Frozen base weights: 16 bits, or NF4 for the matrices of the blocks. [bytes]"""
    sixteen = _copy(stage, 2.0, shards)
    if run.method is not FineTuningMethod.QLORA:
        return sixteen
    quantised = sum(
        op.layers * op.parameters for op in architecture.matmuls() if op.part is Part.BLOCK
    )
    share = stage_share(
        layers=float(architecture.num_hidden_layers),
        pipeline=layout.pipeline,
        virtual_stages=layout.virtual_stages,
    )
    local = quantised * np.asarray(share) / layout.tensor
    saving = 2.0 * local - np.asarray(nf4_bytes(parameters=local))
    return np.asarray(sixteen - saving / shards[0])


def _autocast_copies(
    architecture: ModelArchitecture, run: TrainingRun, layout: LayoutArrays, layers_held: Floats
) -> Floats:
    """16-bit copies of fp32 weights that eager autocast keeps until their backward. [bytes]"""
    cached = run.recipe.autocast and not run.frozen and run.software is SoftwareStack.HUGGINGFACE
    if not cached:
        return np.zeros_like(layers_held)
    layers = float(architecture.num_hidden_layers)
    block = sum(op.layers * op.parameters for op in architecture.matmuls() if op.part is Part.BLOCK)
    kept = np.where(layout.recompute >= 2, 1.0, layers_held)
    copies = 2.0 * block * kept / layers / layout.tensor
    return np.where(layout.sharding >= 3, 0.0, copies)


def _peak(
    *,
    weights: Floats,
    gradients: Floats,
    optimizer: Floats,
    workspace: Floats,
    stored: Floats,
    one_block: Floats,
    layers_held: Floats,
    loss: Floats,
    casts: Floats,
    accumulates: NDArray[np.bool_],
    is_last: bool,
) -> TrainingMemory:
    """Pick the fullest of three moments: the loss, the end of the backward pass, the update."""
    held_gradients = np.where(accumulates, gradients, 0.0)
    at_loss = held_gradients + stored + casts + np.maximum(loss, one_block)
    at_end = gradients + one_block + stored / layers_held
    at_update = gradients
    moment = np.argmax(np.stack(np.broadcast_arrays(at_loss, at_end, at_update)), axis=0)
    loss_larger = loss >= one_block
    by_moment = [
        (
            held_gradients,
            stored + casts + np.where(loss_larger, 0.0, one_block),
            loss * loss_larger,
        ),
        (gradients, one_block + stored / layers_held, 0.0 * loss),
        (gradients, 0.0 * stored, 0.0 * loss),
    ]
    chosen = [
        np.choose(moment, np.broadcast_arrays(*(terms[position] for terms in by_moment)))
        for position in range(3)
    ]
    shape = np.broadcast_shapes(moment.shape, weights.shape, optimizer.shape, workspace.shape)
    return TrainingMemory(
        weights=np.broadcast_to(weights, shape),
        gradients=np.broadcast_to(chosen[0], shape),
        optimizer=np.broadcast_to(optimizer, shape),
        activations=np.broadcast_to(chosen[1], shape),
        logits=np.broadcast_to(chosen[2], shape),
        workspace=np.broadcast_to(workspace, shape),
        moment=np.broadcast_to(moment.astype(np.float64), shape),
        last_stage=np.full(shape, float(is_last)),
    )


def _larger(first: TrainingMemory, last: TrainingMemory) -> TrainingMemory:
    """Pick the fuller of two stages, element by element."""
    choose_last = last.allocated >= first.allocated

    def pick(name: str) -> Floats:
        return np.asarray(np.where(choose_last, getattr(last, name), getattr(first, name)))

    return TrainingMemory(
        weights=pick("weights"),
        gradients=pick("gradients"),
        optimizer=pick("optimizer"),
        activations=pick("activations"),
        logits=pick("logits"),
        workspace=pick("workspace"),
        moment=pick("moment"),
        last_stage=pick("last_stage"),
    )
