"""Measured against predicted: rows, and their summary by quantity and regime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median, quantiles

from advisor.noun import Noun


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

    @property
    def error_pct(self) -> float:
        """Signed error of the expected value. [%]"""
        return 100 * (self.expected / self.measured - 1)

    @property
    def covered(self) -> bool:
        """Whether the measurement lies in the predicted range."""
        return self.low <= self.measured <= self.high


class SkippedRow(Noun):
    """A measurement that was not predicted, and why."""

    id: str
    reason: str


class Summary(Noun):
    """Errors of one quantity in one regime. Percentages."""

    quantity: str
    regime: str
    n: int
    groups: int
    median_abs_pct: float
    p90_abs_pct: float
    bias_pct: float
    """Median of the signed errors."""
    coverage_pct: float


class ValidationReport(Noun):
    """The score of the engine on one table."""

    table: str
    rows: tuple[ValidationRow, ...]
    summary: tuple[Summary, ...]
    skipped: tuple[SkippedRow, ...]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie.

    Examples
    --------
    >>> percentile([1.0, 2.0, 3.0], 0.5)
    2.0
    """
    if len(values) == 1:
        return values[0]
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[min(98, max(0, round(share * 100) - 1))]


def summarise(rows: Iterable[ValidationRow]) -> tuple[Summary, ...]:
    """Summarise by quantity and regime, then by quantity over all regimes (regime ``all``)."""
    buckets: dict[tuple[str, str], list[ValidationRow]] = defaultdict(list)
    for row in rows:
        buckets[row.quantity, row.regime].append(row)
        buckets[row.quantity, "all"].append(row)
    return tuple(
        _summary(quantity, regime, members)
        for (quantity, regime), members in sorted(buckets.items())
    )


def _summary(quantity: str, regime: str, rows: Sequence[ValidationRow]) -> Summary:
    groups: dict[str, list[ValidationRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    absolute = [fmean(abs(row.error_pct) for row in members) for members in groups.values()]
    signed = [fmean(row.error_pct for row in members) for members in groups.values()]
    covered = [fmean(float(row.covered) for row in members) for members in groups.values()]
    return Summary(
        quantity=quantity,
        regime=regime,
        n=len(rows),
        groups=len(groups),
        median_abs_pct=median(absolute),
        p90_abs_pct=percentile(absolute, 0.9),
        bias_pct=median(signed),
        coverage_pct=100 * fmean(covered),
    )
