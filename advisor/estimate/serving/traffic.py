"""Exchanges between the accelerators of one replica in a step of a serving engine."""

from __future__ import annotations

import numpy as np

from advisor.equations.collectives import (
    all_to_all_time_s,
    direct_all_reduce_time_s,
    point_to_point_time_s,
)
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.hardware.links import group_link
from advisor.estimate.serving.demand import SIXTEEN_BIT_BYTES, ServedModel
from advisor.nouns.software.efficiency import NetworkEfficiency

EXPERT_EXCHANGES = 2.0
"""Dispatch to the experts and return."""


def traffic_s(
    served: ServedModel, tokens: Floats, candidates: Candidates, network: NetworkEfficiency
) -> Floats:
    """Return the time of all exchanges between accelerators in a step of ``tokens``. [s]"""
    layout = candidates.layout
    one = np.ones_like(layout.tensor)
    hidden = SIXTEEN_BIT_BYTES * served.model.hidden_size * tokens
    bandwidth, latency = group_link(candidates, network, layout.tensor, one)
    fast = layout.tensor <= candidates.hardware.intra_domain
    gain = 1.0 + fast * network.rank_gain * np.log2(np.maximum(layout.tensor / 2, 1.0))
    reduction = direct_all_reduce_time_s(
        message_bytes=hidden, ranks=layout.tensor, bytes_per_s=bandwidth * gain, latency_s=latency
    )
    total = served.model.branches * np.asarray(reduction)

    routed = [matrix for matrix in served.matrices if matrix.experts > 1]
    if routed:
        bandwidth, latency = group_link(candidates, network, layout.expert, layout.tensor)
        # A token travels once to each rank that holds one of its experts.
        copies = np.minimum(float(routed[0].active_experts), layout.expert)
        exchange = all_to_all_time_s(
            message_bytes=hidden * copies / layout.tensor,
            ranks=layout.expert,
            bytes_per_s=bandwidth,
            latency_s=latency / np.maximum(layout.expert - 1, 1.0),
        )
        layers = max(matrix.layers for matrix in routed)
        total = total + np.where(
            layout.expert > 1, EXPERT_EXCHANGES * layers * np.asarray(exchange), 0.0
        )

    # Neighbouring stages are one tensor-parallel group apart.
    bandwidth, latency = group_link(candidates, network, 2 * one, layout.tensor)
    hop = point_to_point_time_s(message_bytes=hidden, bytes_per_s=bandwidth, latency_s=latency)
    return total + np.where(layout.pipeline > 1, (layout.pipeline - 1) * np.asarray(hop), 0.0)
