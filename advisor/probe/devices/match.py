"""Finds a device in the catalog by its name and memory."""

import re
from typing import Final

from advisor.catalog import Catalog
from advisor.nouns.hardware import Segment
from advisor.probe.report import Device, DeviceKind

MEMORY_TOLERANCE: Final = 0.1
"""Drivers reserve up to a tenth of a card's memory (error correction, firmware)."""
MEANINGLESS: Final = re.compile(
    r"\(.*?\)|\b(?:nvidia|amd|intel|apple|tesla|geforce|radeon|instinct|generation|gen|with"
    r"|\d+-core|gpu|processor|cpu|core|hbm\w*|\d+\s?gb|sxm\d?|oam)\b|@.*"
)
"""Ignored words: makers, sizes and words for modules. Drivers call the H200 module ``NVIDIA H200``
and add the form factor only for others (PCIe, NVL)."""


def catalog_key(device: Device, catalog: Catalog) -> str | None:
    """Return the key of the matching card in the catalog, or None if none or several match.

    The remaining words of both names must be equal. The memory must agree if the device has its
    own.
    """
    on_host, size = device.kind is DeviceKind.CPU, device.memory_bytes
    wanted = _words(device.name)
    found = [
        card.key
        for card in catalog.accelerators
        if (card.segment is Segment.CPU) == on_host
        and _words(card.name) == wanted
        and (on_host or abs(size / card.memory_reported_bytes - 1) < MEMORY_TOLERANCE)
    ]
    return found[0] if len(found) == 1 else None


def _words(name: str) -> frozenset[str]:
    text = MEANINGLESS.sub(" ", name.casefold().replace("_", " "))
    return frozenset(re.findall(r"[a-z0-9]+", text))
