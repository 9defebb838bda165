"""Whole machines near those of the relaxed program: rounded a few at a time."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import Buy
from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.program import Floats, Program
from advisor.fleet.solving.relaxed import Columns

AT_ONCE: Final = 4
"""One in so many of the fractions is rounded before the program is solved again."""
DEARER: Final = 3e-3
"""Columns that add more than this share of the cost at the rounded machines' prices stay out."""


def dive(program: Program, lower: Floats, upper: Floats) -> tuple[Floats, Floats] | None:
    """Return bounds that decide all purchases and leave the promising columns; None if none do.

    Notes
    -----
    Diving: the relaxed program is solved again and again, and the purchases nearest to a whole
    number keep it.

    References
    ----------
    .. [1] Berthold, Primal heuristics for mixed integer programs, 2006, section 3.
    """
    lower, upper = lower.copy(), upper.copy()
    bought = np.array([isinstance(column, Buy) for column in program.columns])
    while True:
        columns = Columns(program, lower, upper)
        held = np.flatnonzero(upper > 0)
        found, prices = columns.over(held)
        if prices is None:
            return None
        values = np.zeros(len(upper))
        values[held] = found.x
        away: Floats = np.where(bought, np.abs(values - np.round(values)), 0.0)
        part: NDArray[np.intp] = np.flatnonzero(away > SLACK)
        if not len(part):
            break
        nearest = part[np.argsort(away[part], kind="stable")][: max(1, len(part) // AT_ONCE)]
        up = nearest[values[nearest] % 1 >= 0.5]
        down = np.setdiff1d(nearest, up)
        lower[up], upper[down] = np.ceil(values[up]), np.floor(values[down])
    reduced = columns.cost - columns.matrix.T @ prices
    stays = bought | (values > SLACK) | (reduced <= DEARER * found.fun)
    lower[bought] = upper[bought] = np.round(values[bought])
    return lower, np.where(stays, upper, lower)
