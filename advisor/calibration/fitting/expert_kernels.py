"""Fits the curves of routed experts' grouped products on measured times."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from advisor.calibration.fitting.kernel_tables import Experts, Floats
from advisor.calibration.fitting.robust import Parameter, errors, fit_log_times, quality, rounded
from advisor.equations.roofline import matmul_time_s
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.kernels import MatmulEfficiency

KERNELS: Final[dict[str, tuple[str, str, str]]] = {
    "default": ("bf16", "bf16", "bf16"),
    "fp8": ("fp8", "fp8_block", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4", "fp4"),
    "mxfp4": ("mxfp4", "mxfp4_mxfp8", "fp4"),
}
"""Stored format, measured kernel and reference peak, by key of the curve."""
PARAMETERS: Final = (
    Parameter("overhead_s", starts=(1e-5,), low=1e-7, high=1e-4, optional=True),
    Parameter("compute", starts=(0.4,), low=0.05, high=1.0),
    Parameter("bandwidth", starts=(0.7,), low=0.05, high=1.0),
    Parameter("half_tiles", starts=(30.0, 300.0), low=1e-2, high=1e4, optional=True),
    Parameter("half_depth", starts=(400.0,), low=1.0, high=1e4, optional=True),
)
NARROW_BYTES: Final = 2.0
"""Activations are read and written in 16 bits. [bytes]"""

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
    for name, (stored, kernel, peak) in KERNELS.items():
        rows = of_group.where(of_group.kernel == kernel)
        # Cards without units for the format expand it, so their kernels are 16-bit ones.
        rows = rows.where(
            np.array(
                [peak in cards[card].peak_flops_per_s for card in rows.accelerator], dtype=bool
            )
        )
        if rows.measured_s.size:
            found[name] = _fit(rows, cards, peak, WEIGHT_FORMATS[stored].bytes_per_parameter)
    return found


def _fit(rows: Experts, cards: Cards, peak: str, size: float) -> MatmulEfficiency:
    each = [cards[str(card)] for card in rows.accelerator]
    flops_per_s = np.array([card.peak_flops_per_s[peak] for card in each])
    bytes_per_s = np.array([card.memory_bandwidth_bytes_per_s for card in each])
    # Where all products are equally deep, no fit can tell a depth from a rate.
    deep = np.unique(np.concatenate([rows.hidden, rows.intermediate])).size > 1
    parameters = PARAMETERS if deep else PARAMETERS[:-1]
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
                + rows.rows * (depth + width) * NARROW_BYTES,
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
