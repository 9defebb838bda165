r"""Replicas through a day: what runs, what is billed and what comes late; what stands before them.

A day or a week comes in equal steps of time, and repeats.
"""

import numpy as np
from numpy.typing import NDArray

from advisor.equations import Number
from advisor.foundation.units import GB, HOUR_S

Floats = NDArray[np.float64]


def billed_replicas(
    *, needed: Floats, step_s: float, hold_s: float, least: float, most: float
) -> Floats:
    r"""Replicas that an autoscaler has asked for: they are billed from then on.

    Parameters
    ----------
    needed : Replicas that meet the targets at each moment, :math:`r(t)`.
    step_s : [s]
    hold_s : Time for which a lower need has to last before replicas go, :math:`h`. [s]
    least, most : Bounds.

    Notes
    -----
    .. math:: b(t) = \max_{t - h \le u \le t} r(u)

    References
    ----------
    .. [1] Kubernetes documentation, Horizontal Pod Autoscaling: the scale-down stabilization
       window takes the largest recommendation in it.

    Examples
    --------
    >>> billed_replicas(
    ...     needed=np.array([1.0, 3.0, 1.0, 1.0]), step_s=60, hold_s=60, least=1, most=9
    ... ).tolist()
    [1.0, 3.0, 3.0, 1.0]
    """
    steps = min(round(hold_s / step_s), len(needed) - 1)
    held = needed
    for back in range(1, steps + 1):
        held = np.maximum(held, np.roll(needed, back))
    return np.asarray(np.clip(held, least, most))


def running_replicas(*, billed: Floats, step_s: float, start_s: float) -> Floats:
    r"""Replicas that answer: those that were asked for at least a start ago and still are.

    Parameters
    ----------
    billed : Of :func:`billed_replicas`, :math:`b(t)`.
    step_s, start_s : Step, and time from the request for a replica to its first answer, :math:`s`.
        [s]

    Notes
    -----
    .. math:: a(t) = \min_{t - s \le u \le t} b(u)

    Examples
    --------
    >>> running_replicas(billed=np.array([1.0, 3.0, 3.0, 1.0]), step_s=60, start_s=60).tolist()
    [1.0, 1.0, 3.0, 1.0]
    """
    steps = min(round(start_s / step_s), len(billed) - 1)
    ready = billed
    for back in range(1, steps + 1):
        ready = np.minimum(ready, np.roll(billed, back))
    return ready


def awake_share(*, rate_per_s: Floats, hold_s: float) -> Floats:
    r"""Share of time that one replica runs which sleeps when no request comes for a while.

    Parameters
    ----------
    rate_per_s : Poisson arrivals, :math:`\lambda`. [requests/s]
    hold_s : Time without a request after which it stops, :math:`h`. [s]

    Notes
    -----
    .. math:: a = 1 - e^{-\lambda h}

    It runs if any request came within the last :math:`h`. Of the requests, the share
    :math:`e^{-\lambda h}` finds it asleep.

    Examples
    --------
    >>> float(awake_share(rate_per_s=np.array(0.0), hold_s=300.0))
    0.0
    """
    return np.asarray(1 - np.exp(-rate_per_s * hold_s))


def late_share(*, rate_per_s: Floats, needed: Floats, running: Floats) -> float:
    r"""Share of requests that arrive when too few replicas run.

    Parameters
    ----------
    rate_per_s : Arrivals, :math:`\lambda(t)`. [requests/s]
    needed, running : Replicas that meet the targets, :math:`r`, and those that answer, :math:`a`.

    Notes
    -----
    .. math:: \frac{\int \lambda \max(0, 1 - a / r)}{\int \lambda}

    Leaves out the backlog that is left when enough replicas run again.

    Examples
    --------
    >>> late_share(rate_per_s=np.ones(2), needed=np.array([2.0, 2.0]), running=np.array([1.0, 2.0]))
    0.25
    """
    missing = np.maximum(1 - running / np.maximum(needed, 1e-12), 0.0)
    return float((rate_per_s * missing).sum() / max(rate_per_s.sum(), 1e-300))


def reserved_base(*, billed: Floats, price_ratio: float) -> float:
    r"""Units that are cheaper reserved for all the time than rented when they are needed.

    Parameters
    ----------
    billed : Units billed at each moment.
    price_ratio : Reserved over on-demand price, :math:`\pi`.

    Notes
    -----
    The :math:`k`-th unit is reserved if it runs for more than the share :math:`\pi` of the time.

    Examples
    --------
    >>> reserved_base(billed=np.array([1.0, 2.0, 3.0, 3.0]), price_ratio=0.6)
    2.0
    """
    highest = int(billed.max())
    worth = [k for k in range(1, highest + 1) if float((billed >= k).mean()) > price_ratio]
    return float(max(worth, default=0))


def load_balancer_usd_per_hour(
    *, usd_per_hour: Number, usd_per_gb: Number, requests_per_s: Number, request_bytes: Number
) -> Number:
    r"""Price of an hour of a managed load balancer in front of served text. [USD/h]

    Parameters
    ----------
    usd_per_hour : Standing price, :math:`u`. [USD/h]
    usd_per_gb : Price of a processed gigabyte, :math:`g`. [USD/GB]
    requests_per_s : :math:`\lambda`. [requests/s]
    request_bytes : Of a request and its answer, :math:`b`. [bytes]

    Notes
    -----
    .. math:: U = u + 3600\,g\,\lambda\,b / 10^9

    Leaves out new connections, which AWS bills in place of bytes below
    11 kB a request, and traffic to the internet.

    Examples
    --------
    >>> found = load_balancer_usd_per_hour(
    ...     usd_per_hour=0.0225,
    ...     usd_per_gb=0.008,
    ...     requests_per_s=10,
    ...     request_bytes=4 * 1000 + 250 * 256,
    ... )
    >>> round(found, 5)
    0.04208
    """
    return usd_per_hour + usd_per_gb * requests_per_s * request_bytes * HOUR_S / GB
