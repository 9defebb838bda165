"""Sections of ``calibration.yaml`` that published training runs determine, whole runs included."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from advisor.calibration.fitting.robust import pulled_to_pool, range_of_groups, rounded
from advisor.calibration.fitting.scaling import scaling_section
from advisor.calibration.fitting.stack_constants import (
    LASTING,
    RunTimes,
    fit_intervals,
    hold_out_sources,
)
from advisor.calibration.fitting.stack_runs import (
    TimedRun,
    blank_training,
    fit_slowdowns,
    origin,
    own_groups,
    pace,
    tails,
    timed_runs,
)
from advisor.calibration.scoring.validation import recognise, score
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import cell, shipped_rows
from advisor.calibration.tables.row_layouts import row_node
from advisor.calibration.tables.training_rows import settled_run
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.catalog.nodes import node_for
from advisor.equations.training.goodput import spread_out, straggling
from advisor.estimate.training.delivered import WHOLE_RUN
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.nouns.software.delivery import Lost, Operator
from advisor.nouns.software.efficiency import Trained
from advisor.nouns.software.stacks import fitted_stacks, stack_named

TABLE: Final = "whole_runs.csv"
LARGE: Final = 0.5
"""Least share of a large cluster's troubles in a run that tells what they cost."""
GUESSED: Final = "assumed_config"
"""Flag of rows whose settings nobody published: they widen the range and fit nothing."""


@record
class WholeRun:
    """One published run over several machines, predicted with nothing lost."""

    source: str
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
                groups=len({run.group for run in _telling(runs, operator)}),
            ).model_dump()
            for operator in Operator
        }
    }
    return delivery, _intervals(runs)


def fit_lost(runs: Sequence[WholeRun], operator: Operator) -> float:
    """Median over groups of the share that known runs of a class lost, at least 0. [s/s]"""
    groups: dict[str, list[float]] = defaultdict(list)
    for run in _telling(runs, operator):
        groups[run.group].append(run.lost)
    return max(0.0, median(fmean(each) for each in groups.values())) if groups else 0.0


def _telling(runs: Sequence[WholeRun], operator: Operator) -> list[WholeRun]:
    return [run for run in runs if run.known and run.operator is operator]


def _runs(engine: Engine) -> list[WholeRun]:
    table = shipped_rows(TABLE)
    by_id = {cell(row, "id"): row for row in table}
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
                source=origin(scored.source),
                group=scored.group,
                operator=run.operator,
                known=GUESSED not in cell(row, "flags").split(";"),
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
    intervals = fit_intervals(hold_out_sources(times))
    slowdowns = fit_slowdowns(runs)
    ranges: Section = {name: each.model_dump(mode="json") for name, each in intervals.items()}
    sections: Section = network | {
        "sustained": {LASTING: sustained},
        "software": {
            stack: {
                "slowdown": slowdowns[pace(stack, samples=False)],
                "sample_slowdown": slowdowns[pace(stack, samples=True)],
                "adapter_slowdown": slowdowns[pace(stack, samples=False, adapters=True)],
                "slowdown_groups": len(own_groups(runs, stack)),
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
