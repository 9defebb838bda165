"""A run on spot instances: the time that interruptions add."""

from __future__ import annotations

from advisor.estimate.results import StepTime
from advisor.foundation.quantities import Range


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
            "run_hours": time.run_hours.times(hours),
            "goodput": Range(
                low=share.low / hours.high,
                expected=share.expected / hours.expected,
                high=share.high / hours.low,
                evidence=share.evidence.weakest(hours.evidence),
            ),
        }
    )
