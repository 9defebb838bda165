"""Money outside the catalog: tariffs and carbon by place, billing, commitments, owning defaults.

``data/README.md`` explains the columns of the tables.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from advisor.catalog.catalog import Catalog
from advisor.catalog.files.checks import check_order
from advisor.catalog.records import IsoDate, Key, Seconds, Text, UsdPerKwh, required
from advisor.errors import refusal
from advisor.foundation import cents
from advisor.foundation.formatting import percent
from advisor.foundation.noun import Noun, read_table, refuse
from advisor.foundation.resources import data_path
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH
from advisor.nouns.hardware import Billing, Confidence, Offer
from advisor.nouns.money import Owning

ENERGY_FILE: Final = "energy.csv"
COMMITMENTS_FILE: Final = "commitments.csv"
BILLING_FILE: Final = "billing.csv"
BALANCERS_FILE: Final = "load_balancers.csv"
DEFAULTS_FILE: Final = "owning_defaults.csv"

Figure = Annotated[float, Field(ge=-1, le=1e7, allow_inf_nan=False)]
CHANGES: Final = "per year"
"""Only figures in this unit may be negative: a price can fall."""

TARIFF_SOURCES: Final = {
    "recalled": "recalled, 2024-25, +-25 %: check your bill",
    "eia-2023": "mean of 2023, US EIA, Electric Power Annual: check your bill",
}
"""Sources of the tariffs, by their key in the table."""
CARBON_SOURCES: Final = {
    "owid-ember": "Our World in Data and Ember through codecarbon 3.3.2 (CC-BY-4.0)",
    "ember-2024": "mean of the EU in 2023, Ember, European Electricity Review 2024",
    "epa-egrid": "US EPA eGRID2023 through codecarbon 3.3.2",
    "google-cloud": "Google Cloud, https://cloud.google.com/sustainability/region-carbon",
}
"""Sources of the carbon figures, by their key in the table."""


class Place(Noun):
    """A row of ``energy.csv``: one country, US state or cloud region."""

    key: Key
    kind: Literal["country", "us_state", "cloud_region"]
    name: Text
    country: Key
    carbon_g_per_kwh: Annotated[float, Field(ge=0, le=5_000, allow_inf_nan=False)]
    carbon_year: Annotated[int, Field(ge=1990, le=2100)] | None = None
    carbon_source: Literal["owid-ember", "ember-2024", "epa-egrid", "google-cloud"]
    household_usd_per_kwh: UsdPerKwh | None = None
    business_usd_per_kwh: UsdPerKwh | None = None
    tariff_source: Literal["recalled", "eia-2023"] | None = None


class Commitment(Noun):
    """A row of ``commitments.csv``: the discount that one provider gives for a term."""

    provider: Text
    plan: Text
    accelerators: str = ""
    term_months: Annotated[int, Field(ge=1, le=60)]
    price_ratio: Annotated[float, Field(gt=0, le=1)]
    ratio_is: Literal["listed", "headline", "recalled"]
    source: Text
    source_date: IsoDate
    confidence: Confidence
    notes: str = ""

    @property
    def caution(self) -> str:
        """What to check before relying on the ratio, in brackets after a blank, or empty."""
        return {"headline": " (at best, as advertised)", "recalled": " (recalled ratio)"}.get(
            self.ratio_is, ""
        )

    def covers(self, accelerator: str) -> bool:
        """Return whether the provider sells this commitment for an accelerator."""
        return not self.accelerators or accelerator in self.accelerators.split()


class LoadBalancer(Noun):
    """A row of ``load_balancers.csv``: a provider's managed load balancer."""

    provider: Text
    product: Text
    usd_per_hour: Annotated[float, Field(gt=0, le=100)]
    usd_per_gb: Annotated[float, Field(ge=0, le=10)]
    source: Text
    source_date: IsoDate
    confidence: Confidence


class BillingRecord(Noun):
    """A row of ``billing.csv``: the time step in which a provider bills."""

    provider: Text
    tier: Text | None = None
    step_s: Annotated[Seconds, Field(gt=0)]
    minimum_s: Seconds
    kept_s: Seconds | None = None
    longest_s: Seconds | None = None
    host_usd_per_hour: Annotated[float, Field(gt=0, le=100)] | None = None
    commitment: Text | None = None
    source: Text
    source_date: IsoDate
    confidence: Confidence


class Default(Noun):
    """A row of ``owning_defaults.csv``: an assumption with its spread and source."""

    field: Text
    group: Text
    low: Figure
    expected: Figure
    high: Figure
    unit: Text
    source: Text
    source_date: IsoDate
    confidence: Confidence

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        told = f"{self.low:g}, {self.expected:g}, {self.high:g}"
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"Give low <= expected <= high, not {told}")
        if self.low < 0 and self.unit != CHANGES:
            raise ValueError(f"Only figures {CHANGES} may be negative, but these are {told}")
        return self


class Economy(Noun):
    """Everything about money except accelerators and offers."""

    places: tuple[Place, ...]
    """Ordered by key."""
    commitments: tuple[Commitment, ...]
    defaults: tuple[Default, ...]

    def place(self, key: str) -> Place:
        """Find a place by its key or name.

        Raises InputError if no place has this key or name. The message suggests the nearest ones.
        """
        wanted = key.casefold().strip()
        if wanted in self._by_place:
            return self._by_place[wanted]
        near = get_close_matches(wanted, self._by_place, n=3, cutoff=0.5)
        raise refusal(
            "unknown_place", value=key, nearest=f"; nearest: {', '.join(near)}" if near else ""
        )

    def priced(self, place: Place) -> Place:
        """Return the place whose tariff applies: itself, or its country."""
        return place if place.tariff_source else self.place(place.country)

    def default(self, field: str, *groups: str) -> Default:
        """Return the default of the first of ``groups`` that has one, or that of ``all``.

        Raises ``KeyError`` if neither exists.
        """
        for group in (*groups, "all"):
            if (field, group) in self._by_default:
                return self._by_default[field, group]
        raise KeyError(field, groups)

    def stated(self, owning: Owning, field: str, *groups: str) -> float:
        """Return the user's value of an input of owning, or its expected default."""
        given: float | None = getattr(owning, field)
        return self.default(field, *groups).expected if given is None else given

    @cached_property
    def _by_place(self) -> dict[str, Place]:
        names = {item.name.casefold(): item for item in self.places}
        return names | {item.key: item for item in self.places}

    @cached_property
    def _by_default(self) -> dict[tuple[str, str], Default]:
        return {(item.field, item.group): item for item in self.defaults}


@cache
def _billing_table() -> dict[tuple[str, str | None], Billing]:
    records = read_table(data_path(BILLING_FILE), BillingRecord)
    check_order([f"{item.provider} {item.tier or ''}" for item in records], file=BILLING_FILE)
    stated = partial(BillingRecord.model_dump, include={*Billing.model_fields}, exclude_none=True)
    return {(item.provider, item.tier): Billing(**stated(item)) for item in records}


@cache
def load_balancers() -> dict[str, LoadBalancer]:
    """Return the managed load balancer of each provider that is known to sell one."""
    records = read_table(data_path(BALANCERS_FILE), LoadBalancer)
    check_order([item.provider for item in records], file=BALANCERS_FILE)
    return {item.provider: item for item in records}


def billing_of(provider: str, tier: str | None = None) -> Billing:
    """Return how a provider bills a kind of price; by the minute if that is not known.

    >>> billing_of("Vultr").step_s
    3600.0
    >>> billing_of("AWS", "capacity block").minimum_s
    86400.0
    """
    table = _billing_table()
    return table.get((provider, tier)) or table.get((provider, None), Billing())


@lru_cache(maxsize=2)
def load_economy(directory: Path | None = None) -> Economy:
    """Read and check the tables; the result is cached for each folder.

    Raises CatalogError if a table is missing or broken. The message names file, entry and field.

    ``directory``: the folder with the tables. Default: the shipped one.

    >>> load_economy().place("deu").carbon_g_per_kwh
    380.95
    """

    def path(name: str) -> Path:
        return data_path(name) if directory is None else directory / name

    places = read_table(path(ENERGY_FILE), Place)
    check_order([item.key for item in places], file=ENERGY_FILE)
    _check_countries(places)
    defaults = read_table(path(DEFAULTS_FILE), Default)
    check_order([f"{item.field}/{item.group}" for item in defaults], file=DEFAULTS_FILE)
    _check_defaults(defaults)
    commitments = read_table(
        path(COMMITMENTS_FILE), Commitment, key=("provider", "plan", "accelerators", "term_months")
    )
    # The records are checked.
    return Economy.model_construct(
        places=tuple(places), commitments=tuple(commitments), defaults=tuple(defaults)
    )


def _check_countries(places: Sequence[Place]) -> None:
    """Refuse a table that lacks a row for a place's country, or for the default place."""
    known = {item.key for item in places if item.kind == "country"}
    usual = str(Owning.model_fields["place"].default)
    if usual not in known:
        refuse(ENERGY_FILE, None, "Add the row: it is the default place.", entry=usual, field="key")
    for item in places:
        if item.country not in known:
            remedy = "Add the row of this country, or correct the key."
            refuse(ENERGY_FILE, item.country, remedy, entry=item.key, field="country")


def _check_defaults(defaults: Sequence[Default]) -> None:
    """Refuse a table with missing or unexpected rows."""
    rows = {(item.field, item.group) for item in defaults}
    groups = required().owning_defaults
    wanted = {(field, group) for field, names in groups.items() for group in names}
    for field, group in sorted(wanted ^ rows):
        missing = (field, group) in wanted
        remedy = "Add the row" if missing else "Correct its field and group, or remove the row"
        entry = f"{field}/{group}"
        value = None if missing else "unknown row"
        refuse(DEFAULTS_FILE, value, f"{remedy}; restore it from git.", entry=entry, field="group")


def places() -> tuple[Place, ...]:
    """Return the places with a known tariff, by name: the allowed values of ``owning.place``."""
    economy = load_economy()
    known = [
        item
        for item in economy.places
        if economy.place(item.country).business_usd_per_kwh is not None
    ]
    return tuple(sorted(known, key=lambda item: item.name))


def with_commitments(
    catalog: Catalog, economy: Economy, months: int, *, run: bool = False
) -> Catalog:
    """Return the catalog with on-demand prices for a commitment of up to ``months``.

    Of a provider's plans for a card within it, the cheapest counts; an offer without one keeps its
    price, as does one that asks for a term of its own. Committed offers name term and plan. Spot
    prices stay. A ``run`` ends, but its commitment
    is billed for the whole term: each offer keeps its price on demand, and a committed one with
    that bill stands beside it.
    """
    plans = [item for item in economy.commitments if item.term_months <= months]
    offers = tuple(_committed(offer, plans, run=run) for offer in catalog.offers)
    if run:
        beside = {offer.key: offer for offer in (*catalog.offers, *offers)}
        offers = tuple(beside[key] for key in sorted(beside))
    return catalog.changed(offers=offers)


def _committed(offer: Offer, plans: list[Commitment], *, run: bool) -> Offer:
    price = offer.on_demand_usd_per_hour
    fitting = [
        item for item in plans if item.provider == offer.provider and item.covers(offer.accelerator)
    ]
    if price is None or offer.commitment or not fitting:
        return offer
    plan = min(fitting, key=lambda item: (item.price_ratio, item.term_months))
    term = f"{plan.term_months} month{'s' * (plan.term_months > 1)}"
    whole_s = plan.term_months * HOURS_PER_MONTH * HOUR_S
    return offer.changed(
        key=f"{offer.key}/{plan.term_months}-months" if run else offer.key,
        billing=offer.billing.changed(minimum_s=whole_s) if run else offer.billing,
        on_demand_usd_per_hour=cents.times(price, plan.price_ratio),
        commitment=f"{term}: {plan.plan}, {percent(plan.price_ratio)} of the price on demand"
        f"{plan.caution}",
    )
