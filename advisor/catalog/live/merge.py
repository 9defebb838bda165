"""Joins the snapshot with the cached live prices. Each provider's newer list wins."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from advisor.catalog.catalog import Catalog, PriceState, Source
from advisor.catalog.live.cache import CacheRefusedError, read_cache
from advisor.catalog.live.prices import SOURCE, LivePrices
from advisor.foundation.dates import first_day
from advisor.nouns.hardware import Confidence, Offer


def with_live(catalog: Catalog, path: Path, *, now: datetime | None = None) -> Catalog:
    """Return the catalog with the cached live prices, or with the reason why they are not used.

    Its ``prices`` field says which prices are in use. A live list replaces the provider's offers of
    the accelerators that it contains, unless the snapshot is newer.
    """
    try:
        live = read_cache(path, now=now or datetime.now(UTC))
    except CacheRefusedError as refused:
        problem = (
            f"The cached live prices are not used: {refused}. The shipped prices are. "
            "Run 'gpu-advisor prices refresh' to fetch new ones."
        )
        return catalog.changed(prices=PriceState(problem=problem))
    if live is None:
        return catalog
    keys = {card.key for card in catalog.accelerators}
    newest = newest_dates(catalog.offers)
    used = [item for item in live.providers if item.date >= newest.get(item.name, "")]
    fresh = [offer for item in used for offer in item.offers if offer.accelerator in keys]
    if not fresh:
        return catalog
    replaced = {(offer.provider, offer.accelerator) for offer in fresh}
    keys_taken = {offer.key for offer in fresh}
    kept = [
        item
        for item in catalog.offers
        if (item.provider, item.accelerator) not in replaced and item.key not in keys_taken
    ]
    return catalog.changed(
        offers=tuple(sorted([*kept, *fresh], key=lambda offer: offer.key)),
        sources={**catalog.sources, SOURCE: _source(live)},
        prices=PriceState(
            live_providers=tuple(sorted(item.name for item in used)),
            fetched_at=live.fetched_at.isoformat(),
            hosted=live.hosted,
        ),
    )


def newest_dates(offers: Sequence[Offer]) -> Mapping[str, str]:
    """Return the newest day of a price of each provider.

    A price with only a month or a year counts from the first day of it. So it does not block a
    list from the same month or year.
    """
    newest: dict[str, str] = {}
    for offer in offers:
        day = first_day(offer.price_date).isoformat()
        newest[offer.provider] = max(newest.get(offer.provider, ""), day)
    return newest


def _source(live: LivePrices) -> Source:
    return Source(
        key=SOURCE,
        title="Live prices: providers' own interfaces, and lists collected by gpuhunt",
        locator="github dstackai/gpuhunt and public price files, fetched by the user",
        date=live.fetched_at.date().isoformat(),
        licence="price facts",
        confidence=Confidence.SECONDARY,
    )
