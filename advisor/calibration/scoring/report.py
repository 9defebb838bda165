"""Measured and predicted values: rows, and their summary by quantity and regime."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median, quantiles
from typing import Final

from pydantic import computed_field

from advisor.calibration.tables.reading import Row
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range
from advisor.foundation.units import GIB, trimmed


class ValidationRow(Noun):
    """One measurement and its prediction, in the unit of the table's column."""

    id: str
    quantity: str
    regime: str
    group: str
    """Rows of a group are variations of one measurement; their errors are averaged first."""
    source: str
    measured: float
    low: float
    expected: float
    high: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def error_pct(self) -> float:
        """Signed error of the expected value. [%]"""
        return 100 * (self.expected / self.measured - 1)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def covered(self) -> bool:
        """Whether the measurement lies in the predicted range."""
        return self.low <= self.measured <= self.high


class SkippedRow(Noun):
    """A measurement without prediction, and the reason."""

    id: str
    quantity: str
    reason: str


class FitVerdict(Noun):
    """Predicted memory of a run, and whether the run fitted its card. [GiB]"""

    id: str
    outcome: str
    """Outcome: ``ok`` | ``oom`` | ``max_context`` (ran, but nothing longer ran)."""
    low_gib: float
    expected_gib: float
    high_gib: float
    usable_gib: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def called(self) -> str:
        """``fits`` (the whole range) | ``tight`` | ``impossible`` (no part of the range)."""
        if self.high_gib <= self.usable_gib:
            return "fits"
        return "impossible" if self.low_gib > self.usable_gib else "tight"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def wrong(self) -> bool:
        """Whether a run out of memory is called a fit, or a run that worked impossible."""
        return self.called == ("fits" if self.outcome == "oom" else "impossible")


class Errors(Noun):
    """Errors of a set of predictions. Percentages."""

    n: int
    """Rows."""
    median_abs_pct: float
    p90_abs_pct: float
    bias_pct: float
    """Median of the signed errors."""
    coverage_pct: float


class Summary(Errors):
    """Errors of one quantity in one regime. Percentages.

    Errors are averaged within each group first, then summarised over the groups, so that a table
    of a hundred repeats weighs no more than a single run; ``each_row`` weighs all rows equally.
    """

    quantity: str
    regime: str
    groups: int
    each_row: Errors

    @property
    def cells(self) -> dict[str, str]:
        """Numbers of measurements, and their errors, by column."""
        return {
            "Rows": f"{self.n:,}",
            "Groups": f"{self.groups:,}",
            "Median": f"{self.median_abs_pct:.1f} %",
            "90 %": f"{self.p90_abs_pct:.1f} %",
            "Bias": f"{self.bias_pct:+.1f} %",
            "In range": f"{self.coverage_pct:.0f} %",
        }


class ValidationReport(Noun):
    """The score of the engine on one table."""

    table: str
    kind: str
    """Recognised kind: training runs, memory peaks, serving or cache sizes."""
    rows: tuple[ValidationRow, ...]
    summary: tuple[Summary, ...]
    skipped: tuple[SkippedRow, ...]
    verdicts: tuple[FitVerdict, ...] = ()
    """Verdicts on training runs whose table states whether they fitted."""

    def of(self, quantity: str, regime: str = "all") -> Summary | None:
        """Return the summary of one quantity in one regime; None if nothing was scored."""
        found = [s for s in self.summary if (s.quantity, s.regime) == (quantity, regime)]
        return found[0] if found else None


IN_BYTES: Final = frozenset({"peak_total"})
"""Quantities whose column is in bytes."""


def as_text(quantity: str, value: float) -> str:
    """Return a row's value as text: bytes in GiB, other quantities in their column's unit.

    >>> as_text("peak_total", 3.195e10)
    '29.76 GiB'
    >>> as_text("step_time_s", 1.2345)
    '1.234'
    """
    if quantity in IN_BYTES:
        return f"{trimmed(value / GIB, 4)} GiB"
    return f"{trimmed(value, 4)}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie.

    >>> percentile([1.0, 2.0, 3.0], 0.5)
    2.0
    """
    if len(values) == 1:
        return values[0]
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[min(98, max(0, round(share * 100) - 1))]


def group_quantile(
    values: Sequence[float], groups: Sequence[str], share: float, sources: Sequence[str] = ()
) -> float:
    """Return the value below which ``share`` of the groups lie; every group weighs one.

    ``sources``: of the values. If they are given, every source weighs one.

    Three runs of one table weigh as much as one of another:

    >>> group_quantile([1.0, 2.0, 3.0, 9.0], ["a", "a", "a", "b"], 0.5)
    3.0
    """
    weights = _group_weights(groups, sources)
    sizes = Counter(groups)
    total, passed = sum(weights.values()), 0.0
    ordered = sorted(zip(values, groups, strict=True))
    for value, group in ordered:
        passed += weights[group] / sizes[group]
        if passed >= share * total - 1e-9:
            return value
    return ordered[-1][0]


def _group_weights(groups: Sequence[str], sources: Sequence[str]) -> dict[str, float]:
    """Return the weight of every group: one, or its share of its source."""
    if not sources:
        return dict.fromkeys(groups, 1.0)
    origins = dict(zip(groups, sources, strict=True))
    sizes = Counter(origins.values())
    return {group: 1 / sizes[source] for group, source in origins.items()}


def next_interval(
    values: Sequence[float],
    groups: Sequence[str],
    share: float = 0.8,
    sources: Sequence[str] = (),
) -> list[float]:
    r"""Bounds between which the values of a group not yet seen lie with probability ``share``.

    Low and high bound.

    ``values``: values of runs that their prediction had not seen. ``groups``: runs of a group were
    held out together; every group weighs one. ``sources``: where the values were published; if they
    are given, every source weighs one, so that a large table speaks for itself only.

    Notes
    -----
    After :math:`n` exchangeable groups, the next lies below the :math:`k`-th with probability
    :math:`k / (n + 1)`. So tails are taken at :math:`(1 + 1/n)(1 + \mathrm{share}) / 2`, and for
    few groups at the farthest value. With sources, :math:`n` is the number of groups of equal
    weight that tell as much: :math:`(\sum w)^2 / \sum w^2`.

    References
    ----------
    .. [1] Lei et al., Distribution-Free Predictive Inference for Regression, 2018,
       arXiv:1604.04173, section 2.2.
    .. [2] Kish, Survey Sampling, 1965, section 11.7 (groups of unequal weight).

    Nine groups leave a tenth of the next ones beyond the largest.

    >>> next_interval([float(i) for i in range(1, 10)], list("abcdefghi"))
    [1.0, 9.0]
    """
    weights = _group_weights(groups, sources).values()
    number = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    level = min(1.0, (1 + 1 / number) * (1 + share) / 2)
    low = -group_quantile([-value for value in values], groups, level, sources)
    return [low, group_quantile(values, groups, level, sources)]


def scored(
    row: Row, quantity: str, measured: float, predicted: Range, *, regime: str, group: str = ""
) -> ValidationRow:
    """Return a row's measurement with its predicted range."""
    return ValidationRow(
        id=row.cell("id"),
        quantity=quantity,
        regime=regime or "unstated",
        group=group or row.cell("id"),
        source=row.cell("source"),
        measured=measured,
        low=predicted.low,
        expected=predicted.expected,
        high=predicted.high,
    )


def summarise(rows: Iterable[ValidationRow]) -> tuple[Summary, ...]:
    """Summarise by quantity and regime, then by quantity over all regimes (regime ``all``)."""
    buckets: dict[tuple[str, str], list[ValidationRow]] = defaultdict(list)
    for row in rows:
        buckets[row.quantity, row.regime].append(row)
        buckets[row.quantity, "all"].append(row)
    return tuple(
        summary(quantity, regime, members)
        for (quantity, regime), members in sorted(buckets.items())
    )


def summary(quantity: str, regime: str, rows: Sequence[ValidationRow]) -> Summary:
    """Summarise rows of one quantity."""
    groups: dict[str, list[ValidationRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    over_groups = _errors(list(groups.values()))
    return Summary(
        quantity=quantity,
        regime=regime,
        groups=len(groups),
        **(over_groups.model_dump() | {"n": len(rows)}),
        each_row=_errors([[row] for row in rows]),
    )


def _errors(groups: Sequence[Sequence[ValidationRow]]) -> Errors:
    errors = [[row.error_pct for row in members] for members in groups]
    absolute = [fmean(map(abs, members)) for members in errors]
    return Errors(
        n=len(groups),
        median_abs_pct=median(absolute),
        p90_abs_pct=percentile(absolute, 0.9),
        bias_pct=median(map(fmean, errors)),
        coverage_pct=100 * fmean(fmean(row.covered for row in members) for members in groups),
    )
