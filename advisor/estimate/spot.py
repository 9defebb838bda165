"""A run on spot instances: the time that interruptions add."""

from __future__ import annotations

from advisor.estimate.results import StepTime
from advisor.quantities import Range


def interrupted(time: Range, hours: Range) -> Range:
    """Return a time with interruptions: both ranges at their ends together."""
    return Range(
        low=time.low * hours.low,
        expected=time.expected * hours.expected,
        high=time.high * hours.high,
        evidence=time.evidence.weakest(hours.evidence),
    )


def interrupted_time(time: StepTime, hours: Range) -> StepTime:
    """Return the time of a run whose instances are taken back now and then.

    Parameters
    ----------
    time : StepTime
        Without interruptions.
    hours : Range
        Hours of the run for an hour of work.

    Returns
    -------
    StepTime
        With a longer run and a smaller share of it that trains.
    """
    share = time.goodput
    return time.model_copy(
        update={
            "run_hours": interrupted(time.run_hours, hours),
            "goodput": Range(
                low=share.low / hours.high,
                expected=share.expected / hours.expected,
                high=share.high / hours.low,
                evidence=share.evidence.weakest(hours.evidence),
            ),
        }
    )
