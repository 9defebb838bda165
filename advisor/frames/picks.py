"""The plans that a chart or table shows, and why each other accelerator lost."""

from collections.abc import Iterable
from typing import Any, Final

import pandas as pd

from advisor.errors import without_options
from advisor.foundation.record import record
from advisor.frames.rows import Cells, columns
from advisor.nouns.limits import Objective
from advisor.planning.results import Plan, Recommendation, Rejection, RejectionCode

OBJECTIVE_TITLES: Final = {
    Objective.CHEAPEST: "Cheapest",
    Objective.FASTEST: "Fastest",
    Objective.BEST_VALUE: "Best value",
}
MISSES: Final = frozenset(
    {RejectionCode.DEADLINE, RejectionCode.BUDGET, RejectionCode.LATENCY, RejectionCode.MEMORY}
)
"""Reasons that have a distance: what was needed over what was allowed."""


@record
class Pick:
    """One plan, and the objectives for which it is best."""

    objectives: tuple[Objective, ...]
    plan: Plan

    @property
    def title(self) -> str:
        """E.g. ``Cheapest and best value``."""
        titles = [OBJECTIVE_TITLES[item] for item in self.objectives]
        joined = " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
        return joined[:1] + joined[1:].lower()


def picks(recommendation: Recommendation) -> tuple[Pick, ...]:
    """Return the best plan of each objective; equal plans share one entry, asked one first."""
    best = [
        (ranking.objective, ranking.plans[0])
        for ranking in recommendation.rankings
        if ranking.plans
    ]
    found: list[Pick] = []
    for _, plan in best:
        if all(pick.plan.estimate != plan.estimate for pick in found):
            alike = tuple(aim for aim, other in best if other.estimate == plan.estimate)
            found.append(Pick(alike, plan))
    return tuple(found)


@columns("Accelerator", "Reason", "What happened", "What would help")
def rejections_frame(recommendation: Recommendation) -> Cells:
    """Return why each accelerator lost, the nearest misses first."""
    order = list(RejectionCode)
    for item in sorted(
        recommendation.rejections,
        key=lambda item: (order.index(item.code), item.accelerator_name.lower()),
    ):
        yield (item.accelerator_name, item.code.label.capitalize(), item.message, _remedy(item))


def nearest_misses(recommendation: Recommendation, *, at_most: int) -> list[tuple[str, str]]:
    """Return what happened and what would help, for the accelerators with the nearest misses.

    In the order of ``Rejection.miss``; accelerators that were not searched are left out.
    """
    missed = [item for item in recommendation.rejections if item.code in MISSES]
    nearest = sorted(missed, key=lambda item: (item.miss, item.accelerator_name))
    return [(item.message, _remedy(item)) for item in nearest[:at_most]]


def _remedy(item: Rejection) -> str:
    return without_options(item.remedy)


def filtered(rejections: pd.DataFrame, *, name: str, reason: str | None) -> pd.DataFrame:
    """Return rejections for one reason whose accelerator's name contains ``name`` (any case)."""
    words = name.lower().split()
    rows: Iterable[Any] = rejections.itertuples()
    kept = [
        all(word in row.Accelerator.lower() for word in words) and reason in (None, row.Reason)
        for row in rows
    ]
    return rejections.loc[kept]


def verdicts(recommendation: Recommendation) -> dict[str, str]:
    """Return, by accelerator's name, why it is not recommended or which plan uses it."""
    found = {
        item.accelerator_name: f"{item.message} {_remedy(item)}"
        for item in recommendation.rejections
    }
    for ranking in recommendation.rankings:
        for plan in ranking.plans:
            name = plan.estimate.accelerator_name
            place = (
                f"number {plan.rank} when sorted by {OBJECTIVE_TITLES[ranking.objective].lower()}"
            )
            found.setdefault(name, f"It is one of the plans: {place}. {plan.sentence} {plan.why}")
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
