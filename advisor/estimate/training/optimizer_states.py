"""States of each optimizer for the parameters that it updates."""

from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.equations.training.memory import blockwise_state_bytes
from advisor.equations.training.optimizers import MUON_BYTES, widened_gradient_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import GradientCast
from advisor.nouns.training_choices import Optimizer

COPIES: Final[dict[Optimizer, float]] = {
    Optimizer.ADAMW: 2.0,
    Optimizer.SGD_MOMENTUM: 1.0,
    Optimizer.SGD: 0.0,
    Optimizer.LION: 1.0,
}
"""State tensors of the parameter's shape in the format of the recipe's states."""
EIGHT_BIT: Final = (Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT)


def optimizer_bytes_per_parameter(run: TrainingRun) -> float:
    """Optimizer states of one trained parameter, on average. [bytes]

    ``architecture``: shapes decide what Adafactor and Muon keep.

    Leaves out that 8-bit optimizers keep tensors under 4,096 elements in fp32 (under a thousandth),
    and the step counters.
    """
    stored = run.switches.adapter_format if run.frozen else run.recipe.optimizer_states
    size = FORMAT_BYTES[stored]
    if run.optimizer in EIGHT_BIT:
        return float(2 * blockwise_state_bytes(elements=1.0))
    if run.optimizer not in COPIES and run.frozen:
        # Adapters are matrices of small rank.
        return size * (run.optimizer is Optimizer.MUON)
    if run.optimizer is Optimizer.ADAFACTOR:
        return size * _factored_share(run.architecture)
    if run.optimizer is Optimizer.MUON:
        matrices = sum(
            _matrix(op) * op.layers for op in run.architecture.matmuls() if op.part is Part.BLOCK
        )
        total = run.architecture.total_parameters
        # A momentum for each matrix; AdamW, with two states, updates embeddings, head and vectors
        # (Liu et al. 2025, arXiv:2502.16982, section 2).
        return size * (matrices + 2.0 * (total - matrices)) / total
    return COPIES[run.optimizer] * size


def update_temporary_bytes(run: TrainingRun) -> float:
    """Temporary memory for the update of the largest tensor. [bytes]"""
    if run.optimizer is not Optimizer.MUON or run.frozen:
        return 0.0
    blocks = (op for op in run.architecture.matmuls() if op.part is Part.BLOCK)
    return MUON_BYTES * max((_matrix(op) for op in blocks), default=0.0)


def gradient_cast_bytes(run: TrainingRun, layout: LayoutArrays, partition: Floats) -> Floats:
    """Casts of gradients that are narrower than the master weights they update. [bytes]

    The stack's facts state whether it casts one tensor after another, or the whole
    ``partition`` [elements] that a rank updates.
    """
    cast = run.stack.gradient_cast
    master = run.recipe.master
    gradient = FORMAT_BYTES[run.recipe.gradients]
    if master is None or run.frozen or cast is GradientCast.NONE:
        return 0.0 * partition
    if gradient >= FORMAT_BYTES[master]:
        return 0.0 * partition
    if cast is GradientCast.PARTITION:
        together = np.where(layout.sharding > 2, run.stack.zero3_cast_elements or np.inf, np.inf)
        return np.asarray(
            widened_gradient_bytes(
                elements=partition,
                master_bytes=FORMAT_BYTES[master],
                gradient_bytes=gradient,
                most=together,
            )
        )
    largest = max(
        op.parameters if op.kind is OperatorKind.EMBEDDING else _matrix(op)
        for op in run.architecture.operators
    )
    ranks = np.where(layout.sharding >= 1, layout.data * layout.context, 1.0)
    cast_bytes = widened_gradient_bytes(elements=largest, master_bytes=FORMAT_BYTES[master])
    return np.asarray(cast_bytes / (layout.tensor * ranks))


def _matrix(op: Operator) -> float:
    return float(op.in_features * op.out_features * max(1, op.experts))


def _factored_share(architecture: ModelArchitecture) -> float:
    """State elements of Adafactor over parameters: one sum for each row and each column.

    Vectors keep a state of their own shape. Shazeer and Stern 2018, arXiv:1804.04235, section 3.
    """
    kept = matrices = 0.0
    for op in architecture.operators:
        experts = max(1, op.experts)
        if op.kind is OperatorKind.EMBEDDING and op.parameters:
            width = architecture.hidden_size
            rows, columns = op.parameters / width, float(width)
        elif op.parameters and op.in_features:
            rows, columns = float(op.in_features), float(op.out_features)
        else:
            continue
        if op.parameters < rows * columns * experts:
            # A tied head has its own bias, but no matrix of its own.
            continue
        kept += op.layers * experts * (rows + columns)
        matrices += op.layers * experts * rows * columns
    total = architecture.total_parameters
    return (kept + total - matrices) / total
