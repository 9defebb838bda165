"""From the time of a step to that of a run: failures, checkpoints, and what whole runs lose."""

import numpy as np

from advisor.equations import Number
from advisor.foundation.units import HOUR_S


def straggling(*, machines: Number, slow_machines: float, slow_by: float) -> Number:
    r"""Time that slow machines add to each second of training. [s/s]

    Parameters
    ----------
    machines : Machines of the job. All wait for the slowest.
    slow_machines : Share of machines that are slow at any time. [fraction]
    slow_by : Time that a slow machine adds. [s/s]

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


def spread_out(*, machines: Number, ramp_machines: float) -> Number:
    """How much of a large cluster's troubles a job has: 0 in one machine, 1 over many. [fraction]

    Parameters
    ----------
    machines : Machines of the job.
    ramp_machines : Machines over which it grows to 63 %.

    Notes
    -----
    .. math:: r(n) = 1 - e^{-(n-1)/n_0}

    Examples
    --------
    >>> round(float(spread_out(machines=13.0, ramp_machines=12.0)), 2)
    0.63
    """
    return 1.0 - np.exp(-(machines - 1.0) / ramp_machines)


def lost_time(
    *,
    accelerators: Number,
    interruptions_per_accelerator_hour: float,
    checkpoint_s: float,
    restart_s: float,
) -> tuple[Number, Number, Number]:
    r"""Time lost per second of training, with checkpoints at the best interval. [s/s]

    Time to save checkpoints, to repeat lost work, and to restart.

    Parameters
    ----------
    accelerators : Accelerators of the job; any failure stops all of them.
    interruptions_per_accelerator_hour : Rate of unplanned interruptions. [1/h]
    checkpoint_s : Time during which a checkpoint blocks training. [s]
    restart_s : Time to detect, reschedule and reload. [s]

    Notes
    -----
    .. math::
        M = \frac{1}{\lambda N}, \quad \tau = \sqrt{2 \delta M}, \quad
        \left(\frac{\delta}{\tau},\; \frac{\tau}{2 M},\; \frac{R}{M}\right)

    Young's first-order interval; planned maintenance is left out.

    References
    ----------
    .. [1] Daly, 2006, doi:10.1016/j.future.2004.11.016.

    Examples
    --------
    One interruption in 8 hours, 36 s to save, 288 s to restart: a checkpoint every 24 minutes.

    >>> lost_time(
    ...     accelerators=1.0,
    ...     interruptions_per_accelerator_hour=1 / 8,
    ...     checkpoint_s=36.0,
    ...     restart_s=288.0,
    ... )
    (0.025, 0.025, 0.01)
    """
    between_s = HOUR_S / (interruptions_per_accelerator_hour * accelerators)
    interval_s = (2 * checkpoint_s * between_s) ** 0.5
    return checkpoint_s / interval_s, interval_s / 2 / between_s, restart_s / between_s


def goodput(
    *,
    accelerators: Number,
    interruptions_per_accelerator_hour: float,
    checkpoint_s: float,
    restart_s: float,
) -> Number:
    r"""Share of wall-clock time that trains, with checkpoints at the best interval. [fraction]

    ``accelerators``, ``interruptions_per_accelerator_hour``, ``checkpoint_s`` and ``restart_s``: as
    for :func:`lost_time`.

    Notes
    -----
    .. math::
        M = \frac{1}{\lambda N}, \quad \tau = \sqrt{2 \delta M}, \quad
        G = \frac{1}{1 + \delta/\tau + (\tau/2 + R)/M}

    Young's first-order interval; planned maintenance is left out.

    References
    ----------
    .. [1] Daly, 2006, doi:10.1016/j.future.2004.11.016.
    .. [2] Llama team, 2024, arXiv:2407.21783, table 5 (interruption rate).

    Examples
    --------
    Llama 3 405B: 16,384 accelerators, 419 unplanned interruptions in 54 days:

    >>> rate = 419 / (54 * 24 * 16384)
    >>> found = goodput(
    ...     accelerators=16384,
    ...     interruptions_per_accelerator_hour=rate,
    ...     checkpoint_s=30.0,
    ...     restart_s=300.0,
    ... )
    >>> round(float(found), 3)
    0.909
    """
    saving, again, restarting = lost_time(
        accelerators=accelerators,
        interruptions_per_accelerator_hour=interruptions_per_accelerator_hour,
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
    )
    return 1 / (1 + saving + again + restarting)
