r"""Buying: capital, running cost, residual value, and the use at which buying beats renting.

Every function takes floats or arrays and broadcasts.
"""

from typing import Final

import numpy as np

from advisor.equations import Number
from advisor.foundation.units import MONTHS_PER_YEAR

LEVEL: Final = 1e-12
"""Rates that differ by less count as equal, because the series' closed form would lose digits."""


def annuity_months(*, months: Number, discount_rate: Number, growth_rate: Number = 0.0) -> Number:
    r"""Present value of one dollar paid at the end of every month. [months]

    Parameters
    ----------
    months : Number of payments. [months]
    discount_rate, growth_rate : Per year: cost of capital, and growth of the payment. [fraction]

    Notes
    -----
    .. math:: A = \sum_{m=1}^{T} q^m = q\,\frac{1 - q^T}{1 - q},
        \qquad q = \left(\frac{1+g}{1+r}\right)^{1/12}

    and :math:`A = T` if both rates are equal.

    Examples
    --------
    >>> annuity_months(months=36, discount_rate=0.0)
    36.0
    >>> round(float(annuity_months(months=12, discount_rate=0.08)), 4)
    11.5129
    """
    ratio = np.asarray(((1 + growth_rate) / (1 + discount_rate)) ** (1 / MONTHS_PER_YEAR))
    level = np.abs(ratio - 1.0) < LEVEL
    safe = np.where(level, 0.5, ratio)
    value = np.where(level, months, safe * (1 - safe**months) / (1 - safe))
    return float(value) if value.ndim == 0 else value


def discounted(*, usd: Number, months: Number, discount_rate: Number) -> Number:
    """Present value of a sum that is due after a number of months. [USD]

    Parameters
    ----------
    usd : The sum when it is due. [USD]
    months : Time until it is due. [months]
    discount_rate : Per year. [fraction]

    Notes
    -----
    .. math:: V = X (1 + r)^{-T/12}

    Examples
    --------
    >>> discounted(usd=121.0, months=24, discount_rate=0.1)
    100.0
    """
    return usd / (1 + discount_rate) ** (months / MONTHS_PER_YEAR)


def hosts_usd(
    *,
    accelerators: Number,
    purchase_usd: Number,
    host_share: Number,
    machines: Number = 0.0,
    host_usd: Number = 0.0,
) -> Number:
    r"""Price of the machines around the accelerators. [USD]

    Parameters
    ----------
    accelerators : Number of accelerators, :math:`n`.
    purchase_usd : Price of one accelerator, :math:`p`. [USD]
    host_share : Price of the rest of the machines relative to the accelerators, :math:`s_h`.
        [fraction]
    machines : Number of machines, :math:`m`.
    host_usd : Lowest price of the rest of one machine, even with cheap accelerators, :math:`h`.
        [USD]

    Notes
    -----
    .. math:: H = \max(n\,p\,s_h,\; m\,h)

    Examples
    --------
    >>> hosts_usd(accelerators=8, purchase_usd=25000.0, host_share=0.38, machines=1, host_usd=10e3)
    76000.0
    >>> hosts_usd(accelerators=1, purchase_usd=300.0, host_share=0.75, machines=1, host_usd=900.0)
    900.0
    """
    value = np.maximum(accelerators * purchase_usd * host_share, machines * host_usd)
    return float(value) if value.ndim == 0 else value


def capital_usd(
    *,
    accelerators: Number,
    purchase_usd: Number,
    host_share: Number,
    network_share: Number,
    machines: Number = 0.0,
    host_usd: Number = 0.0,
) -> Number:
    r"""Price of accelerators, the rest of their machines and the network. [USD]

    Parameters
    ----------
    network_share : Price of the network between machines relative to the accelerators. [fraction]
    accelerators, purchase_usd, host_share, machines, host_usd
        As for :func:`hosts_usd`.

    Notes
    -----
    .. math:: P = n\,p\,(1 + s_n) + H

    with the machines :math:`H` of :func:`hosts_usd`.

    Examples
    --------
    >>> capital_usd(accelerators=8, purchase_usd=25000.0, host_share=0.38, network_share=0.0)
    276000.0
    """
    hosts = hosts_usd(
        accelerators=accelerators,
        purchase_usd=purchase_usd,
        host_share=host_share,
        machines=machines,
        host_usd=host_usd,
    )
    return accelerators * purchase_usd * (1 + network_share) + hosts


def residual_share(*, months: Number, life_years: Number) -> Number:
    r"""Residual value relative to the price, falling in a straight line to zero. [fraction]

    The first sale costs what a year does: nobody pays a new machine's price for a used one.

    Parameters
    ----------
    months : Age, :math:`T`. [months]
    life_years : Age at which the value reaches zero, :math:`L`. [years]

    Notes
    -----
    .. math:: s = \max\left(0,\; 1 - \frac{\max(T, 12)}{12\,L}\right)

    Examples
    --------
    >>> round(float(residual_share(months=36, life_years=5.0)), 3)
    0.4
    >>> round(float(residual_share(months=3, life_years=5.0)), 3)
    0.8
    """
    aged = np.maximum(months, MONTHS_PER_YEAR)
    return np.maximum(0.0, 1 - aged / (MONTHS_PER_YEAR * life_years))


def break_even_inverse(
    *, fixed_usd: Number, rent_usd_at_full_use: Number, running_usd_at_full_use: Number
) -> Number:
    r"""Rent that owning saves at full use over the cost of owning unused machines. [fraction]

    Reciprocal of the break-even share of hours. Below 1, owning never pays. At 0 or less, an owned
    hour costs at least as much as a rented one.

    Parameters
    ----------
    fixed_usd : Present value of owning machines that are never used, less their residual value.
        [USD]
    rent_usd_at_full_use : Present value of renting all 730 hours of every month. [USD]
    running_usd_at_full_use : Present value of the extra cost of using owned machines all hours.
        [USD]

    Notes
    -----
    Owning and renting cost the same if :math:`F + x\,e = x\,C`, so
    :math:`1/x = (C - e)/F`.

    Examples
    --------
    >>> break_even_inverse(
    ...     fixed_usd=100.0, rent_usd_at_full_use=250.0, running_usd_at_full_use=50.0
    ... )
    2.0
    """
    return (rent_usd_at_full_use - running_usd_at_full_use) / fixed_usd
