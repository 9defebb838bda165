"""Parts of the hours of a whole run besides its steps, and what spot instances add."""

from advisor.equations.goodput import lost_time
from advisor.estimate.results import StepTime
from advisor.estimate.terms import RUN_TIME, term
from advisor.estimate.training.delivered import Losses
from advisor.foundation.quantities import Range, Term
from advisor.nouns.software.delivery import Reliability


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

    Parameters
    ----------
    lost : Losses
        Of one configuration.
    accelerators : int
        Accelerators of the job; any failure stops all of them.
    training_s, evaluation_s : float
        Without failures and checkpoints. [s]
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
    return tuple(term(RUN_TIME, name, value, "s") for name, value in shares.items() if value > 0)


def interrupted_time(time: StepTime, hours: Range) -> StepTime:
    """Return the time of a run on instances that can be taken back.

    With a longer run, the term of the interruptions, and a smaller goodput.

    Parameters
    ----------
    hours : Range
        Hours of the run for an hour of work.
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
