"""Describes a device in one sentence and a check in one row."""

from __future__ import annotations

from advisor.foundation.formatting import duration, memory
from advisor.probe.report import Device, StepCheck


def check_cells(check: StepCheck) -> tuple[str, str, str, str, str]:
    """Return name, measured and predicted step time, measured and predicted tensor bytes."""
    shape = check.shape
    return (
        f"{shape.name}{', recomputed' if shape.recompute else ''}",
        duration(check.measured.median_s),
        duration(check.predicted_s, with_range=True),
        "-" if check.measured_bytes is None else memory(check.measured_bytes),
        memory(check.predicted_bytes, with_range=True),
    )


def describe_device(device: Device, catalog_key: str | None) -> str:
    """Return the known facts of a device in one sentence."""
    pcie = f"PCIe {device.pcie_generation} x{device.pcie_lanes}"
    parts = (
        f"{memory(device.memory_bytes)}, {memory(device.free_bytes)} free",
        f"{device.cores} cores" if device.cores else "",
        device.driver,
        f"power limit {device.power_limit_w:.0f} W" if device.power_limit_w else "",
        pcie if device.pcie_generation and device.pcie_lanes else "",
        f"fast links to {', '.join(map(str, device.nvlink_peers))}" if device.nvlink_peers else "",
        f"MIG slices: {', '.join(device.mig_slices)}" if device.mig_slices else "",
        f"throttled by {', '.join(device.condition.throttling)}"
        if device.condition.throttling
        else "",
        f"in the catalog as {catalog_key}" if catalog_key else "not in the catalog",
    )
    return "; ".join(part for part in parts if part) + "."
