"""The fullest moment of a training step, and the fuller of two pipeline stages."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Floats
from advisor.estimate.training.states import StageStates
from advisor.foundation.record import record

FORWARD_PEAK_OF_LOSS: Final = 10 / 12
"""Largest moment of the loss's forward pass over that of its backward pass (PyTorch's own
accounting of the unfused code)."""
FORWARD_END: Final = 0.0
"""Names of two moments: the loss, and the first block's backward pass."""
BACKWARD_END: Final = 1.0
OPTIMIZER_STEP: Final = 2.0


@record
class TrainingMemory:
    """Terms at the peak, one element per configuration. [bytes]"""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    logits: Floats
    workspace: Floats
    moment: Floats
    """``FORWARD_END``, ``BACKWARD_END`` or ``OPTIMIZER_STEP``."""
    last_stage: Floats
    """1 if the last pipeline stage is the fullest."""
    host: Floats
    """Host memory for one accelerator. [bytes]"""

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

    @property
    def tensors(self) -> tuple[Floats, Floats, Floats]:
        """Sum of all tensors; weights and the optimizer's states among them."""
        return self.allocated, self.weights, self.optimizer


@record
class BlockBytes:
    """Activations of one layer for one micro-batch, and of the head. [bytes]"""

    stored: Floats
    """Kept from the forward to the backward pass."""
    backward: Floats
    """Peak of kept and recomputed tensors during the layer's backward pass."""
    input_apart: NDArray[np.bool_]
    """Whether ``stored`` comes on top: it is the block's input, from which all is recomputed."""
    head: Floats
    """Kept by the head from its forward to its backward pass, without logits."""


@record
class PeakPhase:
    """One moment of a step that can be the fullest. [bytes]"""

    moment: float
    """As in :class:`TrainingMemory`."""
    gradients: Floats
    activations: Floats
    logits: Floats
    workspace: Floats
    """Gathered weights, gradients in transit and temporaries."""

    @property
    def transient(self) -> Floats:
        """Memory that a step allocates and frees; the states stay."""
        return self.gradients + self.activations + self.logits + self.workspace


def block_phases(
    states: StageStates,
    blocks: BlockBytes,
    *,
    stored: Floats,
    loss: Floats,
    head: Floats,
    casts: tuple[Floats, Floats],
    tied_gradient: Floats,
) -> tuple[PeakPhase, ...]:
    """Return the moments of a step through like blocks, in their order.

    ``stored``: activations that all blocks of the stage keep. [bytes] ``loss``: logits and the
    loss's tensors, in its backward pass. [bytes] ``head``: activations that the head keeps. [bytes]
    ``casts``: 16-bit copies of weights, at the end of the forward pass and at the loss. [bytes]
    ``tied_gradient``: second gradient of a table that embedding and head share. [bytes]
    """
    held, none = states.held_gradients, 0.0 * stored
    at_forward_end, at_loss = casts
    kept = stored + at_loss + head
    first = stored + at_loss + blocks.backward - blocks.stored * ~blocks.input_apart
    last = blocks.backward + blocks.stored * blocks.input_apart
    at_last = np.maximum(held, states.gradients_at_last_block)
    at_end = np.maximum(held, states.gradients_at_end)
    after = (
        PeakPhase(FORWARD_END, held, kept, loss, states.at_loss),
        PeakPhase(FORWARD_END, held, first, none, states.at_first_block),
        PeakPhase(BACKWARD_END, at_last, last, none, states.at_last_block),
        PeakPhase(BACKWARD_END, at_end, tied_gradient, none, states.at_end),
        update_phase(states, none),
    )
    # Without casts, the backward pass of the loss needs more: skip its forward pass to save time.
    if not np.any(at_forward_end):
        return after
    kept, logits = stored + at_forward_end + head, loss * FORWARD_PEAK_OF_LOSS
    return (PeakPhase(FORWARD_END, held, kept, logits, states.at_loss), *after)


def update_phase(states: StageStates, none: Floats) -> PeakPhase:
    """Return the moment of the optimizer's update, when activations are ``none``."""
    return PeakPhase(OPTIMIZER_STEP, states.gradients, none, none, states.at_update)


def fullest(phases: tuple[PeakPhase, ...], states: StageStates, *, is_last: bool) -> TrainingMemory:
    """Pick the moment at which the sum is largest, for each configuration."""
    totals = [phase.transient for phase in phases]
    shape = np.broadcast_shapes(*{np.shape(total) for total in totals})
    whole = np.broadcast_shapes(shape, states.weights.shape, states.optimizer.shape)
    most, taken = np.full(shape, -np.inf), []
    for total in totals:
        taken.append(total > most)
        most = np.maximum(most, total)

    def chosen(name: str) -> Floats:
        picked = np.zeros(shape)
        for phase, rows in zip(phases, taken, strict=True):
            np.copyto(picked, getattr(phase, name), where=rows)
        return np.broadcast_to(picked, whole)

    return TrainingMemory(
        weights=np.broadcast_to(states.weights + states.master, whole),
        gradients=chosen("gradients"),
        optimizer=np.broadcast_to(states.optimizer, whole),
        activations=chosen("activations"),
        logits=chosen("logits"),
        workspace=chosen("workspace") + states.always,
        moment=chosen("moment"),
        last_stage=np.full(whole, float(is_last)),
        host=np.broadcast_to(states.host, whole),
    )


def larger(first: TrainingMemory, last: TrainingMemory) -> TrainingMemory:
    """Pick the fuller of two stages, element by element."""
    choose_last = last.allocated >= first.allocated
    names: tuple[str, ...] = TrainingMemory.__match_args__
    pairs = ((getattr(last, name), getattr(first, name)) for name in names)
    return TrainingMemory(*(np.asarray(np.where(choose_last, *pair)) for pair in pairs))
