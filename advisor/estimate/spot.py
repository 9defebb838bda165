"""A run on spot instances: the time that interruptions add."""

from __future__ import annotations

from advisor.estimate.results import StepTime
from advisor.estimate.terms import RUN_TIME, term
from advisor.foundation.quantities import Range


def interrupted_time(time: StepTime, hours: Range) -> StepTime:
    """Return the time of a run on instances that can be taken back.

    Parameters
    ----------
    hours : Range
        Hours of the run for an hour of work.

    Returns
    -------
    StepTime
        With a longer run, the term of the interruptions, and a smaller goodput.
    """
    share = time.goodput
    added_s = sum(item.value for item in time.run_terms) * (hours.expected - 1.0)
    interruptions = term(RUN_TIME, "spot", added_s, "s", f"x {hours.expected - 1.0:.3g}")
    return time.model_copy(
        update={
            "run_hours": time.run_hours.times(hours),
            "run_terms": (*time.run_terms, interruptions) if added_s > 0 else time.run_terms,
            "goodput": Range(
                low=share.low / hours.high,
                expected=share.expected / hours.expected,
                high=share.high / hours.low,
                evidence=share.evidence.weakest(hours.evidence),
            ),
        }
    )
