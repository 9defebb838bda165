r"""Queues of a server under a stated arrival rate: states, waits and their percentiles.

An engine with :math:`n` requests in flight completes :math:`X(n)` of them per second, as in a
closed system. Arrivals move it up one state and completions down one. Every function takes floats
or arrays and broadcasts; the states are the last axis.

References
----------
.. [1] Chandy, Herzog and Woo, Parametric Analysis of Queuing Networks, 1975,
   doi:10.1147/rd.191.0036: a subsystem as one server whose rate depends on its state.
.. [2] Cohen, The multiple phase service network with generalized processor sharing, 1979,
   doi:10.1007/BF00264015: the states depend on the mean length alone.
"""

import math

import numpy as np
from numpy.typing import NDArray

from advisor.equations import Number

Floats = NDArray[np.float64]


def state_grid(most: int) -> Floats:
    r"""Numbers of requests in flight at which an engine is evaluated.

    All numbers to 20; further ones lie about :math:`\sqrt{n} / 2` apart, half the spread of a
    Poisson number.

    ``most``: largest number.

    Examples
    --------
    >>> state_grid(36)[18:].tolist()
    [19.0, 20.0, 25.0, 30.0, 36.0]
    """
    last = 2 * math.ceil(math.sqrt(max(most, 20)))
    numbers = {*range(1, 21), *(step * step // 4 for step in range(9, last + 1)), most}
    return np.array(sorted(number for number in numbers if number <= most), dtype=np.float64)


def state_probabilities(
    *,
    states: Floats,
    completions_per_s: Floats,
    rate_per_s: Number,
    arrival_scv: float = 1.0,
    answer_scv: float = 1.0,
) -> tuple[Floats, Floats, Floats]:
    r"""How often an engine is in each state, when requests arrive on their own.

    Probability of no request, of each grid state (with the states that it stands for), and of more
    requests than the limit, which wait outside. All 0 if :math:`\lambda \ge X(c)`.

    Parameters
    ----------
    states : Increasing numbers of requests in flight from 1 to the engine's limit :math:`c`.
    completions_per_s : Rate of completions in each state, :math:`X(n)`. [requests/s]
    rate_per_s : Arrivals, :math:`\lambda`. [requests/s]
    arrival_scv : Squared coefficient of variation of the times between arrivals; 1 for Poisson,
        :math:`C_a`.
    answer_scv : The same of the time that a request takes, :math:`C_s`, taken as log-normal.

    Notes
    -----
    .. math:: p(n) \propto \prod_{k=1}^{n} \left(\frac{\lambda}{X(k)}\right)^{\theta}, \qquad
        \theta = \frac{1}{z}, \quad \frac{2}{C_a + C_s} \text{ beyond } c

    Exact for Poisson arrivals [1]_ [2]_. :math:`z` is the peakedness of other arrivals, see
    :func:`peakedness`; beyond the limit, the exponent is the heavy-traffic diffusion of a queue.
    Sums between grid states follow the trapezoid rule.

    Examples
    --------
    >>> none, some, outside = state_probabilities(
    ...     states=np.arange(1.0, 4.0), completions_per_s=np.full(3, 2.0), rate_per_s=1.0
    ... )
    >>> float(none), some.tolist(), float(outside)
    (0.5, [0.25, 0.125, 0.0625], 0.0625)
    """
    rate = np.asarray(rate_per_s, dtype=np.float64)[..., None]
    exponent = 1.0 / peakedness(arrival_scv=arrival_scv, service_scv=answer_scv)
    # An engine that lacks a link completes nothing.
    steps = exponent * np.log(rate / np.maximum(completions_per_s, 1e-30))
    gaps = np.diff(states)
    between = gaps * (steps[..., 1:] + steps[..., :-1]) / 2
    between = between + (steps[..., 1:] - steps[..., :-1]) / 2
    log = np.concatenate([steps[..., :1], steps[..., :1] + np.cumsum(between, axis=-1)], axis=-1)
    top = np.maximum(log.max(axis=-1, keepdims=True), 0.0)
    # A grid state stands for the states up to the middle of the gaps beside it.
    width = np.r_[1.0, np.maximum(gaps, 1.0)] / 2 + np.r_[np.maximum(gaps, 1.0), 1.0] / 2
    width[0], width[-1] = (1 + _half(gaps[:1])), (1 + _half(gaps[-1:]))
    weight = np.exp(log - top) * width
    nothing = np.exp(-top[..., 0])
    queue = 2.0 / max(arrival_scv + answer_scv, 1e-3) / exponent
    ratio = np.exp(np.minimum(steps[..., -1] * queue, 0.0))
    stable = rate[..., 0] < completions_per_s[..., -1]
    beyond = np.exp(log[..., -1] - top[..., 0]) * ratio / np.where(stable, 1 - ratio, 1.0)
    total = nothing + weight.sum(axis=-1) + beyond
    held = np.where(stable, 1.0 / total, 0.0)
    return nothing * held, weight * held[..., None], beyond * held


def peakedness(*, arrival_scv: float, service_scv: float) -> float:
    r"""Variance over mean of the number in service, if nothing limits it.

    ``arrival_scv`` and ``service_scv``: squared coefficients of variation of the times between
    arrivals, :math:`C_a`, and of service, :math:`C_s`, taken as log-normal.

    Notes
    -----
    .. math:: z = 1 + (C_a - 1)\,\frac{E[\min(S_1, S_2)]}{E[S]}, \qquad
        \frac{E[\min(S_1, S_2)]}{E[S]} = 2\,\Phi\left(-\sqrt{\tfrac12 \ln(1 + C_s)}\right)

    Equal services keep a burst together, so that the whole of its variation is seen. For arrivals
    more even than Poisson's, the share is that of exponential services, a half.

    References
    ----------
    .. [1] Eckberg, Generalized peakedness of teletraffic processes, ITC 10, 1983; Whitt,
       Heavy-traffic approximations for service systems with blocking, 1984 (both recalled).

    Examples
    --------
    >>> peakedness(arrival_scv=4.0, service_scv=0.0)
    4.0
    """
    together = math.erfc(math.sqrt(math.log1p(service_scv)) / 2)
    # Even arrivals at an engine whose steps vary are never as even as equal services make them.
    return 1 + (arrival_scv - 1) * (together if arrival_scv > 1 else 0.5)


def _half(gap: Floats) -> float:
    return float((gap[0] - 1) / 2) if len(gap) else 0.0


def weighted_quantile(values: Floats, weights: Floats, share: float) -> Floats:
    """Value that a share of the weight stays under; values rise along the last axis.

    Interpolated between the middles of the weights.

    Parameters
    ----------
    values, weights : Of equal length along the last axis.
    share : Between 0 and 1.

    Examples
    --------
    >>> float(weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]), 0.5))
    2.0
    """
    values = np.broadcast_to(values, np.broadcast_shapes(values.shape, weights.shape))
    total = np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    middle = (np.cumsum(weights, axis=-1) - weights / 2) / total
    place = np.clip((middle < share).sum(axis=-1), 1, values.shape[-1] - 1)[..., None]
    low, high = (np.take_along_axis(middle, place - one, -1)[..., 0] for one in (1, 0))
    first, last = (np.take_along_axis(values, place - one, -1)[..., 0] for one in (1, 0))
    part = np.clip((share - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return np.asarray(first + part * (last - first))


def gated_cycle_s(
    *, step_s: Floats, prompt_s: Floats, rate_per_s: Floats, prompt_scv: Number
) -> tuple[Floats, Floats]:
    r"""Length of the engine's step into which an arrival falls: mean and variance. [s], [s^2]

    Parameters
    ----------
    step_s : Step without prompts, :math:`d`. [s]
    prompt_s : Mean time that a prompt adds, :math:`E`. [s]
    rate_per_s : Arrivals, :math:`\lambda`. [requests/s]
    prompt_scv : Squared coefficient of variation of that time, :math:`C_s`, taken as log-normal.

    Notes
    -----
    A step carries the prompts that arrived during the one before it (gated service). With
    :math:`\rho = \lambda E` and the moments :math:`m_2 = E^2 (1 + C_s)` and
    :math:`m_3 = E^3 (1 + C_s)^3` of a prompt, the moments of a step are

    .. math:: c_1 = \frac{d}{1 - \rho}, \quad
        c_2 = \frac{d^2 + 2 d \rho c_1 + \lambda m_2 c_1}{1 - \rho^2}, \quad
        c_3 = \frac{d^3 + 3 d^2 \rho c_1 + 3 d (\lambda m_2 c_1 + \rho^2 c_2)
        + \lambda m_3 c_1 + 3 \lambda \rho m_2 c_2}{1 - \rho^3}

    and an arrival sees :math:`c_2 / c_1` with variance :math:`c_3 / c_1 - (c_2 / c_1)^2`.

    References
    ----------
    .. [1] Takagi, Queueing Analysis, volume 1, 1991, section 2.4: gated vacations.

    Examples
    --------
    >>> mean, variance = gated_cycle_s(
    ...     step_s=np.array(0.5), prompt_s=np.array(0.0), rate_per_s=np.array(3.0), prompt_scv=0.0
    ... )
    >>> float(mean), float(variance)
    (0.5, 0.0)
    """
    load = np.minimum(rate_per_s * prompt_s, 0.99)
    twice = rate_per_s * prompt_s**2 * (1 + prompt_scv)
    thrice = rate_per_s * prompt_s**3 * (1 + prompt_scv) ** 3
    first = np.maximum(step_s, 1e-12) / (1 - load)
    second = (step_s**2 + 2 * step_s * load * first + twice * first) / (1 - load**2)
    third = step_s**3 + 3 * step_s**2 * load * first
    third = third + 3 * step_s * (twice * first + load**2 * second)
    third = (third + thrice * first + 3 * twice * load * second) / (1 - load**3)
    seen = second / first
    return seen, np.maximum(third / first - seen**2, 0.0)


def many_servers_wait_s(
    *, servers: Number, service_s: Number, load: Number, arrival_scv: Number, service_scv: Number
) -> Number:
    r"""Mean wait for one of several servers. [s]

    Parameters
    ----------
    servers : :math:`c`.
    service_s : Mean service of one of them, :math:`S`. [s]
    load : Share of time that a server is busy, :math:`\rho`; at or over 1 the wait is infinite.
    arrival_scv, service_scv : Squared coefficients of variation of the times between arrivals and
        of service.

    Notes
    -----
    .. math:: W = \frac{C_a + C_s}{2}\,\frac{\rho^{\sqrt{2(c+1)} - 1}}{c\,(1 - \rho)}\,S

    Kingman's formula for one server, Allen and Cunneen's with Sakasegawa's probability for more.

    References
    ----------
    .. [1] Kingman, 1961, doi:10.1017/S0305004100036094.
    .. [2] Sakasegawa, 1977, doi:10.1007/BF02532250; Allen, Probability, Statistics, and Queueing
       Theory, 1990, section 5.3.

    Examples
    --------
    >>> found = many_servers_wait_s(
    ...     servers=1.0, service_s=1.0, load=0.5, arrival_scv=1.0, service_scv=1.0
    ... )
    >>> float(found)
    1.0
    """
    spare = 1 - np.asarray(load, dtype=np.float64)
    power = np.sqrt(2 * (np.asarray(servers) + 1)) - 1
    variation = (np.asarray(arrival_scv) + service_scv) / 2
    busy = np.minimum(load, 1.0) ** power
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = variation * busy / (servers * spare) * service_s
    return np.where(spare > 0, wait, np.inf)


def gamma_quantile(mean: Number, variance: Number, z: float) -> Number:
    r"""Percentile of a positive time with a known mean and variance. [s]

    Parameters
    ----------
    mean, variance : [s], [s^2]
    z : The percentile of the normal distribution. [sigmas]

    Notes
    -----
    .. math:: t = m \left(1 - \frac{1}{9 k} + \frac{z}{3 \sqrt{k}}\right)^3, \qquad k = m^2 / v

    References
    ----------
    .. [1] Wilson and Hilferty, 1931, doi:10.1073/pnas.17.12.684.

    Examples
    --------
    >>> round(float(gamma_quantile(2.0, 1.0, 0.0)), 3)
    1.838
    """
    shape = np.maximum(np.square(mean) / np.maximum(variance, 1e-300), 0.1)
    root = np.maximum(1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape)), 0.0)
    return mean * root**3


def tail_quantile_s(*, waiting: Number, mean_s: Number, share: float) -> Number:
    r"""Percentile of a wait that some arrivals have, and then an exponential one. [s]

    Parameters
    ----------
    waiting : Probability of any wait, :math:`P`.
    mean_s : Mean of a wait that happens, :math:`w`. [s]
    share : Share of arrivals that wait less, :math:`q`.

    Notes
    -----
    .. math:: t = w \ln\frac{P}{1 - q} \quad (P > 1 - q), \text{ otherwise } 0

    Examples
    --------
    >>> float(tail_quantile_s(waiting=0.04, mean_s=10.0, share=0.95))
    0.0
    """
    over = np.maximum(np.asarray(waiting, dtype=np.float64) / (1 - share), 1.0)
    return np.log(over) * mean_s


def log_normal_scv(*, ratio: float) -> float:
    r"""Squared coefficient of variation of lengths with a known 95th percentile.

    ``ratio``: 95th percentile over the mean, :math:`r`, up to :math:`e^{z^2 / 2} = 3.87`.

    Notes
    -----
    .. math:: r = e^{z \sigma - \sigma^2 / 2}, \quad z = 1.645, \qquad
        C = e^{\sigma^2} - 1

    Of the two solutions, the narrower one.

    Examples
    --------
    >>> log_normal_scv(ratio=1.0), round(log_normal_scv(ratio=2.0), 3)
    (0.0, 0.279)
    """
    z = 1.6448536269514722
    under = max(z * z - 2 * float(np.log(ratio)), 0.0)
    sigma = z - under**0.5
    return float(np.expm1(sigma * sigma))
