"""The page of prices: which prices the catalog has, and how old they are."""

from datetime import date

from advisor.catalog.api_prices import API_SOURCE, load_api_prices
from advisor.catalog.catalog import Catalog
from advisor.catalog.offer_list import grouped, prices_of, unread_prices
from advisor.foundation.data_files import items, page, table
from advisor.foundation.dates import STALE_DAYS, first_day
from advisor.foundation.formatting import percent
from advisor.nouns.hardware import Offer


def prices_page(catalog: Catalog) -> str:
    """Return the page in Markdown."""
    today, offers = first_day(catalog.newest_price_date), catalog.offers
    names = {item.key: item.name for item in catalog.accelerators}
    by_card = grouped(offers, lambda offer: names[offer.accelerator])
    return page(
        "prices",
        today=today,
        stale=STALE_DAYS,
        providers=_prices("provider", grouped(offers, lambda offer: offer.provider), today),
        accelerators=_prices("accelerator", by_card, today),
        unread=items(f"{item.what}: {item.why}." for item in unread_prices()),
        source=API_SOURCE,
        hosted=_hosted(),
    )


def _prices(title: str, groups: dict[str, list[Offer]], today: date) -> str:
    """Return the table of the prices of each provider, or of each accelerator."""
    other = "cards:" if title == "provider" else "providers:"
    heads = ("offers:", "spot:", other, "regions:", "newest", "oldest", "median age:", "old:")
    rows = []
    for name, offers in groups.items():
        item = prices_of(name, offers, today=today)
        sellers = len({offer.provider for offer in offers})
        counted = item.accelerators if title == "provider" else sellers
        ages = item.newest, item.oldest, f"{item.median_age_days} d"
        share = percent(item.stale / item.offers)
        rows.append((name, item.offers, item.spot, counted, item.regions, *ages, share))
    return table((title, *heads), rows)


def _hosted() -> str:
    """Return the table of hosted models, those of a preset first."""
    rows = [
        (
            item.preset or item.model,
            item.provider,
            f"{item.input_usd:g}",
            "" if item.cached_input_usd is None else f"{item.cached_input_usd:g}",
            f"{item.output_usd:g}",
            item.price_date,
            item.notes or ("" if item.preset else "another model than any preset"),
        )
        for item in sorted(load_api_prices(), key=lambda item: (not item.preset, item.preset))
    ]
    return table(("model", "provider", "in:", "cached:", "out:", "checked", "note"), rows)
