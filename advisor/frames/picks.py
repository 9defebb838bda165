"""The plans that the page shows as cards: the best of each objective, each plan once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from advisor.nouns.limits import Objective
from advisor.planning.results import Plan, Recommendation

OBJECTIVE_TITLES: Final = {
    Objective.CHEAPEST: "Cheapest",
    Objective.FASTEST: "Fastest",
    Objective.BEST_VALUE: "Best value",
}


@dataclass(frozen=True, slots=True)
class Pick:
    """One plan, and the objectives for which it is best."""

    objectives: tuple[Objective, ...]
    plan: Plan
    runner_up: Plan | None

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
        runner_up = ranking.plans[1] if len(ranking.plans) > 1 else None
        for index, pick in enumerate(found):
            if pick.plan.estimate == best.estimate:
                objectives = (*pick.objectives, ranking.objective)
                found[index] = Pick(objectives, pick.plan, pick.runner_up)
                break
        else:
            found.append(Pick((ranking.objective,), best, runner_up))
    return tuple(found)
