"""Prices of the catalog and the outcome of a refresh."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import TextColumn

from advisor.catalog.live.prices import ProviderReport, RefreshReport
from advisor.catalog.offer_list import OfferLine, OfferList, PriceOverview, ProviderPrices
from advisor.foundation.dates import STALE_DAYS
from advisor.foundation.formatting import count, percent
from advisor.foundation.units import plain
from advisor.nouns.hardware import FIRM_TIER
from advisor.terminal.console import Report, drawn, table

SHOWN = 25
"""Offers that a list prints unless all are asked for."""
NOTHING = "No offer of the catalog meets these conditions. Drop one of them."
PLAIN_TIERS = FIRM_TIER, "spot", "secure", "community marketplace"
"""Ways of renting that the mark of the price or the name of the offer tells."""
OUTCOMES = {"taken": "new", "kept": "earlier ones kept", "failed": "none"}


def show_prices(console: Report, overview: PriceOverview) -> None:
    """Print the prices of each provider with their age."""
    offers = sum(item.offers for item in overview.providers)
    sellers = len(overview.providers)
    title = f"{count(offers)} offers of {sellers} provider{'s' * (sellers != 1)}"
    console.print(title, style="bold")
    console.paragraph(overview.sentence)
    if overview.state.problem:
        console.paragraph(overview.state.problem)
    columns = ("provider", "offers", "spot", "newest", "oldest", "median", "old")
    rows = [_row(item) for item in overview.providers]
    console.print(table(columns, rows, right=(1, 2, 3, 4, 5, 6)))
    console.paragraph(
        f"Median: age of the middle price. Old: share of the prices that are, or may be, over "
        f"{STALE_DAYS} days old. A price whose day is unknown counts as old as it may be.",
    )
    for currency, rate in overview.exchange_rates.items():
        since = f"of {rate.date}" if rate.date else "as you gave it"
        console.paragraph(f"1 {currency} = {plain(rate.usd, 5)} USD, {since}.")


def show_offers(console: Report, found: OfferList, *, everything: bool = False) -> None:
    """Print offers in their order, all or the first ``SHOWN``."""
    shown = found.lines if everything else found.lines[:SHOWN]
    many = len(found.lines)
    console.print(f"{count(many)} offer{'s' * (many != 1)}", style="bold")
    if not shown:
        for remark in found.remarks or (NOTHING,):
            console.paragraph(remark)
        return
    kind = "spot" if found.spot else "on demand"
    columns = ("offer", "a card", "a GiB", "Gbit/s", "age")
    console.print(table(columns, map(_offer, shown), right=(1, 2, 3, 4)))
    console.paragraph(
        f"USD per hour, {kind}, for one card and for a GiB of its memory; s: a spot price, where "
        "no other is known. Gbit/s: network of the whole instance. Age in days.",
    )
    if len(shown) < many:
        console.paragraph(f"{many - len(shown)} more with --all; --csv writes them.")
    terms = dict.fromkeys(
        f"{line.provider}, {line.commitment}" for line in shown if line.commitment
    )
    console.bullets("Prices marked c ask for a commitment", terms)
    for remark in found.remarks:
        console.paragraph(remark)


def show_refresh(console: Report, report: RefreshReport) -> None:
    """Print the result of a refresh, provider by provider."""
    taken = sum(item.outcome == "taken" for item in report.providers)
    console.print(
        f"Live prices of {taken} of {len(report.providers)} providers, "
        f"{count(report.offers)} offers",
        style="bold",
    )
    columns = ("provider", "prices", "of", "offers", "refused", "unknown")
    rows = [_outcome(item) for item in report.providers]
    console.print(table(columns, rows, right=(3, 4, 5)))
    console.bullets(
        "What went wrong", (_problem(item) for item in report.providers if item.message)
    )
    console.bullets(
        "Left out: shares of a card, and names that the table of names does not have",
        (
            f"{item.name}: {', '.join(f'{name} ({rows})' for name, rows in item.unknown.items())}"
            for item in report.providers
            if item.unknown
        ),
    )
    console.print()
    console.paragraph(f"Kept in {report.path}.")


@contextmanager
def progress_bar() -> Iterator[Callable[[float, str], None]]:
    """Draw a bar on standard error while something long runs, if it is a terminal."""
    with drawn(TextColumn("{task.description}"), total=1.0) as update:
        yield lambda share, text: update(completed=share, description=text)


def _row(item: ProviderPrices) -> tuple[str, ...]:
    return (
        f"{item.provider}, live" if item.live else item.provider,
        count(item.offers),
        count(item.spot),
        item.newest,
        item.oldest,
        f"{count(item.median_age_days)} d",
        percent(item.stale / item.offers) if item.stale else "-",
    )


def _offer(line: OfferLine) -> tuple[str, ...]:
    only_spot = line.on_demand_usd_per_hour is None
    mark = "s" if only_spot else "c" if line.commitment else ""
    rate = line.network_bytes_per_s
    tier = "" if line.tier in PLAIN_TIERS else line.tier
    place = line.provider, line.instance_type, line.region, tier
    return (
        f"{line.accelerators}×{line.accelerator}: {', '.join(filter(None, place))}",
        f"{line.usd_per_card_hour:,.2f}{mark}",
        f"{line.usd_per_gib_hour:,.4f}",
        "-" if rate is None else f"{rate * 8 / 1e9:,.0f}",
        count(line.age_days),
    )


def _outcome(item: ProviderReport) -> tuple[str, ...]:
    return (
        item.name,
        OUTCOMES[item.outcome],
        item.date or "-",
        count(item.offers),
        count(item.refused),
        count(sum(item.unknown.values())),
    )


def _problem(item: ProviderReport) -> str:
    if item.outcome == "taken":
        return f"{item.name}: {item.message}."
    stays = f"prices of {item.date} stay" if item.outcome == "kept" else "the shipped prices stay"
    return f"{item.name}: {item.message}; {stays}."
