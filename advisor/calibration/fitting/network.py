"""Fits the shares of link rates that collectives inside a node reach."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.calibration.fitting.kernel_tables import Collectives, Floats
from advisor.calibration.fitting.robust import Parameter, errors, fit_log_times, quality, rounded
from advisor.equations.collectives import (
    all_gather_time_s,
    all_reduce_time_s,
    direct_all_reduce_time_s,
)
from advisor.foundation.noun import Noun
from advisor.foundation.units import BITS_PER_BYTE, KIB, MIB
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.kernels import FitQuality

Constants = tuple[float, float, float]

PCIE_BYTES_PER_S: Final = {
    "PCIe4": 16e9 * 16 * 128 / 130 / BITS_PER_BYTE,
    "PCIe5": 32e9 * 16 * 128 / 130 / BITS_PER_BYTE,
    "PCIe5x8": 32e9 * 8 * 128 / 130 / BITS_PER_BYTE,
}
"""Transfers per second x lanes x coding, per direction (PCI-SIG base specifications 4.0 and
5.0). [bytes/s]"""

RING_LIBRARIES: Final = ("nccl", "oneccl")
"""Libraries for training; the others are direct kernels of serving engines."""

SMALL_BYTES: Final = 256 * KIB
"""Up to this size, latency dominates."""
LARGE_BYTES: Final = 16 * MIB
"""From this size on, bandwidth dominates: gathered layers, gradient buckets, prompts."""

LATENCY: Final = Parameter("intra_latency_s", starts=(2e-6,), low=1e-8, high=1e-3)
FAST: Final = Parameter("intra_bandwidth", starts=(0.7,), low=0.01, high=1.0)
SLOW: Final = Parameter("pcie_bandwidth", starts=(0.5,), low=0.01, high=1.0)


class NetworkFit(Noun):
    """Latency and bandwidth shares of collectives inside a node."""

    intra_latency_s: float
    intra_bandwidth: float
    pcie_bandwidth: float
    fit: FitQuality
    """Errors on the fitted rows: small direct messages and large messages."""
    all_sizes: FitQuality
    """Errors on all rows."""


def fit_network(rows: Collectives, cards: Mapping[str, Accelerator]) -> NetworkFit:
    """Latency and bandwidth shares, with errors in sample and on unseen accelerators.

    Library collectives follow the ring formula, the direct kernels of serving engines the
    formula of two latencies, as the engine has them. The latency is fitted on small direct
    messages, where it decides the time of a decoding step. The shares are fitted on large
    messages of all libraries. Leaves out the ramp in between, and reduction inside switches, with
    which eight Hopper or Blackwell cards reach the wire rate. L40S groups of four and eight are
    not used: they run at a quarter to a tenth of two cards' rate, the topology of that one host.
    """
    rows = rows.where(~((rows.accelerator == "l40s") & (rows.ranks > 2)))
    values = _constants(rows, cards)
    inside = errors(_times(rows, cards, values), rows.measured_s)
    outside = np.empty_like(inside)
    for card in sorted(set(rows.accelerator.tolist())):
        unseen = rows.accelerator == card
        strange = _constants(rows.where(~unseen), cards)
        there = rows.where(unseen)
        outside[unseen] = errors(_times(there, cards, strange), there.measured_s)
    used = _small(rows) | (rows.message_bytes >= LARGE_BYTES)
    latency_s, fast, slow = values
    return NetworkFit(
        intra_latency_s=latency_s,
        intra_bandwidth=fast,
        pcie_bandwidth=slow,
        fit=quality(inside[used], outside[used]),
        all_sizes=quality(inside, outside),
    )


def _small(rows: Collectives) -> NDArray[np.bool_]:
    direct = ~np.isin(rows.library, RING_LIBRARIES)
    return np.asarray(direct & (rows.message_bytes <= SMALL_BYTES))


def _constants(rows: Collectives, cards: Mapping[str, Accelerator]) -> Constants:
    """Return the latency, then the shares of fast links and of PCIe."""
    start = (LATENCY.starts[0], FAST.starts[0], SLOW.starts[0])
    small = rows.where(_small(rows) & ~_over_pcie(rows))
    latency = fit_log_times(
        lambda values: _times(small, cards, (float(values[0]), *start[1:])),
        small.measured_s,
        [LATENCY],
    )
    latency_s = rounded(float(latency.values[0]), 3)
    large = rows.where(rows.message_bytes >= LARGE_BYTES)
    shares = fit_log_times(
        lambda values: _times(large, cards, (latency_s, float(values[0]), float(values[1]))),
        large.measured_s,
        [FAST, SLOW],
    )
    fast, slow = (rounded(float(value), 3) for value in shares.values)
    return latency_s, fast, slow


def _over_pcie(rows: Collectives) -> NDArray[np.bool_]:
    return np.char.startswith(rows.link, "PCIe")


def _times(rows: Collectives, cards: Mapping[str, Accelerator], values: Constants) -> Floats:
    latency_s, fast, slow = values
    bytes_per_s = np.where(_over_pcie(rows), slow, fast) * _wire(rows, cards)
    message, ranks = rows.message_bytes, rows.ranks
    reduce = all_reduce_time_s(
        message_bytes=message, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s
    )
    gather = all_gather_time_s(
        message_bytes=message, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s
    )
    direct = direct_all_reduce_time_s(
        message_bytes=message, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s
    )
    ring = np.where(rows.operation == "all_reduce", reduce, gather)
    return np.where(np.isin(rows.library, RING_LIBRARIES), ring, direct)


def _wire(rows: Collectives, cards: Mapping[str, Accelerator]) -> Floats:
    """Rate of the link by the data sheet, per direction. [bytes/s]"""
    rates = []
    for card, link in zip(rows.accelerator.tolist(), rows.link.tolist(), strict=True):
        interconnect = cards[card].interconnect
        if link in PCIE_BYTES_PER_S:
            rates.append(PCIE_BYTES_PER_S[link])
        elif interconnect is not None:
            rates.append(interconnect.bytes_per_s)
        else:
            msg = f"{card} has rows over {link}, but the catalog gives it no interconnect"
            raise ValueError(msg)
    return np.array(rates)
