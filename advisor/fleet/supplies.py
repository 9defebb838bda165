"""What a fleet can consist of: machines to buy or owned, and committed rents."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final, Self

from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.equations.energy import WATTS_PER_KW, kwh_per_month
from advisor.fleet.machines import Machine, machine_named, machines, machines_of, platform_of
from advisor.fleet.portfolio import Portfolio
from advisor.fleet.sentences import years as horizon
from advisor.fleet.solving.problem import Supply, Way, starts_of
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, MONTHS_PER_YEAR
from advisor.nouns.hardware import Offer, PriceKind
from advisor.nouns.limits import Constraints
from advisor.owning.assumptions import upkeep
from advisor.planning.search.systems import allowed_offers
from advisor.planning.spot import aged_factor

WEEKS_PER_MONTH: Final = 365.25 / 12 / 7
NOISE, USED = "noise", "used"
"""Why a machine is barred."""


@record
class Upkeep:
    """What keeping one machine takes, as ``own`` counts it: the user's values, or the defaults."""

    load_share: float
    idle_share: float
    pue: float
    electricity_usd_per_kwh: float
    carbon_g_per_kwh: float
    colocation_usd_per_kw_month: float
    staff_usd_per_machine_month: float

    @classmethod
    def of(cls, machine: Machine, portfolio: Portfolio, economy: Economy) -> Self:
        """Return the inputs of a machine; raises ``InputError`` if no tariff is known or given."""
        # Whoever owns one computer keeps it in free time; a portfolio's takes an administrator's.
        office = () if portfolio.single else ("office",)
        kept = ((*office * (name == "desktop"), name) for name in machine.groups)
        groups = tuple(name for names in kept for name in names)
        values = (upkeep(item.name, groups, portfolio.owning, economy) for item in fields(cls))
        return cls(*(value.expected for value, _ in values))

    def kwh(self, rated_kw: float, hours: float) -> float:
        """Energy of a month with so many hours in use, including cooling. [kWh]"""
        return float(
            kwh_per_month(
                hours_per_month=hours,
                rated_kw=rated_kw,
                load_share=self.load_share,
                idle_share=self.idle_share,
                pue=self.pue,
            )
        )


def owned_supplies(
    portfolio: Portfolio, catalog: Catalog, economy: Economy, months: Sequence[int]
) -> list[tuple[Machine, Supply]]:
    """Return the machines that are there already."""
    found = []
    starts = starts_of(months)
    for item in portfolio.owned:
        for machine, count in machines_of(item.machine, item.count, catalog, economy):
            there = tuple(
                count if item.months_left is None or start < item.months_left else 0
                for start in starts
            )
            supply = _machine_supply(machine, portfolio, economy, Way.OWNED, owned=there)
            found.append((machine, supply))
    return found


def bought_supplies(
    portfolio: Portfolio, catalog: Catalog, economy: Economy, months: Sequence[int]
) -> list[tuple[Machine, Supply]]:
    """Return the machines that the portfolio allows to buy."""
    means, site = portfolio.means, portfolio.site
    for key in (*means.machines, *means.without):
        machine_named(key, catalog, economy)
    found = []
    for machine in machines(catalog, economy) if means.buy else ():
        row = machine.row
        if machine.key in means.without or (means.machines and machine.key not in means.machines):
            continue
        first = _first_period(row.delivery_weeks, site.ready_in_weeks, months)
        if first < len(months):
            supply = _machine_supply(machine, portfolio, economy, Way.BUY, first=first)
            found.append((machine, replace(supply, barred=_bar(machine, portfolio))))
    return found


def _bar(machine: Machine, portfolio: Portfolio) -> str:
    """Return why a machine may not be bought; empty if it may."""
    noise, means = portfolio.site.noise_dba, portfolio.means
    if machine.row.used and not means.used and machine.key not in means.machines:
        return USED
    return NOISE if noise is not None and machine.row.noise_dba > noise else ""


def _first_period(weeks: float, ready_in: float | None, months: Sequence[int]) -> int:
    """Return the first period at whose start an order of today has arrived."""
    late = 0.0 if ready_in is None else max(0.0, weeks - ready_in) / WEEKS_PER_MONTH
    return sum(start < late for start in starts_of(months))


def _machine_supply(
    machine: Machine,
    portfolio: Portfolio,
    economy: Economy,
    way: Way,
    *,
    owned: tuple[int, ...] = (),
    first: int = 0,
) -> Supply:
    kept = Upkeep.of(machine, portfolio, economy)
    rated_kw, row = machine.rated_w / WATTS_PER_KW, machine.row
    idle = kept.kwh(rated_kw, 0.0) * kept.electricity_usd_per_kwh
    busy = kept.kwh(rated_kw, HOURS_PER_MONTH) * kept.electricity_usd_per_kwh
    fixed = idle + rated_kw * kept.colocation_usd_per_kw_month + kept.staff_usd_per_machine_month
    years = portfolio.owning.life_years or row.life_years
    years = years or economy.default("life_years", *machine.groups).expected
    return Supply(
        key=machine.key,
        title=machine.title,
        way=way,
        cards=row.cards,
        capital_usd=0.0 if way is Way.OWNED else machine.usd,
        month_usd=fixed,
        card_hour_usd=(busy - idle) / HOURS_PER_MONTH / row.cards,
        power_kw=rated_kw,
        rack_units=row.rack_units,
        life_months=years * MONTHS_PER_YEAR,
        owned=owned,
        first_period=first,
        platform=platform_of(machine.card),
    )


def committed_supplies(
    portfolio: Portfolio, catalog: Catalog, economy: Economy
) -> list[tuple[Offer, Supply]]:
    """Return the cheapest commitment of each card, machine size and term, with its offer.

    The upper end decides, as in ``recommend``: an old price has to win clearly.
    """
    if not (portfolio.means.rent and portfolio.means.commit):
        return []
    best: dict[tuple[str, int, int], tuple[float, Offer, Supply]] = {}
    for offer in allowed_offers(catalog, Constraints(price_kind=PriceKind.ON_DEMAND)):
        price = offer.on_demand_usd_per_hour
        if price is None or offer.commitment:
            continue
        for plan in economy.commitments:
            if plan.provider != offer.provider or not plan.covers(offer.accelerator):
                continue
            if plan.term_months > portfolio.owning.months:
                continue
            month = price * plan.price_ratio * HOURS_PER_MONTH * offer.price_factor
            upper = month * aged_factor(offer, PriceKind.ON_DEMAND)
            place = (offer.accelerator, offer.accelerators, plan.term_months)
            if place in best and best[place][0] <= upper:
                continue
            supply = Supply(
                key=f"{offer.key}/{plan.term_months}",
                title=f"{offer.provider} {offer.instance_type} for {horizon(plan.term_months)}",
                way=Way.COMMIT,
                cards=offer.accelerators,
                month_usd=month,
                term_months=plan.term_months,
                on_site=False,
                platform=platform_of(catalog.accelerator(offer.accelerator)),
            )
            best[place] = upper, offer, supply
    return [(offer, supply) for _, offer, supply in best.values()]
