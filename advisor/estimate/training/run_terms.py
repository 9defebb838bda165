"""Parts of the hours of a whole run besides its steps."""

from __future__ import annotations

from advisor.equations.goodput import lost_time
from advisor.estimate.terms import RUN_TIME, term
from advisor.estimate.training.delivered import Losses
from advisor.foundation.quantities import Term
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

    Parameters
    ----------
    lost : Losses
        Of one configuration.
    accelerators : int
        Accelerators of the job; any failure stops all of them.
    training_s, evaluation_s : float
        Without failures and checkpoints. [s]

    Returns
    -------
    tuple of Term
        In seconds; they sum to the run. Terms of 0 s are left out.
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
