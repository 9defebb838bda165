"""Cards with measured constants, which replace those of the catalog."""

import math
from collections.abc import Collection
from typing import Final

from advisor.catalog import Catalog
from advisor.foundation.quantities import Evidence
from advisor.nouns.limits import Constraints, MeasuredMachine
from advisor.nouns.software.efficiency import UNMEASURED, Calibration, Interval
from advisor.nouns.software.kernels import KernelEfficiency

NARROWED: Final = (
    *("training_time", "serving_time", "serving_first_token"),
    *("serving_saturated", "serving_direct", "serving_batch", "serving_denoising"),
)
"""Start of the names of quantities whose range depends on kernels; memory does not."""
MEDIAN_OF_NORMAL: Final = 0.6745
"""Median of the absolute value of a standard normal variable."""
BOUND_OF_NORMAL: Final = 1.2816
"""Its 80 % bound: an interval of 80 % has 10 % on each side."""

CONSTANTS: Final = 5
"""Of a product's curve: see ``efficiency.MatmulEfficiency``."""


def with_measured(
    catalog: Catalog, calibration: Calibration, limits: Constraints, *, only: str | None = None
) -> tuple[Catalog, Calibration]:
    """Return catalog and constants with the user's measured cards in place of listed ones.

    The same objects if nothing was measured. Ranges become narrower only if every card in question
    was measured, because all cards share an interval.

    ``only``: the one accelerator that is estimated; by default, all owned ones.
    """
    machines = {item.accelerator: item.measured for item in limits.owned if item.measured}
    if not machines:
        return catalog, calibration
    kept = [card for card in catalog.accelerators if card.key not in machines]
    cards = sorted(
        [*kept, *(machine.accelerator for machine in machines.values())], key=lambda card: card.key
    )
    asked = [only] if only is not None else [item.accelerator for item in limits.owned]
    intervals = calibration.intervals
    if all(key in machines for key in asked):
        intervals = _narrowed(calibration, [machines[key] for key in asked])
    return (
        catalog.changed(accelerators=tuple(cards)),
        calibration.changed(
            machines={key: machine.kernels for key, machine in machines.items()},
            intervals=intervals,
        ),
    )


def _narrowed(
    calibration: Calibration, machines: Collection[MeasuredMachine]
) -> dict[str, Interval]:
    """Replace the scatter of the kernels in the ranges by that of the measured machine.

    Logarithms of independent factors add their variances, and a median of absolute errors gives
    the deviation of each.
    """
    gains = [_gain(calibration, machine) for machine in machines]
    gain = min(gains)
    result = dict(calibration.intervals)
    for name, interval in calibration.intervals.items():
        if gain > 0 and name.startswith(NARROWED) and not name.endswith(UNMEASURED):
            result[name] = interval.changed(
                low=math.exp(-_less(-math.log(interval.low), gain)),
                high=math.exp(_less(math.log(interval.high), gain)),
                evidence=Evidence.MEASURED,
                source=f"{interval.source}; kernels measured on this machine",
            )
    return result


def _less(width: float, gain: float) -> float:
    """Return the width of an interval without a part of its variance, if it has that part."""
    return math.sqrt(width * width - gain * gain) if width > gain else width


def _gain(calibration: Calibration, machine: MeasuredMachine) -> float:
    """Return the half-width of the scatter that the measurement removes; 0 if there is none."""
    base, known = calibration.kernels_for(machine.accelerator)
    before, after = _scatter(base), _scatter(machine.kernels)
    if before is None or after is None or not known:
        return 0.0
    return math.sqrt(max(0.0, before**2 - after**2)) * BOUND_OF_NORMAL


def _scatter(kernels: KernelEfficiency) -> float | None:
    """Return the deviation of the logarithm of a product's time; None where it is not known.

    Each fitted constant takes one degree of freedom, which matters for few measurements.
    """
    fit = kernels.matmul["default"].fit
    if fit is None or fit.rows <= CONSTANTS:
        return None
    seen = fit.median_error if fit.held_out_median_error is None else fit.held_out_median_error
    return seen / MEDIAN_OF_NORMAL * math.sqrt(fit.rows / (fit.rows - CONSTANTS))
