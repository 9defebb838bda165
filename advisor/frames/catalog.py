"""Cards, their prices and offers as tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import pandas as pd

from advisor.architecture.published_models import PublishedModel
from advisor.catalog import Catalog
from advisor.catalog.economy import load_economy
from advisor.catalog.offer_list import OfferList
from advisor.compare.cards import ComparedCard, Comparison, Row, compare_all, comparison_rows
from advisor.compare.spread import Metric, Spread, Verdict, half_rate, rents, scaled, spreads
from advisor.foundation.dates import marked
from advisor.foundation.formatting import percent
from advisor.foundation.units import BILLION, GB, GIB, GIGABIT_PER_S, TFLOP, plain
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.nouns.case import AssumedShape, case_inputs
from advisor.nouns.hardware import Accelerator, Confidence, Segment
from advisor.nouns.inputs import Reads

SHAPE: Final = "model.shape."
SAID_BY_ALL: Final = re.compile(r"^NVIDIA (?:GeForce )?")
"""What people leave out of the name of a card."""
MEMORY: Final = re.compile(r" (\d+) ?GB\b")
DIGITS: Final = re.compile(r"(\d+)")
CONFIDENCE_WORDS = {
    Confidence.DATASHEET: "read in the maker's or provider's own document",
    Confidence.SECONDARY: "from a database or a third party",
    Confidence.DERIVED: "derived by a stated rule",
    Confidence.MEMORY: "recalled, not checked",
}
RECALLED_FIELDS = (
    "memory_reported_bytes",
    "memory_bandwidth_bytes_per_s",
    "peak_flops_per_s",
    "board_power_w",
    "purchase_usd",
)


def card_title(card: Accelerator) -> str:
    """Return the name of a card with its memory, e.g. ``RTX 3060 · 12 GB``."""
    memory = f"{card.memory_marketed_bytes / GB:.0f}"
    name = SAID_BY_ALL.sub("", card.name)
    if card.segment is Segment.CPU:
        return name
    said = MEMORY.search(name)
    if said and said[1] == memory:
        name = name.replace(said[0], "")
    return f"{name} · {memory} GB"


def card_titles(cards: Iterable[Accelerator]) -> dict[str, str]:
    """Return the titles of cards by catalog key, sorted as people count: 900 before 1080."""
    titles = {card.key: card_title(card) for card in cards}
    return dict(sorted(titles.items(), key=lambda item: _counted(item[1])))


def _counted(title: str) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Return a sort key: numbers as numbers, the bare name before the longer one."""
    return tuple(
        tuple((int(part), "") if part.isdigit() else (-1, part) for part in DIGITS.split(text))
        for text in title.casefold().split(" · ")
    )


@tabled
def catalog_table(catalog: Catalog, accelerators: Sequence[Accelerator]) -> Rows:
    """Return one row for each accelerator, with the cheapest credible rent.

    Memory is in GiB, bandwidth in GB/s, the dense 16-bit rate in TFLOPS, power in W and the rent of
    one card in USD/h. Dates of prices are marked if they are old or from the launch. Unknown
    numbers are missing. A name ends with ``(?)`` if some value is only recalled.
    """
    for card in compare_all([item.key for item in accelerators], catalog).cards:
        accelerator = card.accelerator
        yield {
            "Accelerator": f"{accelerator.name}{' (?)' * _recalled(accelerator)}",
            "Memory (GiB)": accelerator.memory_reported_bytes / GIB,
            "Bandwidth (GB/s)": accelerator.memory_bandwidth_bytes_per_s / GB,
            "16-bit rate (TFLOPS)": scaled(half_rate(accelerator), TFLOP),
            "Power (W)": accelerator.board_power_w,
            "Rent of one (USD/h)": card.usd_per_hour,
            "To buy (USD)": accelerator.purchase_usd,
            "Prices of": _priced(card),
        }


def _priced(card: ComparedCard) -> str:
    """Return the dates of the prices to rent and to buy, and the kind of the latter."""
    # The column is narrow: "launch price of 2022" becomes "launch 2022".
    words = card.accelerator.price_words().replace(" price", "").replace(" of", "")
    rent = marked(card.offer.price_date) if card.offer else "-"
    lowest = " (from)" if card.offer and card.offer.is_from else ""
    return f"{rent}{lowest}; {words or '-'}" if card.offer or words else ""


def comparison_table(comparison: Comparison, *, differences: bool) -> pd.DataFrame:
    """Return facts by row and cards by column, as text."""
    names = [card.accelerator.name for card in comparison.cards]
    return pd.DataFrame(
        [
            {"Fact": row.title, **dict(zip(names, row.values, strict=True))}
            for row in comparison_rows(comparison, differences=differences)
        ],
        columns=["Fact", *names],
    )


@tabled
def fact_sources_table(comparison: Comparison, catalog: Catalog, *, card: int) -> Rows:
    """Return the source of each value of the card at a position in the comparison."""
    for row in comparison_rows(comparison):
        if found := _source(row, catalog, card):
            yield found


def card_offers_table(comparison: Comparison, catalog: Catalog) -> pd.DataFrame:
    """Return every offer of the compared cards, cheapest first: eight columns."""
    return _offers_of(comparison, catalog).sort_values(list(EACH), ignore_index=True)


EACH: Final = ("One card (USD/h)", "One card, spot (USD/h)")


@columns("Accelerator", "Provider", "Instance", "Region", *EACH, "Price of", "Source")
def _offers_of(comparison: Comparison, catalog: Catalog) -> Cells:
    for card in comparison.cards:
        for offer in catalog.offers_for(card.accelerator.key):
            quote, cards = offer.quote, offer.accelerators
            prices = (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour)
            rate = f", {quote.currency} at {quote.usd:g}" if quote else ""
            yield (
                *(card.accelerator.name, offer.provider, offer.instance_type, offer.region),
                *(scaled(price, cards) for price in prices),
                f"{marked(offer.price_date)}{rate}",
                catalog.sources[offer.provenance.source].title,
            )


@tabled
def commitments_table(comparison: Comparison, catalog: Catalog) -> Rows:
    """Return the price of each commitment per card, from providers of the compared cards. [USD/h]

    It is the provider's cheapest on-demand price times the plan's ratio; no row if no plan is
    known.
    """
    plans = load_economy().commitments
    for card in comparison.cards:
        for provider, price in rents(catalog, [card.accelerator.key])[card.accelerator.key].items():
            for plan in plans:
                if plan.provider == provider and plan.covers(card.accelerator.key):
                    yield {
                        "Accelerator": card.accelerator.name,
                        "Provider": plan.provider,
                        "Plan": plan.plan,
                        "Months": plan.term_months,
                        "One card (USD/h)": round(price * plan.price_ratio, 4),
                        "Of on demand": percent(plan.price_ratio),
                        "How sure": CONFIDENCE_WORDS[plan.confidence],
                        "Source": f"{plan.source}, {plan.source_date}",
                    }


@columns("name", "low", "middle", "high", "providers", "label")
def spread_frame(metric: Metric, keys: Sequence[str], catalog: Catalog) -> Cells:
    """Return one quantity of cards with its range; ``providers`` is 0 for a specification."""
    for item in spreads(metric, keys, catalog):
        yield (item.name, item.low, item.middle, item.high, item.providers, _label(metric, item))


def _label(metric: Metric, item: Spread) -> str:
    """Return the value, and its range if it has one."""
    value, low, high = (_figure(metric, number) for number in (item.middle, item.low, item.high))
    return value if item.low == item.high else f"{value} ({low} to {high})"


def _figure(metric: Metric, number: float) -> str:
    """Return prices to the cent, ratios to three digits, specifications unchanged."""
    if metric.specification is None:
        return f"{number:,.2f}"
    return plain(number, 3) if metric.per_rent else f"{number:,.1f}".removesuffix(".0")


def verdict_sentences(metric: Metric, found: Sequence[Verdict]) -> list[str]:
    """Return one sentence for each pair of cards."""
    sentences = []
    for item in found:
        if item.close and item.common:
            why = f"providers that rent both disagree ({item.common} of them)"
            why = why if item.common > 1 else "only one provider rents both, and the ranges meet"
        elif item.close:
            why = "no provider rents both, and the ranges meet" if metric.priced else "equal"
        elif not metric.priced:
            sentences.append(f"{item.second} has more than {item.first}.")
            continue
        else:
            at = f"at every one of {item.common} providers that rent both"
            at = at if item.common > 1 else "over all providers"
            sentences.append(f"{item.second} costs more than {item.first} {at}.")
            continue
        sentences.append(f"{item.first} and {item.second} are too close to call: {why}.")
    return sentences


def _source(row: Row, catalog: Catalog, card: int) -> dict[str, str] | None:
    found = row.sources[card]
    if found is None:
        return None
    source = catalog.sources[found.source]
    return {
        "Fact": row.title,
        "Value": row.values[card],
        "How sure": CONFIDENCE_WORDS[found.confidence],
        "Source": source.title,
        "Where": source.locator,
        "Date": found.date,
    }


def _recalled(card: Accelerator) -> bool:
    return any(card.source_of(field).confidence is Confidence.MEMORY for field in RECALLED_FIELDS)


@tabled
def offers_frame(found: OfferList) -> Rows:
    """Return one row for each offer, in their order.

    Prices are for one card, and for a GiB of its memory, in USD an hour; network in Gbit/s; ages in
    days; ``Earlier prices`` of the whole instance, oldest first, as a list.
    """
    for line in found.lines:
        yield {
            "Cards": line.accelerators,
            "Accelerator": line.accelerator,
            "Provider": line.provider,
            "Instance": line.instance_type,
            "Region": line.region,
            "Tier": line.tier,
            "A card (USD/h)": line.usd_per_card_hour,
            "A GiB (USD/h)": line.usd_per_gib_hour,
            "Spot, a card (USD/h)": scaled(line.spot_usd_per_hour, line.accelerators),
            "Network (Gbit/s)": scaled(line.network_bytes_per_s, GIGABIT_PER_S),
            "Age (days)": line.age_days,
            "First seen": line.first_seen,
            "Last seen": line.price_date,
            "Earlier prices": list(line.past_usd_per_hour),
        }


@tabled
def shapes_table(
    parameters: float, assumed: AssumedShape | None, published: Sequence[PublishedModel]
) -> Rows:
    """Return the shape in use, if it is assumed for a number of parameters, then published models.

    All cells are texts: name, parameters in billions and six fields of the shape.
    """
    fields = [item for path, item in case_inputs().items() if path.startswith(SHAPE)]
    sizes = {item.name: item.title for item in fields if item.reads is Reads.WHOLE}
    rows = [("Yours, as computed", parameters, assumed)] if assumed else []
    rows += [(model.name, model.parameters, model.shape) for model in published]
    for name, count, shape in rows:
        yield {
            "Model": name,
            "Parameters": f"{count / BILLION:.4g}B",
            **{title: f"{getattr(shape, field):,}" for field, title in sizes.items()},
        }
