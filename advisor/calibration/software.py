"""What software stacks add to their kernels, and the ranges of training time.

Both come from published training runs. A step takes its slowdown times the sum of its terms, so
one prediction of a run tells what slowdown would have met the measurement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import Final

from advisor.architecture.sample import Unit
from advisor.calibration.engine import Engine
from advisor.calibration.measurements import FOLDER
from advisor.calibration.report import ValidationRow, group_quantile
from advisor.calibration.robust import rounded
from advisor.calibration.tables import Row, cell, read_table
from advisor.calibration.training_rows import settled_run, timed_run
from advisor.calibration.validation import recognise, score
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.efficiency import Calibration, Interval, Trained
from advisor.estimate.training import TRAINING_INTERVAL, time_quantity
from advisor.quantities import Evidence
from advisor.resources import data_path
from advisor.workload import SoftwareStack

TABLE: Final = "training_runs.csv"
RATES: Final = ("tokens_per_s_per_accelerator", "samples_per_s")
TIMES: Final = ("step_time_s",)
LEAST_GROUPS: Final = 10
"""Groups of runs below which an interval is not read off them."""
TAILS: Final = (0.1, 0.9)
"""Quantiles of an 80 % interval."""
UNMEASURED: Final = "_unmeasured"
NAMES: Final = tuple(
    f"{TRAINING_INTERVAL}{work}{card}" for work in ("", "_routed") for card in ("", UNMEASURED)
)
"""Intervals of training time."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One published run beside its prediction without slowdown."""

    source: str
    """Repository or site: runs of one source are held out together."""
    group: str
    stack: SoftwareStack
    interval: str
    """Name of the interval that its step time has."""
    ratio: float
    """Measured over predicted step time."""
    is_rate: bool
    """The row tells a rate, whose error counts the other way round."""
    samples: bool
    """The network takes images."""
    generation: str
    compute: str
    """Format of the matrix products."""
    accelerators: int
    kinds: tuple[str, ...]
    """Class of the accelerator and of the work, as the table's ``regime`` has them."""

    @property
    def kind(self) -> SoftwareStack | None:
        """Under which slowdown the run falls; None for networks that take images."""
        return None if self.samples else self.stack

    def error_pct(self, slowdown: float) -> float:
        """Signed error of the row's quantity with this slowdown. [%]"""
        return 100 * (self.ratio / slowdown if self.is_rate else slowdown / self.ratio) - 100


def origin(source: str) -> str:
    """Return the repository or site of a row's source.

    Examples
    --------
    >>> origin("NVIDIA/Megatron-LM@2a3b:README.md"), origin("https://a.org/b/c.html")
    ('NVIDIA/Megatron-LM', 'a.org/b')
    """
    if "://" in source:
        return "/".join(source.split("/")[2:4])
    return source.partition("@")[0].partition(":")[0].strip()


def without_slowdown(calibration: Calibration) -> Calibration:
    """Return the constants with a slowdown of one for every stack."""
    software = {
        stack: facts.model_copy(update={"slowdown": 1.0, "sample_slowdown": 1.0})
        for stack, facts in calibration.software.items()
    }
    return calibration.model_copy(update={"software": software})


def timed_runs(engine: Engine) -> tuple[TimedRun, ...]:
    """Predict the shipped training runs that tell a speed, without slowdown.

    Parameters
    ----------
    engine : Engine
        The slowdowns of its constants are not used.

    Returns
    -------
    tuple of TimedRun
    """
    rows = read_table(data_path(FOLDER).parent / TABLE)
    told = [row for row in rows if cell(row, "primary_quantity") in (*RATES, *TIMES)]
    plain = Engine(
        catalog=engine.catalog,
        calibration=without_slowdown(engine.calibration),
        configs=engine.configs,
    )
    report = score(told, recognise(told[0]), plain, table=TABLE)
    by_id = {cell(row, "id"): row for row in told}
    return tuple(
        _timed(found, by_id[found.id], plain)
        for found in report.rows
        if found.quantity in (*RATES, *TIMES)
    )


def _timed(found: ValidationRow, row: Row, engine: Engine) -> TimedRun:
    is_rate = found.quantity in RATES
    _, measured = engine.calibration.kernels_for(engine.accelerator(row))
    architecture, settled, layout = settled_run(row, engine)
    run = timed_run(row, settled)
    name = time_quantity(architecture)
    return TimedRun(
        source=origin(found.source),
        group=found.group,
        stack=run.software,
        interval=name if measured else f"{name}{UNMEASURED}",
        ratio=found.expected / found.measured if is_rate else found.measured / found.expected,
        is_rate=is_rate,
        samples=run.unit is Unit.IMAGE,
        generation=engine.accelerator(row).architecture,
        compute=run.recipe.compute,
        accelerators=layout.accelerators,
        kinds=tuple(found.regime.split("|")[:2]),
    )


def blank_training(intervals: Section) -> Section:
    """Sections without which no run can be predicted, before training runs determine them."""
    neutral = Interval(low=1, high=1, evidence=Evidence.ASSUMED, source="not fitted yet")
    return {
        "software": {stack.value: {"slowdown": 1.0} for stack in SoftwareStack},
        "intervals": {name: neutral.model_dump() for name in NAMES} | intervals,
    }


def training_sections(kernels: Section, catalog: Catalog) -> Section:
    """Sections of ``calibration.yaml`` that training runs determine, given fitted kernels.

    Parameters
    ----------
    kernels : dict
        The sections that the kernel tables and serving runs determine.
    catalog : Catalog

    Returns
    -------
    dict
        ``software``, ``intervals`` and ``trained``.
    """
    found = kernels.get("intervals")
    stated: Section = found if isinstance(found, dict) else {}
    calibration = join_calibration(kernels | blank_training(stated), data_path(FITTED))
    runs = timed_runs(Engine(catalog=catalog, calibration=calibration))
    intervals = fit_intervals(hold_out_sources(runs))
    slowdowns = fit_slowdowns(runs)
    return {
        "software": {
            stack.value: {
                "slowdown": slowdowns[stack],
                "sample_slowdown": slowdowns[None],
                "slowdown_groups": len(group_ratios(run for run in runs if run.kind is stack)),
            }
            for stack in SoftwareStack
        },
        "intervals": stated
        | {name: found.model_dump(mode="json") for name, found in intervals.items()},
        "trained": {
            generation: _trained([run for run in runs if run.generation == generation])
            for generation in sorted({run.generation for run in runs})
        },
    }


def _trained(runs: Sequence[TimedRun]) -> Section:
    """What the runs of one generation cover."""
    return Trained(
        formats=tuple(sorted({run.compute for run in runs})),
        accelerators=max(run.accelerators for run in runs),
    ).model_dump(mode="json")


def group_ratios(runs: Iterable[TimedRun]) -> list[float]:
    """Geometric mean of the ratios of each group."""
    groups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(log(run.ratio))
    return [exp(fmean(logs)) for logs in groups.values()]


def fit_slowdowns(runs: Sequence[TimedRun]) -> dict[SoftwareStack | None, float]:
    """Median over groups of measured over predicted time, for each stack.

    Parameters
    ----------
    runs : sequence of TimedRun

    Returns
    -------
    dict of SoftwareStack to float
        At least 1; a stack without runs takes the median over all. Under None, networks that take
        images: their runs tell no difference between stacks.
    """
    overall = median(group_ratios(runs))
    found: dict[SoftwareStack | None, float] = {}
    for kind in (*SoftwareStack, None):
        own = group_ratios(run for run in runs if run.kind is kind)
        found[kind] = rounded(max(1.0, median(own) if own else overall), 3)
    return found


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One run, predicted by a slowdown that its source had no part in."""

    run: TimedRun
    slowdown: float

    @property
    def residual(self) -> float:
        """Measured over predicted step time."""
        return self.run.ratio / self.slowdown


def hold_out_sources(runs: Sequence[TimedRun]) -> tuple[HeldOut, ...]:
    """Predict the runs of each source with slowdowns fitted on all other sources."""
    found = []
    for source in dict.fromkeys(run.source for run in runs):
        slowdowns = fit_slowdowns([run for run in runs if run.source != source])
        found += [HeldOut(run, slowdowns[run.kind]) for run in runs if run.source == source]
    return tuple(found)


def fit_intervals(held_out: Sequence[HeldOut]) -> dict[str, Interval]:
    """80 % intervals of training time, from residuals of runs that the fit has not seen.

    Parameters
    ----------
    held_out : sequence of HeldOut

    Returns
    -------
    dict of str to Interval
        By name, each also with ``_unmeasured``, wider by as much as dense models are farther off
        on cards without kernel measurements. What too few groups were measured for takes the
        interval of all runs.
    """
    names = [name for name in NAMES if not name.endswith(UNMEASURED)]
    base = _quantiles([run for run in held_out if run.run.interval == TRAINING_INTERVAL])
    strange = _quantiles([run for run in held_out if run.run.interval.endswith(UNMEASURED)])
    # Too fast on one card may be too slow on the next: the larger widening holds both ways.
    wider = max(1.0, base[0] / strange[0], strange[1] / base[1])
    found = {}
    for name in names:
        own = [run for run in held_out if run.run.interval == name]
        groups = len({run.run.group for run in own})
        low, high = _quantiles(own if groups >= LEAST_GROUPS else held_out)
        found[name] = _interval(
            low, high, f"{groups} groups of published runs, each source held out"
        )
        found[f"{name}{UNMEASURED}"] = _interval(
            low / wider,
            high * wider,
            f"{name}, widened as runs on cards without kernel measurements are",
            Evidence.ASSUMED,
        )
    return found


def _interval(
    low: float, high: float, source: str, evidence: Evidence = Evidence.CALIBRATED
) -> Interval:
    return Interval(
        low=rounded(min(1.0, low), 3),
        high=rounded(max(1.0, high), 3),
        evidence=evidence,
        source=f"10 % and 90 % of measured over predicted step time: {source}",
    )


def _quantiles(runs: Sequence[HeldOut]) -> tuple[float, float]:
    """10 % and 90 % of the residuals, every group weighing one."""
    residuals, groups = [item.residual for item in runs], [item.run.group for item in runs]
    low, high = (group_quantile(residuals, groups, share) for share in TAILS)
    return low, high
