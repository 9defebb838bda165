"""Options as points for people: the cost-time chart, and the fewest that meet a deadline."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.architecture.model import ModelArchitecture
from advisor.efficiency import Calibration
from advisor.estimate.cost import billed
from advisor.estimate.serving_report import serving_quantity
from advisor.estimate.shape import shape_widening
from advisor.estimate.spot import interrupted
from advisor.estimate.training import time_quantity
from advisor.planning.options import Option, best_of_systems, frontier
from advisor.planning.results import Candidate
from advisor.planning.sentences import label
from advisor.planning.systems import System
from advisor.quantities import Range
from advisor.units import MILLISECOND

CHART_CANDIDATES = 240
"""Points shown in the cost-time chart, the frontier included."""


def chart_points(
    options: Sequence[Option],
    systems: Sequence[System],
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> tuple[Candidate, ...]:
    """Return the frontier and the best of each system, fastest first."""
    best = frontier(options)
    keep = dict.fromkeys((*best, *best_of_systems(options)))
    on_frontier = set(best)
    shown = sorted(keep, key=lambda item: (item not in on_frontier, item.value))
    shown = sorted(shown[:CHART_CANDIDATES], key=lambda item: (item.time, item.cost_usd))
    return as_candidates(shown, systems, architecture, calibration, on_frontier=on_frontier)


def fewest(options: Sequence[Option], systems: Sequence[System]) -> list[Option]:
    """Return each accelerator's option with the fewest of them, the cheapest among equals."""
    found: dict[str, Option] = {}

    def rank(option: Option) -> tuple[float, float, float]:
        return (option.count, option.cost_high_usd, option.time_high)

    for option in sorted(options, key=rank):
        found.setdefault(systems[option.system].accelerator.key, option)
    return list(found.values())


def as_candidates(
    options: Sequence[Option],
    systems: Sequence[System],
    architecture: ModelArchitecture,
    calibration: Calibration,
    *,
    on_frontier: set[Option],
) -> tuple[Candidate, ...]:
    """Return options with ranges and names, in their order.

    Parameters
    ----------
    options : sequence of Option
    systems : sequence of System
    architecture : ModelArchitecture
    calibration : Calibration
    on_frontier : set of Option
        Those that none beats in both cost and time.

    Returns
    -------
    tuple of Candidate
    """
    serving = bool(options) and options[0].first_token_s is not None
    quantity = serving_quantity(architecture) if serving else time_quantity(architecture)
    widening = shape_widening(architecture)
    times: dict[int, Range] = {}
    for index in {option.system for option in options}:
        kernels, measured = calibration.kernels_for(systems[index].accelerator)
        interval = calibration.interval(quantity, measured=measured)
        times[index] = Range.around(
            1.0,
            low_factor=interval.low / widening,
            high_factor=interval.high * widening,
            evidence=interval.evidence.weakest(kernels.evidence, architecture.evidence),
        )
    return tuple(
        _candidate(
            option,
            systems[option.system],
            times[option.system].scaled(option.time),
            option in on_frontier,
        )
        for option in options
    )


def _candidate(option: Option, system: System, time: Range, on_frontier: bool) -> Candidate:
    serving = option.first_token_s is not None
    if option.interrupted is not None:
        time = interrupted(time.scaled(1 / option.interrupted.expected), option.interrupted)
    if option.offer is None:
        cost = None
    elif serving:
        cost = Range.exact(option.cost_usd)
    else:
        cost = billed(option.offer.billing, hours=time, usd_per_hour=option.usd_per_hour)
    return Candidate(
        accelerator=system.accelerator.key,
        accelerator_name=system.accelerator.name,
        count=option.count,
        provider=option.offer.provider if option.offer else None,
        instance_type=option.offer.instance_type if option.offer else None,
        hours=None if serving else time,
        tpot_ms=time.scaled(1 / MILLISECOND) if serving else None,
        cost_usd=cost,
        on_frontier=on_frontier,
        label=label(option, system),
    )
