"""Electric energy of accelerators and machines, and its carbon emissions.

Every function takes floats or arrays and broadcasts.
"""

from typing import Final

from advisor.equations import Number
from advisor.foundation.units import HOURS_PER_MONTH

WATTS_PER_KW: Final = 1000.0
GRAMS_PER_KG: Final = 1000.0


def energy_kwh(*, rated_kw: Number, load_share: Number, pue: Number, hours: Number) -> Number:
    r"""Energy of machines over their hours in use, cooling included. [kWh]

    Parameters
    ----------
    rated_kw : Rated power of the machines, :math:`K`: accelerators and the rest. [kW]
    load_share : Power in use over rated power, :math:`u`. [fraction]
    pue : Power usage effectiveness: energy of the site divided by energy of the machines.
    hours : Time in use, :math:`h`. [h]

    Notes
    -----
    .. math:: E = K\,u\,\mathrm{PUE}\,h

    Leaves out the network between machines, storage, and hours in which they idle.

    Examples
    --------
    >>> energy_kwh(rated_kw=10.0, load_share=0.75, pue=1.5, hours=2.0)
    22.5
    """
    return rated_kw * load_share * pue * hours


def rated_kw(*, accelerators: Number, board_power_w: Number, host_power_share: Number) -> Number:
    r"""Rated power of the machines. [kW]

    Parameters
    ----------
    accelerators : Number of accelerators, :math:`n`.
    board_power_w : Power of one accelerator, :math:`P`. [W]
    host_power_share : Power of the rest of the machines, relative to the accelerators, :math:`s`.
        [fraction]

    Notes
    -----
    .. math:: K = \frac{n\,P}{1000}\,(1 + s)

    Examples
    --------
    >>> rated_kw(accelerators=8, board_power_w=700.0, host_power_share=0.5)
    8.4
    """
    return accelerators * board_power_w / WATTS_PER_KW * (1 + host_power_share)


def kwh_per_month(
    *,
    hours_per_month: Number,
    rated_kw: Number,
    load_share: Number,
    idle_share: Number,
    pue: Number,
) -> Number:
    r"""Energy of one month, including cooling. [kWh]

    Parameters
    ----------
    hours_per_month : Hours in use, :math:`h`. The machines idle for the rest of the month. [h]
    rated_kw : Rated power of the machines, :math:`K`. [kW]
    load_share, idle_share : Power in use and idle, relative to the rated power, :math:`u` and
        :math:`i`. [fraction]
    pue : Power usage effectiveness: energy of the site divided by energy of the machines.

    Notes
    -----
    .. math:: E = K\,\mathrm{PUE}\,(u\,h + i\,(730 - h))

    Examples
    --------
    >>> kwh_per_month(hours_per_month=730.0, rated_kw=2.0, load_share=0.5, idle_share=0.1, pue=1.5)
    1095.0
    """
    idle_hours = HOURS_PER_MONTH - hours_per_month
    used = energy_kwh(rated_kw=rated_kw, load_share=load_share, pue=pue, hours=hours_per_month)
    return used + energy_kwh(rated_kw=rated_kw, load_share=idle_share, pue=pue, hours=idle_hours)


def carbon_kg(*, energy_kwh: Number, g_per_kwh: Number) -> Number:
    r"""Carbon dioxide from electric energy at the mean intensity of a grid. [kg]

    Parameters
    ----------
    energy_kwh : Energy at the meter, cooling included. [kWh]
    g_per_kwh : Intensity of the grid. [g/kWh]

    Notes
    -----
    .. math:: m = E\,c / 1000

    Leaves out the manufacture of the machines.

    Examples
    --------
    >>> carbon_kg(energy_kwh=1000.0, g_per_kwh=369.473)
    369.473
    """
    return energy_kwh * g_per_kwh / GRAMS_PER_KG
