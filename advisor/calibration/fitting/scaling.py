"""Fits what scaling costs: the jitter between machines, on published curves.

A curve is two published runs that differ in their number of accelerators. Its loss of throughput
of each accelerator depends neither on the software's slowdown nor, to first order, on settings
that nobody published.
"""

from math import sqrt
from statistics import fmean, stdev
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.calibration.fitting.stack_runs import RATES, Work
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, cell, number, shipped_rows
from advisor.catalog.constants import Section
from advisor.estimate.training.step_time import training_time
from advisor.foundation.data_records import refuse
from advisor.foundation.record import record
from advisor.nouns.software.links_and_memory import NetworkEfficiency

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
    runs = {cell(run, "id"): run for run in shipped_rows(cell(row, "table"))}
    ends = [runs[cell(row, end)] for end in ("first", "last")]
    works = [Work.of(end, engine) for end in ends]
    each = [_each(end) for end in ends]
    return Curve(
        name=cell(row, "id"),
        source=cell(row, "source"),
        ends=(works[0], works[1]),
        stack=works[0].run.software,
        counts=(_count(ends[0]), _count(ends[1])),
        lost=1.0 - each[1] / each[0],
    )


def _count(row: Row) -> int:
    return int(_value(row, "num_accelerators"))


def _value(row: Row, column: str) -> float:
    found = number(row, column)
    if not found:
        refuse(CURVES, found, "Name a run that states it.", entry=cell(row, "id"), field=column)
    return found


def _each(row: Row) -> float:
    """Return the measured throughput of each accelerator, in any unit."""
    quantity = cell(row, "primary_quantity")
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
