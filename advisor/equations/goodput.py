"""From the time of a step to the time of a run: failures, restarts, checkpoints."""

import numpy as np
from numpy.typing import NDArray

from advisor.foundation.units import HOUR_S

Number = float | NDArray[np.float64]


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
    accelerators : float or ndarray
        Accelerators of the job; any failure stops all of them.
    interruptions_per_accelerator_hour : float
        Rate of unplanned interruptions. [1/h]
    checkpoint_s : float
        Time during which a checkpoint blocks training. [s]
    restart_s : float
        Time to detect, reschedule and reload. [s]

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

    Parameters
    ----------
    accelerators : float or ndarray
        Accelerators of the job; any failure stops all of them.
    interruptions_per_accelerator_hour : float
        Rate of unplanned interruptions. [1/h]
    checkpoint_s : float
        Time during which a checkpoint blocks training. [s]
    restart_s : float
        Time to detect, reschedule and reload. [s]

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
    >>> round(
    ...     float(
    ...         goodput(
    ...             accelerators=16384,
    ...             interruptions_per_accelerator_hour=rate,
    ...             checkpoint_s=30.0,
    ...             restart_s=300.0,
    ...         )
    ...     ),
    ...     3,
    ... )
    0.909
    """
    saving, again, restarting = lost_time(
        accelerators=accelerators,
        interruptions_per_accelerator_hour=interruptions_per_accelerator_hour,
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
    )
    return 1 / (1 + saving + again + restarting)
