"""Published training runs with their predictions, and the slowdown of software stacks.

The time of a step is its slowdown times the sum of its terms. So one prediction of a run shows the
slowdown that meets the measurement.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.calibration.fitting.robust import rounded
from advisor.calibration.scoring.report import ValidationRow, group_quantile
from advisor.calibration.scoring.validation import recognise, score
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.calibration.tables.row_layouts import row_node
from advisor.calibration.tables.training_rows import guesses_settings, settled_run, timed_run
from advisor.catalog.constants import Section
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.training.delivered import WHOLE_RUN
from advisor.estimate.training.report import GUESSED_TIME, TRAINING_INTERVAL, time_quantity
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.software.delivery import Lost, Operator
from advisor.nouns.software.efficiency import UNMEASURED, Calibration, Interval
from advisor.nouns.software.stacks import fitted_stacks, known_stacks, stack_named

TABLE: Final = "training_runs.csv"
TABLES: Final = (TABLE, "mlperf_training.csv")
"""Tables with the speeds that the stacks' slowdowns are fitted on."""
RATES: Final = ("tokens_per_s_per_accelerator", "samples_per_s")
TIMES: Final = ("step_time_s",)
TAILS: Final = (0.1, 0.9)
"""Quantiles of an 80 % interval."""
LEAST_GROUPS: Final = 2
"""Groups of runs that give adapters a slowdown of their own."""
WORKS: Final = ("", "_routed", "_adapters", "_samples", "_detection", "_encoder")
NAMES: Final = (
    *(f"{TRAINING_INTERVAL}{work}{card}" for work in WORKS for card in ("", UNMEASURED)),
    GUESSED_TIME,
)
"""Intervals of training time."""


@record
class Work:
    """Work and hardware of a published run."""

    run: TrainingRun
    candidates: Candidates

    @classmethod
    def of(cls, row: Row, engine: Engine) -> Self:
        """Return the work of a row of training runs, with open settings filled in."""
        accelerator = engine.accelerator(row)
        kernels, _ = engine.calibration.kernels_for(accelerator)
        settled, layout = settled_run(row, engine)
        run = timed_run(row, settled)
        node = row_node(row, node_for(accelerator, None))
        compute = run.recipe.compute
        return cls(run, Candidates.of([layout], accelerator, node, kernels, compute=compute))


@record
class TimedRun:
    """One published run with its prediction without slowdown."""

    source: str
    """Repository or site: runs of one source are held out together."""
    group: str
    stack: str
    interval: str
    """Name of the interval of its step time."""
    ratio: float
    """Measured over predicted step time."""
    is_rate: bool
    """Whether the row states a rate, whose error has the opposite sign."""
    samples: bool
    """The network takes images."""
    generation: str
    compute: str
    """Format of the matrix products."""
    accelerators: int
    kinds: tuple[str, ...]
    """Class of the accelerator and of the work, from the table's ``regime``."""
    guessed: bool = False
    """Nobody published its settings."""
    work: Work | None = None
    """To time it again; None for runs made by hand."""

    @property
    def kind(self) -> str:
        """Name of the slowdown that applies."""
        adapters = self.work is not None and self.work.run.frozen
        return pace(self.stack, samples=self.samples, adapters=adapters)

    @property
    def routed(self) -> bool:
        """Whether its model is a mixture of experts."""
        return self.work is not None and self.work.run.architecture.num_experts > 1

    def error_pct(self, slowdown: float) -> float:
        """Signed error of the row's quantity with this slowdown. [%]"""
        return 100 * (self.ratio / slowdown if self.is_rate else slowdown / self.ratio) - 100


def origin(source: str) -> str:
    """Return the repository or site of a row's source.

    >>> origin("NVIDIA/Megatron-LM@2a3b:README.md"), origin("https://a.org/b/c.html")
    ('NVIDIA/Megatron-LM', 'a.org/b')
    """
    if "://" in source:
        return "/".join(source.split("/")[2:4])
    return source.partition("@")[0].partition(":")[0].strip()


def without_slowdown(calibration: Calibration) -> Calibration:
    """Return the constants with a slowdown of one for every stack."""
    software = {
        stack: facts.changed(slowdown=1.0, sample_slowdown=1.0, adapter_slowdown=1.0)
        for stack, facts in calibration.software.items()
    }
    return calibration.changed(software=software)


def timed_runs(engine: Engine) -> tuple[TimedRun, ...]:
    """Predict the shipped training runs that state a speed, without slowdown.

    ``engine``: the slowdowns of its constants are not used.
    """
    plain = Engine(
        catalog=engine.catalog,
        calibration=without_slowdown(engine.calibration),
        configs=engine.configs,
    )
    return tuple(run for name in TABLES for run in _timed_rows(name, plain))


def _timed_rows(name: str, plain: Engine) -> list[TimedRun]:
    timed = [
        row | {"also_memory": ""}
        for row in shipped_rows(name)
        if row.cell("primary_quantity") in (*RATES, *TIMES)
    ]
    report = score(timed, replace(recognise(timed[0]), judge=None), plain, table=name)
    by_id = {row.cell("id"): row for row in timed}
    return [
        _timed(found, by_id[found.id], plain)
        for found in report.rows
        if found.quantity in (*RATES, *TIMES)
    ]


def _timed(found: ValidationRow, row: Row, engine: Engine) -> TimedRun:
    is_rate = found.quantity in RATES
    accelerator = engine.accelerator(row)
    _, measured = engine.calibration.kernels_for(accelerator)
    work = Work.of(row, engine)
    run = work.run
    name = time_quantity(run.architecture, frozen=run.frozen)
    return TimedRun(
        source=origin(found.source),
        group=found.group,
        stack=run.software,
        interval=name if measured else f"{name}{UNMEASURED}",
        ratio=found.expected / found.measured if is_rate else found.measured / found.expected,
        is_rate=is_rate,
        samples=run.unit is Unit.IMAGE,
        generation=accelerator.architecture,
        compute=run.recipe.compute,
        accelerators=int(work.candidates.layout.accelerators[0]),
        kinds=tuple(found.regime.split("|")[:2]),
        guessed=guesses_settings(row),
        work=work,
    )


def blank_training(intervals: Section) -> Section:
    """Provisional sections for predictions, before training runs determine them."""
    neutral = Interval(low=1, high=1, evidence=Evidence.ASSUMED, source="not fitted yet")
    whole = [f"{WHOLE_RUN}_{operator.value}" for operator in Operator]
    nothing = Lost(share=0.0, groups=0).model_dump()
    return {
        "software": {stack: {"slowdown": 1.0} for stack in fitted_stacks()},
        "intervals": {name: neutral.model_dump() for name in (*NAMES, *whole)} | intervals,
        "delivery": {"lost": {operator.value: nothing for operator in Operator}},
    }


def tails(values: Sequence[float], groups: Sequence[str]) -> tuple[float, float]:
    """Return the quantiles of an 80 % interval, every group weighing one."""
    low, high = (group_quantile(values, groups, share) for share in TAILS)
    return low, high


def fit_slowdowns(runs: Sequence[TimedRun]) -> dict[str, float]:
    """Return the slowdowns of :func:`slowdowns_at` for the ratios that the runs have."""
    [found] = slowdowns_at(runs, np.array([[run.ratio for run in runs]]))
    return found


def slowdowns_at(runs: Sequence[TimedRun], ratios: Floats) -> list[dict[str, float]]:
    """Median over groups of measured over predicted time, by `pace`, for each row of ratios.

    At least 1; a stack without runs takes the median over all. Images without runs, and adapters
    that few groups show, take that of their stack.

    ``ratios``: of each run in place of its own; the geometric mean of a group's counts.
    """
    logs = np.log(ratios)

    def medians(groups: Mapping[str, Sequence[int]]) -> Floats:
        means = [logs[:, places].mean(axis=1) for places in groups.values()]
        return np.asarray(np.median(np.exp(means), axis=0))

    kinds: dict[str, dict[str, list[int]]] = defaultdict(dict)
    everything: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        for groups in (everything, kinds[run.kind]):
            groups.setdefault(run.group, []).append(place)
    overall = medians(everything)
    found: dict[str, Floats] = {}
    for stack in known_stacks():
        whole, few = pace(stack, samples=False), pace(stack, samples=False, adapters=True)
        if few != whole and len(kinds[few]) < LEAST_GROUPS:
            for group, places in kinds.pop(few).items():
                kinds[whole].setdefault(group, []).extend(places)
        for name in (whole, pace(stack, samples=True), few):
            other = found.get(whole, overall)
            found[name] = np.maximum(1.0, medians(kinds[name]) if kinds[name] else other)
    return [
        {name: rounded(float(column[row]), 4) for name, column in found.items()}
        for row in range(len(ratios))
    ]


def pace(stack: str, *, samples: bool, adapters: bool = False) -> str:
    """Name of the slowdown of a stack; ``samples``: on networks that take images.

    There, eager stacks share one, whose traffic is counted kernel by kernel. Eager stacks run
    adapters at a pace of their own.
    """
    facts = stack_named(stack)
    if samples:
        return "images" if facts.eager else f"{facts.paced_as or stack} images"
    return f"{stack} adapters" if adapters and facts.eager else facts.paced_as or stack
