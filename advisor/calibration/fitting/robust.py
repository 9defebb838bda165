"""Robust least squares on the logarithm of times, by SciPy."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.software.efficiency import Interval
from advisor.nouns.software.kernels import FitQuality

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]

SOFT_SCALE: Final = 0.1
"""Log error beyond which a measurement pulls with constant force: 10 %, the scatter between
the libraries that the medians of the tables were taken over."""
POOL_GROUPS: Final = 8.0
"""Weight of all runs in the bounds of one kind's interval. [groups]"""
PRIOR_WEIGHT: Final = 0.3
"""Weight of a constant's prior, where a group of like measurements has one."""
MAX_STEPS: Final = 500
"""Most evaluations of the model, without those for derivatives."""
TOLERANCE: Final = 1e-13
"""Relative gain below which the fit has converged."""


@record
class Parameter:
    """One constant to fit, with its starts and bounds."""

    name: str
    starts: tuple[float, ...]
    low: float
    high: float
    optional: bool = False
    """Its term is left out, so that the constant is 0, where the best fit is at the low bound."""
    prior: float | None = None
    """Value to which it keeps where measurements hardly determine it; None for no such value."""


@record
class LogFit:
    """Fitted constants, and the names of those on a bound."""

    values: Floats
    cost: float
    at_bound: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Optional constants that are 0."""


def fit_log_times(
    predict: Predict,
    measured_s: Floats,
    parameters: Sequence[Parameter],
    weights: Floats | None = None,
    tolerance: float = TOLERANCE,
    *,
    together: bool = False,
) -> LogFit:
    r"""Positive constants that bring predicted times nearest to measured ones.

    The best over all starts.

    ``predict``: times for an array of constants, in the order of ``parameters``. [s]
    ``parameters``: the fit starts from every combination of the constants'
    starts. ``weights``: of the measurements; equal by default. ``tolerance``: relative gain below
    which the fit has converged. ``together``: whether ``predict`` takes many points at once: an
    array [points, constants], for times [points, measurements].

    Notes
    -----
    .. math:: \min_\theta \sum_i w_i \left(\sqrt{1 + (r_i/s)^2} - 1\right), \quad
        r_i = \ln t_i(\theta) - \ln t_i^{measured}

    with one further :math:`r = \ln\theta_j - \ln\theta_j^{prior}` for each constant with a prior,
    in :math:`\ln\theta`, between bounds that the steps may reach (``scipy.optimize.least_squares``
    with ``dogbox``; its ``soft_l1`` has no weights for single measurements, so the loss is a
    function).

    References
    ----------
    .. [1] C. Voglis and I. E. Lagaris, A Rectangular Trust Region Dogleg Approach for Unconstrained
       and Bound Constrained Nonlinear Optimization, WSEAS International Conference on Applied
       Mathematics, 2004.
    .. [2] Triggs et al., Bundle Adjustment: A Modern Synthesis, 2000, section 4.3 (robust cost).

    >>> sizes = np.array([1e3, 1e4, 1e5, 1e6])
    >>> line = Parameter("slope", starts=(1.0,), low=1e-12, high=1e3)
    >>> fit = fit_log_times(lambda p: 5.0 + p[0] * sizes, 5.0 + 0.25 * sizes, [line])
    >>> round(float(fit.values[0]), 6)
    0.25
    """
    # SciPy takes a third of a second to import, and most importers of this module fit nothing.
    from scipy.optimize import least_squares

    target = np.log(measured_s)
    share = np.ones_like(target) if weights is None else weights
    priors = {place: item.prior for place, item in enumerate(parameters) if item.prior}
    known, expected = [*priors], np.log([*priors.values()])
    share = np.concatenate([share, np.full(len(priors), PRIOR_WEIGHT)])
    low = np.log([item.low for item in parameters])
    high = np.log([item.high for item in parameters])
    starts = product(*[np.log(item.starts) for item in parameters])

    def residuals(points: Floats) -> Floats:
        times = np.log(predict(np.exp(points))) - target
        return np.concatenate([times, points[..., known] - expected], axis=-1)

    def neighbours(_: object, points: Iterable[Floats]) -> Floats:
        """Evaluate all steps of a numerical derivative at once."""
        return residuals(np.stack([*points]))

    found = [
        least_squares(
            (lambda point: residuals(point[None])[0]) if together else residuals,
            np.clip(start, low, high),
            bounds=(low, high),
            method="dogbox",
            f_scale=SOFT_SCALE,
            loss=_weighed_soft_l1(share),
            x_scale="jac",
            ftol=tolerance,
            xtol=None,
            gtol=None,
            max_nfev=MAX_STEPS,
            workers=neighbours if together else None,
        )
        for start in starts
    ]
    best = min(found, key=lambda one: one.cost)
    idle = np.array([item.optional for item in parameters]) & (best.active_mask < 0)
    if idle.any():
        return _without(idle, predict, measured_s, parameters, weights, tolerance)
    at_bound = tuple(
        item.name for item, active in zip(parameters, best.active_mask, strict=True) if active
    )
    cost = float(best.cost) / SOFT_SCALE**2
    return LogFit(values=np.exp(best.x), cost=cost, at_bound=at_bound)


@record
class FittedCurve:
    """Constants by name with the digits of the file, and their errors on the measurements."""

    values: dict[str, float]
    errors: Floats
    fit: LogFit


def fit_curve(
    predict: Callable[..., float | Floats], measured_s: Floats, parameters: Sequence[Parameter]
) -> FittedCurve:
    """Fit the constants that ``predict`` takes by name; see :func:`fit_log_times`."""
    names = [item.name for item in parameters]

    def times(values: Iterable[float]) -> Floats:
        return np.asarray(predict(**dict(zip(names, values, strict=True))))

    fit = fit_log_times(times, measured_s, parameters)
    values = [rounded(float(value)) for value in fit.values]
    inside = errors(times(values), measured_s)
    return FittedCurve(dict(zip(names, values, strict=True)), inside, fit)


def _without(
    idle: NDArray[np.bool_],
    predict: Predict,
    measured_s: Floats,
    parameters: Sequence[Parameter],
    weights: Floats | None,
    tolerance: float,
) -> LogFit:
    """Fit the other constants with those that are ``idle`` at 0."""

    def all_of(kept: Floats) -> Floats:
        values = np.zeros(len(parameters))
        values[~idle] = kept
        return values

    rest = [item for item, left_out in zip(parameters, idle, strict=True) if not left_out]
    found = fit_log_times(lambda kept: predict(all_of(kept)), measured_s, rest, weights, tolerance)
    names = (item.name for item, left_out in zip(parameters, idle, strict=True) if left_out)
    return replace(found, values=all_of(found.values), left_out=tuple(names) + found.left_out)


def _weighed_soft_l1(weights: Floats) -> Callable[[Floats], Floats]:
    """Return SciPy's ``soft_l1`` times a weight of each measurement, with its derivatives."""

    def loss(z: Floats) -> Floats:
        root = np.sqrt(1.0 + z)
        return weights * np.stack([2.0 * (root - 1.0), 1.0 / root, -0.5 / root**3])

    return loss


def errors(predicted_s: Floats, measured_s: Floats) -> Floats:
    """Absolute relative errors. [fraction]"""
    return np.asarray(np.abs(predicted_s / measured_s - 1))


def quality(
    fitted: Floats, held_out: Floats | None = None, *, fit: LogFit | None = None
) -> FitQuality:
    """Summarise absolute errors in sample and on accelerators that the fit has not seen."""
    seen = None if held_out is None else (np.median(held_out), np.quantile(held_out, 0.9))
    return FitQuality(
        rows=fitted.size,
        median_error=rounded(float(np.median(fitted)), 3),
        p90_error=rounded(float(np.quantile(fitted, 0.9)), 3),
        held_out_median_error=None if seen is None else rounded(float(seen[0]), 3),
        held_out_p90_error=None if seen is None else rounded(float(seen[1]), 3),
        at_bound=() if fit is None else fit.at_bound,
        left_out=() if fit is None else fit.left_out,
    )


def rounded(value: float, digits: int = 4) -> float:
    """Return ``value`` with so many significant digits.

    >>> rounded(0.000012345678), rounded(0.08449, 2), rounded(0.0)
    (1.235e-05, 0.084, 0.0)
    """
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def pulled_to_pool(own: Sequence[float], pool: Sequence[float], groups: int) -> tuple[float, ...]:
    """Move the bounds of one kind of runs towards the bounds of all runs.

    ``groups``: groups of runs of the kind; the fewer, the more the pool counts.

    With as many groups as the pool's weight, half way between on a logarithmic scale.

    >>> pulled_to_pool((0.5, 2.0), (0.5, 8.0), 8)
    (0.5, 4.0)
    """
    share = groups / (groups + POOL_GROUPS)
    return tuple(
        mine**share * others ** (1.0 - share) for mine, others in zip(own, pool, strict=True)
    )


def range_of_groups(
    bounds: Sequence[float],
    source: str,
    groups: int,
    evidence: Evidence = Evidence.CALIBRATED,
    usual: float | None = None,
) -> Interval:
    """Return fitted bounds as an interval that contains 1, with the digits of the file."""
    low, high = bounds
    return Interval(
        low=rounded(min(1.0, low), 3),
        high=rounded(max(1.0, high), 3),
        evidence=evidence,
        groups=groups,
        source=source,
        usual=None if usual is None else rounded(max(1.0, usual), 3),
    )
