"""The link over which a group of accelerators communicates."""

import numpy as np

from advisor.equations.links import group_bytes_per_s, inside_bytes_per_s, local_ranks
from advisor.estimate.candidates import Candidates, Floats
from advisor.nouns.software.links_and_memory import NetworkEfficiency


def group_link(
    candidates: Candidates,
    network: NetworkEfficiency,
    ranks: Floats,
    stride: Floats,
    *,
    staged: bool = False,
) -> tuple[Floats, Floats]:
    """Bandwidth and latency that a group's collectives reach. [bytes/s], [s]

    The bandwidth is 0 if the group needs a network and there is none.

    ``ranks`` and ``stride``: group size, and distance of neighbours in accelerators. ``staged``:
    cards without peer-to-peer send large messages through the host's memory.
    """
    hardware = candidates.hardware
    slow = hardware.pcie_bytes_per_s * (network.pcie_bandwidth or network.intra_bandwidth)
    if staged and hardware.staged.any():
        slow = np.where(hardware.staged > 0, _staged_bytes_per_s(candidates, network, ranks), slow)
    bandwidth = group_bytes_per_s(
        ranks=ranks,
        stride=stride,
        node_accelerators=hardware.node_accelerators,
        intra_domain=hardware.intra_domain,
        intra_bytes_per_s=hardware.intra_bytes_per_s * network.intra_bandwidth,
        pcie_bytes_per_s=slow,
        inter_bytes_per_s=hardware.inter_bytes_per_s * network.inter_bandwidth,
    )
    reach = np.maximum(hardware.node_accelerators, hardware.intra_domain)
    latency = np.where(ranks * stride <= reach, network.intra_latency_s, network.inter_latency_s)
    return np.asarray(bandwidth), latency


def _staged_bytes_per_s(
    candidates: Candidates, network: NetworkEfficiency, ranks: Floats
) -> Floats:
    """Rate of each card through the host's memory, which all of the machine write and read."""
    hardware = candidates.hardware
    sharing = np.minimum(ranks, hardware.node_accelerators)
    return np.minimum(
        hardware.pcie_bytes_per_s * network.staged_bandwidth,
        network.host_bytes_per_s / (2.0 * sharing),
    )


def machines_of(candidates: Candidates, ranks: Floats, stride: Floats) -> Floats:
    """Return the machines (or link domains) on which a regularly placed group lies."""
    hardware = candidates.hardware
    reach = np.maximum(hardware.node_accelerators, hardware.intra_domain)
    local = np.asarray(local_ranks(ranks=ranks, stride=stride, reach=reach))
    return np.where(ranks * stride <= reach, 1.0, np.ceil(ranks / local))


def exchange_links(
    candidates: Candidates, network: NetworkEfficiency, ranks: Floats, stride: Floats
) -> tuple[Floats, Floats, Floats]:
    """Links of an all-to-all exchange: ranks in one node, and both bandwidths.

    [1], [bytes/s] inside the node, and [bytes/s] of one accelerator's network, 0 without one.

    ``ranks`` and ``stride``: group size, and distance of neighbours in accelerators.
    """
    hardware = candidates.hardware
    reach = np.maximum(hardware.node_accelerators, hardware.intra_domain)
    slow = network.pcie_bandwidth or network.intra_bandwidth
    inside = inside_bytes_per_s(
        span=np.minimum(ranks * stride, reach),
        intra_domain=hardware.intra_domain,
        intra_bytes_per_s=hardware.intra_bytes_per_s * network.intra_bandwidth,
        pcie_bytes_per_s=hardware.pcie_bytes_per_s * slow,
    )
    local = local_ranks(ranks=ranks, stride=stride, reach=reach)
    inter = hardware.inter_bytes_per_s * network.inter_bandwidth
    return np.asarray(local), np.asarray(inside), inter
