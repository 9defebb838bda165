"""Constants of software that only whole training runs show: a grid, each source held out.

Runs of dense models determine the loss of long runs and the overlap of tensor-parallel traffic.
With these, runs of mixtures of experts determine the cost of experts.
The ranges of training time follow from the same held-out runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.calibration.fitting.kernel_tables import kernel_fits
from advisor.calibration.fitting.robust import POOL_GROUPS, pulled_to_pool, range_of_groups
from advisor.calibration.fitting.stack_runs import (
    TAILS,
    WORKS,
    TimedRun,
    fit_slowdowns,
    slowdowns_at,
    tails,
)
from advisor.calibration.scoring.report import group_quantile
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.training.report import GUESSED_TIME, TRAINING_INTERVAL
from advisor.estimate.training.step_time import training_time
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.layout import Schedule
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.efficiency import UNMEASURED, Calibration, Interval
from advisor.nouns.software.stacks import stack_named

LASTING: Final = "Hopper"
"""The generation with lower clocks in long 16-bit runs than in single measured kernels."""


class Overheads(NamedTuple):
    """Constants of ``SoftwareFacts`` and ``Calibration.sustained`` that whole runs show."""

    sustained: float
    tensor_overlap: float
    grouped_compute: float
    expert_launches: float
    expert_overlap: float


DENSE: Final = ("sustained", "tensor_overlap")
ROUTED: Final = ("grouped_compute", "expert_launches", "expert_overlap")
GROUPED: Final = 0.373
"""Rate of grouped products over that of one dense product, before the fit on training runs: the
value that fitted served mixtures of experts best when dense kernels replaced grouped ones."""
COVERED: Final = TAILS[1] - TAILS[0]
FARTHEST: Final = 0.5
"""Largest error of a group in the fit, so that single failures do not dominate. [log]"""


@record
class HeldOut:
    """One run, predicted by constants that were fitted without its source."""

    run: TimedRun
    ratio: float
    """Measured over predicted step time without slowdown, under those constants."""
    slowdown: float

    @property
    def residual(self) -> float:
        """Measured over predicted step time."""
        return self.ratio / self.slowdown

    @property
    def error_pct(self) -> float:
        """Signed error of the row's quantity. [%]"""
        return replace(self.run, ratio=self.ratio).error_pct(self.slowdown)


class RunTimes:
    """Published runs with their time under each of the grid's constants, computed once.

    ``calibration``: all other constants.
    """

    def __init__(self, runs: Sequence[TimedRun], calibration: Calibration) -> None:
        self.runs = tuple(runs)
        self._calibration = calibration
        self._known: dict[tuple[int, tuple[float, ...]], float] = {}
        self._tables: dict[tuple[tuple[str, ...], Overheads], Floats] = {}
        self._matter = [_what_matters(run) for run in self.runs]

    def ratio(self, index: int, overheads: Overheads) -> float:
        """Measured over predicted step time of one run, without slowdown."""
        run, names = self.runs[index], self._matter[index]
        if not names:
            return run.ratio
        asked = tuple(getattr(overheads, name) for name in names)
        if (index, asked) not in self._known:
            # The whole grid takes hardly longer than the point that is asked for.
            points = [asked, *product(*(kernel_fits().overheads[name] for name in names))]
            given = self._steps_s(run, {})
            steps = self._steps_s(run, dict(zip(names, np.array(points).T, strict=True)))
            ratios = run.ratio * given / steps
            self._known |= {
                (index, point): float(ratio) for point, ratio in zip(points, ratios, strict=True)
            }
        return self._known[index, asked]

    def under(self, overheads: Overheads) -> list[TimedRun]:
        """Return all runs with their ratios under some constants."""
        return [
            replace(run, ratio=self.ratio(index, overheads)) for index, run in enumerate(self.runs)
        ]

    def fit(self, left_out: str | None = None) -> Overheads:
        """Constants with the least mean error over groups, without one source.

        A constant without runs takes the value of the kernels.

        ``left_out``: source of runs that have no part in the fit.
        """
        kept = [index for index, run in enumerate(self.runs) if run.source != left_out]
        routed = [index for index in kept if _has_fitted_experts(self.runs[index])]
        plain = [index for index in kept if not self.runs[index].routed]
        # Kernels alone: the share of grouped products in the tables, one launch, nothing hidden.
        start = Overheads(1.0, 0.0, GROUPED, 1.0, 0.0)
        found, slowdowns = self._least(DENSE, plain, start, None)
        if not routed:
            return found
        return self._least(ROUTED, routed, found, slowdowns)[0]

    def _least(
        self,
        names: tuple[str, ...],
        indices: list[int],
        start: Overheads,
        known: dict[str, float] | None,
    ) -> tuple[Overheads, dict[str, float]]:
        """Return the best point of the grid of ``names``, and its slowdowns."""
        chosen = [self.runs[index] for index in indices]
        members = np.unique([run.group for run in chosen], return_inverse=True)[1]
        kinds = [run.kind for run in chosen]
        best: tuple[float, Overheads, dict[str, float]] | None = None
        points, table = _points(names, start), self._table(names, start)[:, indices]
        fitted = slowdowns_at(chosen, table) if known is None else [known] * len(points)
        for point, ratios, slowdowns in zip(points, table, fitted, strict=True):
            loss = _loss(ratios / [slowdowns[kind] for kind in kinds], members)
            if best is None or loss < best[0]:
                best = (loss, point, slowdowns)
        assert best is not None
        return best[1], best[2]

    def _table(self, names: tuple[str, ...], start: Overheads) -> Floats:
        """Return the ratios of the runs that ``names`` are fitted on, a row for each point."""
        if (names, start) not in self._tables:
            fitted = [run.routed == (names == ROUTED) for run in self.runs]
            self._tables[names, start] = np.array(
                [
                    [self.ratio(index, point) if on else np.nan for index, on in enumerate(fitted)]
                    for point in _points(names, start)
                ]
            )
        return self._tables[names, start]

    def _steps_s(self, run: TimedRun, overheads: dict[str, Floats]) -> Floats:
        """Return the run's step with these constants in place of the calibration's."""
        assert run.work is not None
        number = max(map(len, overheads.values()), default=1)
        candidates = run.work.candidates.take(np.zeros(number, dtype=np.intp))
        others = dict(overheads)
        hardware = candidates.hardware
        sustained = others.pop("sustained", hardware.sustained)
        # The fields of a stack are single numbers; what computes with them takes arrays as well.
        facts = self._calibration.software[run.stack].changed(
            slowdown=1.0, sample_slowdown=1.0, adapter_slowdown=1.0, **others
        )
        return training_time(
            run.work.run,
            Candidates(layout=candidates.layout, hardware=replace(hardware, sustained=sustained)),
            self._calibration.network,
            facts,
        ).step


def hold_out_sources(times: RunTimes) -> tuple[HeldOut, ...]:
    """Predict the runs of each source with everything fitted on all other sources."""
    found = []
    for source in dict.fromkeys(run.source for run in times.runs):
        timed = times.under(times.fit(left_out=source))
        slowdowns = fit_slowdowns([run for run in timed if run.source != source])
        found += [
            HeldOut(run=run, ratio=unseen.ratio, slowdown=slowdowns[run.kind])
            for run, unseen in zip(times.runs, timed, strict=True)
            if run.source == source
        ]
    return tuple(found)


def _has_fitted_experts(run: TimedRun) -> bool:
    return stack_named(run.stack).overlaps_traffic and run.routed


def _what_matters(run: TimedRun) -> tuple[str, ...]:
    """Names of the constants that affect the time of a run."""
    if run.work is None:
        return ()
    layout = run.work.candidates.layout
    wide = FORMAT_BYTES[run.compute] >= FORMAT_BYTES["bf16"]
    names = []
    if stack_named(run.stack).overlaps_traffic and layout.tensor[0] > 1:
        names.append("tensor_overlap")
    if _has_fitted_experts(run):
        names.append("grouped_compute")
        if not wide:
            names.append("expert_launches")
        if layout.schedule[0] == list(Schedule).index(Schedule.OVERLAPPED):
            names.append("expert_overlap")
    # Of a run in fp8, only embedding and head: too little to time it again for them alone.
    if run.generation == LASTING and (wide or names):
        names.append("sustained")
    return tuple(names)


def _points(names: tuple[str, ...], start: Overheads) -> list[Overheads]:
    """Return the points of the grid of some constants, the others as they are."""
    return [
        start._replace(**dict(zip(names, values, strict=True)))
        for values in product(*(kernel_fits().overheads[name] for name in names))
    ]


def _loss(residuals: Floats, members: NDArray[np.intp]) -> float:
    """Mean over groups of the mean error of their runs. [log]

    ``members``: the number of each run's group.
    """
    off = np.minimum(FARTHEST, np.abs(np.log(residuals)))
    return float(np.mean(np.bincount(members, off) / np.bincount(members)))


def fit_intervals(held_out: Sequence[HeldOut]) -> dict[str, Interval]:
    """80 % intervals of training time, from residuals of runs that the fit has not seen.

    By name, each also with ``_unmeasured`` for cards without kernel measurements, where dense
    models are farther off. The fewer groups of a kind of work were measured, the more its bounds
    are drawn towards others, and few groups only widen those: its runs on such cards, which are no
    easier to predict, and for these all runs, so widened. Bounds on such cards are drawn towards
    those on the others, so widened, and are no narrower than these.
    ``training_time_guessed`` is how much farther off runs with guessed settings are.
    """
    base = _quantiles([run for run in held_out if run.run.interval == TRAINING_INTERVAL])
    strange = _quantiles([run for run in held_out if run.run.interval.endswith(UNMEASURED)])
    pool = _quantiles(held_out)
    # Errors on unmeasured cards can go both ways, so the larger widening applies to both ends.
    wider = max(1.0, base[0] / strange[0], strange[1] / base[1])
    beyond = (pool[0] / wider, pool[1] * wider)
    found = {GUESSED_TIME: _guessed(held_out)}
    for work in WORKS:
        name = f"{TRAINING_INTERVAL}{work}"
        strange_name = f"{name}{UNMEASURED}"
        low, high, groups = _drawn(held_out, name, _drawn(held_out, strange_name, beyond)[:2])
        found[name] = _interval(
            low, high, groups, f"{groups} groups of published runs, each source held out"
        )
        far = _drawn(held_out, strange_name, (low / wider, high * wider))
        found[strange_name] = _interval(
            min(low, far[0]),
            max(high, far[1]),
            groups,
            f"{name}, widened as runs on cards without kernel measurements are, and drawn to "
            f"{far[2]} groups of them",
            Evidence.ASSUMED,
        )
    return found


def fit_spread(held_out: Sequence[HeldOut], intervals: Mapping[str, Interval], kind: str) -> float:
    """How much wider the ranges of one pace are than those of all, in logarithms.

    Four of five of its runs then lie inside. Few groups only widen; many are drawn to 1.
    """
    own = [item for item in held_out if item.run.kind == kind]
    if not own:
        return 1.0
    farther = [_ends(item, intervals[item.run.interval]) for item in own]
    groups = [item.run.group for item in own]
    spread = max(1.0, group_quantile(farther, groups, COVERED))
    number = len(set(groups))
    if number < POOL_GROUPS:
        return spread
    return float(spread ** (number / (number + POOL_GROUPS)))


def _ends(item: HeldOut, interval: Interval) -> float:
    """Logarithm of a residual over that of the end of its interval on the same side."""
    end = interval.high if item.residual > 1.0 else interval.low
    return float(np.log(item.residual) / np.log(end)) if end != 1.0 else 0.0


def _drawn(
    held_out: Sequence[HeldOut], name: str, pool: tuple[float, float]
) -> tuple[float, float, int]:
    """Return the bounds of one kind of runs, drawn towards ``pool``, and its groups."""
    own = [run for run in held_out if run.run.interval == name]
    groups = len({run.run.group for run in own})
    low, high = _quantiles(own) if own else pool
    if groups < POOL_GROUPS:
        # Few groups that happen to agree are less evidence, not a narrower range.
        return min(low, pool[0]), max(high, pool[1]), groups
    low, high = pulled_to_pool((low, high), pool, groups)
    return low, high, groups


def _guessed(held_out: Sequence[HeldOut]) -> Interval:
    """Widening of a range if the settings of a run are guessed; none without such runs."""
    runs = [run for run in held_out if run.run.guessed]
    groups = len({run.run.group for run in runs})
    stated = _quantiles([run for run in held_out if not run.run.guessed])
    own = _quantiles(runs) if groups >= POOL_GROUPS else stated
    return _interval(
        own[0] / stated[0], own[1] / stated[1], groups, "guessed settings over stated ones"
    )


def _interval(
    low: float, high: float, groups: int, source: str, evidence: Evidence = Evidence.CALIBRATED
) -> Interval:
    source = f"10 % and 90 % of measured over predicted step time: {source}"
    return range_of_groups((low, high), source, groups, evidence)


def _quantiles(runs: Sequence[HeldOut]) -> tuple[float, float]:
    """10 % and 90 % of the residuals, every group weighing one."""
    return tails([item.residual for item in runs], [item.run.group for item in runs])
