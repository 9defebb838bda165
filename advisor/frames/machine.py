"""Measurements of a probe, as tables."""

from collections.abc import Sequence

import pandas as pd

from advisor.foundation.formatting import measured_rate, percent
from advisor.foundation.rounding import plain
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


def roofline_frame(found: DeviceReport, expected_s: Sequence[float | None]) -> pd.DataFrame:
    """Return the measured products with intensity and rates.

    ``expected_s`` holds times by the catalog's constants, in the order of ``found.matmuls``. [s]
    """
    rows = [
        (
            row.format,
            row.shape,
            row.flops / operand_and_result_bytes(row.format, row.m, row.n, row.k),
            row.flops_per_s / 1e12,
            None if expected is None else row.flops / expected / 1e12,
        )
        for row, expected in zip(found.matmuls, expected_s, strict=True)
    ]
    columns = ["format", "shape", "flops_per_byte", "tflops", "expected_tflops"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"expected_tflops": float})


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


def checks_table(report: ProbeReport) -> pd.DataFrame:
    """Return the training steps with their predictions, as text; empty if none ran."""
    columns = ["Model", "Step", "Step, predicted", "Tensors", "Tensors, predicted"]
    return pd.DataFrame([check_cells(each) for each in report.checks], columns=columns)


def _rate(value: float | None, name: str) -> str:
    return UNKNOWN if value is None else measured_rate(value, "B/s" if name == MEMORY else "FLOPS")
