"""From the speed of a tuned benchmark to what a whole run delivers."""

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]


def straggling(*, machines: Number, slow_machines: float, slow_by: float) -> Number:
    r"""Time that slow machines add to each second of training. [s/s]

    Parameters
    ----------
    machines : float or ndarray
        Machines of the job. All wait for the slowest.
    slow_machines : float
        Share of machines that are slow at any time. [fraction]
    slow_by : float
        Time that a slow machine adds. [s/s]

    Notes
    -----
    .. math:: s = d\,(1 - (1 - p)^n)

    A job is slow if any of its machines is. Leaves out that several may be slow at once, and
    uneven work (packed sequences, pipeline stages), which the data decide.

    References
    ----------
    .. [1] Jiang et al., MegaScale, 2024, arXiv:2402.15627, section 5.
    .. [2] Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis,
       2025, arXiv:2505.05713, section 4.1.

    Examples
    --------
    One machine in four is slow by a tenth, and the job has two:

    >>> round(straggling(machines=2, slow_machines=0.25, slow_by=0.1), 5)
    0.04375
    """
    return slow_by * (1.0 - (1.0 - slow_machines) ** machines)


def beyond_named(*, machines: Number, lost: Number, ramp_machines: float) -> Number:
    r"""Time that whole runs lose beyond every term with a name, for each second of training. [s/s]

    0 for one machine.

    Parameters
    ----------
    machines : float or ndarray
        Machines of the job.
    lost : float or ndarray
        The share lost over many machines, fitted on published hours. [s/s]
    ramp_machines : float
        Machines over which it grows to 63 % of that.

    Notes
    -----
    .. math:: x(n) = x_\infty\,(1 - e^{-(n-1)/n_0})

    Real data, contention with other jobs, settings short of the best, evaluation that nobody
    stated, time between jobs: published totals hold all of these and tell none apart.

    Examples
    --------
    >>> float(beyond_named(machines=1.0, lost=0.3, ramp_machines=12.0))
    0.0
    >>> round(float(beyond_named(machines=128.0, lost=0.3, ramp_machines=12.0)), 3)
    0.3
    """
    found: Number = lost * spread_out(machines=machines, ramp_machines=ramp_machines)
    return found


def spread_out(*, machines: Number, ramp_machines: float) -> Number:
    """How much of a large cluster's troubles a job has: 0 in one machine, 1 over many. [fraction]

    Parameters
    ----------
    machines : float or ndarray
        Machines of the job.
    ramp_machines : float
        Machines over which it grows to 63 %.

    Notes
    -----
    .. math:: r(n) = 1 - e^{-(n-1)/n_0}

    Examples
    --------
    >>> round(float(spread_out(machines=13.0, ramp_machines=12.0)), 2)
    0.63
    """
    grown: Number = 1.0 - np.exp(-(machines - 1.0) / ramp_machines)
    return grown


def blended_bound(*, step: Number, whole: Number, weight: Number) -> Number:
    r"""Bound of a run's hours between that of its step and that of whole runs.

    Divided by the expected hours.

    Parameters
    ----------
    step, whole : float or ndarray
        Bounds over the expected values, :math:`b_s` and :math:`b_w`.
    weight : float or ndarray
        Of whole runs, :math:`r`: see :func:`spread_out`. [fraction]

    Notes
    -----
    .. math:: b = b_s^{1-r}\,b_w^{r}

    Errors are factors, so their logarithms are averaged.

    Examples
    --------
    >>> blended_bound(step=1.0, whole=4.0, weight=0.5)
    2.0
    """
    bound: Number = step ** (1 - weight) * whole**weight
    return bound
