"""What fills an accelerator at the fullest moment of a training step, beside the plain states."""

from typing import Final

import numpy as np

from advisor.equations import Number

RESIDENT_LAYERS: Final = 2.0
"""Layers on the accelerator while the rest is on its host: the one at work and the next, in
flight (ZeRO-Infinity, Rajbhandari et al. 2021, arXiv:2104.07857, section 5.1.2)."""


def dualpipe_in_flight(*, pipeline: Number, micro_batches: Number) -> Number:
    r"""Micro-batches whose activations a rank of DualPipe holds, in units of both its stages.

    ``pipeline``: ranks of the pipeline. ``micro_batches``: micro-batches per optimizer step.

    Notes
    -----
    .. math:: \frac{\min(p + 1,\; m)}{2}

    One more micro-batch than there are ranks is on its way, each through one of the rank's two
    stages.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V3, 2024, arXiv:2412.19437, section 3.2.1, table 2.

    Examples
    --------
    >>> float(dualpipe_in_flight(pipeline=16, micro_batches=64))
    8.5
    """
    return np.minimum(pipeline + 1, micro_batches) / 2.0


def backward_block_bytes(
    *, kept: Number, transient: Number, boundary: Number, scores: Number
) -> Number:
    r"""Most that exists of one block while it goes backward, kept or made again. [bytes]

    ``kept``: all that its backward pass needs. [bytes] ``transient``: gradients inside the block
    beside that. [bytes] ``boundary``: input of the block, as large as its output. [bytes]
    ``scores``: an attention that goes back through its score matrix; 0 where a kernel never writes
    it. [bytes]

    Notes
    -----
    .. math:: M = \max(M_{kept} + M_g + 2 M_x,\; M_{scores})

    The block's input has a gradient, and its output.

    References
    ----------
    .. [1] Korthikanti et al., 2022, arXiv:2205.05198, section 4.1 (34sbh of a layer) and section 5.

    Examples
    --------
    >>> float(backward_block_bytes(kept=34.0, transient=4.0, boundary=2.0, scores=30.0))
    42.0
    """
    return np.maximum(kept + transient + 2.0 * boundary, scores)


def gradients_present_bytes(
    *, gradient_bytes: Number, pending: Number, parameters: Number
) -> Number:
    r"""Gradients that exist while some of the parameters still wait for theirs. [bytes]

    ``gradient_bytes``: all of them. [bytes] ``pending``: parameters without a gradient yet.
    [elements] ``parameters``: all parameters that have one in the end. [elements]

    Notes
    -----
    .. math:: M = M_g \left(1 - \min\left(1, \frac{P_w}{P}\right)\right)

    References
    ----------
    .. [1] PyTorch, torch.optim.Optimizer.zero_grad: gradients are None until the backward pass
       makes them, which takes less memory; read 2026-11-22.

    Examples
    --------
    >>> float(gradients_present_bytes(gradient_bytes=8.0, pending=1.0, parameters=4.0))
    6.0
    """
    return gradient_bytes * (1.0 - np.minimum(1.0, pending / np.maximum(parameters, 1.0)))


def resident_share(*, layers: Number) -> Number:
    r"""Share of the layers that are on the accelerator while the rest is on its host. [fraction]

    ``layers``: layers of the stage.

    Notes
    -----
    .. math:: \min\left(1, \frac{2}{L}\right)

    References
    ----------
    .. [1] Rajbhandari et al., ZeRO-Infinity, 2021, arXiv:2104.07857, section 5.1.2.

    Examples
    --------
    >>> float(resident_share(layers=8.0))
    0.25
    """
    return np.minimum(1.0, RESIDENT_LAYERS / layers)


def reserved_bytes(
    *, allocated: Number, lasting: Number, fragmentation: Number, outside: Number
) -> Number:
    r"""Memory that the driver shows as used. [bytes]

    ``allocated``: tensors and library workspaces. [bytes] ``lasting``: weights among them, which
    fill their blocks from start to end. [bytes] ``fragmentation``: what the allocator reserves over
    the others. [fraction] ``outside``: driver context and buffers of the collective library.
    [bytes]

    Notes
    -----
    .. math:: M = M_a + f\,(M_a - M_w) + M_o

    References
    ----------
    .. [1] PyTorch, CUDA semantics, memory management: unused memory of the caching allocator still
       shows as used in nvidia-smi; read 2026-11-22.

    Examples
    --------
    >>> reserved_bytes(allocated=100.0, lasting=60.0, fragmentation=0.25, outside=10.0)
    120.0
    """
    return allocated + fragmentation * (allocated - lasting) + outside
