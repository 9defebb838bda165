"""Errors of training speed and of scaling: in sample, and with each source held out."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from statistics import fmean, median
from typing import Final

from advisor.calibration.fitting.stack_constants import (
    HeldOut,
    RunTimes,
    fit_intervals,
    fit_spread,
    hold_out_sources,
)
from advisor.calibration.fitting.stack_runs import fit_slowdowns, timed_runs
from advisor.calibration.fitting.training import CURVES, read_curves
from advisor.calibration.scoring.report import percentile
from advisor.calibration.tables.context import shipped_engine
from advisor.calibration.tables.reading import measurement_tables
from advisor.foundation.noun import Noun
from advisor.foundation.record import record


class CurveError(Noun):
    """A published curve and its prediction."""

    name: str
    first: int
    last: int
    """Accelerators of the smaller and of the larger run."""
    lost_pct: float
    """Measured. [%]"""
    predicted_pct: float
    """[%]"""
    fitted: bool
    """Whether a constant was fitted on it."""

    @property
    def error_points(self) -> float:
        """Predicted minus measured loss. [percentage points]"""
        return self.predicted_pct - self.lost_pct


def scaling_errors(unseen: str) -> tuple[CurveError, ...]:
    """Score the shipped curves.

    ``unseen``: table of curves that no fit uses.
    """
    engine = shipped_engine()
    return tuple(
        CurveError(
            name=curve.name,
            first=curve.counts[0],
            last=curve.counts[1],
            lost_pct=100 * curve.lost,
            predicted_pct=100 * curve.predicted(engine, engine.calibration.network),
            fitted=table == CURVES,
        )
        for table in (CURVES, unseen)
        for curve in read_curves(table, engine)
    )


LEAST_ROWS: Final = 10
"""Kinds of runs with fewer rows appear only in the line of all runs."""
KINDS: Final = measurement_tables().regimes
"""Classes of the table's ``regime`` in words."""


class SpeedErrors(Noun):
    """Errors of one kind of run, averaged within groups of like rows first. Percentages."""

    name: str
    rows: int
    groups: int
    median_abs_pct: float
    p90_abs_pct: float
    bias_pct: float
    """Median of the signed errors."""
    held_out_median_abs_pct: float
    """With slowdowns fitted on all other sources."""
    held_out_p90_abs_pct: float
    held_out_coverage_pct: float
    """Share of runs inside the 80 % range from the residuals of all other sources."""


@record
class ScoredRun:
    """Signed errors of one run. Percentages."""

    group: str
    seen_pct: float
    unseen_pct: float
    """With its source held out."""
    covered: bool
    """Whether it lies inside the range from the other sources."""


def run_errors(name: str, runs: Sequence[ScoredRun]) -> SpeedErrors:
    """Summarise runs, averaged within their groups first."""
    groups: dict[str, list[ScoredRun]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    seen = [fmean(abs(run.seen_pct) for run in group) for group in groups.values()]
    unseen = [fmean(abs(run.unseen_pct) for run in group) for group in groups.values()]
    return SpeedErrors(
        name=name,
        rows=len(runs),
        groups=len(groups),
        median_abs_pct=median(seen),
        p90_abs_pct=percentile(seen, 0.9),
        bias_pct=median(fmean(run.seen_pct for run in group) for group in groups.values()),
        held_out_median_abs_pct=median(unseen),
        held_out_p90_abs_pct=percentile(unseen, 0.9),
        held_out_coverage_pct=fmean(
            fmean(100.0 * run.covered for run in group) for group in groups.values()
        ),
    )


def speed_errors() -> tuple[SpeedErrors, ...]:
    """Score training speed on the shipped runs.

    All runs, then throughput, then every kind with enough rows.
    """
    engine = shipped_engine()
    runs = timed_runs(engine)
    slowdowns = fit_slowdowns(runs)
    held_out = hold_out_sources(RunTimes(runs, engine.calibration))
    covered = _covered(held_out)

    def errors(name: str, wanted: Callable[[HeldOut], bool]) -> SpeedErrors:
        return run_errors(
            name,
            [
                ScoredRun(
                    group=item.run.group,
                    seen_pct=item.run.error_pct(slowdowns[item.run.kind]),
                    unseen_pct=item.error_pct,
                    covered=inside,
                )
                for item, inside in zip(held_out, covered, strict=True)
                if wanted(item)
            ],
        )

    found = [
        errors("all runs", lambda item: True),
        errors("throughput", lambda item: item.run.is_rate),
    ]
    for kind, title in KINDS.items():

        def of_kind(item: HeldOut, kind: str = kind) -> bool:
            return kind in item.run.kinds

        if sum(map(of_kind, held_out)) >= LEAST_ROWS:
            found.append(errors(title, of_kind))
    return tuple(found)


def _covered(held_out: Sequence[HeldOut]) -> list[bool]:
    """Whether each run lies in the interval from all other sources."""
    found: dict[int, bool] = {}
    for source in {item.run.source for item in held_out}:
        others = [item for item in held_out if item.run.source != source]
        intervals = fit_intervals(others)
        spread = cache(partial(fit_spread, others, intervals))
        for place, item in enumerate(held_out):
            if item.run.source == source:
                interval, wider = intervals[item.run.interval], spread(item.run.kind)
                found[place] = interval.low**wider <= item.residual <= interval.high**wider
    return [found[place] for place in range(len(held_out))]
