r"""Time per token of an engine whose steps carry the prompts of requests that arrive.

A prompt adds :math:`E` to the step that carries it, a step without prompts takes :math:`d`, and
:math:`\lambda` requests arrive per second, so prompts take the share :math:`\rho = \lambda E` of
each second. Every function takes floats or arrays and broadcasts.
"""

import numpy as np

from advisor.equations import Number

MOST_READ = 0.99
"""Largest share of the time for prompts; an engine beyond it does not keep up."""


def added_time_s(
    *,
    step_s: Number,
    prompt_s: Number,
    rate_per_s: Number,
    waited_s: Number,
    seen_step_s: Number,
    arrival_scv: float,
    output_tokens: float,
) -> Number:
    r"""Mean time that prompts add to a token of one answer, if steps had no limit. [s]

    Parameters
    ----------
    step_s, prompt_s, rate_per_s : :math:`d` [s], :math:`E` [s], :math:`\lambda` [requests/s].
    waited_s : Mean time to the first token, :math:`F`. [s]
    seen_step_s : Mean length of the step into which an arrival falls, :math:`s`. [s]
    arrival_scv : Squared coefficient of variation of the times between arrivals, :math:`C_a`.
    output_tokens : Tokens of the answer, :math:`O`.

    Notes
    -----
    .. math:: x = \frac{\rho d}{1 - \rho} + \frac{E}{O (1 - \rho)} \left(
        \lambda F \left(1 - \frac{d}{(1 - \rho) s}\right) + \frac{C_a - 1}{2}\right)

    :math:`O` steps and the prompts that arrive meanwhile take :math:`O d / (1 - \rho)`. At its
    first token, a request has :math:`\lambda F` prompts behind it, which came while it waited; at
    a later step fewer wait, because steps with many prompts are long and rare:
    :math:`d / (1 - \rho)` is the mean step. In bursts, :math:`(C_a - 1) / 2` more requests follow.

    References
    ----------
    .. [1] Takagi, Queueing Analysis, volume 1, 1991, section 1.2: delay cycles.

    Examples
    --------
    >>> found = added_time_s(
    ...     step_s=0.01,
    ...     prompt_s=0.05,
    ...     rate_per_s=10.0,
    ...     waited_s=0.0,
    ...     seen_step_s=0.02,
    ...     arrival_scv=1.0,
    ...     output_tokens=100.0,
    ... )
    >>> round(float(found), 6)
    0.01
    """
    read = np.minimum(rate_per_s * prompt_s, MOST_READ)
    follow = rate_per_s * waited_s * np.maximum(1 - step_s / (1 - read) / seen_step_s, 0.0)
    follow = follow + (arrival_scv - 1) / 2
    added: Number = (step_s * read + prompt_s * follow / output_tokens) / (1 - read)
    return np.maximum(added, 0.0)


def within_step_s(*, added_s: Number, most_s: Number) -> Number:
    r"""Time that prompts add to a token, of steps that carry a limited number of them. [s]

    ``added_s``: without the limit, :math:`x`. ``most_s``: what fills a step, :math:`D - d`.

    Notes
    -----
    .. math:: \tau - d = \frac{x}{\left(1 + (x / (D - d))^3\right)^{1/3}}

    The cubes were chosen on a simulation.

    Examples
    --------
    >>> round(float(within_step_s(added_s=0.01, most_s=1e9)), 6)
    0.01
    """
    time: Number = added_s / np.cbrt(1 + np.power(added_s / np.maximum(most_s, 1e-12), 3))
    return time


def token_time_variance(
    *,
    step_s: Number,
    prompt_s: Number,
    rate_per_s: Number,
    waited_variance: Number,
    prompt_scv: Number,
    arrival_scv: float,
    output_tokens: Number,
) -> Number:
    r"""Variance of the time per token between answers that start alike. [s^2]

    Parameters
    ----------
    step_s, prompt_s, rate_per_s, arrival_scv, output_tokens
        As for :func:`added_time_s`.
    waited_variance : Of the time to the first token. [s^2]
    prompt_scv : Squared coefficient of variation of :math:`E`, :math:`C_s`.

    Notes
    -----
    .. math:: v = \frac{\lambda E^2 (1 + C_s) \max(C_a, 1)\, d}{O (1 - \rho)^3}
        + \frac{E^2}{O^2 (1 - \rho)^2}\left(\lambda^2 v_F
        + \left(\frac{\max(C_a, 1) - 1}{2}\right)^2\right)

    The first term is the variance of a busy period that begins with :math:`O d` of work, over
    :math:`O^2`; the second is that of the prompts behind the request at its first token.

    References
    ----------
    .. [1] Takagi, Queueing Analysis, volume 1, 1991, section 1.2: delay cycles.

    Examples
    --------
    >>> found = token_time_variance(
    ...     step_s=0.01,
    ...     prompt_s=0.05,
    ...     rate_per_s=10.0,
    ...     waited_variance=0.0,
    ...     prompt_scv=0.0,
    ...     arrival_scv=1.0,
    ...     output_tokens=100.0,
    ... )
    >>> round(float(found), 9)
    2e-05
    """
    read = np.minimum(rate_per_s * prompt_s, MOST_READ)
    varied = max(arrival_scv, 1.0)
    busy = rate_per_s * np.square(prompt_s) * (1 + prompt_scv) * varied * step_s
    behind = np.square(rate_per_s) * waited_variance + ((varied - 1) / 2) ** 2
    first = busy / (output_tokens * (1 - read) ** 3)
    return first + np.square(prompt_s / (output_tokens * (1 - read))) * behind
