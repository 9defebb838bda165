"""What a whole run delivers of a tuned benchmark: its losses, its range and its hours by cause."""

import numpy as np

from advisor.equations.training.goodput import lost_time, spread_out, straggling
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.results import StepTime
from advisor.estimate.terms import term, time_terms
from advisor.foundation.quantities import Range, Term
from advisor.foundation.record import record
from advisor.nouns.software.delivery import Delivery, Operator, Reliability
from advisor.nouns.software.efficiency import Calibration, Interval

WHOLE_RUN = "whole_run"
"""Name of the interval of a whole run's hours, before the operator's class."""


@record
class Losses:
    """Time that a whole run adds to each second of its steps. [s/s]"""

    stragglers: Floats
    operation: Floats

    @property
    def total(self) -> Floats:
        """Both together. [s/s]"""
        return self.stragglers + self.operation


def machines_of(candidates: Candidates) -> Floats:
    """Machines of each job."""
    hardware = candidates.hardware
    return np.ceil(candidates.layout.accelerators / hardware.node_accelerators)


def losses(operator: Operator, candidates: Candidates, delivery: Delivery) -> Losses:
    """Return what whole runs lose against a tuned benchmark.

    Beyond the terms with a name, they lose a share that grows with the machines: real data,
    contention with other jobs, settings short of the best, evaluation that nobody stated, time
    between jobs. Published totals hold all of these and tell none apart.
    """
    machines = machines_of(candidates)
    spread = spread_out(machines=machines, ramp_machines=delivery.ramp_machines)
    return Losses(
        stragglers=np.asarray(
            straggling(
                machines=machines, slow_machines=delivery.slow_machines, slow_by=delivery.slow_by
            )
        ),
        operation=np.asarray(delivery.lost_by(operator) * spread),
    )


def delivered_interval(
    step: Interval, operator: Operator, machines: float, calibration: Calibration
) -> Interval:
    """Return the range of a run's hours: that of its step, and over machines that of whole runs.

    Never narrower than ``step``, and never narrower over more machines. Errors are factors, so
    their logarithms are averaged.
    """
    whole = calibration.intervals[f"{WHOLE_RUN}_{operator.value}"]
    weight = float(spread_out(machines=machines, ramp_machines=calibration.delivery.ramp_machines))
    if not weight:
        return step
    return step.changed(
        low=step.low ** (1 - weight) * min(step.low, whole.low) ** weight,
        high=step.high ** (1 - weight) * max(step.high, whole.high) ** weight,
        evidence=step.evidence.weakest(whole.evidence),
    )


def run_terms(
    reliability: Reliability,
    lost: Losses,
    *,
    accelerators: int,
    training_s: float,
    evaluation_s: float,
) -> tuple[Term, ...]:
    """Exclusive shares of a run's wall-clock time.

    In seconds; they sum to the run. Terms of 0 s are left out.

    ``accelerators``: accelerators of the job; any failure stops all of them. ``training_s`` and
    ``evaluation_s``: without failures and checkpoints. [s]
    """
    saving, again, restarting = (
        float(share)
        for share in lost_time(
            accelerators=float(accelerators),
            interruptions_per_accelerator_hour=reliability.interruptions_per_accelerator_hour,
            checkpoint_s=reliability.checkpoint_s,
            restart_s=reliability.restart_s,
        )
    )
    steps = training_s + evaluation_s
    slow, beyond = (steps * float(share[0]) for share in (lost.stragglers, lost.operation))
    useful = steps + slow + beyond
    shares = {
        "startup": reliability.startup_s,
        "training": training_s,
        "evaluation": evaluation_s,
        "stragglers": slow,
        "operation": beyond,
        "checkpoints": saving * useful,
        "lost_work": again * useful,
        "restarts": restarting * useful,
    }
    return time_terms("run_time", shares)


def interrupted_time(time: StepTime, hours: Range) -> StepTime:
    """Return the time of a run on instances that can be taken back.

    With a longer run, the term of the interruptions, and a smaller goodput.

    ``hours``: hours of the run for an hour of work.
    """
    share = time.goodput
    added_s = sum(item.value for item in time.run_terms) * (hours.expected - 1.0)
    interruptions = term("run_time", "spot", added_s, "s", more=hours.expected - 1.0)
    return time.changed(
        run_hours=time.run_hours.times(hours),
        run_terms=(*time.run_terms, interruptions) if added_s > 0 else time.run_terms,
        goodput=Range(
            low=share.low / hours.high,
            expected=share.expected / hours.expected,
            high=share.high / hours.low,
            evidence=share.evidence.weakest(hours.evidence),
        ),
    )
