"""Hours of published whole runs, those that the fit read and those that it never saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean, median

import pytest

from advisor.calibration.fitting.training import WholeRun, fit_lost
from advisor.calibration.scoring.report import ValidationRow
from advisor.nouns.software.delivery import Operator
from tests.calibration.scored import report

READ, UNSEEN = "whole_runs", ("outside_whole_runs", "outside_whole_runs_2")


def groups(rows: Iterable[ValidationRow]) -> list[list[ValidationRow]]:
    found: dict[str, list[ValidationRow]] = defaultdict(list)
    for row in rows:
        found[row.group].append(row)
    return list(found.values())


@pytest.mark.parametrize(
    ("tables", "least", "middle", "bias", "inside"),
    [
        pytest.param((READ, *UNSEEN), 45, 18, 8, 70, id="all whole runs"),
        pytest.param(UNSEEN, 10, 18, 8, 70, id="unseen"),
    ],
)
def test_hours_of_whole_runs_keep_the_issues_thresholds(
    tables: tuple[str, ...], least: int, middle: float, bias: float, inside: float
) -> None:
    rows = [row for table in tables for row in report(table).rows]
    found = groups(row for row in rows if row.quantity.endswith("_hours"))

    assert len(found) >= least
    assert median(fmean(abs(row.error_pct) for row in each) for each in found) <= middle
    assert abs(median(fmean(row.error_pct for row in each) for each in found)) <= bias
    assert 100 * fmean(fmean(row.covered for row in each) for each in found) >= inside


def test_the_lost_share_is_the_median_of_known_sources_alone() -> None:
    def run(source: str, ratio: float, *, known: bool = True) -> WholeRun:
        return WholeRun(source, source, Operator.LAB, known, ratio, stragglers=0.0, spread=0.5)

    runs = [run("a", 1.1), run("a", 1.3), run("b", 1.05), run("c", 1.5)]
    # a loses (0.1 + 0.3) / 2 / 0.5, b 0.1 and c 1.
    assert fit_lost(runs, Operator.LAB) == pytest.approx(0.4)
    assert fit_lost([*runs, run("d", 9.0, known=False)], Operator.LAB) == pytest.approx(0.4)
    assert fit_lost(runs, Operator.TENANT) == 0
    assert fit_lost([run("a", 0.8)], Operator.LAB) == 0
