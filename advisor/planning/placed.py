"""The estimate of one configuration with all that an answer says of it."""

from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.case import Case
from advisor.nouns.workload import Serving
from advisor.planning.energy_use import with_energy
from advisor.planning.explain.missed import missed_limits
from advisor.planning.explain.tuning import improvements
from advisor.planning.prepared import PricedCase
from advisor.planning.search.neighbours import neighbours
from advisor.planning.search.options import Option
from advisor.planning.search.systems import System
from advisor.planning.spot import with_price_age


def estimate_placed(
    asked: ResolvedCase, placement: Placement, *, run: TrainingRun | None = None
) -> Estimate:
    """Estimate one configuration, as every plan and every row of a sweep shows it.

    ``run``: the resolved training workload, if the caller has it already.
    """
    asked = asked.cached_in(placement.cache)
    case = asked.case
    found = estimate_configuration(asked, placement, run=run)
    if isinstance(case.workload, Serving):
        from advisor.planning.balancer import with_front
        from advisor.planning.beside_api import with_api
        from advisor.planning.day import with_day

        found = with_day(asked, placement, found)
        found = with_front(case, placement.offer, found)
        found = with_api(case, asked.architecture, found)
    found = with_energy(case, placement.accelerator, found)
    return with_price_age(found, placement.offer, case.limits.price_kind)


def explained(asked: PricedCase, placement: Placement, *, curves: bool) -> Estimate:
    """Estimate a configuration with its neighbours, the limits it misses and the ways out.

    ``curves``: also compute how batch and length change memory and speed.
    """
    asked = asked.cached_in(placement.cache)
    result = estimate_placed(asked, placement)
    around = neighbours(asked, placement)
    missed = missed_limits(result, asked.case.limits)
    result = result.changed(neighbours=around, missed_limits=missed)
    if not isinstance(asked.case.workload, Serving):
        result = result.changed(improvements=improvements(asked, placement, result))
    asked = asked.of(_at_once(asked.case, result))
    if curves:
        from advisor.planning.explain.curves import memory_curves

        result = result.changed(curves=memory_curves(asked, placement))
    if result.memory.fits:
        return result
    from advisor.planning.explain.ways_out import ways_out

    return result.changed(ways_out=ways_out(asked, placement, result))


def _at_once(case: Case, result: Estimate) -> Case:
    """Return a case with the requests in flight that its arrivals lead to, in their place."""
    workload = case.workload
    if result.serving is None or result.serving.arrivals is None:
        return case
    update = {
        "requests_per_s": None,
        "concurrency": max(1, round(result.serving.arrivals.in_flight)),
    }
    return case.changed(workload=workload.changed(**update))


def placement(option: Option, system: System) -> Placement:
    """Return an option as a placement for the estimate."""
    return Placement(
        accelerator=system.accelerator,
        node=system.node,
        count=option.count,
        layout=option.layout,
        precision=option.precision,
        offer=option.offer,
        usd_per_hour=option.usd_per_hour if option.offer else None,
        instances=option.instances,
        owned=system.owned,
        interrupted=option.interrupted,
        tool=system.tool,
        cache=system.cache,
    )
