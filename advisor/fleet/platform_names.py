"""Names of the software platforms of accelerators."""

from __future__ import annotations

from typing import Final

from advisor.nouns.hardware import Accelerator, Segment

PLATFORMS: Final = {
    "NVIDIA": "CUDA",
    "AMD": "ROCm",
    "Apple": "Metal",
    "Intel": "oneAPI",
    "Google": "XLA",
    "AWS": "Neuron",
}
"""Software platform by vendor; the one with the most tools first."""
GAUDI: Final = "Gaudi"
"""Intel's Gaudi has software of its own."""


def platform_of(card: Accelerator) -> str:
    """Return the software platform of a card; empty for processors, which any software runs on."""
    if card.segment is Segment.CPU:
        return ""
    if card.architecture.startswith(GAUDI):
        return GAUDI
    return PLATFORMS.get(card.vendor, card.vendor)
