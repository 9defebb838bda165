"""Replicas of several sizes that together serve a load at the least price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

SLACK: Final = 1e-6


def cheapest_cover(
    serves: Sequence[int], prices: Sequence[float], need: float
) -> tuple[float, tuple[int, ...]]:
    """Return the cheapest numbers of replicas that serve a load.

    Parameters
    ----------
    serves : sequence of int
        What one replica of each size serves, in the unit of ``need``.
    prices : sequence of float
        Price of one replica of each size, at least 0.

    Returns
    -------
    float, tuple of int
        Price of all, and the number of each size.

    Notes
    -----
    A covering knapsack, by dynamic programming over whole loads.

    Examples
    --------
    >>> cheapest_cover([4, 16], [1.0, 3.0], 19.5)
    (4.0, (1, 1))
    """
    whole = math.ceil(need - SLACK)
    least, chosen = [0.0] + [math.inf] * whole, [0] * (whole + 1)
    for load in range(1, whole + 1):
        for at, one in enumerate(serves):
            price = prices[at] + least[max(0, load - one)]
            if price < least[load]:
                least[load], chosen[load] = price, at
    number, load = [0] * len(serves), whole
    while load > 0:
        number[chosen[load]] += 1
        load = max(0, load - serves[chosen[load]])
    return least[whole], tuple(number)
