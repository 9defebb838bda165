"""What one accelerator holds of the parameters: weights, gradients, optimizer states, buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Part
from advisor.efficiency import MemoryFacts
from advisor.equations.memory import nf4_bytes, stage_share, state_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import fold_parameters, trainable_parameters
from advisor.estimate.run import TrainingRun
from advisor.precision import FORMAT_BYTES
from advisor.workload import FineTuningMethod, SoftwareStack

MEGATRON_GRADIENT: Final = "fp32"
"""Megatron-class software accumulates gradients in fp32 (its ``main_grad``)."""


SHARD_GRAD_OP: Final = 2.0
"""Sharding level of ZeRO-2."""


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters of one pipeline stage on one model-parallel rank. [elements]"""

    dense: Floats
    expert: Floats


def _shards(layout: LayoutArrays, level: int) -> tuple[Floats, Floats]:
    """Ranks that share a copy from sharding ``level`` on: of dense and of expert parameters."""
    group = layout.data * layout.context
    dense = np.where(layout.sharding >= level, group, 1.0)
    expert = np.where(layout.sharding >= level, group / layout.expert, 1.0)
    return dense, expert


def _copy(stage: StageParameters, size: float, shards: tuple[Floats, Floats]) -> Floats:
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


def stage_states(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
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
    ends = _gathered_ends(architecture, run, stage, block_parameters, layout)
    workspace = np.where(gathers, (2 * one_layer + ends) * gathered_size, 0.0)
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
    if recipe.autocast:
        # FSDP's SHARD_GRAD_OP keeps fp32 shards and, until the update, all 16-bit weights.
        kept = _copy(stage, working, level2) + _copy(stage, gathered_size, whole)
        weights = np.where(layout.sharding == SHARD_GRAD_OP, kept, weights)
    if recipe.master is not None:
        weights = weights + _copy(stage, FORMAT_BYTES[recipe.master], level1)
    gradients = _copy(stage, gradient_size, level2)
    optimizer = _copy(stage, run.optimizer_bytes_per_parameter, level1)
    sharded_gradients = layout.sharding >= 2
    workspace = workspace + np.where(sharded_gradients & communicates, one_layer * gradient_size, 0)
    return weights, gradients, optimizer, workspace


def _gathered_ends(
    architecture: ModelArchitecture,
    run: TrainingRun,
    stage: StageParameters,
    block_parameters: Floats,
    layout: LayoutArrays,
) -> Floats:
    """Embedding and head that ZeRO-3 holds gathered at the peak. [elements]

    The root unit of plain FSDP keeps both throughout; stacks that wrap them apart hold the
    larger at a time (Zhao et al. 2023, section 4.2).
    """
    both = stage.dense + stage.expert - block_parameters
    if run.software in (SoftwareStack.HUGGINGFACE, SoftwareStack.LIGER):
        return both
    fold = fold_parameters(architecture)
    larger = max(fold.embedding_divided, fold.head_divided) / layout.tensor
    return np.minimum(both, larger)


def _frozen_weights(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    stage: StageParameters,
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


def autocast_copies(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    layers_held: Floats,
    has_head: NDArray[np.bool_],
) -> Floats:
    """16-bit copies of fp32 weights that eager autocast keeps until their backward. [bytes]"""
    cached = run.recipe.autocast and not run.frozen and run.software is SoftwareStack.HUGGINGFACE
    if not cached:
        return np.zeros_like(layers_held)
    layers = float(architecture.num_hidden_layers)
    block = sum(op.layers * op.parameters for op in architecture.matmuls() if op.part is Part.BLOCK)
    kept = np.where(layout.recompute >= 2, 1.0, layers_held)
    head = sum(
        op.in_features * op.out_features for op in architecture.matmuls() if op.part is Part.HEAD
    )
    copies = 2.0 * (block * kept / layers + head * has_head) / layout.tensor
    return np.where(layout.sharding >= 3, 0.0, copies)
