"""Sections of ``calibration.yaml`` that published training runs determine: whole runs, scaling."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, median, stdev
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.calibration.fitting.robust import pulled_to_pool, range_of_groups, rounded
from advisor.calibration.fitting.stack_constants import (
    LASTING,
    RunTimes,
    fit_intervals,
    fit_spread,
    hold_out_sources,
)
from advisor.calibration.fitting.stack_runs import (
    RATES,
    TimedRun,
    Work,
    blank_training,
    fit_slowdowns,
    pace,
    tails,
    timed_runs,
)
from advisor.calibration.scoring.validation import recognise, score
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.calibration.tables.row_layouts import row_node
from advisor.calibration.tables.training_rows import settled_run
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.catalog.nodes import node_for
from advisor.equations.training.goodput import spread_out, straggling
from advisor.estimate.training.delivered import WHOLE_RUN
from advisor.estimate.training.step_time import training_time
from advisor.foundation.noun import refuse
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.nouns.software.delivery import Lost, Operator
from advisor.nouns.software.efficiency import Trained
from advisor.nouns.software.links_and_memory import NetworkEfficiency
from advisor.nouns.software.stacks import fitted_stacks, stack_named

CURVES: Final = "scaling_curves.csv"
JITTERS: Final = tuple(step / 200 for step in range(13))
"""Tried values, as fine as some twenty curves resolve. [s/sqrt(s)]"""


@record
class Curve:
    """Two published runs of one kind on few and on many accelerators."""

    name: str
    source: str
    ends: tuple[Work, Work]
    stack: str
    counts: tuple[int, int]
    lost: float
    """Measured loss of throughput of each accelerator. [fraction]"""

    def predicted(self, engine: Engine, network: NetworkEfficiency) -> float:
        """Return the loss under some constants. [fraction]"""
        first, last = (
            work.run.global_batch
            / float(
                training_time(
                    work.run, work.candidates, network, engine.calibration.software[self.stack]
                ).step[0]
            )
            / count
            for work, count in zip(self.ends, self.counts, strict=True)
        )
        return 1.0 - last / first


def read_curves(name: str, engine: Engine) -> tuple[Curve, ...]:
    """Read the curves of a table that ships.

    ``name``: table of curves, whose columns ``table``, ``first`` and ``last`` name the runs.
    """
    return tuple(_curve(row, engine) for row in shipped_rows(name))


def _curve(row: Row, engine: Engine) -> Curve:
    runs = {run.cell("id"): run for run in shipped_rows(row.cell("table"))}
    ends = [runs[row.cell(end)] for end in ("first", "last")]
    works = [Work.of(end, engine) for end in ends]
    each = [_each(end) for end in ends]
    return Curve(
        name=row.cell("id"),
        source=row.cell("source"),
        ends=(works[0], works[1]),
        stack=works[0].run.software,
        counts=(_count(ends[0]), _count(ends[1])),
        lost=1.0 - each[1] / each[0],
    )


def _count(row: Row) -> int:
    return int(_value(row, "num_accelerators"))


def _value(row: Row, column: str) -> float:
    found = row.number(column)
    if not found:
        refuse(CURVES, found, "Name a run that states it.", entry=row.cell("id"), field=column)
    return found


def _each(row: Row) -> float:
    """Return the measured throughput of each accelerator, in any unit."""
    quantity = row.cell("primary_quantity")
    value = _value(row, quantity)
    if quantity == RATES[0]:
        return value
    if quantity == RATES[1]:
        return value / _count(row)
    return _value(row, "global_batch") / value / _count(row)


def scaling_section(engine: Engine) -> Section:
    """Return the jitters of ``network`` that curves of their kind of network show.

    Each is the least whose mean error is within one standard error of the best (Hastie et al., The
    Elements of Statistical Learning, 2009, section 7.10): the software's slowdown, fitted on runs
    of all sizes, holds part of what a larger one would.
    """
    curves = read_curves(CURVES, engine)
    images = [curve for curve in curves if curve.ends[0].run.unit is Unit.IMAGE]
    others = [curve for curve in curves if curve not in images]
    return {
        name: _least_jitter(kind, engine, name)
        for name, kind in (("jitter", others), ("image_jitter", images))
    }


def _least_jitter(curves: list[Curve], engine: Engine, name: str) -> float:
    def errors(jitter: float) -> list[float]:
        network = engine.calibration.network.model_copy(update={name: jitter})
        return [abs(curve.predicted(engine, network) - curve.lost) for curve in curves]

    tried = {jitter: errors(jitter) for jitter in JITTERS}
    best = min(tried.values(), key=fmean)
    enough = fmean(best) + stdev(best) / sqrt(len(best))
    return next(jitter for jitter in JITTERS if fmean(tried[jitter]) <= enough)


TABLE: Final = "whole_runs.csv"
LARGE: Final = 0.5
"""Least share of a large cluster's troubles in a run that tells what they cost."""
GUESSED: Final = "assumed_config"
"""Flag of rows whose settings nobody published: they widen the range and fit nothing."""


@record
class WholeRun:
    """One published run over several machines, predicted with nothing lost."""

    source: str
    """Who published it: the first part of its group."""
    group: str
    operator: Operator
    known: bool
    """Whether its settings are published."""
    ratio: float
    """Measured over predicted hours."""
    stragglers: float
    """Time that slow machines add, in the prediction. [s/s]"""
    spread: float
    """Share of a large cluster's troubles that it has."""

    @property
    def lost(self) -> float:
        """The share over many machines that meets the measurement. [s/s]"""
        return (self.ratio - 1.0) * (1.0 + self.stragglers) / self.spread

    def residual(self, lost: float) -> float:
        """Measured over predicted hours if ``lost`` is lost over many machines."""
        steps = 1.0 + self.stragglers
        return self.ratio * steps / (steps + lost * self.spread)


def whole_run_sections(engine: Engine) -> tuple[Section, Section]:
    """Return the sections ``delivery`` and, of ``intervals``, those of whole runs.

    ``engine``: its constants lose nothing yet.
    """
    runs = _runs(engine)
    delivery: Section = {
        "lost": {
            operator.value: Lost(
                share=rounded(fit_lost(runs, operator), 3),
                groups=len({run.source for run in _telling(runs, operator)}),
            ).model_dump()
            for operator in Operator
        }
    }
    return delivery, _intervals(runs)


def fit_lost(runs: Sequence[WholeRun], operator: Operator) -> float:
    """Median over sources of the share that known runs of a class lost, at least 0. [s/s]"""
    sources: dict[str, list[float]] = defaultdict(list)
    for run in _telling(runs, operator):
        sources[run.source].append(run.lost)
    return max(0.0, median(fmean(each) for each in sources.values())) if sources else 0.0


def _telling(runs: Sequence[WholeRun], operator: Operator) -> list[WholeRun]:
    return [run for run in runs if run.known and run.operator is operator]


def _runs(engine: Engine) -> list[WholeRun]:
    table = shipped_rows(TABLE)
    by_id = {row.cell("id"): row for row in table}
    delivery = engine.calibration.delivery
    found = []
    for scored in score(table, recognise(table[0]), engine, table=TABLE).rows:
        row = by_id[scored.id]
        accelerator = engine.accelerator(row)
        run, layout = settled_run(row, engine)
        node = row_node(row, node_for(accelerator, None))
        machines = float(-(-layout.accelerators // node.accelerators))
        found.append(
            WholeRun(
                source=scored.group.partition(" | ")[0],
                group=scored.group,
                operator=run.operator,
                known=GUESSED not in row.cell("flags").split(";"),
                ratio=scored.measured / scored.expected,
                stragglers=float(
                    straggling(
                        machines=machines,
                        slow_machines=delivery.slow_machines,
                        slow_by=delivery.slow_by,
                    )
                ),
                spread=float(spread_out(machines=machines, ramp_machines=delivery.ramp_machines)),
            )
        )
    return [run for run in found if run.spread >= LARGE]


def _intervals(runs: Sequence[WholeRun]) -> Section:
    """80 % ranges of hours, each source held out of the share that predicts it."""
    unseen: list[tuple[WholeRun, float]] = []
    for run in runs:
        others = [other for other in runs if other.source != run.source]
        unseen.append((run, run.residual(fit_lost(others, run.operator))))
    pool = _quantiles(unseen)
    found: Section = {}
    for operator in Operator:
        own = [item for item in unseen if item[0].operator is operator]
        groups = len({run.group for run, _ in own})
        found[f"{WHOLE_RUN}_{operator.value}"] = range_of_groups(
            pulled_to_pool(_quantiles(own), pool, groups),
            f"10 % and 90 % of measured over predicted hours: {groups} groups of published "
            "whole runs over many machines, each source held out",
            groups,
        ).model_dump(mode="json")
    return found


def _quantiles(runs: Sequence[tuple[WholeRun, float]]) -> tuple[float, float]:
    return tails([value for _, value in runs], [run.group for run, _ in runs])


def training_sections(kernels: Section, catalog: Catalog) -> Section:
    """Sections of ``calibration.yaml`` that training runs determine, given fitted kernels.

    ``network``, ``sustained``, ``software``, ``intervals``, ``trained`` and ``delivery``.

    ``kernels``: the sections that the kernel tables determine.
    """
    given = kernels.get("intervals")
    stated: Section = given if isinstance(given, dict) else {}
    provisional = blank_training(stated)
    blank = provisional["intervals"]
    assert isinstance(blank, dict)
    plain = join_calibration(kernels | provisional, data_path(FITTED))
    links = kernels["network"]
    assert isinstance(links, dict)
    network: Section = {"network": links | scaling_section(Engine(catalog, plain))}
    calibration = join_calibration(kernels | network | provisional, data_path(FITTED))
    times = RunTimes(timed_runs(Engine(catalog=catalog, calibration=calibration)), calibration)
    found = times.fit()
    runs, overheads = times.under(found), found._asdict()
    sustained = overheads.pop("sustained")
    held_out = hold_out_sources(times)
    intervals = fit_intervals(held_out)
    slowdowns = fit_slowdowns(runs)
    groups = Counter(kind for kind, _ in {(run.kind, run.group) for run in runs})

    def spread(kind: str) -> float:
        return rounded(fit_spread(held_out, intervals, kind), 3)

    ranges: Section = {name: each.model_dump(mode="json") for name, each in intervals.items()}
    sections: Section = network | {
        "sustained": {LASTING: sustained},
        "software": {
            stack: {
                "slowdown": slowdowns[pace(stack, samples=False)],
                "sample_slowdown": slowdowns[pace(stack, samples=True)],
                "adapter_slowdown": slowdowns[pace(stack, samples=False, adapters=True)],
                "spread": spread(pace(stack, samples=False)),
                "adapter_spread": spread(pace(stack, samples=False, adapters=True)),
                "slowdown_groups": groups[pace(stack, samples=False)],
                **(overheads if stack_named(stack).overlaps_traffic else {}),
            }
            for stack in fitted_stacks()
        },
        "intervals": blank | ranges,
        "trained": {
            generation: _trained([run for run in runs if run.generation == generation])
            for generation in sorted({run.generation for run in runs})
            if generation in calibration.kernels or generation in calibration.relatives
        },
    }
    fitted = join_calibration(kernels | provisional | sections, data_path(FITTED))
    delivery, hours = whole_run_sections(Engine(catalog=catalog, calibration=fitted))
    return sections | {"delivery": delivery, "intervals": stated | ranges | hours}


def _trained(runs: Sequence[TimedRun]) -> Section:
    """Work that the runs of one generation cover."""
    return Trained(
        formats=tuple(sorted({run.compute for run in runs})),
        accelerators=max(run.accelerators for run in runs),
    ).model_dump(mode="json")
