"""What an optimizer's update reads, writes and holds for a moment."""

from typing import Final

import numpy as np

from advisor.equations import Number

MUON_BYTES: Final = 9.0
"""Bytes per element of the matrix that Muon is at work on: its update and the products of the
Newton-Schulz iteration (PyTorch 2.13's own accounting: 7 in 16 bits to 9 in fp32)."""


def update_bytes(
    *, gradient_bytes: Number, master_bytes: Number, state_bytes: Number, working_bytes: Number
) -> Number:
    r"""Memory traffic of the update of one parameter. [bytes]

    ``gradient_bytes``: its gradient. [bytes] ``master_bytes``: the weight that the optimizer
    updates. [bytes] ``state_bytes``: its optimizer states. [bytes] ``working_bytes``: a working
    copy that is written anew; 0 without one. [bytes]

    Notes
    -----
    .. math:: b = b_g + 2\,(b_m + b_s) + b_w

    Weight and states are read and written, the gradient is read. Leaves out the pass that clips
    gradients by their norm.

    References
    ----------
    .. [1] NVIDIA, Apex, csrc/multi_tensor_adam.cu, commit 004da4e: the kernel reads gradient,
       weight and both moments, and writes weight, moments and the working copy.

    Examples
    --------
    Mixed precision, AdamW in fp32, gradients in 16 bits:

    >>> update_bytes(gradient_bytes=2, master_bytes=4, state_bytes=8, working_bytes=2)
    28
    """
    return gradient_bytes + 2 * (master_bytes + state_bytes) + working_bytes


def widened_gradient_bytes(
    *, elements: Number, master_bytes: Number, gradient_bytes: Number = 0.0, most: Number = np.inf
) -> Number:
    r"""Gradients cast to the wider format of the weights that they update. [bytes]

    ``elements``: gradients that are cast together. [elements] ``master_bytes``: size of one after
    the cast. [bytes] ``gradient_bytes``: size of one before, where they are copied end to end
    first. [bytes] ``most``: gradients that are cast together at most. [elements]

    Notes
    -----
    .. math:: M = (b_g + b_m)\,\min(n, n_{max})

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, megatron/core/optimizer/distrib_optimizer.py: each main parameter's
       gradient is a ``float()`` of its shard of the model's gradient; read 2026-11-22.

    Examples
    --------
    >>> float(widened_gradient_bytes(elements=5e9, master_bytes=4, gradient_bytes=2, most=1e9))
    6000000000.0
    """
    return (gradient_bytes + master_bytes) * np.minimum(elements, most)
