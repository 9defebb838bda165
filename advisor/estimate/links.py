"""The link that a group of accelerators communicates over."""

from __future__ import annotations

import numpy as np

from advisor.efficiency import NetworkEfficiency
from advisor.equations.collectives import group_bytes_per_s
from advisor.estimate.candidates import Candidates, Floats


def group_link(
    candidates: Candidates, network: NetworkEfficiency, ranks: Floats, stride: Floats
) -> tuple[Floats, Floats]:
    """Bandwidth and latency that a group's collectives reach. [bytes/s], [s]

    Parameters
    ----------
    candidates : Candidates
    network : NetworkEfficiency
    ranks, stride : ndarray
        Group size, and distance of neighbours in accelerators.

    Returns
    -------
    tuple of ndarray
        The bandwidth is 0 where the group needs a network and there is none.
    """
    hardware = candidates.hardware
    slow = network.pcie_bandwidth or network.intra_bandwidth
    bandwidth = group_bytes_per_s(
        ranks=ranks,
        stride=stride,
        node_accelerators=hardware.node_accelerators,
        intra_domain=hardware.intra_domain,
        intra_bytes_per_s=hardware.intra_bytes_per_s * network.intra_bandwidth,
        pcie_bytes_per_s=hardware.pcie_bytes_per_s * slow,
        inter_bytes_per_s=hardware.inter_bytes_per_s * network.inter_bandwidth,
    )
    reach = np.maximum(hardware.node_accelerators, hardware.intra_domain)
    latency = np.where(ranks * stride <= reach, network.intra_latency_s, network.inter_latency_s)
    return np.asarray(bandwidth), latency
