"""Requests that arrive together: how long an engine takes, and how long they wait.

Every function takes floats or arrays and broadcasts.
"""

from math import exp, lgamma, log, log1p

import numpy as np

from advisor.equations import Number


def burst_s(
    *,
    requests: Number,
    running: Number,
    rate_per_s: Number,
    prompt_s: Number,
    output_tokens: Number,
    draining_s: Number,
) -> Number:
    r"""Time to serve a finite number of requests that arrive together. [s]

    From the first request to the last token.

    Parameters
    ----------
    requests : Requests, :math:`N`.
    running : Requests that run at the same time at most, :math:`R`.
    rate_per_s : Rate with :math:`R` requests running, :math:`X`: :func:`backlog_rate_per_s`.
        [requests/s]
    prompt_s : Time for which one prompt occupies the engine, :math:`s`. [s]
    output_tokens : Mean generated tokens per request, :math:`O`. [tokens]
    draining_s : Sum of the step times over the batches from :math:`R` to 1, each divided by the
        batch, :math:`\sum_b d(b)/b`. [s]

    Notes
    -----
    .. math:: T = R s + \frac{N - R}{X} + O \sum_{b=1}^{R} \frac{d(b)}{b}

    First the engine reads the prompts that fit. Then it runs full until no request waits. At the
    end the batch shrinks: with exponentially distributed answers, a batch of :math:`b` loses one
    request after :math:`O / b` steps. Equal answers end in the order in which they started: the
    sum is :math:`w + \kappa\,(d(E/2) - E m / 2)` if :math:`E` run when the last prompt has been
    read, with :func:`equal_wave_s`.

    References
    ----------
    .. [1] The order statistics of exponential variables: Rényi, 1953, doi:10.1007/BF02127580.

    Examples
    --------
    >>> burst_s(
    ...     requests=12.0,
    ...     running=2.0,
    ...     rate_per_s=1.0,
    ...     prompt_s=0.5,
    ...     output_tokens=10.0,
    ...     draining_s=0.15,
    ... )
    12.5
    """
    return running * prompt_s + (requests - running) / rate_per_s + output_tokens * draining_s


def equal_wave_s(*, share: Number, step_s: Number, ridden_s: Number) -> Number:
    r"""Time of equal answers that start together, beside their prompts, for each token. [s]

    Parameters
    ----------
    share : Steps in which the prompts of a full engine are read, over those of an answer,
        :math:`\kappa`; 1 if the first answers end before the last starts.
    step_s : Step of a full engine without prompts, :math:`d(R)`. [s]
    ridden_s : What its sequences add to a step of prompts, :math:`R m`. [s]

    Notes
    -----
    .. math:: w = (1 - \kappa)\,d(R) + \kappa R m

    Prompts that one step reads end together, and as many take their places: a full engine of
    :math:`R` ends :math:`R` requests in :math:`R s + O w`.

    Examples
    --------
    >>> equal_wave_s(share=0.5, step_s=0.02, ridden_s=0.008)
    0.014
    """
    return (1 - share) * step_s + share * ridden_s


def backlog_rate_per_s(*, running: Number, answer_s: Number, service_s: Number) -> Number:
    r"""Requests that an engine ends in a second while others wait outside. [requests/s]

    Parameters
    ----------
    running : Requests that hold a place, :math:`R`.
    answer_s : From the start of a request's prompt to its last token, :math:`L`. [s]
    service_s : Time for which one prompt occupies the engine, :math:`s`. [s]

    Notes
    -----
    .. math:: X = \min\left(\frac{R}{L}, \frac{1}{s}\right)

    A request takes its place when its prompt starts, so no place waits. In a closed loop without
    others, requests wait for prompts among those that run, and the rate is lower.

    Examples
    --------
    >>> backlog_rate_per_s(running=8.0, answer_s=2.0, service_s=0.125).item()
    4.0
    """
    return np.minimum(running / answer_s, 1 / service_s)


def burst_first_token_s(
    *,
    requests: Number,
    running: Number,
    rate_per_s: Number,
    prompt_s: Number,
    share: float | None = None,
) -> Number:
    r"""Wait of requests that arrive together for the prompts and answers before them. [s]

    ``requests``, ``running``, ``rate_per_s`` and ``prompt_s``: as for :func:`burst_s`. ``share``:
    of the requests that wait less, :math:`q`; None for the mean.

    Notes
    -----
    .. math:: \bar W = \frac{1}{N}\left(\frac{R^2 s}{2} + M R s + \frac{M^2}{2X}\right),
        \quad M = N - R, \qquad W_q = \min(qN, R)\,s + \frac{\max(qN - R, 0)}{X}

    The first :math:`R` requests wait for half of their prompts, the others for a place.

    Examples
    --------
    >>> burst = {"requests": 4.0, "running": 2.0, "rate_per_s": 1.0, "prompt_s": 0.5}
    >>> burst_first_token_s(**burst), float(burst_first_token_s(**burst, share=0.75))
    (1.25, 2.0)
    """
    if share is None:
        late = requests - running
        read = running * prompt_s
        return (running * read / 2 + late * read + late**2 / (2 * rate_per_s)) / requests
    before = share * requests
    places: Number = np.minimum(before, running) * prompt_s
    return places + np.maximum(before - running, 0.0) / rate_per_s


def start_burst_s(
    *,
    concurrency: Number,
    service_s: Number,
    rounds: Number,
    together: Number = 1.0,
    further_s: Number = 0.0,
    admission_s: Number = 0.0,
    later_s: Number = 0.0,
    share: float | None = None,
) -> Number:
    r"""Extra wait for the first token in a benchmark that starts all requests at once. [s]

    Parameters
    ----------
    concurrency : Requests in flight in the replica, :math:`N`.
    service_s : Time for which one prompt occupies the engine, :math:`s`. [s]
    rounds : Requests of the benchmark divided by its concurrency, :math:`r`.
    together : Prompts that one step reads, :math:`m`, from 1 to :math:`N`: all of them wait for its
        end.
    further_s : Time that each prompt but the first adds to such a step, :math:`g`. [s]
    admission_s : Time of the host to take in one of many requests, :math:`a`. [s]
    later_s : The same wait in later rounds, :math:`L`: 0 if they are out of phase, otherwise
        :func:`in_step_wait_s`. [s]
    share : Share of the requests that wait less, :math:`q`; None for the mean.

    Notes
    -----
    .. math:: w = (N-m)\,s + (N-1)\,a, \quad
        B = \frac{w / 2 + (m-1)\,g}{r} + L \left(1 - \frac{1}{r}\right), \qquad
        B_q = w u + (m-1)\,g, \quad u = 1 - r (1 - q) > 0, \text{ else } L

    The waits of the first round, one in :math:`r`, are spread evenly over its steps. Leaves out
    those of the first round that wait less than later ones.
    Only for comparison with published measurements: a steady service has no such burst.

    References
    ----------
    .. [1] SemiAnalysis InferenceMAX benchmark scripts: ten requests per concurrent one.

    Examples
    --------
    >>> wave = {"concurrency": 11, "service_s": 0.1, "rounds": 10}
    >>> start_burst_s(**wave), round(float(start_burst_s(**wave, share=0.99)), 6)
    (0.05, 0.9)
    """
    spread = (concurrency - together) * service_s + (concurrency - 1) * admission_s
    step = (together - 1) * further_s
    if share is None:
        return (spread / 2 + step) / rounds + later_s * (1 - 1 / rounds)
    before = 1 - rounds * (1 - share)
    return np.where(before > 0, spread * before + step, later_s)


def in_step_wait_s(
    *, concurrency: Number, service_s: Number, together: Number, further_s: Number
) -> Number:
    r"""Extra wait for the first token in a closed loop of equal answers that none ends early. [s]

    ``concurrency``, ``service_s``, ``together`` and ``further_s``: :math:`N`, :math:`s`, :math:`m`
    and :math:`g` as for :func:`start_burst_s`.

    Notes
    -----
    .. math:: L = (m - 1)\,g + \left(1 - \frac{m}{N}\right) m\,s

    Prompts that one step reads start together, end together and come back together. Each group
    but the first comes while the step of the group before it runs, and waits for its end. Within
    a seventh of a simulation of the scheduler's steps (``tests/equations/test_serving.py``).

    Examples
    --------
    >>> in_step_wait_s(concurrency=16.0, service_s=0.03, together=8.0, further_s=0.03).item()
    0.33
    """
    groups = np.asarray(concurrency) / together
    return (together - 1) * further_s + (1 - 1 / groups) * together * service_s


def periodic_wait_share(*, streams: int, period: float, wait: float) -> float:
    r"""Share of the time in which work of periodic streams exceeds a wait. [dimensionless]

    From 0 to 1.

    Parameters
    ----------
    streams : Streams with equal periods and random phases, e.g. cameras.
    period : Period over the time of one service; at least ``streams``. [services]
    wait : Work ahead. [services]

    Notes
    -----
    .. math::
        P(V > x) = \sum_{x < n \le N} \binom{N}{n} \left(\frac{n - x}{D}\right)^n
            \left(1 - \frac{n - x}{D}\right)^{N - n} \frac{D - N + x}{D - n + x}

    The queue N*D/D/1. A new frame sees the work of the other N - 1 streams. Leaves out jitter of
    services and of cameras.

    References
    ----------
    .. [1] Roberts and Virtamo, The superposition of periodic cell arrival streams in an ATM
       multiplexer, IEEE Transactions on Communications 39(2), 1991.

    Examples
    --------
    >>> periodic_wait_share(streams=1, period=2.0, wait=0.5)
    0.25
    """
    total = 0.0
    for n in range(int(wait) + 1, streams + 1):
        share = (n - wait) / period
        if share >= 1.0:
            return 1.0
        ways = lgamma(streams + 1) - lgamma(n + 1) - lgamma(streams - n + 1)
        chance = exp(ways + n * log(share) + (streams - n) * log1p(-share))
        total += chance * (period - streams + wait) / (period - n + wait)
    return min(1.0, total)


def overload_wait_s(
    *, requests: Number, rate_per_s: Number, served_per_s: Number, share: float
) -> Number:
    r"""Wait of one of a finite number of requests that arrive faster than they are served. [s]

    0 for an engine that keeps up.

    Parameters
    ----------
    requests : Requests of the run, :math:`N`.
    rate_per_s, served_per_s : Arrivals :math:`\lambda` and completions :math:`\mu`. [requests/s]
    share : Share of the requests that arrive before, :math:`q`.

    Notes
    -----
    .. math:: W = q N \left(\frac{1}{\mu} - \frac{1}{\lambda}\right)

    A fluid queue: each arrival finds :math:`\lambda - \mu` more requests per second before it.

    References
    ----------
    .. [1] Newell, Applications of Queueing Theory, 1982, chapter 2.

    Examples
    --------
    >>> overload_wait_s(requests=100.0, rate_per_s=10.0, served_per_s=5.0, share=0.5)
    5.0
    """
    late = 1 / np.maximum(served_per_s, 1e-12) - 1 / np.asarray(rate_per_s)
    wait: Number = share * requests * np.maximum(late, 0.0)
    return wait if np.ndim(wait) else float(wait)
