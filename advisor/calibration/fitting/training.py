"""Sections of ``calibration.yaml`` that published training runs determine."""

from collections.abc import Sequence

from advisor.calibration.fitting.ranges import fit_intervals
from advisor.calibration.fitting.scaling import scaling_section
from advisor.calibration.fitting.stack_constants import (
    LASTING,
    Overheads,
    RunTimes,
    hold_out_sources,
)
from advisor.calibration.fitting.stack_runs import (
    TimedRun,
    blank_training,
    fit_slowdowns,
    group_ratios,
    timed_runs,
)
from advisor.calibration.fitting.whole_runs import whole_run_sections
from advisor.calibration.tables.context import Engine
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.foundation.resources import data_path
from advisor.nouns.software.efficiency import Trained
from advisor.nouns.software.stacks import fitted_stacks, stack_named


def training_sections(kernels: Section, catalog: Catalog) -> Section:
    """Sections of ``calibration.yaml`` that training runs determine, given fitted kernels.

    ``network``, ``sustained``, ``software``, ``intervals``, ``trained`` and ``delivery``.

    Parameters
    ----------
    kernels : dict
        The sections that the kernel tables determine.
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
    runs = times.under(found)
    intervals = fit_intervals(hold_out_sources(times))
    slowdowns = fit_slowdowns(runs)
    ranges: Section = {name: each.model_dump(mode="json") for name, each in intervals.items()}
    sections: Section = network | {
        "sustained": {LASTING: found.sustained},
        "software": {
            stack: {
                "slowdown": slowdowns[stack],
                "sample_slowdown": slowdowns[None],
                "slowdown_groups": len(group_ratios(run for run in runs if run.kind == stack)),
                **(_overheads(found) if stack_named(stack).overlaps_traffic else {}),
            }
            for stack in fitted_stacks()
        },
        "intervals": blank | ranges,
        "trained": {
            generation: _trained([run for run in runs if run.generation == generation])
            for generation in sorted({run.generation for run in runs})
        },
    }
    fitted = join_calibration(kernels | provisional | sections, data_path(FITTED))
    delivery, hours = whole_run_sections(Engine(catalog=catalog, calibration=fitted))
    return sections | {"delivery": delivery, "intervals": stated | ranges | hours}


def _overheads(found: Overheads) -> Section:
    return {name: value for name, value in found._asdict().items() if name != "sustained"}


def _trained(runs: Sequence[TimedRun]) -> Section:
    """Work that the runs of one generation cover."""
    return Trained(
        formats=tuple(sorted({run.compute for run in runs})),
        accelerators=max(run.accelerators for run in runs),
    ).model_dump(mode="json")
