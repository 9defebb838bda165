"""Plans on the page: those picked, what misses nearest, and points of the cost-time chart."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pandas as pd

from advisor.errors import without_options
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.frames.rows import Cells, columns
from advisor.nouns.limits import Objective
from advisor.nouns.workload import Serving
from advisor.planning.explain.sentences import OBJECTIVE_WORDS
from advisor.planning.results import Plan, Recommendation, Rejection, RejectionCode

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
        """E.g. ``Cheapest and best value``; one plan that is all of it needs no list."""
        if len(self.objectives) == len(Objective):
            return "Best plan"
        titles = [OBJECTIVE_WORDS[item] for item in self.objectives]
        joined = " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
        return joined.capitalize()


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
            place = f"number {plan.rank} when sorted by {OBJECTIVE_WORDS[ranking.objective]}"
            found.setdefault(name, f"It is one of the plans: {place}. {plan.sentence} {plan.why}")
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


FARTHEST: Final = 10.0
"""The chart leaves out points beyond this factor of the dearest and slowest plan."""

OUT_OF_REACH: Final = 30.0
"""A limit beyond this factor of the dearest or slowest point is only stated in words."""


@record
class Axes:
    """Titles and units of the cost-time chart's axes, and the limits in it."""

    time_title: str
    time_unit: str
    cost_title: str
    priced: bool
    """False if no candidate has a price (owned hardware); then there is no cost."""
    time_limit: float | None
    time_limit_words: str
    """Words for the area beyond the limit, e.g. ``after your deadline``."""
    cost_limit: float | None


def axes(recommendation: Recommendation) -> Axes:
    """Return titles, units and limits of the cost-time chart."""
    limits = recommendation.case.limits
    priced = any(item.cost_usd is not None for item in recommendation.candidates)
    if isinstance(recommendation.case.workload, Serving):
        return Axes(
            time_title="Time of a batch" if recommendation.batches else "Time per output token",
            time_unit="ms",
            cost_title="Cost of a month",
            priced=priced,
            time_limit=limits.max_tpot_ms,
            time_limit_words="slower than you allow",
            cost_limit=limits.budget_usd,
        )
    return Axes(
        time_title="Time of the run",
        time_unit="h",
        cost_title="Cost of the run",
        priced=priced,
        time_limit=limits.deadline_hours,
        time_limit_words="after your deadline",
        cost_limit=limits.budget_usd,
    )


class Point(NamedTuple):
    """One configuration of the cost-time chart; the fields are the columns of its file."""

    label: str
    accelerator: str
    cards: int
    provider: str | None
    instance_type: str | None
    time_low: float
    """In the unit of `Axes`."""
    time: float
    time_high: float
    cost_low: float
    """[USD]; NaN without a price."""
    cost: float
    cost_high: float
    on_frontier: bool
    pick: str = ""
    """Title of a chosen plan on the page."""

    @property
    def priced(self) -> bool:
        """Whether the point has a price."""
        return not math.isnan(self.cost)


def candidate_points(recommendation: Recommendation) -> list[Point]:
    """Return the points of the cost-time chart, fastest first."""
    points = [
        Point(
            item.label,
            item.accelerator_name,
            item.count,
            item.provider,
            item.instance_type,
            *_bounds(item.hours or item.tpot_ms),
            *_bounds(item.cost_usd),
            item.on_frontier,
        )
        for item in recommendation.candidates
    ]
    return sorted(points, key=lambda item: (item.time, item.cost))


def picked_points(chosen: Sequence[Pick]) -> list[Point]:
    """Return the chosen plans as points, each with its title on the page."""
    points = []
    for pick in chosen:
        estimate = pick.plan.estimate
        time = estimate.time.run_hours if estimate.time else None
        if estimate.serving:
            time = estimate.serving.tpot_ms
        points.append(
            Point(
                f"{estimate.count:,}x {estimate.accelerator_name}",
                estimate.accelerator_name,
                estimate.count,
                estimate.cost.provider,
                estimate.cost.instance_type,
                *_bounds(time),
                *_bounds(estimate.cost.rent_usd),
                on_frontier=True,
                pick=pick.title,
            )
        )
    return points


def charted(points: Sequence[Point], chosen: Sequence[Point]) -> list[Point]:
    """Return the points that the chart shows: the frontier, and each card's best beside it.

    Extreme points would squeeze all others into a corner. So a point that costs or takes more than
    `FARTHEST` times as much as every chosen plan is only in the table.
    """
    dearest = max((item.cost for item in chosen if item.priced), default=math.inf)
    slowest = max((item.time for item in chosen), default=math.inf)
    kept: dict[object, Point] = {}
    for item in points:
        if item.time > FARTHEST * slowest or item.cost > FARTHEST * dearest:
            continue
        place = item if item.on_frontier else item.accelerator
        if place not in kept or _worth(item) < _worth(kept[place]):
            kept[place] = item
    return sorted(kept.values(), key=lambda item: (item.time, item.cost))


def _worth(item: Point) -> float:
    """Return cost times time; the cards used stand for an unknown cost."""
    return item.time * (item.cost if item.priced else item.cards)


def within_reach(shown: Axes, points: Sequence[Point]) -> tuple[Axes, str]:
    """Return the axes without limits far beyond every point, and these limits in words.

    In the chart, such a limit would squeeze the points into a corner.
    """
    far = []
    slowest = max((item.time for item in points), default=math.inf)
    dearest = max((item.cost for item in points if item.priced), default=math.inf)
    if shown.time_limit is not None and shown.time_limit > OUT_OF_REACH * slowest:
        text = _spread((shown.time_limit,) * 3, shown.time_unit)
        far.append(f"nothing here is {shown.time_limit_words} ({text})")
        shown = replace(shown, time_limit=None)
    if shown.cost_limit is not None and shown.cost_limit > OUT_OF_REACH * dearest:
        far.append(f"nothing here is over your budget ({money(shown.cost_limit)})")
        shown = replace(shown, cost_limit=None)
    sentence = " and ".join(far)
    return shown, f"{sentence[:1].upper()}{sentence[1:]}." if far else ""


def _bounds(value: Range | None) -> tuple[float, float, float]:
    if value is None:
        return (math.nan, math.nan, math.nan)
    return (value.low, value.expected, value.high)


def points_table(points: Sequence[Point], shown: Axes) -> pd.DataFrame:
    """Return points as text for people: hardware, time and cost with ranges."""
    rows = [  # machines that differ in nothing shown are one row
        (
            item.label,
            _spread((item.time_low, item.time, item.time_high), shown.time_unit),
            _spread((item.cost_low, item.cost, item.cost_high), "$") if item.priced else "no rent",
            "yes" if item.on_frontier else "no",
        )
        for item in points
    ]
    columns = ["Hardware", shown.time_title, shown.cost_title, "Best trade-off"]
    return pd.DataFrame(list(dict.fromkeys(rows)), columns=columns)


def _spread(bounds: tuple[float, float, float], unit: str) -> str:
    low, expected, high = bounds
    value = Range(low=low, expected=expected, high=high, evidence=Evidence.DERIVED)
    if unit == "$":
        return money(value, with_range=True)
    if unit == "h":
        return duration(value.scaled(HOUR_S), with_range=True)
    return milliseconds(value.scaled(MILLISECOND), with_range=True)
