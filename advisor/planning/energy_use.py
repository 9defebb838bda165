"""Energy and carbon of one configuration: the definition that every answer uses."""

from __future__ import annotations

import numpy as np

from advisor.catalog.economy import Economy, Place, load_economy
from advisor.catalog.nodes import groups_of, owned_node
from advisor.catalog.places import grid_of
from advisor.equations.energy import carbon_kg, energy_kwh, rated_kw
from advisor.estimate.results import CostBreakdown, Estimate
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.money import Owning

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
