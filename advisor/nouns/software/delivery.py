"""What a whole run delivers of a tuned benchmark's speed: who runs it, and the constants."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun
from advisor.nouns.inputs import Labelled, asked
from advisor.nouns.software.engines import Fraction, NonNegative, Positive, Seconds


class Operator(Labelled):
    """Who runs the machines, as far as published hours of whole runs differ by it."""

    TENANT = "tenant", "A team on rented or shared machines"
    LAB = "lab", "A lab that operates and tunes its own cluster"


class Operated(Noun):
    """A run that somebody operates."""

    operator: Operator = asked(
        "who runs it: a team on rented or shared machines (tenant), or a lab that operates and "
        "tunes its own cluster (lab); matters over several machines",
        label="Run by",
        metavar="WHO",
        default=Operator.TENANT,
    )
    """Whole runs of either class lose another share of a tuned benchmark's speed."""


class Lost(Noun):
    """Time that whole runs of one class of operator lose."""

    share: NonNegative
    """In a run over many machines, beyond every term that has a name, per second of training.
    [s/s]"""
    groups: Annotated[int, Field(ge=0)]
    """Sources of published runs behind it."""


class Delivery(Noun):
    """Constants of the hours of whole runs."""

    slow_machines: Fraction
    """Share of machines that are slow at any time."""
    slow_by: NonNegative
    """Time that a slow machine adds to the step of the whole job. [s/s]"""
    ramp_machines: Positive
    """Machines over which ``lost`` grows to 63 % of its share."""
    source: str
    lost: dict[Operator, Lost]

    def lost_by(self, operator: Operator) -> float:
        """Return the share that a class of operator loses. [s/s]"""
        return self.lost[operator].share


class Reliability(Noun):
    """Rates and times of the interruptions of a long run."""

    interruptions_per_accelerator_hour: NonNegative
    checkpoint_s: Seconds
    restart_s: Seconds
    startup_s: Seconds
    """Time from renting to the first step: boot, image, weights and data, compilation. [s]"""
    source: str
