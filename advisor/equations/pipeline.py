"""Pipeline schedules: the idle time of filling and draining."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]


def bubble_time_s(*, micro_batch_s: Number, pipeline: Number, virtual_stages: Number) -> Number:
    r"""Idle time of one step.

    Parameters
    ----------
    micro_batch_s : float or ndarray
        Forward plus backward of one micro-batch through one whole stage. [s]
    pipeline, virtual_stages : float or ndarray
        Stages, and model chunks per stage.

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = \frac{p - 1}{v}\,t_{mb}

    which is the share :math:`(p-1)/(m v)` of the ideal time of :math:`m` micro-batches.

    References
    ----------
    .. [1] Narayanan et al., 2021, arXiv:2104.04473, sections 2.2.1 and 2.2.2.

    Examples
    --------
    >>> bubble_time_s(micro_batch_s=1.0, pipeline=8, virtual_stages=2)
    3.5
    """
    return (pipeline - 1) / virtual_stages * micro_batch_s


def exposed_time_s(*, traffic_s: Number, cover_s: Number, overlap: Number) -> Number:
    r"""Traffic that remains exposed when part of the computation hides it.

    Parameters
    ----------
    traffic_s : float or ndarray
        Time of the traffic on its own. [s]
    cover_s : float or ndarray
        Computation that runs at the same time. [s]
    overlap : float or ndarray
        Share of that computation behind which traffic can hide. [fraction]

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = \max(0,\; t_c - o\,t_{cover})

    Examples
    --------
    >>> float(exposed_time_s(traffic_s=3.0, cover_s=2.0, overlap=0.5))
    2.0
    """
    exposed: Number = np.maximum(0.0, traffic_s - overlap * cover_s)
    return exposed
