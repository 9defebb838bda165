"""The estimate of one configuration with all that an answer says of it."""

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.case import Case
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.balancer import with_front
from advisor.planning.beside_api import with_api
from advisor.planning.day import with_day
from advisor.planning.energy_use import with_energy
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.explain.tuning import improvements
from advisor.planning.search.neighbours import neighbours
from advisor.planning.spot import with_price_age


def estimate_placed(
    case: Case,
    placement: Placement,
    *,
    architecture: ModelArchitecture,
    calibration: Calibration,
    run: TrainingRun | None = None,
) -> Estimate:
    """Estimate one configuration, as every plan and every row of a sweep shows it.

    ``run``: the resolved training workload, if the caller has it already.
    """
    found = estimate_configuration(
        case, placement, architecture=architecture, calibration=calibration, run=run
    )
    found = with_day(case, placement, found, architecture=architecture, calibration=calibration)
    found = with_front(case, placement.offer, found)
    found = with_energy(case, placement.accelerator, found)
    found = with_price_age(found, placement.offer, case.limits.price_kind)
    return with_api(case, architecture, found)


def explained(
    case: Case,
    placement: Placement,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    curves: bool,
) -> Estimate:
    """Estimate a configuration with its neighbours, the limits it misses and the ways out.

    Parameters
    ----------
    case : Case
        With open lengths filled in.
    curves : bool
        Also compute how batch and length change memory and speed.
    """
    result = estimate_placed(case, placement, architecture=architecture, calibration=calibration)
    around = neighbours(case, placement, architecture=architecture, calibration=calibration)
    missed = missed_limits(result, case.limits)
    result = result.model_copy(update={"neighbours": around, "missed_limits": missed})
    if not isinstance(case.workload, Serving):
        better = improvements(
            placement.training(case, architecture),
            placement,
            architecture=architecture,
            calibration=calibration,
        )
        result = result.model_copy(update={"improvements": better})
    case = _at_once(case, result)
    if curves:
        from advisor.planning.explain.curves import memory_curves

        found = memory_curves(case, placement, architecture=architecture, calibration=calibration)
        result = result.model_copy(update={"curves": found})
    if result.memory.fits:
        return result
    from advisor.planning.explain.ways_out import ways_out

    ways = ways_out(
        case, placement, result, architecture=architecture, catalog=catalog, calibration=calibration
    )
    return result.model_copy(update={"ways_out": ways})


def _at_once(case: Case, result: Estimate) -> Case:
    """Return a case with the requests in flight that its arrivals lead to, in their place."""
    workload = case.workload
    if result.serving is None or result.serving.arrivals is None:
        return case
    update = {
        "requests_per_s": None,
        "concurrency": max(1, round(result.serving.arrivals.in_flight)),
    }
    return case.model_copy(update={"workload": workload.model_copy(update=update)})
