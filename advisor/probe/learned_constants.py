"""Turns a report into the kernel constants of the measured machine, for use in estimates."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from advisor.calibration.fitting.kernel_tables import kernel_fits
from advisor.calibration.fitting.robust import fit_curve, quality, rounded
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.equations.roofline import matmul_time_s
from advisor.errors import refusal
from advisor.foundation.quantities import Evidence
from advisor.nouns.hardware import Accelerator, Confidence, Provenance, Segment
from advisor.nouns.limits import MeasuredMachine, OwnedHardware
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.kernels import KernelEfficiency, MatmulEfficiency
from advisor.probe.devices.backend import operand_and_result_bytes
from advisor.probe.report import (
    Device,
    DeviceKind,
    DeviceReport,
    MatmulRate,
    ProbeReport,
    read_report,
)

FEWEST_ROWS: Final = 8
"""A curve has five constants. With fewer products than this, only its upper limit is fitted."""
SIXTEEN_BITS: Final = ("bf16", "fp16")
LARGEST_SHARE: Final = 1.0


def owned_from_report(report: ProbeReport | str | Path) -> tuple[OwnedHardware, ...]:
    """Return the machine of a probe report for ``limits.owned``.

    ``report``: a report, or the path of its file.

    Returns the devices with their measured constants. ``recommend`` and ``estimate`` use these
    constants for the cards.

    Raises InputError if the file is not a report, or no device in it can be used for planning.
    """
    return owned_hardware(
        report if isinstance(report, ProbeReport) else read_report(report),
        catalog=load_catalog(),
        calibration=load_calibration(),
    )


def owned_hardware(
    report: ProbeReport, *, catalog: Catalog, calibration: Calibration
) -> tuple[OwnedHardware, ...]:
    """Return the machine of a report as owned hardware: one entry for each kind of measured device.

    Kernels that the probe does not measure (attention) take the constants of ``calibration``. A
    device outside the catalog gets its own entry, whose peaks are the best measured rates. Raises
    InputError if the report has no device with a matrix product and a memory bandwidth.
    """
    found = tuple(
        OwnedHardware(
            accelerator=accelerator.key,
            count=sum(other.device.name == each.device.name for other in report.devices),
            measured=MeasuredMachine(
                accelerator=accelerator,
                kernels=measured_kernels(each, accelerator, calibration, date=report.created[:10]),
            ),
        )
        for each in report.devices
        if each.matmuls and each.best_bandwidth() is not None
        for accelerator in (measured_accelerator(each, catalog, date=report.created[:10]),)
    )
    if not found:
        raise refusal("report_without_device", value="; ".join(report.problems) or "no measurement")
    return found


def measured_accelerator(found: DeviceReport, catalog: Catalog, *, date: str) -> Accelerator:
    """Return the catalog's card with this device's memory, or an entry for an unknown device."""
    device = found.device
    if found.catalog_key is not None:
        card = catalog.accelerator(found.catalog_key)
        return card.changed(
            memory_reported_bytes=device.memory_bytes, memory_reported_derived=False
        )
    bandwidth = found.best_bandwidth()
    if bandwidth is None:
        raise ValueError("a device without a measured bandwidth cannot be used for planning")
    on_host = device.kind is DeviceKind.CPU
    return Accelerator(
        key="this-machine" if device.index == 0 else f"this-machine-{device.index}",
        name=device.name,
        vendor=_vendor(device),
        architecture=device.name,
        year=int(date[:4]),
        segment=Segment.CPU if on_host else Segment.WORKSTATION,
        form_factor="socket" if on_host else "unknown",
        memory_marketed_bytes=device.memory_bytes,
        memory_reported_bytes=device.memory_bytes,
        memory_reported_derived=False,
        memory_type="unknown",
        memory_bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s={name: row.flops_per_s for name, row in found.best_matmuls().items()},
        board_power_w=device.power_limit_w,
        interconnect=None,
        pcie_generation=device.pcie_generation,
        compute_capability=device.compute_capability,
        purchase_usd=None,
        purchase_date=None,
        purchase_kind=None,
        provenance={
            "default": Provenance(source="probe", date=date, confidence=Confidence.DERIVED)
        },
        notes="Peaks are the best rates that the probe measured.",
    )


def _vendor(device: Device) -> str:
    """Return whose software an unknown device runs: its compute capability or its name tells."""
    capability = device.compute_capability or ""
    if capability:
        return "AMD" if capability.startswith("gfx") else "NVIDIA"
    named = (name for name in ("NVIDIA", "AMD", "Intel", "Apple") if name in device.name)
    return next(named, "unknown")


def measured_kernels(
    found: DeviceReport, accelerator: Accelerator, calibration: Calibration, *, date: str
) -> KernelEfficiency:
    """Return the constants of a measured device.

    Matrix products and memory streams use the measurements. Attention keeps the generation's
    curve, and its rate changes by the same factor as the 16-bit products.
    """
    base, _ = calibration.kernels_for(accelerator)
    sixteen = [row for row in found.matmuls if row.format in SIXTEEN_BITS]
    groups = {"default": sixteen or list(found.matmuls)}
    for row in found.matmuls:
        if row.format not in SIXTEEN_BITS:
            groups.setdefault(row.format, []).append(row)
    curves = {
        name: _curve(
            [row for row in rows if row.format in accelerator.peak_flops_per_s],
            accelerator,
            base.matmul.get(name, base.matmul["default"]),
        )
        for name, rows in groups.items()
    }
    before, after = base.matmul["default"].compute, curves["default"].compute
    bandwidth = found.best_bandwidth() or accelerator.memory_bandwidth_bytes_per_s
    share = min(LARGEST_SHARE, bandwidth / accelerator.memory_bandwidth_bytes_per_s)
    return base.scaled(after / before).changed(
        matmul={**base.matmul, **curves},
        elementwise_bandwidth=rounded(share),
        launch_s=found.launch.median_s if found.launch else None,
        fitted_on=(accelerator.key,),
        best_share=None,
        evidence=Evidence.MEASURED,
        source=f"probe of {found.device.name}, {date}",
    )


def _curve(
    rows: Sequence[MatmulRate], accelerator: Accelerator, base: MatmulEfficiency
) -> MatmulEfficiency:
    """Fit a curve, or only the upper limit of the generation's curve if there are too few rows."""
    if not rows:
        return base
    peaks = np.array([accelerator.peak_flops_per_s[row.format] for row in rows])
    measured = np.array([row.timing.median_s for row in rows])
    if len(rows) < FEWEST_ROWS:
        best = float(np.max(np.array([row.flops_per_s for row in rows]) / peaks))
        return base.changed(compute=min(LARGEST_SHARE, rounded(best)), fit=None)
    m, n, k = (np.array([float(getattr(row, name)) for row in rows]) for name in ("m", "n", "k"))
    moved = np.array([operand_and_result_bytes(row.format, row.m, row.n, row.k) for row in rows])

    sizes = {"flops": 2.0 * m * n * k, "moved_bytes": moved, "output_elements": m * n, "depth": k}
    predict = partial(
        matmul_time_s,
        **sizes,
        peak_flops_per_s=peaks,
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
    )
    found = fit_curve(predict, measured, kernel_fits().curves["matmul"])
    return MatmulEfficiency(**found.values, fit=quality(found.errors, fit=found.fit))
