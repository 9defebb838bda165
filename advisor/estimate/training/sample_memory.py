"""Training memory of networks whose layers differ in size: a walk back over the rows.

A stack of like blocks has its peak at one of a few moments (``training_memory``). A network that
narrows from large feature maps to many channels has it wherever what is still kept, the gradients
that exist already and what passes through a row together are largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.estimate.candidates import Floats
from advisor.estimate.training.activations import (
    fold_saved_bytes,
    passing_bytes,
    segment_input_bytes,
)
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.efficiency import MemoryFacts
from advisor.nouns.precision import FORMAT_BYTES

FULL: Final = 2.0
"""Level of full recomputation."""

Rows = NDArray[np.float64]
Moment = tuple[Floats, Floats, Floats, Floats, float]
"""Gradients, activations, logits, workspace, and the name that the moment is told by."""


@dataclass(frozen=True, slots=True)
class BackwardWalk:
    """Moments of a backward pass: each row of the table, in the first and the last of its layers.

    Arrays of two rows tell first what no recomputation keeps, then what full recomputation does.
    """

    kept: Rows
    """What is kept or made again of one sample. [bytes/sample]"""
    passing: Rows
    """Gradients of input and output of this row for one sample. [bytes/sample]"""
    casts: Rows
    """16-bit copies of fp32 weights. [bytes]"""
    gradients: Rows
    """Share of the gradients that exist once this row is done. [fraction]"""
    lookups: Rows
    """Gradient of the row's table, where the head makes another of it. [bytes]"""
    kept_at_loss: Rows
    """What the forward pass leaves of one sample, by policy. [bytes/sample]"""
    casts_at_loss: Rows
    """16-bit copies while the loss goes backward, by policy. [bytes]"""


@dataclass(frozen=True, slots=True)
class _Row:
    """One layer of a row: what it keeps and copies, its gradients, and what passes. [bytes]"""

    saved: float
    casts: float
    parameters: float
    passing: float
    lookup: float = 0.0


def backward_walk(
    architecture: ModelArchitecture, run: TrainingRun, facts: MemoryFacts
) -> BackwardWalk:
    """Return the moments of a backward pass.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    facts : MemoryFacts
        Workspaces of convolutions.

    Returns
    -------
    BackwardWalk

    Notes
    -----
    Layers that are alike run in turns: of each row the layer that comes back first, when most is
    kept, and the one that comes back last, when most gradients exist, stand for all. Full
    recomputation keeps the input of each block (``Operator.segment``), and what is in none.
    """
    moments: list[tuple[float, ...]] = []
    plain = remade = casts = remade_casts = parameters = 0.0
    for key, group in groupby(architecture.operators, key=lambda op: (op.segment, op.layers)):
        rows = tuple(group)
        segment, layers = key
        lines = [_row(op, run, facts, tied=architecture.tied_embeddings) for op in rows]
        entry = sum(segment_input_bytes(op, run) for op in rows)
        one = _Row(
            saved=sum(line.saved for line in lines),
            casts=sum(line.casts for line in lines),
            parameters=sum(line.parameters for line in lines),
            passing=0.0,
        )
        for layer in sorted({1, layers}):
            saved = cast = done = 0.0
            for line in lines:
                saved, cast = saved + line.saved, cast + line.casts
                before = layer - 1
                moments.append(
                    (
                        plain + before * one.saved + saved,
                        remade + (layer * entry if segment else before * one.saved) + saved,
                        casts + before * one.casts + cast,
                        remade_casts + (0.0 if segment else before * one.casts) + cast,
                        line.passing,
                        parameters + before * one.parameters + done,
                        line.lookup,
                    )
                )
                done += line.parameters
        plain, casts = plain + layers * one.saved, casts + layers * one.casts
        remade += layers * (entry if segment else one.saved)
        remade_casts += 0.0 if segment else layers * one.casts
        parameters += layers * one.parameters
    table = np.array(moments).T
    return BackwardWalk(
        kept=table[0:2],
        passing=table[4],
        casts=table[2:4],
        gradients=1.0 - table[5] / max(parameters, 1.0),
        lookups=table[6],
        kept_at_loss=np.array([plain, remade]),
        casts_at_loss=np.array([casts, remade_casts]),
    )


def _row(operator: Operator, run: TrainingRun, facts: MemoryFacts, *, tied: bool) -> _Row:
    wide = run.recipe.compute == "fp32"
    size = FORMAT_BYTES["fp32" if wide else "bf16"]
    passing = size * moved_elements(operator) * operator.largest
    if wide and operator.minimal:
        passing *= 1.0 + facts.minimal_filter_workspace
    passing += size * operator.waiting_elements * operator.largest
    if operator.kind is OperatorKind.ATTENTION:
        passing += passing_bytes(operator, run).per_token_bytes
    return _Row(
        saved=fold_saved_bytes((operator,), run).per_token_bytes / operator.layers,
        casts=2.0 * matrix_elements(operator) * _casts(run) / operator.layers,
        parameters=float(operator.parameters),
        passing=passing,
        lookup=operator.parameters * FORMAT_BYTES[run.recipe.working]
        if tied and operator.kind is OperatorKind.EMBEDDING and not run.frozen
        else 0.0,
    )


def sample_moments(
    architecture: ModelArchitecture,
    run: TrainingRun,
    samples: Floats,
    recompute: Floats,
    facts: MemoryFacts,
    gradients: Floats,
    held: Floats,
    gathered: Floats,
    loss: tuple[Floats, Floats],
    side_by_side: Floats,
) -> tuple[Moment, ...]:
    """Return the moments of a step: the end of the forward pass, then each row's backward.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    samples : ndarray
        Samples of a micro-batch on one rank.
    recompute : ndarray
        Level of the policy; only full recomputation changes anything here.
    facts : MemoryFacts
        Workspaces of convolutions.
    gradients, held : ndarray
        All gradients, and those that exist before the backward pass. [bytes]
    gathered : ndarray
        Weights that sharding gathers and gradients that it reduces. [bytes]
    loss : tuple of ndarray
        Logits and what the loss makes of them, forward and backward. [bytes]
    side_by_side : ndarray
        1 where both gradients of a table that the head shares exist before they are added, else 0.

    Returns
    -------
    tuple of Moment
        As ``training_memory`` compares them.
    """
    walk = backward_walk(architecture, run, facts)
    none = 0.0 * samples
    remakes = np.asarray(recompute >= FULL, dtype=np.intp) + np.zeros(samples.shape, dtype=np.intp)
    left = samples * walk.kept_at_loss[remakes]
    moments: list[Moment] = [
        (held + none, left + casts, part, gathered, 0.0)
        for part, casts in zip(
            loss, (walk.casts_at_loss[0], walk.casts_at_loss[remakes]), strict=True
        )
    ]
    for kept, passing, casts, share, lookup in zip(
        walk.kept.T, walk.passing, walk.casts.T, walk.gradients, walk.lookups, strict=True
    ):
        exist = np.maximum(held, gradients * share)
        passed = samples * (kept[remakes] + passing) + casts[remakes] + lookup * side_by_side
        moments.append((exist, passed, none, gathered, 1.0))
    return tuple(moments)


def answers_per_sample(architecture: ModelArchitecture) -> float:
    """Positions at which the loss compares one token or sample: 1 unless it writes a sequence."""
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
