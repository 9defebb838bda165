"""80 % intervals of training time, by kind of work, from runs that the fit has not seen."""

from collections.abc import Sequence

from advisor.calibration.fitting.robust import POOL_GROUPS, pulled_to_pool, rounded
from advisor.calibration.fitting.stack_constants import HeldOut
from advisor.calibration.fitting.stack_runs import TAILS, WORKS
from advisor.calibration.scoring.report import group_quantile
from advisor.estimate.training.report import GUESSED_TIME, TRAINING_INTERVAL
from advisor.foundation.quantities import Evidence
from advisor.nouns.software.efficiency import UNMEASURED, Interval


def fit_intervals(held_out: Sequence[HeldOut]) -> dict[str, Interval]:
    """80 % intervals of training time, from residuals of runs that the fit has not seen.

    By name, each also with ``_unmeasured``, wider by as much as dense models are farther off on
    cards without kernel measurements. The bounds of a kind of work are drawn towards those of all
    runs, so widened, the fewer groups of it were measured; with few, they are no narrower.
    ``training_time_guessed`` is how much farther off runs with guessed settings are.
    """
    base = _quantiles([run for run in held_out if run.run.interval == TRAINING_INTERVAL])
    strange = _quantiles([run for run in held_out if run.run.interval.endswith(UNMEASURED)])
    pool = _quantiles(held_out)
    # Errors on unmeasured cards can go both ways, so the larger widening applies to both ends.
    wider = max(1.0, base[0] / strange[0], strange[1] / base[1])
    beyond = (pool[0] / wider, pool[1] * wider)
    found = {GUESSED_TIME: _guessed(held_out)}
    for work in WORKS:
        name = f"{TRAINING_INTERVAL}{work}"
        own = [run for run in held_out if run.run.interval == name]
        groups = len({run.run.group for run in own})
        low, high = pulled_to_pool(_quantiles(own) if own else beyond, beyond, groups)
        if groups < POOL_GROUPS:
            # Few groups that happen to agree are less evidence, not a narrower range.
            low, high = min(low, beyond[0]), max(high, beyond[1])
        found[name] = _interval(
            low, high, groups, f"{groups} groups of published runs, each source held out"
        )
        found[f"{name}{UNMEASURED}"] = _interval(
            low / wider,
            high * wider,
            groups,
            f"{name}, widened as runs on cards without kernel measurements are",
            Evidence.ASSUMED,
        )
    return found


def _guessed(held_out: Sequence[HeldOut]) -> Interval:
    """Widening of a range if the settings of a run are guessed; none without such runs."""
    runs = [run for run in held_out if run.run.guessed]
    groups = len({run.run.group for run in runs})
    stated = _quantiles([run for run in held_out if not run.run.guessed])
    own = _quantiles(runs) if groups >= POOL_GROUPS else stated
    return _interval(
        own[0] / stated[0], own[1] / stated[1], groups, "guessed settings over stated ones"
    )


def _interval(
    low: float, high: float, groups: int, source: str, evidence: Evidence = Evidence.CALIBRATED
) -> Interval:
    return Interval(
        low=rounded(min(1.0, low), 3),
        high=rounded(max(1.0, high), 3),
        evidence=evidence,
        groups=groups,
        source=f"10 % and 90 % of measured over predicted step time: {source}",
    )


def _quantiles(runs: Sequence[HeldOut]) -> tuple[float, float]:
    """10 % and 90 % of the residuals, every group weighing one."""
    residuals, groups = [item.residual for item in runs], [item.run.group for item in runs]
    low, high = (group_quantile(residuals, groups, share) for share in TAILS)
    return low, high
