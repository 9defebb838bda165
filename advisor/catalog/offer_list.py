"""Lists what there is to rent: offers by card, number, provider and region."""

from collections.abc import Callable, Sequence
from typing import Final

from advisor.catalog.catalog import Catalog
from advisor.catalog.economy import load_economy, with_commitments
from advisor.catalog.places import chosen, places_of
from advisor.catalog.price_drift import history_of
from advisor.catalog.records import Record, Text
from advisor.errors import InputError
from advisor.foundation.data_records import read_table
from advisor.foundation.dates import age_days
from advisor.foundation.formatting import money
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Offer, PriceKind


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


class Unread(Record):
    """A row of ``unread_prices.csv``: what has no price here, and why."""

    what: Text
    why: Text
    accelerators: Text = ""
    """Keys of the cards that nobody rents out for this reason, if it is about such cards."""


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
