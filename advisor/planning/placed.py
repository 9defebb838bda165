"""The estimate of one configuration with all that an answer says of it, its energy included."""

from __future__ import annotations

import numpy as np

from advisor.catalog.economy import Economy, Place, load_economy
from advisor.catalog.nodes import groups_of, owned_node
from advisor.catalog.places import grid_of
from advisor.equations.energy import carbon_kg, energy_kwh, rated_kw
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import CostBreakdown, Estimate
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.money import Owning
from advisor.nouns.workload import Serving
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.explain.tuning import improvements
from advisor.planning.prepared import PricedCase
from advisor.planning.search.neighbours import neighbours
from advisor.planning.search.options import Option
from advisor.planning.search.systems import System
from advisor.planning.spot import with_price_age

CLOUD_PLACES = {"GCP": "gcp"}
"""Providers whose regions have carbon figures of their own, and how their keys start."""


@record
class Power:
    """What machines in use draw, as shares of their accelerators' board power."""

    host_share: float
    load_share: float
    pue: float

    @classmethod
    def of(cls, groups: tuple[str, ...], owning: Owning, economy: Economy) -> Power:
        """Return the expected power: the user's values, or the cited defaults of the machines."""
        names = ("host_power_share", "load_share", "pue")
        return cls(*(economy.stated(owning, name, *groups) for name in names))

    def kwh(self, accelerator: Accelerator, count: int, hours: float) -> float:
        """Return the energy of some hours in use. [kWh]"""
        return float(
            energy_kwh(
                rated_kw=rated_kw(
                    accelerators=count,
                    board_power_w=accelerator.board_power_w or 0.0,
                    host_power_share=self.host_share,
                ),
                load_share=self.load_share,
                pue=self.pue,
                hours=hours,
            )
        )


def with_energy(case: Case, accelerator: Accelerator, estimate: Estimate) -> Estimate:
    """Return an estimate with the energy and carbon of its run, or of a month of serving.

    Unknown where the catalog has no board power.
    """
    if accelerator.board_power_w is None:
        return estimate
    economy, count = load_economy(), estimate.count
    hours = estimate.time.run_hours if estimate.time else Range.exact(HOURS_PER_MONTH)
    groups = groups_of(accelerator, owned_node(accelerator, count).accelerators)
    power = Power.of(groups, case.owning, economy)
    energy = hours.times(_spread(accelerator, count, case.owning, economy, power, groups))
    place = carbon_place(case, estimate.cost, economy)
    given = case.owning.carbon_g_per_kwh
    intensity = place.carbon_g_per_kwh if given is None else given
    carbon = energy.scaled(float(carbon_kg(energy_kwh=1.0, g_per_kwh=intensity)))
    period = "run" if estimate.time else "month"
    terms = (
        Term(
            name="energy",
            title=f"Energy of the {period}: accelerators, the rest of their machines, cooling",
            value=energy.expected,
            unit="kWh",
            formula="accelerators x board power x (1 + rest) x draw in use x PUE x hours",
            substituted=(
                f"{count} x {accelerator.board_power_w:,.0f} W x (1 + {power.host_share:g}) x "
                f"{power.load_share:g} x {power.pue:g} x {trimmed(hours.expected, 4)} h"
            ),
        ),
        Term(
            name="carbon",
            title=f"Carbon of that energy, {place.name}",
            value=carbon.expected,
            unit="kg",
            formula="energy x carbon intensity of the grid",
            substituted=f"{trimmed(energy.expected, 4)} kWh x {intensity:g} g/kWh",
        ),
    )
    cost = estimate.cost.changed(
        energy_kwh=energy,
        carbon_kg=carbon,
        carbon_place=place.name,
        terms=(*estimate.cost.terms, *terms),
    )
    return estimate.changed(cost=cost)


def carbon_place(case: Case, cost: CostBreakdown, economy: Economy) -> Place:
    """Return the stated place, the offer's region or its country, or the default place.

    Of an offer that spans several regions, the grid is that of the one that the case asks for.
    """
    key = case.owning.place
    if "place" not in case.owning.model_fields_set and cost.provider:
        cloud = f"{CLOUD_PLACES.get(cost.provider)}-{cost.region}"
        known = any(item.key == cloud for item in economy.places)
        key = cloud if known else grid_of(cost.region or "", case.limits.regions) or key
    return economy.place(key)


def _spread(
    accelerator: Accelerator,
    count: int,
    owning: Owning,
    economy: Economy,
    power: Power,
    groups: tuple[str, ...],
) -> Range:
    """Return the energy of one hour, with the spread of what is not given, in quadrature. [kWh]"""
    middle = power.kwh(accelerator, count, 1.0)
    down = up = 0.0
    for name, field in (
        ("host_power_share", "host_share"),
        ("load_share", "load_share"),
        ("pue", "pue"),
    ):
        if getattr(owning, name) is not None:
            continue
        default = economy.default(name, *groups)
        for end in (default.low, default.high):
            values = {
                item: getattr(power, item) for item in ("host_share", "load_share", "pue")
            } | {field: end}
            moved = Power(**values).kwh(accelerator, count, 1.0) - middle
            down, up = np.hypot(down, min(moved, 0.0)), np.hypot(up, max(moved, 0.0))
    return Range(
        low=middle - float(down),
        expected=middle,
        high=middle + float(up),
        evidence=Evidence.ASSUMED if down or up else Evidence.DERIVED,
    )


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
