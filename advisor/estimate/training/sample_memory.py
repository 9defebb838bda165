"""Training memory of networks whose layers differ in size: a backward walk over the rows.

A stack of like blocks has its peak at one of a few moments (``training_memory``). In a network
that narrows from large feature maps to many channels, the peak is at the row where kept tensors,
existing gradients and the row's temporaries have the largest sum.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final, NamedTuple

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


@record
class _Row:
    """One layer of a row: kept tensors, copies, gradients and temporaries. [bytes]"""

    saved: float
    casts: float
    parameters: float
    transient: float
    lookup: float = 0.0


@record
class _Group:
    """Rows whose layers alternate."""

    lines: tuple[_Row, ...]
    layers: int
    made_again: bool
    """Whether full recomputation keeps only the input of each layer."""
    entry: float
    """That input. [bytes/sample]"""
    saved: float
    """Kept tensors of one layer. [bytes/sample]"""
    casts: float
    parameters: float


@record
class _Forward:
    """Tensors that a forward pass has kept so far. [bytes]"""

    kept: float = 0.0
    remade: float = 0.0
    """The same under full recomputation."""
    casts: float = 0.0
    remade_casts: float = 0.0
    parameters: float = 0.0
    """Parameters passed so far; in the backward pass, their gradients come later. [elements]"""

    def after(self, group: _Group, layers: int, *, inputs: int) -> _Forward:
        """Return what is left after ``layers`` of a group, and its first ``inputs`` inputs."""
        again = group.made_again
        return _Forward(
            kept=self.kept + layers * group.saved,
            remade=self.remade + (inputs * group.entry if again else layers * group.saved),
            casts=self.casts + layers * group.casts,
            remade_casts=self.remade_casts + (0.0 if again else layers * group.casts),
            parameters=self.parameters + layers * group.parameters,
        )


class _Moment(NamedTuple):
    """One row of one layer in its backward pass; a column of :class:`BackwardWalk`."""

    kept: float
    remade: float
    casts: float
    remade_casts: float
    transient: float
    waiting: float
    lookup: float


def backward_walk(run: TrainingRun, facts: MemoryFacts) -> BackwardWalk:
    """Return the moments of a backward pass.

    Of like layers, two represent all: the first in the backward pass, when most tensors are kept,
    and the last, when most gradients exist. Full recomputation keeps the input of each block
    (``Operator.segment``), and all tensors outside of blocks.
    """
    start = _Forward()
    moments: list[_Moment] = []
    for _, rows in groupby(run.architecture.operators, key=lambda op: (op.segment, op.layers)):
        group = _group(tuple(rows), run, facts)
        for layer in sorted({1, group.layers}):
            moments += _moments_of_layer(group, start, layer)
        start = start.after(group, group.layers, inputs=group.layers)
    table = np.array(moments).T
    return BackwardWalk(
        kept=table[0:2],
        transient=table[4],
        casts=table[2:4],
        gradients=1.0 - table[5] / max(start.parameters, 1.0),
        lookups=table[6],
        kept_at_loss=np.array([start.kept, start.remade]),
        casts_at_loss=np.array([start.casts, start.remade_casts]),
    )


def _group(rows: tuple[Operator, ...], run: TrainingRun, facts: MemoryFacts) -> _Group:
    lines = [_row(op, run, facts, tied=run.architecture.tied_embeddings) for op in rows]
    return _Group(
        lines=tuple(lines),
        layers=rows[0].layers,
        made_again=rows[0].segment > 0,
        entry=sum(segment_input_bytes(op, run) for op in rows),
        saved=sum(line.saved for line in lines),
        casts=sum(line.casts for line in lines),
        parameters=sum(line.parameters for line in lines),
    )


def _moments_of_layer(group: _Group, start: _Forward, layer: int) -> list[_Moment]:
    """Return the moments of each row's backward pass in one of the group's layers, 1 first."""
    before = start.after(group, layer - 1, inputs=layer)
    moments = []
    saved = casts = done = 0.0
    for line in group.lines:
        saved, casts = saved + line.saved, casts + line.casts
        moments.append(
            _Moment(
                kept=before.kept + saved,
                remade=before.remade + saved,
                casts=before.casts + casts,
                remade_casts=before.remade_casts + casts,
                transient=line.transient,
                waiting=before.parameters + done,
                lookup=line.lookup,
            )
        )
        done += line.parameters
    return moments


def _row(operator: Operator, run: TrainingRun, facts: MemoryFacts, *, tied: bool) -> _Row:
    size = run.recipe.element_bytes
    transient = size * moved_elements(operator) * operator.largest
    if run.recipe.single and operator.minimal:
        transient *= 1.0 + facts.minimal_filter_workspace
    transient += size * operator.waiting_elements * operator.largest
    if operator.kind is OperatorKind.ATTENTION:
        transient += transient_bytes(operator, run).per_token_bytes
    return _Row(
        saved=fold_saved_bytes((operator,), run).per_token_bytes / operator.layers,
        casts=2.0 * matrix_elements(operator) * _casts(run) / operator.layers,
        parameters=float(operator.parameters),
        transient=transient,
        lookup=operator.parameters * FORMAT_BYTES[run.recipe.working]
        if tied and operator.kind is OperatorKind.EMBEDDING and not run.frozen
        else 0.0,
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


def _casts(run: TrainingRun) -> bool:
    return run.recipe.autocast and not run.frozen and run.stack.keeps_autocast_copies
