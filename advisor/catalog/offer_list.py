"""Lists of prices: offers by card, what each provider's are, how old, and what age adds."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import cache
from statistics import median
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog.catalog import Catalog, ExchangeRate, PriceState
from advisor.catalog.economy import load_economy, with_commitments
from advisor.catalog.files.checks import check_order
from advisor.catalog.places import chosen, places_of
from advisor.catalog.records import IsoDate, Text
from advisor.errors import InputError
from advisor.foundation.dates import age_days, first_day, is_stale
from advisor.foundation.formatting import money
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun, read_table
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Confidence, Offer, PriceKind

DRIFT_FILE: Final = "price_drift.csv"
HISTORY_FILE: Final = "price_history.csv"
HYPERSCALERS: Final = frozenset({"AWS", "Azure", "GCP", "OCI"})

DriftKind = Literal["hyperscaler", "list", "marketplace", "spot"]


class Drift(Noun):
    """A row of ``price_drift.csv``: how far prices of one kind wander."""

    kind: DriftKind
    sigma_per_sqrt_year: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
    longest_days: Annotated[float, Field(gt=0)] | None = None
    pairs: Annotated[int, Field(ge=0, le=1_000_000_000)]
    source: Text
    source_date: IsoDate
    confidence: Confidence


class PastPrice(Noun):
    """A row of ``price_history.csv``: a price from this day on, until the next row."""

    provider: Text
    instance_type: Text
    region: Text
    kind: Literal["on_demand", "spot"]
    date: IsoDate
    usd_per_hour: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    source: Text


@cache
def drifts() -> dict[str, Drift]:
    """Return the rows by kind.

    >>> drifts()["spot"].sigma_per_sqrt_year > drifts()["hyperscaler"].sigma_per_sqrt_year
    True
    """
    rows = read_table(data_path(DRIFT_FILE), Drift, key=("kind",))
    check_order([item.kind for item in rows], file=DRIFT_FILE)
    return {item.kind: item for item in rows}


def drift_of(offer: Offer, kind: PriceKind) -> Drift:
    """Return how the price of an offer moves with time."""
    if kind is PriceKind.SPOT:
        return drifts()["spot"]
    if "market" in offer.tier:
        return drifts()["marketplace"]
    return drifts()["hyperscaler" if offer.provider in HYPERSCALERS else "list"]


@cache
def price_histories() -> dict[tuple[str, str, str, str], tuple[PastPrice, ...]]:
    """Return the rows by provider, instance, region and kind, oldest first."""
    rows = read_table(
        data_path(HISTORY_FILE),
        PastPrice,
        key=("provider", "instance_type", "region", "kind", "date"),
    )
    found: dict[tuple[str, str, str, str], tuple[PastPrice, ...]] = {}
    for item in rows:
        key = (item.provider, item.instance_type, item.region, item.kind)
        found[key] = (*found.get(key, ()), item)
    return found


def history_of(offer: Offer, kind: PriceKind) -> tuple[PastPrice, ...]:
    """Return the known prices of an offer, oldest first; empty where no source has a history."""
    name = "spot" if kind is PriceKind.SPOT else "on_demand"
    return price_histories().get((offer.provider, offer.instance_type, offer.region, name), ())


class OfferLine(Noun):
    """One offer, with what people compare."""

    key: str
    provider: str
    instance_type: str
    region: str
    tier: str
    accelerator: str
    accelerators: int
    memory_bytes: float
    """Memory that the driver shows, of all accelerators together. [bytes]"""
    on_demand_usd_per_hour: float | None
    """Whole instance. [USD/h]"""
    spot_usd_per_hour: float | None
    usd_per_card_hour: float
    """The price that sorts: on demand, or spot if asked or if there is no other. [USD/h]"""
    usd_per_gib_hour: float
    """That price for a GiB of accelerator memory. [USD/h]"""
    vcpus: float | None
    host_memory_bytes: float | None
    network_bytes_per_s: float | None
    """Network of the whole instance per direction; None if not stated. [bytes/s]"""
    price_date: str
    """Day on which the source last showed the price."""
    first_seen: str
    """First day on which a source showed the offer; ``price_date`` where no history is known."""
    past_usd_per_hour: tuple[float, ...]
    """Earlier prices of the whole instance and the last one; empty without a history. [USD/h]"""
    age_days: int
    """The largest possible age if the day is unknown. [days]"""
    commitment: str
    """Term and plan that the price on demand asks for; empty where it asks for none."""
    source: str
    notes: str


_ALIKE: Final = tuple(name for name in OfferLine.model_fields if name in Offer.model_fields)
"""Fields that a line takes from its offer."""


class OfferList(Noun):
    """Offers in the order asked for."""

    lines: tuple[OfferLine, ...]
    spot: bool
    """Whether spot prices sort the list."""
    remarks: tuple[str, ...] = ()
    """What the offers do not say: who rents out none of a card, and offers of no place."""


class Unread(Noun):
    """A row of ``unread_prices.csv``: what has no price here, and why."""

    what: Text
    why: Text
    accelerators: Text = ""


_ORDERS: Final[dict[str, Callable[[OfferLine], tuple[float | str, ...]]]] = {
    "price": lambda line: (line.usd_per_card_hour,),
    "memory": lambda line: (-line.memory_bytes,),
    "per-gb": lambda line: (line.usd_per_gib_hour,),
    "network": lambda line: (-(line.network_bytes_per_s or 0.0),),
    "age": lambda line: (line.age_days,),
    "provider": lambda line: (line.provider.casefold(), line.region.casefold()),
}
ORDERS: Final = tuple(_ORDERS)
"""What a list may be sorted by; the price decides ties."""


def list_offers(
    catalog: Catalog,
    accelerators: Sequence[str] = (),
    *,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    count: int | None = None,
    spot: bool = False,
    commitment_months: int | None = None,
    order: str = "price",
) -> OfferList:
    """Return the offers that meet every condition, of ``count`` accelerators if it is given.

    No names leave accelerators, providers or regions open; ``h100`` names every H100 and ``cpu``
    every processor. ``spot``
    takes only offers with a spot price and sorts by it; where a price sorts otherwise, offers with
    a spot price alone come last. ``commitment_months`` takes the price for a commitment of up to so
    long, where one is known. A region may be a place, as europe. ``order`` is one of ``ORDERS``.
    Raises InputError if a name or the order is unknown.
    """
    check_known(order, ORDERS, what="order", field="--sort")
    if commitment_months:
        catalog = with_commitments(catalog, load_economy(), commitment_months)
    keys = {key for name in accelerators for key in _meant(catalog, name)}
    sellers = chosen(catalog, "provider", providers, field="--provider")
    places = chosen(catalog, "region", regions, field="--region")
    anywhere = [
        line
        for offer in catalog.offers
        if (not keys or offer.accelerator in keys)
        and (not sellers or offer.provider.casefold() in sellers)
        and (count is None or offer.accelerators == count)
        and (line := _line(catalog, offer, spot=spot))
    ]
    lines = [line for line in anywhere if not places or line.region.casefold() in places]
    lines.sort(key=lambda line: (*_ORDERS[order](line), line.usd_per_card_hour))
    if not spot and order in ("price", "per-gb"):
        lines.sort(key=lambda line: line.on_demand_usd_per_hour is None)
    remarks = [_unrented(catalog, key) for key in sorted(keys) if not catalog.offers_for(key)]
    if places and (away := sum(not places_of(line.region.casefold()) for line in anywhere)):
        remarks.append(f"Without a region, {away:,} more that do not say where they are.")
    if commitment_months and lines and not any(line.commitment or spot for line in lines):
        remarks.append("No commitment of these offers has a known price: they are on demand.")
    return OfferList(lines=tuple(lines), spot=spot, remarks=tuple(remarks))


def unread_prices() -> list[Unread]:
    """Return what people ask for and no source has."""
    return read_table(data_path("unread_prices.csv"), Unread, key=("what",))


def _unrented(catalog: Catalog, key: str) -> str:
    """Return that nobody rents out a card, why as far as known, and what it costs to buy."""
    card = catalog.accelerator(key)
    why = "".join(f" {item.why}." for item in unread_prices() if key in item.accelerators.split())
    bought = f"It has no price to buy either: {card.no_purchase}."
    if card.purchase_usd is not None:
        bought = f"To buy: {money(card.purchase_usd)} ({card.price_words()})."
    return f"Nobody in the catalog rents out {card.name}.{why} {bought}"


def _meant(catalog: Catalog, name: str) -> list[str]:
    """Return the accelerator of a name; else all to rent of a family (h100) or segment (cpu)."""
    start = f"{'-'.join(name.casefold().split())}-"
    try:
        return [catalog.accelerator(name).key]
    except InputError:
        kin = [
            card.key
            for card in catalog.accelerators
            if card.key.startswith(start) or f"{card.segment.value}-" == start
        ]
        if not kin:
            raise
        return [key for key in kin if catalog.offers_for(key)] or kin


def _line(catalog: Catalog, offer: Offer, *, spot: bool) -> OfferLine | None:
    demand, cheap = offer.on_demand_usd_per_hour, offer.spot_usd_per_hour
    price = cheap if spot else (demand if demand is not None else cheap)
    if price is None:
        return None
    memory = catalog.accelerator(offer.accelerator).memory_reported_bytes * offer.accelerators
    if price is cheap:
        offer = offer.changed(commitment="")
    kind = PriceKind.SPOT if price is cheap else PriceKind.ON_DEMAND
    past = () if offer.commitment else history_of(offer, kind)
    return OfferLine(
        **{name: getattr(offer, name) for name in _ALIKE},
        memory_bytes=memory,
        usd_per_card_hour=price / offer.accelerators,
        usd_per_gib_hour=price / (memory / 2**30),
        network_bytes_per_s=offer.inter_node_bytes_per_s,
        first_seen=past[0].date if past else offer.price_date,
        past_usd_per_hour=tuple(item.usd_per_hour for item in past),
        age_days=age_days(offer.price_date),
        source=offer.provenance.source,
    )


class ProviderPrices(Noun):
    """Prices of one provider."""

    provider: str
    offers: int
    on_demand: int
    """Offers with an on-demand price."""
    spot: int
    """Offers with a spot price."""
    accelerators: int
    """Number of different accelerators."""
    currencies: tuple[str, ...]
    newest: str
    """Date of the newest price, as its source states it."""
    oldest: str
    age_days: int
    """Age of the newest price; the largest possible age if its day is unknown. [days]"""
    median_age_days: int
    """Half of the prices are at least this old. [days]"""
    stale: int
    """Offers whose price is, or may be, older than 60 days."""
    regions: int
    live: bool
    """Whether live prices are among them."""


class PriceOverview(Noun):
    """Prices of all providers, and which prices are in use."""

    state: PriceState
    sentence: str
    """``state`` as a sentence for the user."""
    providers: tuple[ProviderPrices, ...]
    """Ordered by name."""
    exchange_rates: dict[str, ExchangeRate]


def price_overview(
    catalog: Catalog, *, providers: Sequence[str] = (), today: date | None = None
) -> PriceOverview:
    """Return the prices of each provider with their age on a day, by default today.

    Raises InputError if no offer is from a provider of ``providers``; none of them means all.
    """
    sellers = chosen(catalog, "provider", providers, field="--provider")
    asked = [
        offer for offer in catalog.offers if not sellers or offer.provider.casefold() in sellers
    ]
    live = set(catalog.prices.live_providers)
    return PriceOverview(
        state=catalog.prices,
        sentence=catalog.prices.sentence,
        providers=tuple(
            prices_of(name, offers, live=name in live, today=today)
            for name, offers in grouped(asked, lambda offer: offer.provider).items()
        ),
        exchange_rates=catalog.exchange_rates,
    )


def grouped(offers: Iterable[Offer], of: Callable[[Offer], str]) -> dict[str, list[Offer]]:
    """Return offers by a name that they have, ordered by it."""
    groups: dict[str, list[Offer]] = {}
    for offer in offers:
        groups.setdefault(of(offer), []).append(offer)
    return dict(sorted(groups.items(), key=lambda item: item[0].casefold()))


def prices_of(
    name: str, offers: Sequence[Offer], *, live: bool = False, today: date | None
) -> ProviderPrices:
    """Count offers and their ages on a day."""
    dates = sorted((offer.price_date for offer in offers), key=first_day)
    return ProviderPrices(
        provider=name,
        offers=len(offers),
        on_demand=sum(offer.on_demand_usd_per_hour is not None for offer in offers),
        spot=sum(offer.spot_usd_per_hour is not None for offer in offers),
        accelerators=len({offer.accelerator for offer in offers}),
        currencies=tuple(
            sorted({offer.quote.currency if offer.quote else "USD" for offer in offers})
        ),
        newest=dates[-1],
        oldest=dates[0],
        age_days=age_days(dates[-1], today=today),
        median_age_days=round(median(age_days(day, today=today) for day in dates)),
        regions=len({offer.region for offer in offers}),
        stale=sum(is_stale(day, today=today) for day in dates),
        live=live,
    )
