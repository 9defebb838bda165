"""Compares measured rates with the data sheet, the best published ones and predictions."""

from functools import cache
from typing import Final

from advisor.calibration.fitting.kernel_tables import read_achievable
from advisor.catalog import Catalog
from advisor.catalog.constants import load_calibration
from advisor.equations.roofline import matmul_time_s
from advisor.foundation.formatting import measured_rate, percent
from advisor.foundation.noun import Noun
from advisor.foundation.units import TFLOP
from advisor.probe.devices.backend import operand_and_result_bytes
from advisor.probe.report import DeviceReport

MEMORY: Final = "memory"
UNKNOWN: Final = "unknown"
FORMAT_ORDER: Final = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")


class RateComparison(Noun):
    """One rate of a device: a number format's FLOPs/s, or ``memory`` in bytes/s."""

    name: str
    measured: float
    at: str
    """How it was reached: the shape of the product, copy or triad."""
    catalog: float | None
    """Dense peak of the data sheet; None if the catalog has none."""
    achievable: float | None
    """Best published rate of this card; None if none was published."""

    @property
    def share(self) -> float | None:
        """Measured rate divided by the data sheet's. [fraction]"""
        return None if self.catalog is None else self.measured / self.catalog

    @property
    def cells(self) -> dict[str, str]:
        """The rate beside the published ones, by column."""
        return {
            "": self.name,
            "Measured": self.text(self.measured),
            "Data sheet": self.text(self.catalog),
            "Share": UNKNOWN if self.share is None else percent(self.share),
            "Best published": self.text(self.achievable),
            "Reached at": self.at,
        }

    def text(self, rate: float | None) -> str:
        """Return one of its rates with the unit."""
        unit = "B/s" if self.name == MEMORY else "FLOPS"
        return UNKNOWN if rate is None else measured_rate(rate, unit)


def compare_device(found: DeviceReport, catalog: Catalog) -> tuple[RateComparison, ...]:
    """Compare the best rate of each measured format, and of the memory, with published rates."""
    card = None if found.catalog_key is None else catalog.accelerator(found.catalog_key)
    best = found.best_matmuls()
    rows = []
    for name in (*FORMAT_ORDER, *sorted(set(best) - set(FORMAT_ORDER))):
        if name in best:
            row = best[name]
            rows.append(
                RateComparison(
                    name=name,
                    measured=row.flops_per_s,
                    at=row.shape,
                    catalog=card.peak_flops_per_s.get(name) if card else None,
                    achievable=_achievable().get((card.key, name)) if card else None,
                )
            )
    bandwidth = found.best_bandwidth()
    if bandwidth is not None:
        at = next(row.kind.value for row in found.transfers if row.bytes_per_s == bandwidth)
        rows.append(
            RateComparison(
                name=MEMORY,
                measured=bandwidth,
                at=at,
                catalog=card.memory_bandwidth_bytes_per_s if card else None,
                achievable=None,
            )
        )
    return tuple(rows)


@cache
def _achievable() -> dict[tuple[str, str], float]:
    """Return the best published matmul rates by card and format. [FLOPs/s]"""
    return {(row.accelerator, row.format): row.achieved_tflops * TFLOP for row in read_achievable()}


def expected_times_s(found: DeviceReport, catalog: Catalog) -> tuple[float | None, ...]:
    """Return the expected time of each measured product, in the order of ``found.matmuls``. [s]

    None if the catalog does not know the device or has no rate in the format.
    """
    if found.catalog_key is None:
        return (None,) * len(found.matmuls)
    card = catalog.accelerator(found.catalog_key)
    kernels, _ = load_calibration().kernels_for(card)
    times: list[float | None] = []
    for row in found.matmuls:
        peak = card.peak_flops_per_s.get(row.format)
        curve = kernels.matmul.get(row.format, kernels.matmul["default"])
        time = peak and matmul_time_s(
            flops=row.flops,
            moved_bytes=operand_and_result_bytes(row.format, row.m, row.n, row.k),
            output_elements=float(row.m * row.n),
            depth=float(row.k),
            peak_flops_per_s=peak,
            bandwidth_bytes_per_s=card.memory_bandwidth_bytes_per_s,
            **curve.model_dump(exclude={"fit"}),
        )
        times.append(None if time is None else float(time))
    return tuple(times)
