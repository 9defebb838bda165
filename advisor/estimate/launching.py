"""What the host adds to the kernels: launches, dispatch, copies to and from an accelerator."""

from __future__ import annotations

from typing import Final

import numpy as np

from advisor.estimate.candidates import Floats, HardwareArrays
from advisor.nouns.stacks import SoftwareFacts

DRIVER_S: Final = 2e-6
"""Of the host's time for one eager call, what the driver takes to put a kernel into its queue: 1 to
3 us of 5 to 25 (jiahuanglin.xyz, GPU kernel serving, lesson 18, read 2026-11-21). [s]"""
COPY_S: Final = 6e-6
"""Of one copy between host and accelerator, however small: 5 to 7 us (Wu et al. 2026,
arXiv:2602.21548, section 5.2). [s]"""
STEP_COPIES: Final = 3.0
"""Of a training step: its inputs and its labels to the accelerator, the loss back."""
ANSWER_COPIES: Final = 2.0
"""Of a batch that is answered: inputs there, results back."""


def queue_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time in which a host launches kernels while its accelerator computes. [s]

    0 for processors.
    """
    return np.where(hardware.own_host > 0, 0.0, launches * software.launch_s)


def dispatch_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time that a framework takes from the kernels of a processor, whose threads it shares. [s]

    No driver stands between the two. 0 for accelerators.
    """
    dispatch = launches * max(0.0, software.launch_s - DRIVER_S)
    return np.where(hardware.own_host > 0, dispatch, 0.0)


def launch_time(
    launches: Floats, kernels: Floats, hardware: HardwareArrays, software: SoftwareFacts
) -> Floats:
    """Time that launching kernels adds to them. [s]

    Parameters
    ----------
    launches : ndarray
        Kernels launched. [1]
    kernels : ndarray
        Their time. [s]

    Returns
    -------
    ndarray
        What accelerators wait for their hosts, and what processors dispatch.
    """
    waits = np.maximum(0.0, queue_time(launches, hardware, software) - kernels)
    return waits + dispatch_time(launches, hardware, software)


def copies_time(copies: float, hardware: HardwareArrays) -> Floats:
    """Time of ``copies`` between host and accelerator, which the host waits for. [s]

    0 where both have the same memory. Leaves out the bytes, which loaders copy ahead.
    """
    return np.where(hardware.shared_memory > 0, 0.0, copies * COPY_S)
