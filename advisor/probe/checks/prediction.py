"""Predicts the measured products from the catalog's constants, without this machine's report."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.catalog.constants import load_calibration
from advisor.equations.roofline import matmul_time_s
from advisor.probe.devices.backend import operand_and_result_bytes
from advisor.probe.report import DeviceReport


def expected_times_s(found: DeviceReport, catalog: Catalog) -> tuple[float | None, ...]:
    """Return the expected time of each measured product. [s]

    Returns
    -------
    tuple of float or None
        In the order of ``found.matmuls``. None if the catalog does not know the device or has no
        rate in the format.
    """
    if found.catalog_key is None:
        return (None,) * len(found.matmuls)
    card = catalog.accelerator(found.catalog_key)
    kernels, _ = load_calibration().kernels_for(card)
    times: list[float | None] = []
    for row in found.matmuls:
        peak = card.peak_flops_per_s.get(row.format)
        curve = kernels.matmul.get(row.format, kernels.matmul["default"])
        times.append(
            None
            if peak is None
            else float(
                matmul_time_s(
                    flops=row.flops,
                    moved_bytes=operand_and_result_bytes(row.format, row.m, row.n, row.k),
                    output_elements=float(row.m * row.n),
                    depth=float(row.k),
                    peak_flops_per_s=peak,
                    bandwidth_bytes_per_s=card.memory_bandwidth_bytes_per_s,
                    overhead_s=curve.overhead_s,
                    compute=curve.compute,
                    bandwidth=curve.bandwidth,
                    half_tiles=curve.half_tiles,
                    half_depth=curve.half_depth,
                )
            )
        )
    return tuple(times)
