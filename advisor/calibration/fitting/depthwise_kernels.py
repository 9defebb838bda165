"""Fits depthwise convolutions on measured times, by format and pass."""

from collections.abc import Mapping

import numpy as np

from advisor.calibration.fitting.kernel_tables import Depthwise, Floats, kernel_fits
from advisor.calibration.fitting.robust import errors, fit_log_times, quality, rounded
from advisor.equations.roofline import matmul_time_s
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.kernels import DepthwiseEfficiency


def fit_depthwise(
    table: Depthwise, cards: Mapping[str, Accelerator]
) -> dict[str, DepthwiseEfficiency]:
    """Constants of depthwise convolutions, by format.

    Networks run them in channels-last format, so no other is fitted.
    """
    rows = table.where(table.channels_last > 0)
    formats = {"default": "bf16", "fp32": "fp32"}
    return {
        name: _fit(rows.where(rows.kernel == kernel), cards, kernel)
        for name, kernel in formats.items()
    }


def _fit(rows: Depthwise, cards: Mapping[str, Accelerator], kernel: str) -> DepthwiseEfficiency:
    each = [cards[str(card)] for card in rows.accelerator]
    flops_per_s = np.array([card.peak_flops_per_s["fp32"] for card in each])
    bytes_per_s = np.array([card.memory_bandwidth_bytes_per_s for card in each])
    parameters = kernel_fits().curves["depthwise"]
    names = [item.name for item in parameters]
    # Padded by half a filter, so a stride divides the sides.
    read = rows.batch * rows.channels * rows.side**2
    made = read / rows.stride**2
    area = rows.size**2
    wide = (area > kernel_facts().wide_area) & (rows.direction == "weight_gradient")
    passes = np.where(wide, "wide_weight_gradient", rows.direction)
    place = np.array([names.index(str(one)) for one in passes])

    def predict(values: Floats) -> Floats:
        curve = dict(zip(names, values, strict=True))
        return np.asarray(
            matmul_time_s(
                flops=2.0 * made * area,
                moved_bytes=FORMAT_BYTES[kernel] * (read + made),
                peak_flops_per_s=flops_per_s,
                bandwidth_bytes_per_s=bytes_per_s,
                compute=np.asarray(values)[place],
                bandwidth=curve["bandwidth"],
                overhead_s=curve["overhead_s"],
            )
        )

    fit = fit_log_times(predict, rows.measured_s, parameters)
    values = [rounded(float(value)) for value in fit.values]
    inside = errors(predict(np.array(values)), rows.measured_s)
    found = dict(zip(names, values, strict=True))
    return DepthwiseEfficiency(**found, fit=quality(inside, fit=fit))
