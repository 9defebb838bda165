"""The best mix of groups of cards under several limits: exact, by branch and bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WORTH_ADDING: Final = 1.05
"""Each further kind has to raise the value by this factor: other machines are a burden."""

WEIGHTS: Final = np.array(
    [
        [a, b, c]
        for a in (0.0, 0.25, 0.5, 1.0)
        for b in (0.0, 0.25, 0.5, 1.0)
        for c in (0.0, 0.25, 0.5, 1.0)
        if max(a, b, c) == 1.0
    ]
)
"""Any weighted sum of the limits bounds the value; the tightest of these is taken."""

SMALLEST: Final = 1e-12
"""Stands for nothing left of a limit, which some groups do not need."""


@dataclass(frozen=True)
class Item:
    """Groups of one kind."""

    value: float
    """Of one group."""
    uses: Callable[[Floats], Floats]
    """Numbers of groups -> shares of each limit that they use together, (number, limits)."""
    most: int
    """Groups that fit alone."""


@dataclass
class _Best:
    score: float = 0.0
    counts: dict[int, int] = field(default_factory=dict)


def best_mix(items: Sequence[Item]) -> dict[int, int]:
    """Return how many groups of which items have the highest value together.

    Parameters
    ----------
    items : sequence of Item
        What they use is stated in shares of three limits, of which no sum may exceed one.

    Returns
    -------
    dict of int to int
        From the place of an item to its number; empty where nothing fits. A mix of ``n`` kinds
        counts as its value over ``WORTH_ADDING ** (n - 1)``.

    Notes
    -----
    Depth first over kinds, all numbers of one kind at once. A branch is left where a bound shows
    that it cannot win: with weights :math:`w` on the limits, what remains of them times the
    highest value for each weighted unit (surrogate relaxation; the least use for each group is
    taken where groups share machines). No mix is left out, so the answer is exact.
    """
    usable = [place for place, item in enumerate(items) if item.most > 0]
    numbers = {place: np.arange(1, items[place].most + 1, dtype=float) for place in usable}
    uses = {place: items[place].uses(numbers[place]) for place in usable}
    least = {place: (uses[place] / numbers[place][:, None]).min(axis=0) for place in usable}
    densities = {
        place: np.divide(
            items[place].value,
            WEIGHTS @ least[place],
            out=np.full(len(WEIGHTS), np.inf),
            where=WEIGHTS @ least[place] > 0,
        )
        for place in usable
    }
    usable.sort(key=lambda place: -items[place].value * items[place].most)
    ahead = np.zeros((len(usable) + 1, len(WEIGHTS)))
    for index in range(len(usable) - 1, -1, -1):
        ahead[index] = np.maximum(ahead[index + 1], densities[usable[index]])
    best = _Best()

    def reach(left: Floats, index: int) -> Floats:
        """Bound what the items from ``index`` on can add within what is left of the limits."""
        room = np.maximum(left @ WEIGHTS.T, SMALLEST)
        return np.asarray(np.min(room * ahead[index], axis=-1))

    def descend(start: int, left: Floats, value: float, picked: dict[int, int]) -> None:
        burden = WORTH_ADDING ** len(picked)
        for index in range(start, len(usable)):
            if (value + reach(left, index)) / burden <= best.score:
                return
            place = usable[index]
            remaining = left - uses[place]
            fits = (remaining >= -1e-9).all(axis=1)
            if not fits.any():
                continue
            remaining, counts = np.maximum(remaining[fits], 0.0), numbers[place][fits]
            reached = value + counts * items[place].value
            top = int(np.argmax(reached))
            if reached[top] / burden > best.score:
                best.score = float(reached[top] / burden)
                best.counts = picked | {place: int(counts[top])}
            bounds = reached + reach(remaining, index + 1)
            for row in np.flatnonzero(bounds / (burden * WORTH_ADDING) > best.score)[::-1]:
                if bounds[row] / (burden * WORTH_ADDING) > best.score:
                    descend(
                        index + 1,
                        remaining[row],
                        float(reached[row]),
                        picked | {place: int(counts[row])},
                    )

    descend(0, np.ones(WEIGHTS.shape[1]), 0.0, {})
    return best.counts
