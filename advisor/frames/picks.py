"""The plans that a chart or table shows, and why each other accelerator lost."""

from typing import Final

import pandas as pd

from advisor.errors import without_options
from advisor.foundation.record import record
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
COLUMNS: Final = ("Accelerator", "Reason", "What happened", "What would help")


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
    found: list[Pick] = []
    for ranking in recommendation.rankings:
        if not ranking.plans:
            continue
        best = ranking.plans[0]
        for index, pick in enumerate(found):
            if pick.plan.estimate == best.estimate:
                objectives = (*pick.objectives, ranking.objective)
                found[index] = Pick(objectives, pick.plan)
                break
        else:
            found.append(Pick((ranking.objective,), best))
    return tuple(found)


def rejections_frame(recommendation: Recommendation) -> pd.DataFrame:
    """Return why each accelerator lost, in `COLUMNS`, the nearest misses first."""
    order = list(RejectionCode)
    ranked = sorted(
        recommendation.rejections,
        key=lambda item: (order.index(item.code), item.accelerator_name.lower()),
    )
    rows = [
        (item.accelerator_name, item.code.label.capitalize(), item.message, _remedy(item))
        for item in ranked
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


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
    names = rejections["Accelerator"].str.lower()
    kept = pd.Series(data=True, index=rejections.index)
    for word in words:
        kept &= names.str.contains(word, regex=False)
    if reason is not None:
        kept &= rejections["Reason"] == reason
    return rejections[kept]


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
