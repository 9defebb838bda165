"""Time that the host adds to kernels: launches, dispatch, copies from and to the host."""

from typing import Final

import numpy as np

from advisor.equations.roofline import launch_wait_s
from advisor.estimate.candidates import Floats, HardwareArrays
from advisor.nouns.software.stacks import SoftwareFacts

DRIVER_S: Final = 2e-6
"""Time of the driver to queue one kernel, a part of the host's time for one eager call: 1 to 3 us
of 5 to 25 (jiahuanglin.xyz, GPU kernel serving, lesson 18, read 2026-11-21). [s]"""
COPY_S: Final = 6e-6
"""Time of one small copy between host and accelerator: 5 to 7 us (Wu et al. 2026,
arXiv:2602.21548, section 5.2). [s]"""
STEP_COPIES: Final = 3.0
"""Copies of a training step: inputs and labels to the accelerator, the loss back."""
ANSWER_COPIES: Final = 2.0
"""Copies of an inference batch: inputs to the accelerator, results back."""


def queue_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time in which a host launches kernels while its accelerator computes. [s]

    0 for processors.
    """
    return np.where(hardware.own_host > 0, 0.0, launches * software.launch_s)


def dispatch_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time that a framework uses on a processor, where it shares threads with the kernels. [s]

    There is no driver in between. 0 for accelerators.
    """
    dispatch = launches * max(0.0, software.launch_s - DRIVER_S)
    return np.where(hardware.own_host > 0, dispatch, 0.0)


def launch_time(
    launches: Floats, kernels: Floats, hardware: HardwareArrays, software: SoftwareFacts
) -> Floats:
    """Time that launches add to the kernels. [s]

    Waiting time of accelerators, and dispatch time of processors.

    Parameters
    ----------
    launches : ndarray
        Kernels launched. [1]
    kernels : ndarray
        Their time. [s]
    """
    queue_s = queue_time(launches, hardware, software)
    waits = np.asarray(launch_wait_s(queue_s=queue_s, kernels_s=kernels))
    return waits + dispatch_time(launches, hardware, software)


def copies_time(copies: float, hardware: HardwareArrays) -> Floats:
    """Time of ``copies`` between host and accelerator, for which the host waits. [s]

    0 if both share one memory. Leaves out the bytes, which loaders copy ahead.
    """
    return np.where(hardware.shared_memory > 0, 0.0, copies * COPY_S)
