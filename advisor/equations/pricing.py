"""Renting by the hour: whole instances, billed time, commitments, interruptions.

Every function takes floats or arrays and broadcasts.
"""

from typing import Final

import numpy as np

from advisor.equations import Number
from advisor.equations.training.goodput import goodput
from advisor.foundation.units import DAY_S, HOUR_S, HOURS_PER_MONTH, MILLION

UPPER_TENTH: Final = 1.2816
"""Standard deviations above the mean that a tenth of a normal distribution exceeds."""
DAYS_PER_YEAR: Final = 365.0


def instances_needed(*, accelerators: Number, per_instance: Number) -> Number:
    r"""Whole instances needed for a number of accelerators.

    Whole instances: providers do not rent fractions.

    Parameters
    ----------
    accelerators : Accelerators in use.
    per_instance : Accelerators of one instance.

    Notes
    -----
    .. math:: I = \lceil n / n_I \rceil

    Examples
    --------
    >>> float(instances_needed(accelerators=12, per_instance=8))
    2.0
    """
    return np.ceil(accelerators / per_instance)


def rent_usd(
    *,
    hours: Number,
    instances: Number,
    usd_per_hour: Number,
    billing_step_hours: float = 0.0,
    minimum_hours: float = 0.0,
) -> Number:
    r"""Rent of whole instances over a time. [USD]

    Raises ValueError if ``billing_step_hours`` is negative.

    Parameters
    ----------
    hours : Time in use. [h]
    instances : Whole instances.
    usd_per_hour : List price of one instance. [USD/h]
    billing_step_hours : Time is billed in multiples of this; 0 bills the exact time. [h]
    minimum_hours : Shortest billed time. [h]

    Notes
    -----
    .. math:: C = I\,p\,\lceil \max(h, h_0) / s \rceil\,s

    Leaves out storage, traffic and taxes.

    Examples
    --------
    >>> float(rent_usd(hours=1.5, instances=2, usd_per_hour=10.0))
    30.0
    >>> float(rent_usd(hours=1.5, instances=2, usd_per_hour=10.0, billing_step_hours=1.0))
    40.0
    """
    if billing_step_hours < 0:
        msg = f"billing_step_hours must be 0 or more, got {billing_step_hours}"
        raise ValueError(msg)
    billed = np.maximum(hours, minimum_hours)
    if billing_step_hours > 0:
        # Rounding may put a whole number of steps one last bit above itself.
        steps = np.ceil(np.round(billed / billing_step_hours, 9))
        billed = steps * billing_step_hours
    return instances * usd_per_hour * billed


def committed_months(*, months: Number, term_months: Number) -> Number:
    r"""Months that the customer pays under a commitment: whole terms. [months]

    Parameters
    ----------
    months : Months of use.
    term_months : Months of one term.

    Notes
    -----
    .. math:: T' = \lceil T / t \rceil\,t

    Examples
    --------
    >>> float(committed_months(months=14, term_months=12))
    24.0
    """
    return np.ceil(months / term_months) * term_months


def checkpoint_interval_s(*, interruptions_per_hour: Number, checkpoint_s: Number) -> Number:
    r"""Best time between two checkpoints. [s]

    Parameters
    ----------
    interruptions_per_hour : Rate at which the whole job is interrupted. [1/h]
    checkpoint_s : Time to save a checkpoint. [s]

    Notes
    -----
    .. math:: \tau = \sqrt{2\,\delta\,M}

    Young's first-order optimum, with :math:`M` the time between interruptions.

    References
    ----------
    .. [1] Young, 1974, doi:10.1145/361147.361115.

    Examples
    --------
    One interruption in 8 hours, 36 s to save: 24 minutes.

    >>> float(checkpoint_interval_s(interruptions_per_hour=1 / 8, checkpoint_s=36.0))
    1440.0
    """
    return np.sqrt(2 * checkpoint_s * HOUR_S / interruptions_per_hour)


def spot_hours(
    *, hours: Number, interruptions_per_hour: float, checkpoint_s: float, restart_s: float
) -> Number:
    r"""Time of a run on spot instances, which the provider may take back. [h]

    Parameters
    ----------
    hours : Time without interruptions. [h]
    interruptions_per_hour : Rate at which the whole job is interrupted. [1/h]
    checkpoint_s, restart_s : Time to save a checkpoint; time to obtain new instances and reload it.
        [s]

    Notes
    -----
    .. math:: h' = h \left(1 + \frac{\delta}{\tau} + \frac{\tau/2 + R}{M}\right),
        \qquad \tau = \sqrt{2\,\delta\,M}

    with :math:`M` the time between interruptions, :math:`\delta` the checkpoint and :math:`R`
    the restart. Checkpoints follow Young's interval, and half an interval of work is repeated.
    Leaves out waiting for capacity and interruptions during a restart.

    References
    ----------
    .. [1] Daly, 2006, doi:10.1016/j.future.2004.11.016.

    Examples
    --------
    One interruption in 8 hours, 36 s to save, 360 s to restart: an interval of 24 minutes.

    >>> found = spot_hours(hours=100, interruptions_per_hour=1 / 8, checkpoint_s=36, restart_s=360)
    >>> round(float(found), 2)
    106.25
    """
    share = goodput(
        accelerators=1.0,
        interruptions_per_accelerator_hour=interruptions_per_hour,
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
    )
    return hours / share


def api_request_usd(
    *,
    input_tokens: Number,
    output_tokens: Number,
    input_usd: Number,
    output_usd: Number,
    cached_share: Number = 0.0,
    cached_usd: Number = 0.0,
) -> Number:
    r"""Price of one request to a hosted model. [USD]

    Parameters
    ----------
    input_tokens, output_tokens : Tokens of the prompt and of the answer, :math:`P` and :math:`O`.
    input_usd, output_usd : List prices of a million, :math:`p` and :math:`o`. [USD]
    cached_share : Share :math:`s` of the prompt that the provider finds in its cache.
    cached_usd : List price of a million cached tokens, :math:`c`. [USD]

    Notes
    -----
    .. math:: u = \frac{P\,((1 - s)\,p + s\,c) + O\,o}{10^6}

    Leaves out the price of writing a cache, which some providers bill, and discounts for batches.

    Examples
    --------
    8,000 tokens in and 100 out at 0.5 and 2 USD: the prompt is 20 times the answer.

    >>> api_request_usd(input_tokens=8000, output_tokens=100, input_usd=0.5, output_usd=2)
    0.0042
    """
    prompt = input_tokens * ((1 - cached_share) * input_usd + cached_share * cached_usd)
    return (prompt + output_tokens * output_usd) / MILLION


def input_cost_share(
    *,
    step_s: Number,
    prefill_share: Number,
    output_tokens: Number,
    requests_per_s: Number,
    concurrency: Number,
) -> Number:
    r"""Share of an engine's time, and so of its cost, that reading prompts takes. [fraction]

    The rest of the time writes answers.

    Parameters
    ----------
    step_s : Time per output token, :math:`t`. [s]
    prefill_share : Share of it that prompts of other requests take, :math:`f`.
    output_tokens : Tokens of an answer, :math:`O`.
    requests_per_s : Finished requests, :math:`r`. [1/s]
    concurrency : Requests in flight, :math:`N`.

    Notes
    -----
    .. math:: x = 1 - \frac{(1 - f)\,t\,(O - 1)\,r}{N}

    A request is in flight for :math:`N / r` seconds (Little's law). It writes its answer in
    :math:`(1 - f)\,t\,(O - 1)` of them.

    Examples
    --------
    >>> found = input_cost_share(
    ...     step_s=0.01, prefill_share=0.25, output_tokens=101, requests_per_s=8, concurrency=8
    ... )
    >>> float(found)
    0.25
    """
    writing = (1 - prefill_share) * step_s * (output_tokens - 1) * requests_per_s / concurrency
    return np.clip(1 - writing, 0.0, 1.0)


def break_even_requests_per_day(*, usd_per_month: Number, usd_per_request: Number) -> Number:
    r"""Requests a day above which machines cost less than a hosted model. [1/day]

    Parameters
    ----------
    usd_per_month : Machines for 730 hours, :math:`M`. [USD]
    usd_per_request : Price of a request, :math:`u`. [USD]

    Notes
    -----
    .. math:: n = \frac{24\,M}{730\,u}

    Examples
    --------
    >>> break_even_requests_per_day(usd_per_month=730.0, usd_per_request=0.01)
    2400.0
    """
    return usd_per_month / usd_per_request * (DAY_S / HOUR_S) / HOURS_PER_MONTH


def aged_price_factor(*, sigma_per_sqrt_year: Number, age_days: Number) -> Number:
    r"""Upper end of a price today over an old price, at 90 %.

    At least 1.

    Parameters
    ----------
    sigma_per_sqrt_year : Spread of the logarithm of the price after a year, :math:`\sigma`.
    age_days : Age of the price, :math:`a`. [days]

    Notes
    -----
    .. math:: f = \exp\left(1.2816\,\sigma \sqrt{a / 365}\right)

    The logarithm wanders without a trend, so its spread grows with the root of time. Leaves out
    that prices of one provider move together.

    Examples
    --------
    >>> round(float(aged_price_factor(sigma_per_sqrt_year=0.8, age_days=30)), 2)
    1.34
    """
    return np.exp(UPPER_TENTH * sigma_per_sqrt_year * np.sqrt(age_days / DAYS_PER_YEAR))
