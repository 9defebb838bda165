"""Training memory of networks whose layers differ in size: a backward walk over the rows.

A stack of like blocks has its peak at one of a few moments (``training_memory``). In a network
that narrows from large feature maps to many channels, the peak is at the row where kept tensors,
existing gradients and the row's temporaries have the largest sum.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.estimate.candidates import Floats
from advisor.estimate.training.activations import (
    fold_saved_bytes,
    segment_input_bytes,
    transient_bytes,
)
from advisor.estimate.training.peak_moments import (
    BACKWARD_END,
    FORWARD_END,
    FORWARD_PEAK_OF_LOSS,
    PeakPhase,
    update_phase,
)
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.states import StageStates
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.links_and_memory import MemoryFacts

FULL: Final = 2.0
"""Level of full recomputation."""

Rows = NDArray[np.float64]


@record
class BackwardWalk:
    """Moments of a backward pass: each row of the table, in the first and the last of its layers.

    Arrays of two rows: the first without recomputation, the second with full recomputation.
    """

    kept: Rows
    """Kept or recomputed tensors of one sample. [bytes/sample]"""
    transient: Rows
    """Gradients of input and output of this row for one sample. [bytes/sample]"""
    casts: Rows
    """16-bit copies of fp32 weights. [bytes]"""
    gradients: Rows
    """Share of the gradients that exist after this row. [fraction]"""
    lookups: Rows
    """Gradient of the row's table, if the head has a second gradient of it. [bytes]"""
    kept_at_loss: Rows
    """Tensors of one sample after the forward pass, by policy. [bytes/sample]"""
    casts_at_loss: Rows
    """16-bit copies in the backward pass of the loss, by policy. [bytes]"""


def backward_walk(run: TrainingRun, facts: MemoryFacts) -> BackwardWalk:
    """Return the moments of a backward pass.

    Of like layers, two represent all: the first in the backward pass, when most tensors are kept,
    and the last, when most gradients exist. Full recomputation keeps the input of each block
    (``Operator.segment``), and all tensors outside of blocks.
    """
    # Kept tensors, the same under full recomputation, casts of both, and parameters passed so far.
    start = np.zeros(5)
    moments: list[Rows] = []
    for _, rows in groupby(run.architecture.operators, key=lambda op: (op.segment, op.layers)):
        group = tuple(rows)
        layers, made_again = group[0].layers, group[0].segment > 0
        saved, casts, parameters, transient, lookup = np.array(
            [_row(op, run, facts) for op in group]
        ).T
        passed = np.cumsum([saved, saved, casts, casts, parameters], axis=1)
        layer, entry = passed[:, -1].copy(), np.zeros(5)
        if made_again:
            layer[[1, 3]] = 0.0
            entry[1] = sum(segment_input_bytes(op, run) for op in group)
        for number in sorted({1, layers}):
            before = start + (number - 1) * layer + number * entry
            kept, waiting = np.split(before[:, None] + passed, [4])
            moments.append(np.vstack([kept, waiting - parameters, transient, lookup]))
        start = start + layers * layer + layers * entry
    table = np.hstack(moments)
    return BackwardWalk(
        kept=table[0:2],
        casts=table[2:4],
        gradients=1.0 - table[4] / max(start[4], 1.0),
        transient=table[5],
        lookups=table[6],
        kept_at_loss=start[0:2],
        casts_at_loss=start[2:4],
    )


def _row(operator: Operator, run: TrainingRun, facts: MemoryFacts) -> tuple[float, ...]:
    """Kept tensors, casts, parameters, temporaries and second gradient of one layer of a row."""
    size = run.recipe.element_bytes
    transient = size * moved_elements(operator) * operator.largest
    if run.recipe.single and operator.minimal:
        transient *= 1.0 + facts.minimal_filter_workspace
    transient += size * operator.waiting_elements * operator.largest
    if operator.kind is OperatorKind.ATTENTION:
        transient += transient_bytes(operator, run).per_token_bytes
    cast = run.recipe.autocast and not run.frozen and run.stack.keeps_autocast_copies
    tied = run.architecture.tied_embeddings and not run.frozen
    twice = tied and operator.kind is OperatorKind.EMBEDDING
    return (
        fold_saved_bytes((operator,), run).per_token_bytes / operator.layers,
        2.0 * matrix_elements(operator) * cast / operator.layers,
        float(operator.parameters),
        transient,
        operator.parameters * FORMAT_BYTES[run.recipe.working] * twice,
    )


def sample_phases(
    walk: BackwardWalk,
    samples: Floats,
    recompute: Floats,
    states: StageStates,
    loss: Floats,
    two_tied: Floats,
) -> tuple[PeakPhase, ...]:
    """Return the moments of a step: the end of the forward pass, each row's backward, the update.

    ``recompute``: level of the policy; only full recomputation changes anything here. ``loss``:
    logits and the loss's tensors, in its backward pass. [bytes] ``two_tied``: 1 if both gradients
    of a tied table exist before they are added, otherwise 0.
    """
    held, none = states.held_gradients, 0.0 * samples
    gathered = np.maximum(states.at_first_block, states.at_last_block)
    remakes = np.asarray(recompute >= FULL, dtype=np.intp) + np.zeros(samples.shape, dtype=np.intp)
    left = samples * walk.kept_at_loss[remakes]

    def at_loss(casts: Floats, logits: Floats) -> PeakPhase:
        return PeakPhase(FORWARD_END, held + none, left + casts, logits, gathered)

    def at_row(row: int) -> PeakPhase:
        passed = samples * (walk.kept[:, row][remakes] + walk.transient[row])
        passed = passed + walk.casts[:, row][remakes] + walk.lookups[row] * two_tied
        exist = np.maximum(held, states.gradients * walk.gradients[row])
        return PeakPhase(BACKWARD_END, exist, passed, none, gathered)

    return (
        at_loss(walk.casts_at_loss[0], loss * FORWARD_PEAK_OF_LOSS),
        at_loss(walk.casts_at_loss[remakes], loss),
        *(at_row(row) for row in range(len(walk.transient))),
        update_phase(states, none),
    )


def answers_per_sample(architecture: ModelArchitecture) -> float:
    """Positions that the loss compares for one token or sample: 1, or those of a sequence."""
    return max(
        (op.positions_per_token for op in architecture.matmuls() if op.part is Part.HEAD),
        default=1.0,
    )


def moved_elements(operator: Operator) -> float:
    """Input and output of one layer of a row, for one token or sample. [elements]"""
    if operator.kind is OperatorKind.MATMUL:
        return operator.positions_per_token * (operator.in_features + operator.out_features)
    return operator.moved_elements_per_token


def matrix_elements(operator: Operator) -> float:
    """Weights of a row's products in all layers: what autocast casts. [elements]"""
    products = (OperatorKind.MATMUL, OperatorKind.CONVOLUTION, OperatorKind.RECURRENCE)
    if operator.kind not in products:
        return 0.0
    one = operator.in_features * operator.out_features * operator.groups * operator.experts
    return float(operator.layers * one)
