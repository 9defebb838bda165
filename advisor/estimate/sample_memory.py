"""Training memory of networks whose layers differ in size: a walk back over the rows.

A stack of like blocks has its peak at one of a few moments (``training_memory``). A network that
narrows from large feature maps to many channels has it wherever what is still kept, the gradients
that exist already and what passes through a row together are largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Operator, OperatorKind, Part
from advisor.estimate.activations import fold_saved_bytes
from advisor.estimate.candidates import Floats
from advisor.estimate.run import TrainingRun
from advisor.precision import FORMAT_BYTES

Rows = NDArray[np.float64]
Moment = tuple[Floats, Floats, Floats, Floats, float]
"""Gradients, activations, logits, workspace, and the name that the moment is told by."""


@dataclass(frozen=True, slots=True)
class BackwardWalk:
    """Moments of a backward pass, one element per row of the table, in its order."""

    kept: Rows
    """What the rows up to this one keep of one sample. [bytes/sample]"""
    passing: Rows
    """Gradients of input and output of this row for one sample. [bytes/sample]"""
    casts: Rows
    """16-bit copies of fp32 weights of the rows up to this one. [bytes]"""
    gradients: Rows
    """Share of the gradients that exist once this row is done. [fraction]"""


def backward_walk(architecture: ModelArchitecture, run: TrainingRun) -> BackwardWalk:
    """Return the moments of a backward pass without recomputation.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun

    Returns
    -------
    BackwardWalk

    Notes
    -----
    Rows that stand for several layers count as done one after the other, though a stage runs
    them in turns.
    """
    rows = architecture.operators
    size = FORMAT_BYTES["fp32"] if run.recipe.compute == "fp32" else FORMAT_BYTES["bf16"]
    parameters = np.array([float(op.layers * op.parameters) for op in rows])
    done = np.cumsum(parameters[::-1])[::-1]
    return BackwardWalk(
        kept=np.cumsum([fold_saved_bytes((op,), run).per_token_bytes for op in rows]),
        passing=np.array([size * moved_elements(op) for op in rows]),
        casts=np.cumsum([2.0 * matrix_elements(op) * _casts(run) for op in rows]),
        gradients=done / max(done[0], 1.0),
    )


def sample_moments(
    architecture: ModelArchitecture,
    run: TrainingRun,
    samples: Floats,
    gradients: Floats,
    held: Floats,
    gathered: Floats,
    loss: tuple[Floats, Floats],
) -> tuple[Moment, ...]:
    """Return the moments of a step: the end of the forward pass, then each row's backward.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    samples : ndarray
        Samples of a micro-batch on one rank.
    gradients, held : ndarray
        All gradients, and those that exist before the backward pass. [bytes]
    gathered : ndarray
        Weights that sharding gathers and gradients that it reduces. [bytes]
    loss : tuple of ndarray
        Logits and what the loss makes of them, forward and backward. [bytes]

    Returns
    -------
    tuple of Moment
        As ``training_memory`` compares them.
    """
    walk = backward_walk(architecture, run)
    none = 0.0 * samples
    everything = samples * walk.kept[-1] + walk.casts[-1]
    moments: list[Moment] = [(held + none, everything, part, gathered, 0.0) for part in loss]
    for kept, passing, casts, share in zip(
        walk.kept, walk.passing, walk.casts, walk.gradients, strict=True
    ):
        exist = np.maximum(held, gradients * share)
        moments.append((exist, samples * (kept + passing) + casts, none, gathered, 1.0))
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
    return run.recipe.autocast and not run.frozen and run.software.unfused
