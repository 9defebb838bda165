"""The fullest moment of a training step, and the fuller of two pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Floats
from advisor.estimate.training.sample_memory import Moment
from advisor.estimate.training.states import StageStates

FORWARD_PEAK_OF_LOSS: Final = 10 / 12
"""Largest moment of the loss's forward pass over that of its backward pass (PyTorch's own
accounting of the unfused code)."""


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
    host: Floats
    """What one accelerator needs of its host's memory. [bytes]"""

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
class BlockBytes:
    """Activations of one layer for one micro-batch, and of the head. [bytes]"""

    stored: Floats
    """Kept from the forward to the backward pass."""
    backward: Floats
    """Most that is there while the layer goes backward, made again or kept."""
    input_apart: NDArray[np.bool_]
    """Whether what is kept is no part of that: the block's input, from which all is made again."""
    head: Floats
    """Kept of the head from its forward to its backward pass, logits apart."""


def peak_of_blocks(
    *,
    states: StageStates,
    stored: Floats,
    blocks: BlockBytes,
    loss: Floats,
    head: Floats,
    casts: tuple[Floats, Floats],
    tied_gradient: Floats,
    is_last: bool,
) -> TrainingMemory:
    """Pick the fullest moment of a step."""
    gradients, held = states.gradients, states.held_gradients
    none = 0.0 * stored
    # Each moment: gradients, activations, logits, workspace; and the name it is told by.
    moments: tuple[Moment, ...] = (
        (held, stored + casts[0] + head, loss * FORWARD_PEAK_OF_LOSS, states.at_loss, 0.0),
        (held, stored + casts[1] + head, loss, states.at_loss, 0.0),
        (
            held,
            stored + casts[1] + blocks.backward - blocks.stored * ~blocks.input_apart,
            none,
            states.at_first_block,
            0.0,
        ),
        (
            np.maximum(held, states.gradients_at_last_block),
            blocks.backward + blocks.stored * blocks.input_apart,
            none,
            states.at_last_block,
            1.0,
        ),
        # After the first block's backward, the embedding's gradient.
        (
            np.maximum(held, states.gradients_at_end),
            tied_gradient,
            none,
            states.at_end,
            1.0,
        ),
        (gradients, none, none, states.at_update, 2.0),
    )
    if not np.any(casts[0]):
        # Without casts the loss holds more in its backward pass; the search is quicker for it.
        moments = moments[1:]
    return fullest(moments, states, is_last=is_last)


def fullest(moments: tuple[Moment, ...], states: StageStates, *, is_last: bool) -> TrainingMemory:
    """Pick the moment at which the sum is largest, for each configuration."""
    totals = [gradient + kept + logits + passing for gradient, kept, logits, passing, _ in moments]
    shape = np.broadcast_shapes(*{np.shape(total) for total in totals})
    fullest = np.argmax(_stacked(totals, shape), axis=0)
    # numpy.choose takes 64 at most, and a network of many stages has a moment for each row.
    chosen = [
        np.take_along_axis(
            _stacked([moment[position] for moment in moments], shape), fullest[None], axis=0
        )[0]
        for position in range(4)
    ]
    names = np.array([moment[4] for moment in moments])
    shape = np.broadcast_shapes(shape, states.weights.shape, states.optimizer.shape)
    return TrainingMemory(
        weights=np.broadcast_to(states.weights + states.master, shape),
        gradients=np.broadcast_to(chosen[0], shape),
        optimizer=np.broadcast_to(states.optimizer, shape),
        activations=np.broadcast_to(chosen[1], shape),
        logits=np.broadcast_to(chosen[2], shape),
        workspace=np.broadcast_to(chosen[3] + states.always, shape),
        moment=np.broadcast_to(names[fullest], shape),
        last_stage=np.full(shape, float(is_last)),
        host=np.broadcast_to(states.host, shape),
    )


def _stacked(terms: Sequence[Floats | float], shape: tuple[int, ...]) -> Floats:
    """One row for each term; broadcasting is slow, and most have the shape already."""
    return np.stack(
        [
            np.asarray(term) if np.shape(term) == shape else np.broadcast_to(term, shape)
            for term in terms
        ]
    )


def larger(first: TrainingMemory, last: TrainingMemory) -> TrainingMemory:
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
        host=pick("host"),
    )
