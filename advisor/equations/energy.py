"""Electric energy of accelerators.

Every function takes floats or arrays and broadcasts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]

WATT_HOURS_PER_KWH: Final = 1000.0


def energy_kwh(
    *,
    power_w: Number,
    accelerators: Number,
    hours: Number,
    utilisation: Number = 1.0,
    pue: Number = 1.0,
) -> Number:
    r"""Energy that accelerators draw over a time.

    Parameters
    ----------
    power_w : float or ndarray
        Board power of one accelerator. [W]
    accelerators : float or ndarray
        Accelerators in use.
    hours : float or ndarray
        Time in use. [h]
    utilisation : float or ndarray, optional
        Mean share of the board power that they draw. [fraction]
    pue : float or ndarray, optional
        Power usage effectiveness of the site: all energy over that of the machines, at least 1.

    Returns
    -------
    float or ndarray
        [kWh]

    Raises
    ------
    ValueError
        If ``pue`` is below 1.

    Notes
    -----
    .. math:: E = \frac{P\,n\,h\,u}{1000}\,\mathrm{PUE}

    Leaves out host, network and storage.

    References
    ----------
    .. [1] ISO/IEC 30134-2:2016, power usage effectiveness.

    Examples
    --------
    >>> energy_kwh(power_w=700.0, accelerators=8, hours=10.0)
    56.0
    """
    if np.any(np.asarray(pue) < 1):
        msg = f"pue must be at least 1, got {pue}"
        raise ValueError(msg)
    return power_w * accelerators * hours * utilisation / WATT_HOURS_PER_KWH * pue
