"""Fits the curves of routed experts' grouped products on measured times."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from advisor.calibration.fitting.kernel_tables import Experts, Floats, kernel_fits
from advisor.calibration.fitting.robust import errors, fit_log_times, quality, rounded
from advisor.equations.roofline import matmul_time_s
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.kernels import MatmulEfficiency

ACTIVATION_BYTES: Final = 2.0
"""Quantised layers read and write 16-bit activations and convert them on the way. [bytes]"""

Cards = Mapping[str, Accelerator]


def fit_experts(
    tables: Experts, cards: Cards, accelerators: Iterable[str]
) -> dict[str, MatmulEfficiency]:
    """Constants of grouped products on a group of accelerators, by format of the weights.

    Empty if nothing was measured.

    ``accelerators``: keys of the cards to fit on.
    """
    found = {}
    of_group = tables.of(accelerators)
    for name, form in kernel_fits().experts.items():
        peak = form.peak
        rows = of_group.where(np.isin(of_group.kernel, form.kernels))
        # Cards without units for the format expand it, so their kernels are 16-bit ones.
        rows = rows.where(
            np.array(
                [peak in cards[card].peak_flops_per_s for card in rows.accelerator], dtype=bool
            )
        )
        if rows.measured_s.size:
            found[name] = _fit(rows, cards, peak, WEIGHT_FORMATS[form.stored].bytes_per_parameter)
    return found


def _fit(rows: Experts, cards: Cards, peak: str, size: float) -> MatmulEfficiency:
    each = [cards[str(card)] for card in rows.accelerator]
    flops_per_s = np.array([card.peak_flops_per_s[peak] for card in each])
    bytes_per_s = np.array([card.memory_bandwidth_bytes_per_s for card in each])
    # Where all products are equally deep, no fit can tell a depth from a rate.
    deep = np.unique(np.concatenate([rows.hidden, rows.intermediate])).size > 1
    parameters = kernel_fits().curves["experts"]
    parameters = parameters if deep else parameters[:-1]
    names = [item.name for item in parameters]

    def predict(values: Floats) -> Floats:
        curve = {"half_depth": 0.0} | dict(zip(names, values, strict=True))
        total = np.zeros_like(rows.rows)
        for depth, width in (
            (rows.hidden, 2.0 * rows.intermediate),
            (rows.intermediate, rows.hidden),
        ):
            total = total + matmul_time_s(
                flops=2.0 * rows.rows * depth * width,
                moved_bytes=rows.held * depth * width * size
                + rows.rows * (depth + width) * ACTIVATION_BYTES,
                output_elements=rows.rows * width,
                depth=depth,
                peak_flops_per_s=flops_per_s,
                bandwidth_bytes_per_s=bytes_per_s,
                **curve,
            )
        return np.asarray(total)

    fit = fit_log_times(predict, rows.measured_s, parameters)
    values = [rounded(float(value)) for value in fit.values]
    inside = errors(predict(np.array(values)), rows.measured_s)
    curve = {"half_depth": 0.0} | dict(zip(names, values, strict=True))
    return MatmulEfficiency(**curve, fit=quality(inside, fit=fit))
