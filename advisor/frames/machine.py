"""Measurements of a probe, as tables."""

import math
from collections.abc import Sequence

from advisor.foundation.formatting import measured_rate, percent
from advisor.foundation.rounding import plain
from advisor.foundation.units import TFLOP
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.probe.checks.comparison import MEMORY, RateComparison
from advisor.probe.devices.backend import operand_and_result_bytes
from advisor.probe.report import DeviceReport, ProbeReport, check_cells

UNKNOWN = "unknown"


@tabled
def rates_table(rows: Sequence[RateComparison]) -> Rows:
    """Return the best rates of formats and memory, with the published ones, as text."""
    for row in rows:
        yield {
            "": row.name,
            "Measured": _rate(row.measured, row.name),
            "Data sheet": _rate(row.catalog, row.name),
            "Share": UNKNOWN if row.share is None else percent(row.share),
            "Best published": _rate(row.achievable, row.name),
            "Reached at": row.at,
        }


@columns("format", "shape", "flops_per_byte", "tflops", "expected_tflops")
def roofline_frame(found: DeviceReport, expected_s: Sequence[float | None]) -> Cells:
    """Return the measured products with intensity and rates.

    ``expected_s`` holds times by the catalog's constants, in the order of ``found.matmuls``. [s]
    """
    for row, expected in zip(found.matmuls, expected_s, strict=True):
        yield (
            row.format,
            row.shape,
            row.flops / operand_and_result_bytes(row.format, row.m, row.n, row.k),
            row.flops_per_s / TFLOP,
            math.nan if expected is None else row.flops / expected / TFLOP,
        )


@tabled
def products_table(found: DeviceReport, expected_s: Sequence[float | None]) -> Rows:
    """Return the measured products with the expected rates, as text."""
    for row, expected in zip(found.matmuls, expected_s, strict=True):
        yield {
            "Format": row.format,
            "Product": row.shape,
            "Measured": measured_rate(row.flops_per_s, "FLOPS"),
            "Expected": UNKNOWN
            if expected is None
            else measured_rate(row.flops / expected, "FLOPS"),
            "Time": f"{plain(row.timing.median_s * 1e6, 3)} µs",
            "Spread": percent(row.timing.spread),
        }


@columns("Movement", "Rate", "Spread")
def transfers_table(found: DeviceReport) -> Cells:
    """Return the measured memory transfers as text."""
    yield from (row.cells for row in found.transfers)


@columns("Model", "Step", "Step, predicted", "Tensors", "Tensors, predicted")
def checks_table(report: ProbeReport) -> Cells:
    """Return the training steps with their predictions, as text; empty if none ran."""
    yield from map(check_cells, report.checks)


def _rate(value: float | None, name: str) -> str:
    return UNKNOWN if value is None else measured_rate(value, "B/s" if name == MEMORY else "FLOPS")
