"""Collective communication by the alpha-beta model, and which link a group runs over.

``message_bytes`` is the full size: what every rank holds after an all-gather or all-reduce,
and what it contributes to a reduce-scatter. A group of one rank costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]


def all_gather_time_s(
    *, message_bytes: Number, ranks: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""Ring all-gather; a reduce-scatter of the same size takes as long.

    Parameters
    ----------
    message_bytes : float or ndarray
        Size after gathering. [bytes]
    ranks : float or ndarray
        Group size.
    bytes_per_s : float or ndarray
        Per rank and direction, as reached by collectives. [bytes/s]
    latency_s : float or ndarray
        Per ring step. [s]

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = (n-1)\,\alpha + \frac{n-1}{n}\,\frac{M}{W}

    References
    ----------
    .. [1] Thakur et al., 2005, doi:10.1177/1094342005051521.

    Examples
    --------
    >>> all_gather_time_s(message_bytes=8e9, ranks=8, bytes_per_s=1e9, latency_s=0.0)
    7.0
    """
    return (ranks - 1) * latency_s + (ranks - 1) / ranks * message_bytes / bytes_per_s


def all_reduce_time_s(
    *, message_bytes: Number, ranks: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""Ring all-reduce: a reduce-scatter and an all-gather.

    Parameters
    ----------
    message_bytes, ranks, bytes_per_s, latency_s
        As for :func:`all_gather_time_s`.

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = 2(n-1)\,\alpha + 2\,\frac{n-1}{n}\,\frac{M}{W}

    Leaves out reduction inside switches, which halves the traffic where it exists.

    References
    ----------
    .. [1] Thakur et al., 2005, doi:10.1177/1094342005051521.

    Examples
    --------
    >>> all_reduce_time_s(message_bytes=8e9, ranks=8, bytes_per_s=1e9, latency_s=0.0)
    14.0
    """
    return 2 * all_gather_time_s(
        message_bytes=message_bytes, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s
    )


def all_to_all_time_s(
    *, message_bytes: Number, ranks: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""All-to-all: every rank sends an equal part of its message to every other.

    Parameters
    ----------
    message_bytes : float or ndarray
        What one rank sends in all, its own part included. [bytes]
    ranks, bytes_per_s, latency_s
        As for :func:`all_gather_time_s`.

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = (n-1)\,\alpha + \frac{n-1}{n}\,\frac{M}{W}

    References
    ----------
    .. [1] Thakur et al., 2005, doi:10.1177/1094342005051521.

    Examples
    --------
    >>> all_to_all_time_s(message_bytes=8e9, ranks=8, bytes_per_s=1e9, latency_s=0.0)
    7.0
    """
    return all_gather_time_s(
        message_bytes=message_bytes, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s
    )


def point_to_point_time_s(
    *, message_bytes: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""One message between two ranks.

    Parameters
    ----------
    message_bytes : float or ndarray
        [bytes]
    bytes_per_s : float or ndarray
        [bytes/s]
    latency_s : float or ndarray
        [s]

    Returns
    -------
    float or ndarray
        [s]

    Notes
    -----
    .. math:: t = \alpha + \frac{M}{W}

    Examples
    --------
    >>> point_to_point_time_s(message_bytes=1e9, bytes_per_s=1e9, latency_s=0.0)
    1.0
    """
    return latency_s + message_bytes / bytes_per_s


def group_bytes_per_s(
    *,
    ranks: Number,
    stride: Number,
    node_accelerators: Number,
    intra_domain: Number,
    intra_bytes_per_s: Number,
    pcie_bytes_per_s: Number,
    inter_bytes_per_s: Number,
) -> Number:
    r"""Bandwidth per rank that a ring over a regularly placed group reaches.

    Rank ``i`` of the group sits on accelerator ``i * stride``; accelerators are numbered along
    the link domain, then along the node, then across nodes. A group inside one link domain runs
    at the link's speed, one inside a node over PCIe. A wider one crosses the network; the ``g``
    ranks that it has in each node or domain share the crossing, so the ring moves at ``g`` times
    one accelerator's network bandwidth, at most at the speed inside.

    Parameters
    ----------
    ranks : float or ndarray
        Group size.
    stride : float or ndarray
        Distance of neighbours, in accelerators.
    node_accelerators, intra_domain : float or ndarray
        Accelerators in a node, and in one link domain.
    intra_bytes_per_s, pcie_bytes_per_s, inter_bytes_per_s : float or ndarray
        Link, PCIe and network, per accelerator and direction. [bytes/s]

    Returns
    -------
    float or ndarray
        0 where the group needs a network and there is none. [bytes/s]

    Notes
    -----
    .. math:: W = \min(W_{inside},\; g\,W_{inter}), \quad g = \max(1, \lfloor R / s \rfloor)

    with :math:`R` the larger of node and link domain. Leaves out oversubscription.

    Examples
    --------
    >>> float(
    ...     group_bytes_per_s(
    ...         ranks=16,
    ...         stride=1,
    ...         node_accelerators=8,
    ...         intra_domain=8,
    ...         intra_bytes_per_s=450e9,
    ...         pcie_bytes_per_s=63e9,
    ...         inter_bytes_per_s=50e9,
    ...     )
    ... )
    400000000000.0
    """
    reach = np.maximum(node_accelerators, intra_domain)
    span = ranks * stride
    linked = np.minimum(span, reach) <= intra_domain
    inside = np.where(linked, intra_bytes_per_s, np.minimum(pcie_bytes_per_s, intra_bytes_per_s))
    local = np.minimum(ranks, np.maximum(1.0, np.floor(reach / stride)))
    crossing = np.minimum(inside, local * inter_bytes_per_s)
    chosen: Number = np.where(span <= reach, inside, crossing)
    return chosen
