"""The best mix of groups of cards under several limits: exact, by branch and bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Item:
    """Groups of one kind."""

    value: float
    """Of one group."""
    uses: Callable[[Floats], Floats]
    """Numbers of groups -> shares of each limit that they use together, (number, limits)."""
    most: int
    """Groups that fit alone."""


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
    Depth first over kinds, all numbers of one kind at once. A branch is left where bounds show
    that it cannot win: whole groups of one more kind, or, of several, with weights :math:`w` on
    the limits, what remains of them times the highest value for each weighted unit (surrogate
    relaxation). No mix is left out that could be better, so the answer is exact.
    """
    usable = _undominated(items)
    usable.sort(key=lambda place: -items[place].value * items[place].most)
    return _Search([items[place] for place in usable], usable).run()


class _Search:
    """The items in the order of the search, with what bounds them."""

    def __init__(self, items: Sequence[Item], places: Sequence[int]) -> None:
        self.places = places
        self.values = np.array([item.value for item in items])
        self.numbers = [np.arange(1, item.most + 1, dtype=float) for item in items]
        self.uses = [item.uses(counts) for item, counts in zip(items, self.numbers, strict=True)]
        # What a group uses at least, where several of them share machines.
        self.least = np.array(
            [
                (uses / counts[:, None]).min(axis=0)
                for uses, counts in zip(self.uses, self.numbers, strict=True)
            ]
        ).reshape(-1, WEIGHTS.shape[1])
        self.ahead = np.zeros((len(items) + 1, len(WEIGHTS)))
        for index in range(len(items) - 1, -1, -1):
            weighed = WEIGHTS @ self.least[index]
            density = np.full(len(WEIGHTS), np.inf)
            np.divide(self.values[index], weighed, out=density, where=weighed > 0)
            self.ahead[index] = np.maximum(self.ahead[index + 1], density)
        self.score = 0.0
        self.counts: dict[int, int] = {}

    def run(self) -> dict[int, int]:
        """Return the best mix."""
        self._descend(0, np.ones(WEIGHTS.shape[1]), 0.0, {})
        return self.counts

    def _bound(self, left: Floats, value: Floats, index: int, kinds: int) -> Floats:
        """Bound the score of mixes with at least one more kind, from ``index`` on.

        ``left`` is (mixes, limits). Either one more kind, whole groups of it, or several.
        """
        if index >= len(self.values):
            return np.zeros(len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            each = left[:, None, :] / self.least[None, index:, :]
        groups = np.floor(np.nanmin(each, axis=2) + ROUNDING)
        one = value + np.max(groups * self.values[index:], axis=1)
        room = np.maximum(left @ WEIGHTS.T, SMALLEST)
        several = value + np.min(room * self.ahead[index], axis=1)
        burden: float = WORTH_ADDING**kinds
        bound: Floats = np.maximum(
            np.minimum(one, several) / burden, several / (burden * WORTH_ADDING)
        )
        return bound

    def _descend(self, start: int, left: Floats, value: float, picked: dict[int, int]) -> None:
        burden = WORTH_ADDING ** len(picked)
        for index in range(start, len(self.values)):
            ahead = self._bound(left[None], np.array([value]), index, len(picked))
            if ahead[0] <= self.score:
                return
            remaining = left - self.uses[index]
            fits = (remaining >= -ROUNDING).all(axis=1)
            if not fits.any():
                continue
            remaining, counts = np.maximum(remaining[fits], 0.0), self.numbers[index][fits]
            reached = value + counts * self.values[index]
            top = int(np.argmax(reached))
            place = self.places[index]
            if reached[top] / burden > self.score:
                self.score = float(reached[top] / burden)
                self.counts = picked | {place: int(counts[top])}
            bounds = self._bound(remaining, reached, index + 1, len(picked) + 1)
            for row in np.argsort(-bounds):
                if bounds[row] <= self.score:
                    break
                self._descend(
                    index + 1,
                    remaining[row],
                    float(reached[row]),
                    picked | {place: int(counts[row])},
                )


def _undominated(items: Sequence[Item]) -> list[int]:
    """Return the places of items that no other replaces with less of everything."""
    usable = [place for place, item in enumerate(items) if item.most > 0]
    kept: list[int] = []
    for place in sorted(usable, key=lambda each: -items[each].value * items[each].most):
        item = items[place]
        numbers = np.arange(1, item.most + 1, dtype=float)
        uses = item.uses(numbers)
        if not any(_replaces(items[other], item, numbers, uses) for other in kept):
            kept.append(place)
    return kept


def _replaces(other: Item, item: Item, numbers: Floats, uses: Floats) -> bool:
    """Whether so many of ``other`` as are worth one ``item`` never use more than it."""
    times = np.ceil(item.value / other.value - ROUNDING)
    if times * item.most > other.most:
        return False
    return bool((other.uses(numbers * times) <= uses + ROUNDING).all())
