"""Which option is best: sort keys, and the same as columns for thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Floats
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.limits import Constraints, Objective
from advisor.planning.search.options import Option, within_limits
from advisor.planning.search.simple import Indices
from advisor.planning.search.systems import System

WORTH = 0.1
"""Share of the best value's time that its cost, spent once more, has to save."""

RANKING: Final = {
    Objective.CHEAPEST: ("cost_high_usd", "time_high", "instances"),
    Objective.FASTEST: ("time_high", "cost_high_usd", "instances"),
    Objective.BEST_VALUE: ("value", "cost_high_usd", "instances"),
}
"""Names of what ranks, first to last."""
RANKED_BY: Final[Mapping[Objective, Callable[[Option], tuple[float, float, int]]]] = {
    objective: attrgetter(*names) for objective, names in RANKING.items()
}
"""Sort keys: the objective first, then the other axis, then the fewest machines.

Ranked by the upper ends of the ranges: what comparable runs seldom exceed. An accelerator without
measurements has a wide range and so has to win clearly.
"""

WORTH_SAYING: Final = 0.9
"""Another precision is mentioned when it improves the objective by a tenth or more."""


def worth_advising(case: Case, others: Iterable[Option]) -> Constraints:
    """Return the limits of what beats all of ``others`` by enough to be mentioned."""
    limits = case.limits
    able = within_limits(others, limits)
    if not able or case.objective is Objective.BEST_VALUE:
        return limits
    best = min(able, key=RANKED_BY[case.objective])
    # What costs no rent is compared by its time.
    rented = case.objective is Objective.CHEAPEST and best.cost_high_usd > 0
    name, least = (
        ("budget_usd", best.cost_high_usd) if rented else ("deadline_hours", best.time_high)
    )
    stated = getattr(limits, name)
    most = WORTH_SAYING * least
    return limits.changed(**{name: most if stated is None else min(stated, most)})


@record
class RankColumns:
    """What ranks options, as columns in their order."""

    system: Floats
    time: Floats
    time_high: Floats
    cost_usd: Floats
    cost_high_usd: Floats
    instances: Floats

    @classmethod
    def of(cls, options: Iterable[Option]) -> RankColumns:
        """Return the columns of options."""
        rows = [*map(attrgetter(*cls.__match_args__), options)]
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, len(cls.__match_args__)).T)

    @property
    def value(self) -> Floats:
        """Of each option, its ``value``."""
        return self.time_high * np.where(self.cost_usd > 0, self.cost_high_usd, 1.0)

    def frontier(self) -> Indices:
        """Return the places that no other beats in both cost and time, fastest first."""
        order = np.lexsort((self.cost_usd, self.time))
        usd = self.cost_usd[order]
        return order[usd < np.minimum.accumulate(np.r_[np.inf, usd])[:-1]]

    def best_of_systems(self) -> Indices:
        """Return the places of the cheapest, the fastest and the best value of each system."""
        cost, time, value = self.cost_usd, self.time, self.value
        pairs = (cost, time), (time, cost), (value, cost)
        return np.concatenate([_least(pair, self.system) for pair in pairs])

    def best(self, objective: Objective, group: Indices) -> Indices:
        """Return the place of the best of each group, numbered from 0, under an objective.

        The fastest is one that people buy: each further cost of the best value, spent on top of it,
        saves more than ``WORTH`` of its time. Twice the cost has to save a tenth, eight times the
        cost seven tenths. The frontier shows what lies beyond.
        """
        first, *others = (getattr(self, name) for name in RANKING[objective])
        if objective is Objective.FASTEST:
            best = self.best(Objective.BEST_VALUE, group)
            usd, price = self.cost_high_usd[best], np.zeros(len(best))
            np.divide(WORTH * self.time_high[best], usd, out=price, where=usd > 0)
            first = self.time_high + price[group] * self.cost_high_usd
        return _least((first, *others), group)


def _least(keys: Sequence[Floats], group: NDArray[Any]) -> Indices:
    """Return the place with the least of the first key, then of the next, in each group."""
    order = np.lexsort((*reversed(keys), group))
    return order[np.diff(group[order], prepend=-1) > 0]


def best_option(options: Sequence[Option], objective: Objective) -> Option | None:
    """Return the best option under an objective, or None if there is none."""
    if not options:
        return None
    if objective is not Objective.FASTEST:
        return min(options, key=RANKED_BY[objective])
    (place,) = RankColumns.of(options).best(objective, np.zeros(len(options), dtype=np.intp))
    return options[int(place)]


def best_per_accelerator(
    options: Sequence[Option], axes: RankColumns, systems: Sequence[System]
) -> dict[Objective, list[Option]]:
    """Return each accelerator's best option under each objective, best first.

    ``axes``: of the options.
    """
    if not options:
        return {objective: [] for objective in Objective}
    everything = np.zeros(len(options), dtype=np.intp)
    codes: dict[str, int] = {}
    keys = (systems[option.system].accelerator.key for option in options)
    card = np.array([codes.setdefault(key, len(codes)) for key in keys])
    found: dict[Objective, list[Option]] = {}
    for objective in Objective:
        first = axes.best(objective, everything)
        others = axes.best(objective, card)
        others = others[card[others] != card[first]]
        ranked = sorted((options[place] for place in others), key=RANKED_BY[objective])
        found[objective] = [*(options[place] for place in first), *ranked]
    return found
