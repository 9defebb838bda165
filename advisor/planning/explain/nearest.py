"""The nearest cards where nothing does the work, and what would make them do it."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.errors import InputError
from advisor.estimate.results import Estimate
from advisor.nouns.case import Case, Hardware
from advisor.nouns.software.efficiency import Calibration
from advisor.planning.placed import explained
from advisor.planning.results import Rejection, RejectionCode
from advisor.planning.stated import best_placement


def nearest(
    case: Case,
    rejections: Sequence[Rejection],
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
) -> Estimate | None:
    """Return the estimate of the card that lacks the least memory, with its ways out.

    Parameters
    ----------
    rejections : sequence of Rejection
        Of a case that has no plan.

    Returns
    -------
    Estimate or None
        On as many cards as are owned, else on one. None if no card failed for its memory, or
        nothing would make it fit.
    """
    short = [item for item in rejections if item.code is RejectionCode.MEMORY]
    if not short:
        return None
    key = min(short, key=lambda item: (item.miss, item.accelerator)).accelerator
    owned = {item.accelerator: item.count for item in case.limits.owned}
    hardware = Hardware(accelerator=key, count=owned.get(key, 1))
    placed = case.model_copy(update={"hardware": hardware})
    try:
        placement = best_placement(
            placed, architecture=architecture, catalog=catalog, calibration=calibration
        )
        found = explained(
            placed,
            placement,
            architecture=architecture,
            catalog=catalog,
            calibration=calibration,
            curves=False,
        )
    except InputError:
        return None
    return found if found.ways_out or found.improvements else None
