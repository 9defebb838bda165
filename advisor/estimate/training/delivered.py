"""What a whole run delivers of a tuned benchmark: the shares that it loses, and their range."""

from dataclasses import dataclass

import numpy as np

from advisor.equations.whole_runs import beyond_named, blended_bound, spread_out, straggling
from advisor.estimate.candidates import Candidates, Floats
from advisor.nouns.software.delivery import Delivery, Operator
from advisor.nouns.software.efficiency import Calibration, Interval

WHOLE_RUN = "whole_run"
"""Name of the interval of a whole run's hours, before the operator's class."""


@dataclass(frozen=True, slots=True)
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
    """Return what whole runs lose against a tuned benchmark."""
    machines = machines_of(candidates)
    return Losses(
        stragglers=np.asarray(
            straggling(
                machines=machines, slow_machines=delivery.slow_machines, slow_by=delivery.slow_by
            )
        ),
        operation=np.asarray(
            beyond_named(
                machines=machines,
                lost=delivery.lost_by(operator),
                ramp_machines=delivery.ramp_machines,
            )
        ),
    )


def delivered_interval(
    step: Interval, operator: Operator, machines: float, calibration: Calibration
) -> Interval:
    """Return the range of a run's hours: that of its step, and over machines that of whole runs.

    Never narrower than ``step``, and never narrower over more machines.

    Parameters
    ----------
    step : Interval
        Of the time of a step.
    """
    whole = calibration.intervals[f"{WHOLE_RUN}_{operator.value}"]
    weight = float(spread_out(machines=machines, ramp_machines=calibration.delivery.ramp_machines))
    return step.model_copy(
        update={
            "low": blended_bound(step=step.low, whole=min(step.low, whole.low), weight=weight),
            "high": blended_bound(step=step.high, whole=max(step.high, whole.high), weight=weight),
            "evidence": step.evidence.weakest(whole.evidence) if weight > 0 else step.evidence,
        }
    )
