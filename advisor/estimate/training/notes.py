"""What an estimate of training assumes, one sentence each."""

from collections.abc import Iterator

from advisor.architecture.table.model import Unit
from advisor.estimate.placement import Placement
from advisor.estimate.results import StepTime
from advisor.estimate.tools.software import able_tools
from advisor.estimate.training.loading import host_note
from advisor.estimate.training.report import time_quantity
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.formatting import duration
from advisor.foundation.units import HOUR_S
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.stacks import beyond_stack


def training_notes(
    run: TrainingRun, placement: Placement, calibration: Calibration, time: StepTime
) -> Iterator[str]:
    """Yield what an estimate of training assumes, one sentence each."""
    spot = placement.interrupted
    if spot is not None:
        hours = f"spot: an hour of work takes {spot.expected:.3g} hours"
        yield f"{hours} with interruptions and lost work"
    yield from run.assumptions
    if run.loading is not None and run.loading.workers is None:
        yield host_note(placement.node)
    yield f"{run.recipe.title}, {run.optimizer.value} optimizer"
    yield from calibration.beyond_training(
        placement.accelerator, compute=run.recipe.compute, count=placement.count
    )
    yield from _beyond(run, placement)
    yield from _few_runs(run, placement, calibration)
    yield f"{duration(calibration.reliability.startup_s)} of start-up before the first step"
    yield _used(time, run)


def _few_runs(run: TrainingRun, placement: Placement, calibration: Calibration) -> tuple[str, ...]:
    """Say where the step's constants rest on fewer than three independent published runs."""
    interval = calibration.training_interval(
        time_quantity(run.architecture, frozen=run.frozen),
        placement.accelerator,
        measured=calibration.kernels_for(placement.accelerator)[1],
        compute=run.recipe.compute,
        count=placement.count,
    )
    text = run.unit is Unit.TOKEN
    return interval.caution + (calibration.software[run.software].caution if text else ())


def _used(time: StepTime, run: TrainingRun) -> str:
    """Say which of the two numbers for a run deadline and cost use."""
    steps, whole = (hours.scaled(HOUR_S) for hours in (time.benchmark_hours, time.run_hours))
    return (
        f"deadline and cost use {duration(whole)}, which whole runs deliver (operator: "
        f"{run.operator.value}); in a tuned benchmark the steps alone take {duration(steps)}"
    )


def _beyond(run: TrainingRun, placement: Placement) -> tuple[str, ...]:
    """Say what the layout asks that the software does not offer."""
    offer = None if placement.tool is None else placement.tool.training
    if placement.tool is None or offer is None:
        return beyond_stack(run.stack, placement.layout)
    missing = offer.lacking(placement.layout, four_bit=run.four_bit)
    if not missing:
        return ()
    able = able_tools(placement.tool, placement.accelerator, placement.layout, run)
    does = f"; {' or '.join(able)} does" if able else ""
    return (f"{placement.tool.title} offers no {' and no '.join(missing)}{does}",)
