"""States and activations that a layout moves to the host, and those that stay."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations.training.peaks import resident_share
from advisor.estimate.candidates import OFFLOAD_BITS, Floats, LayoutArrays
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.stages import SHARD_GRAD_OP
from advisor.estimate.training.states import StageStates
from advisor.nouns.layout import Offload
from advisor.nouns.training_choices import Optimizer

GRADIENTS: Final = (
    "gradients",
    "gradients_at_last_block",
    "gradients_at_end",
    "held_gradients",
)
"""Fields of a stage's states."""


def offloads(layout: LayoutArrays, what: Offload) -> NDArray[np.bool_]:
    """Return which configurations keep ``what`` in the host's memory."""
    bit = OFFLOAD_BITS[what]
    return np.asarray(np.floor(layout.offload / bit) % 2 > 0)


def states_on_host(
    states: StageStates,
    run: TrainingRun,
    layout: LayoutArrays,
    resident: Floats,
    leaving: Floats,
    waiting: Floats,
) -> StageStates:
    """Move states to the host.

    The rest on the accelerator, and the part on the host.

    ``resident``: gathered embedding, head and layers that stay when the weights move. [bytes]
    ``leaving``: share of the gradients that is on its way to the host at a time. ``waiting``: the
    buffer that collects them. [bytes]

    The master weights and the gradients move with the optimizer, because the host does the update
    (Ren et al. 2021, arXiv:2101.06840, section 4.1; DeepSpeed's stage3.py has the buffer of the
    gradients on the device of the optimizer). Paged states count on the host:
    they move there when the card runs out of memory. Leaves out pinned buffers.
    """
    optimizer = offloads(layout, Offload.OPTIMIZER)
    paged = optimizer | (run.optimizer is Optimizer.PAGED_ADAMW_8BIT)
    parameters = offloads(layout, Offload.PARAMETERS)
    # Fully sharded ranks gather what they need; that counts as a temporary.
    gathers = (layout.sharding > SHARD_GRAD_OP) & (layout.data * layout.context > 1)
    left = np.minimum(states.weights, np.where(gathers, 0.0, resident))
    host = (
        paged * states.optimizer
        + optimizer * (states.master + states.gradients)
        + parameters * (states.weights - left)
    )
    return replace(
        states,
        weights=np.where(parameters, left, states.weights),
        master=np.where(optimizer, 0.0, states.master),
        **{name: getattr(states, name) * np.where(optimizer, leaving, 1.0) for name in GRADIENTS},
        optimizer=np.where(paged, 0.0, states.optimizer),
        at_update=np.where(optimizer, 0.0, states.at_update),
        always=states.always + optimizer * waiting,
        host=np.asarray(host),
    )


def activations_on_host(
    stored: Floats, layers_held: Floats, layout: LayoutArrays
) -> tuple[Floats, Floats]:
    """Split kept activations between accelerator and host. [bytes], [bytes]"""
    moved = offloads(layout, Offload.ACTIVATIONS)
    left = np.where(moved, stored * resident_share(layers=layers_held), stored)
    return left, stored - left
