"""Traffic between accelerator and host, and the update of weights on the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]


def host_transfer_s(*, moved_bytes: Number, bytes_per_s: Number) -> Number:
    r"""Time to move bytes over the link to the host, in one direction.

    Parameters
    ----------
    moved_bytes : float or ndarray
        What passes the link of one accelerator. [bytes]
    bytes_per_s : float or ndarray
        Rate that the link reaches in one direction. [bytes/s]

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = M / B

    Leaves out the latency of each transfer.

    Examples
    --------
    16 GB over a link that reaches 25 GB/s:

    >>> host_transfer_s(moved_bytes=16e9, bytes_per_s=25e9)
    0.64
    """
    return moved_bytes / bytes_per_s


def host_update_s(
    *, parameters: Number, bytes_per_parameter: Number, host_bytes_per_s: Number
) -> Number:
    r"""Time to update weights on the host, limited by the host's memory bandwidth.

    Parameters
    ----------
    parameters : float or ndarray
        Parameters that one machine updates. [elements]
    bytes_per_parameter : float or ndarray
        Bytes read and written: gradient once, master weight and states twice. [bytes]
    host_bytes_per_s : float or ndarray
        Bandwidth that the machine's memory sustains. [bytes/s]

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = P\,b / B_h

    References
    ----------
    .. [1] Ren et al., ZeRO-Offload, 2021, arXiv:2101.06840, section 4.1 and 5.1 (CPU Adam).

    Examples
    --------
    A billion parameters with AdamW in fp32, gradient in 16 bits, at 100 GB/s:

    >>> host_update_s(parameters=1e9, bytes_per_parameter=26.0, host_bytes_per_s=100e9)
    0.26
    """
    return parameters * bytes_per_parameter / host_bytes_per_s
