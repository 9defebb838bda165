"""Counts the prices of each provider in the catalog, and how old they are."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from statistics import median

from advisor.catalog.catalog import Catalog, ExchangeRate, PriceState
from advisor.catalog.places import chosen
from advisor.foundation.dates import age_days, first_day, is_stale
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Offer


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
