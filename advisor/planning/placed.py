"""The estimate of one configuration, with energy, the age of its price and hosted models."""

from __future__ import annotations

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.case import Case
from advisor.nouns.software.efficiency import Calibration
from advisor.planning.beside_api import with_api
from advisor.planning.day import with_day
from advisor.planning.energy_use import with_energy
from advisor.planning.price_age import with_price_age


def estimate_placed(
    case: Case,
    placement: Placement,
    *,
    architecture: ModelArchitecture,
    calibration: Calibration,
    run: TrainingRun | None = None,
) -> Estimate:
    """Estimate one configuration, for ``estimate``, every plan and every row of a sweep.

    Parameters
    ----------
    run : TrainingRun, optional
        The resolved training workload, if the caller has it already.
    """
    found = estimate_configuration(
        case, placement, architecture=architecture, calibration=calibration, run=run
    )
    found = with_day(case, placement, found, architecture=architecture, calibration=calibration)
    found = with_energy(case, placement.accelerator, found)
    found = with_price_age(found, placement.offer, case.limits.price_kind)
    return with_api(case, architecture, found)
