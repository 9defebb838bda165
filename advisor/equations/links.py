"""The link that a regularly placed group of accelerators uses, and its bandwidth."""

import numpy as np

from advisor.equations import Number


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
    r"""Bandwidth per rank that a ring over a regularly placed group reaches. [bytes/s]

    Rank ``i`` of the group is on accelerator ``i * stride``. Accelerators are numbered along the
    link domain, then along the node, then across nodes. A group inside one link domain uses the
    link, and a group inside one node uses PCIe. A wider group crosses the network: its ``g`` ranks
    in each node or domain share the crossing, so the ring reaches ``g`` times one accelerator's
    network bandwidth, limited by the bandwidth inside.

    0 if the group needs a network and has none.

    Parameters
    ----------
    ranks : Group size.
    stride : Distance between neighbours of the group, in accelerators.
    node_accelerators, intra_domain : Accelerators in a node, and in one link domain.
    intra_bytes_per_s, pcie_bytes_per_s, inter_bytes_per_s : Link, PCIe and network, per accelerator
        and direction. [bytes/s]

    Notes
    -----
    .. math:: W = \min(W_{inside},\; g\,W_{inter}), \quad g = \max(1, \lfloor R / s \rfloor)

    with :math:`R` the larger of node and link domain. Leaves out oversubscription.

    Examples
    --------
    >>> found = group_bytes_per_s(
    ...     ranks=16,
    ...     stride=1,
    ...     node_accelerators=8,
    ...     intra_domain=8,
    ...     intra_bytes_per_s=450e9,
    ...     pcie_bytes_per_s=63e9,
    ...     inter_bytes_per_s=50e9,
    ... )
    >>> float(found)
    400000000000.0
    """
    reach = np.maximum(node_accelerators, intra_domain)
    span = ranks * stride
    inside = inside_bytes_per_s(
        span=np.minimum(span, reach),
        intra_domain=intra_domain,
        intra_bytes_per_s=intra_bytes_per_s,
        pcie_bytes_per_s=pcie_bytes_per_s,
    )
    local = local_ranks(ranks=ranks, stride=stride, reach=reach)
    crossing = np.minimum(inside, local * inter_bytes_per_s)
    return np.where(span <= reach, inside, crossing)


def inside_bytes_per_s(
    *, span: Number, intra_domain: Number, intra_bytes_per_s: Number, pcie_bytes_per_s: Number
) -> Number:
    """Bandwidth per rank between accelerators of one node or link domain. [bytes/s]

    Parameters
    ----------
    span : Accelerators from the group's first to its last, inside the node.
    intra_domain : Accelerators in one link domain.
    intra_bytes_per_s, pcie_bytes_per_s : Link and PCIe, per accelerator and direction. [bytes/s]

    Examples
    --------
    >>> found = inside_bytes_per_s(
    ...     span=4, intra_domain=2, intra_bytes_per_s=450e9, pcie_bytes_per_s=63e9
    ... )
    >>> float(found)
    63000000000.0
    """
    slow = np.minimum(pcie_bytes_per_s, intra_bytes_per_s)
    return np.where(span <= intra_domain, intra_bytes_per_s, slow)


def local_ranks(*, ranks: Number, stride: Number, reach: Number) -> Number:
    """Ranks of a regularly placed group that share one node or link domain. [ranks]

    At least 1.

    Parameters
    ----------
    ranks, stride : Group size, and distance between its neighbours in accelerators.
    reach : Accelerators in the node or in the link domain, whichever is larger.

    Examples
    --------
    >>> float(local_ranks(ranks=16, stride=2, reach=8))
    4.0
    """
    return np.minimum(ranks, np.maximum(1.0, np.floor(reach / stride)))
