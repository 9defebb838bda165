"""Writes docs/prices.md: which prices the catalog has, and how old they are."""

from datetime import date

from advisor.catalog.api_prices import API_SOURCE, load_api_prices
from advisor.catalog.catalog import Catalog
from advisor.catalog.offer_list import unread_prices
from advisor.catalog.overview import grouped, prices_of
from advisor.foundation.dates import STALE_DAYS, first_day
from advisor.foundation.formatting import percent
from advisor.nouns.hardware import Offer

_HEAD = """\
# Prices in the catalog

Written by `make pages` from `data/cloud_offers.csv` and `data/api_prices.csv`. Ages count to
{today}, the day of the newest price. A price whose day is unknown counts as old as it may be.
Old: over {stale} days.
`gpu-advisor prices show` counts to the current day and includes live prices.
"""


_HOSTED = """\
{source} USD for a million tokens. `gpu-advisor recommend`, `estimate` and `own` compare machines
with the rows of the same model.
"""


def prices_page(catalog: Catalog) -> str:
    """Return the page in Markdown."""
    today = first_day(catalog.newest_price_date)
    offers = catalog.offers
    names = {item.key: item.name for item in catalog.accelerators}
    parts = [
        _HEAD.format(today=today, stale=STALE_DAYS),
        "## By provider\n",
        _table("provider", grouped(offers, lambda offer: offer.provider), today, cards=True),
        "## By accelerator\n",
        _table("accelerator", grouped(offers, lambda o: names[o.accelerator]), today, cards=False),
        "## Not read\n",
        "What people ask for and has no row here, each with the reason:\n",
        *(f"- {item.what}: {item.why}." for item in unread_prices()),
        "",
        "## Hosted models\n",
        _HOSTED.format(source=API_SOURCE),
        _hosted(),
    ]
    return "\n".join(parts)


def _table(title: str, groups: dict[str, list[Offer]], today: date, *, cards: bool) -> str:
    other = "cards" if cards else "providers"
    lines = [
        f"| {title} | offers | spot | {other} | regions | newest | oldest | median age | old |",
        "| --- | --: | --: | --: | --: | --- | --- | --: | --: |",
    ]
    for name, offers in groups.items():
        item = prices_of(name, offers, today=today)
        sellers = len({offer.provider for offer in offers})
        cells = (
            *(name, item.offers, item.spot, item.accelerators if cards else sellers, item.regions),
            *(item.newest, item.oldest, f"{item.median_age_days} d"),
            percent(item.stale / item.offers),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _hosted() -> str:
    """Return the table of hosted models, those of a preset first."""
    lines = [
        "| model | provider | in | cached | out | checked | note |",
        "| --- | --- | --: | --: | --: | --- | --- |",
    ]
    for item in sorted(load_api_prices(), key=lambda item: (not item.preset, item.preset)):
        note = item.notes or ("" if item.preset else "another model than any preset")
        cells = (
            item.preset or item.model,
            item.provider,
            f"{item.input_usd:g}",
            "" if item.cached_input_usd is None else f"{item.cached_input_usd:g}",
            f"{item.output_usd:g}",
            item.price_date,
            note,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the page of the shipped prices."""
    from advisor.catalog.loader import load_snapshot

    print(prices_page(load_snapshot()), end="")


if __name__ == "__main__":
    main()
