"""Numbers of accelerators that cannot meet a limit even at the data sheet's peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.estimate.candidates import matmul_peak
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.units import HOUR_S
from advisor.nouns.limits import Constraints
from advisor.planning.search.options import cheapest_offer
from advisor.planning.search.systems import System


def within_reach(
    system: System,
    run: TrainingRun,
    flops: float,
    limits: Constraints,
    has_layouts: Callable[[int], bool],
) -> System:
    """Drop counts whose roofline misses the deadline or the budget.

    Parameters
    ----------
    system : System
        With the run's number format.
    flops : float
        Of the whole run, without recomputation. [FLOPs]
    has_layouts : callable
        Whether any layout exists for a number of accelerators.

    Returns
    -------
    System
        With at least its largest and its smallest count that has a layout. The largest shows by
        how much a deadline is missed, the smallest by how much a budget is.

    Notes
    -----
    The pruning is exact: no configuration is faster than its FLOPs at the dense peak, so no
    dropped one could meet the limits.
    """
    peak = matmul_peak(system.accelerator, run.recipe.compute)
    if peak is None or (limits.deadline_hours is None and limits.budget_usd is None):
        return system
    _, price = cheapest_offer(system, limits.price_kind)
    deadline = limits.deadline_hours or float("inf")
    budget = limits.budget_usd or float("inf")

    def reachable(count: int) -> bool:
        hours = flops / (count * peak) / HOUR_S
        instances = -(-count // system.node.accelerators)
        return hours <= deadline and hours * instances * price <= budget

    possible = [count for count in system.counts if has_layouts(count)]
    ends = {*possible[:1], *possible[-1:]}
    kept = tuple(count for count in possible if reachable(count) or count in ends)
    return replace(system, counts=kept)
