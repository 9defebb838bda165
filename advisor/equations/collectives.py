"""Collective communication in the alpha-beta model.

``message_bytes`` is the full size: what every rank holds after an all-gather or all-reduce,
and what it contributes to a reduce-scatter. A group of one rank takes no time.
"""

import numpy as np

from advisor.equations import Number


def all_gather_time_s(
    *, message_bytes: Number, ranks: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""Time of a ring all-gather; a reduce-scatter or all-to-all of the size takes as long. [s]

    Parameters
    ----------
    message_bytes : Size after gathering. [bytes]
    ranks : Group size.
    bytes_per_s : Bandwidth per rank and direction that collectives reach. [bytes/s]
    latency_s : Latency of one ring step. [s]

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
    r"""Time of a ring all-reduce: a reduce-scatter and an all-gather. [s]

    ``message_bytes``, ``ranks``, ``bytes_per_s`` and ``latency_s``: as for
    :func:`all_gather_time_s`.

    Notes
    -----
    .. math:: t = 2(n-1)\,\alpha + 2\,\frac{n-1}{n}\,\frac{M}{W}

    Leaves out reduction inside switches, which would halve the traffic, and trees.

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


def ring_start_s(*, ranks: Number, machines: Number, inside_s: Number, between_s: Number) -> Number:
    r"""Latency of one ring all-gather or reduce-scatter over machines. [s]

    Parameters
    ----------
    ranks, machines : Ranks of the group, and machines that they lie on.
    inside_s, between_s : Latency of a step between accelerators of one machine, and between
        machines. [s]

    Notes
    -----
    .. math:: t = (\lceil n / m \rceil - 1)\,\alpha_{in} + m'\,\alpha_{out}, \quad
        m' = \min(m, n - 1)\;\mathrm{if}\;m > 1,\;\mathrm{else}\;0

    A message goes once round the ring, which enters each machine once; steps inside other machines
    run meanwhile. NCCL's own model also counts those, which overstates published runs on 1,024
    cards. NCCL has trees for all-reduce alone (and, from 2.23 on, for gathers with one rank for
    each machine).

    References
    ----------
    .. [1] NVIDIA, NCCL, src/graph/tuning.cc (latency of ``NCCL_ALGO_RING``: nSteps and
       nInterSteps).

    Examples
    --------
    Sixteen ranks in two machines: seven steps inside, two between.

    >>> float(ring_start_s(ranks=16, machines=2, inside_s=1.0, between_s=10.0))
    27.0
    """
    between = np.where(np.asarray(machines) > 1, np.minimum(machines, np.asarray(ranks) - 1), 0.0)
    local = np.where(between > 0, np.ceil(ranks / np.maximum(machines, 1.0)), ranks)
    return (local - 1) * inside_s + between * between_s


def expert_exchange_time_s(
    *,
    token_bytes: Number,
    active_experts: Number,
    expert_groups: Number = 1.0,
    active_groups: Number = 1.0,
    ranks: Number,
    local: Number,
    inside_bytes_per_s: Number,
    inter_bytes_per_s: Number,
    latency_s: Number,
) -> Number:
    r"""Time to send tokens to the ranks of their experts. The way back takes the same time. [s]

    Infinite if the group needs a network and has none.

    Parameters
    ----------
    token_bytes : All tokens of one rank, each counted once. [bytes]
    active_experts : Experts that a token visits.
    expert_groups, active_groups : Groups of experts, in order on the ranks, and the number of
        groups that hold a token's experts. 1 and 1 if the experts can be anywhere.
    ranks, local : Ranks of the group, and those of them that share one node or link domain.
    inside_bytes_per_s, inter_bytes_per_s : Bandwidth inside a node, and of one accelerator's
        network, per direction. [bytes/s]
    latency_s : Latency to one other node. [s]

    Notes
    -----
    .. math::
        t = \alpha \max(1, N-1) + M \max\left(\frac{n-1}{n} \frac{u(n)}{W_{inside}},\;
            \frac{N-1}{N} \frac{u(N)}{W_{inter}}\right), \quad
        u(n) = u_g \, r \left(1 - (1 - 1/r)^{k/g}\right), \quad
        u_g = n' \left(1 - (1 - g/G)^{G/n'}\right)

    with :math:`N = n / local` nodes, :math:`n' = \min(n, G)` places for groups and
    :math:`r = \max(1, n/G)` places in a group: a token travels once to each other node that holds
    one of its experts, and inside a node once to each rank. Leaves out imbalance between ranks.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V3, 2024, arXiv:2412.19437, section 3.2.2.
    .. [2] DeepEP on H100 in the tables of aiconfigurator-core 0.12.0, top 8: 215-254, 116 and 36
       GB/s per rank over 2, 4 and 8 nodes, where this gives 256, 107 and 65.

    Examples
    --------
    >>> expert_exchange_time_s(
    ...     token_bytes=1e9,
    ...     active_experts=1,
    ...     ranks=2,
    ...     local=2,
    ...     inside_bytes_per_s=1e9,
    ...     inter_bytes_per_s=0.0,
    ...     latency_s=0.0,
    ... ).item()
    0.5
    """
    nodes = ranks / local
    choice = (active_experts, expert_groups, active_groups)
    inside = (ranks - 1) / ranks * _places_touched(ranks, *choice) / inside_bytes_per_s
    away = (nodes - 1) / nodes * _places_touched(nodes, *choice)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = np.where(away > 0, away / np.asarray(inter_bytes_per_s), 0.0)
    start = latency_s * np.maximum(1.0, nodes - 1.0)
    return start + token_bytes * np.maximum(inside, outside)


def _places_touched(places: Number, choices: Number, groups: Number, chosen: Number) -> Number:
    """Expected number of distinct places hit by random choices: first groups, then inside each."""
    for_groups = np.minimum(places, groups)
    in_group = np.maximum(1.0, places / groups)
    touched = for_groups * (1.0 - (1.0 - chosen / groups) ** (groups / for_groups))
    return touched * in_group * (1.0 - (1.0 - 1.0 / in_group) ** (choices / chosen))


def direct_all_reduce_time_s(
    *, message_bytes: Number, ranks: Number, bytes_per_s: Number, latency_s: Number
) -> Number:
    r"""Time of a serving engine's all-reduce: every rank reads its part from all others, twice. [s]

    Parameters
    ----------
    message_bytes : Size of the tensor. [bytes]
    ranks : Group size. A group of one takes no time.
    bytes_per_s : Bandwidth per rank and direction. [bytes/s]
    latency_s : Latency of one exchange between all ranks. [s]

    Notes
    -----
    .. math:: t = 2\alpha + 2\,\frac{n-1}{n}\,\frac{M}{W} \qquad (n > 1)

    The traffic equals that of a ring, with two latencies in place of :math:`2(n-1)`: small messages
    take about the same time on eight ranks as on two.

    References
    ----------
    .. [1] aiconfigurator-core 0.12.0, all-reduce tables: custom kernels of vLLM, SGLang and
       TensorRT-LLM take 3 to 5 microseconds for 8 KiB on two to eight H100.

    Examples
    --------
    >>> found = direct_all_reduce_time_s(message_bytes=8e9, ranks=8, bytes_per_s=1e9, latency_s=0.5)
    >>> round(float(found), 6)
    15.0
    """
    traffic_s = 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
    return np.where(np.asarray(ranks) > 1, 2 * latency_s + traffic_s, 0.0)
