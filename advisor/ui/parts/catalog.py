"""The parts of the page *Catalog*: browse, compare, and how fresh the prices are."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd
import streamlit as st

from advisor import api
from advisor.charts.catalog import spread_chart
from advisor.compare.cards import Comparison, compare_cards
from advisor.compare.spread import METRICS, Metric, verdicts
from advisor.errors import RefreshError
from advisor.foundation.dates import dated
from advisor.foundation.units import GIB
from advisor.frames import catalog as tables
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.limits import LEAST_RATE, MOST_RATE
from advisor.ui.parts import offers
from advisor.ui.parts.chart_view import draw
from advisor.ui.parts.widgets import box, csv_button, number_list
from advisor.ui.parts.wording import on_phone, plain, text_table
from advisor.ui.session import own_catalog, state
from advisor.ui.session.links import Page, choice, flag, number, text
from advisor.ui.session.server import is_public
from advisor.ui.session.uploads import uploader

COLUMNS: Final = "provider,instance_type,accelerator,accelerators,on_demand_per_hour"
NO_CARD: Final = "none"
DEFAULT_CARDS: Final = ("a100-sxm-80gb", "h100-sxm", "rtx-4090", "")
MAIN_FACTS: Final = (
    "Memory, reported",
    "Bandwidth",
    "bf16 rate",
    "Board power",
    "Purchase price",
    "Cheapest rent",
)
PRICES: Final = {"One card (USD/h)": "%.2f", "One card, spot (USD/h)": "%.2f"}
SOURCES_PX: Final = 420
KINDS: Final[Mapping[str, str]] = {"": "Any kind"} | {kind: kind.label for kind in Segment}
MEMORY_GIB: Final = {0: "Any memory"} | {
    size: f"{size} GiB" for size in (8, 12, 16, 24, 40, 48, 80, 96, 141, 192)
}
BY_TITLE: Final = {metric.title: metric for metric in METRICS}
QUANTITIES: Final = {title: title for title in BY_TITLE}


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    boxes = {
        f"card_{place}": replace(
            choice(f"catalog_card_{place}", f"Accelerator {place}", default, cards),
            options=lambda: {"": NO_CARD} | state.card_titles(),
        )
        for place, default in enumerate(DEFAULT_CARDS, start=1)
    }
    return state.beside(
        "catalog",
        boxes
        | {
            "quantity": choice("catalog_metric", "Quantity", METRICS[0].title, lambda: QUANTITIES),
            "differences": flag("catalog_differences", "Differences only"),
            "name": text("catalog_name", "Name"),
            "vendor": choice("catalog_vendor", "Vendor", "", vendors),
            "kind": choice("catalog_segment", "Kind", "", lambda: KINDS),
            "memory": choice("catalog_memory", "Memory, at least", 0, lambda: MEMORY_GIB),
            "rentable": flag("catalog_rentable", "For rent"),
            "rate": number("catalog_rate", "US dollars for one euro", None, LEAST_RATE, MOST_RATE),
            **offers.fields(),
        },
    )


def cards() -> Mapping[str, str]:
    """Return what can be compared: catalog key to name, either of which a link may say."""
    return {"": NO_CARD} | state.accelerator_names()


def vendors() -> Mapping[str, str]:
    """Return who makes accelerators, and anybody."""
    names = sorted({card.vendor for card in api.load_catalog().accelerators})
    return {"": "Any vendor"} | {name: name for name in names}


def prices(catalog: api.Catalog) -> api.Catalog:
    """Say which prices are in use and how old; fetch live ones; return the catalog to show."""
    overview = api.price_overview(catalog)
    old = sum(item.stale for item in overview.providers)
    many = sum(item.offers for item in overview.providers)
    st.markdown(
        plain(
            f"{len(catalog.accelerators):,} accelerators and {many:,} offers of "
            f"{len(overview.providers)} providers. {overview.sentence} The newest price is of "
            f"{dated(catalog.newest_price_date)}; up to {old:,} are over 60 days old."
        )
    )
    if catalog.prices.problem:
        st.warning(plain(catalog.prices.problem), icon=":material/warning:")
    in_euro = sum(offer.quote is not None for offer in catalog.offers)
    euro = catalog.exchange_rates["EUR"]
    title = "Change the rate of the euro"
    with (
        st.expander(title if is_public() else f"Fetch live prices, or {title.lower()}"),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        rate = box(
            page(),
            "rate",
            placeholder=f"{euro.usd:.4f}",
            step=0.01,
            format="%.4f",
            width=220,
            help=plain(f"As of {euro.date}; {in_euro} offers are in euro."),
        )
        asked = not is_public() and st.button(
            "Fetch live prices", key="catalog_refresh", icon=":material/refresh:"
        )
    if asked:
        _refresh()
    if rate is None:
        return catalog
    return catalog.at_rate("EUR", rate)


def _refresh() -> None:
    """Fetch live prices with a bar; on failure say why and leave everything as it is."""
    bar = st.progress(0.0)

    def tell(share: float, text: str) -> None:
        bar.progress(min(1.0, share), text=plain(text))

    try:
        report = api.refresh_prices(progress=tell)
    except RefreshError as error:
        bar.empty()
        st.error(plain(str(error)), icon=":material/error:")
        return
    taken = [item.name for item in report.providers if item.outcome == "taken"]
    missing = [
        f"{item.name}: {item.message}" for item in report.providers if item.outcome != "taken"
    ]
    said = f"Live prices of {', '.join(taken)}: {report.offers:,} offers."
    st.session_state["catalog_said"] = " ".join([said, *missing])
    st.rerun()


def own() -> None:
    """Take files with offers and cards of the reader's own, and say what was understood."""
    files = own_catalog.held()
    for upload in files:
        st.markdown(plain(f"Yours, in this session: {own_catalog.words(upload)}"))
    with st.expander("Add your own offers and cards", key="catalog_own"):
        st.markdown(
            "Quotes, private or future cards, discounts and the providers that you may use. "
            "Every page then answers with them, for you alone. A table of offers needs these "
            "columns:"
        )
        st.code(COLUMNS, language=None, wrap_lines=True)
        uploader(
            "Offers (CSV), or offers and cards (YAML)",
            key="catalog_file",
            most=own_catalog.MOST_BYTES,
            take=own_catalog.add,
            kinds=("csv", "yaml", "yml"),
            tell=str,
        )
        if files:
            st.button("Remove your files", key="catalog_forget", on_click=own_catalog.forget)


def said() -> None:
    """Show once what the last refresh brought."""
    text = st.session_state.pop("catalog_said", None)
    if text is not None:
        st.success(plain(text), icon=":material/check:")


@st.fragment
def browse(catalog: api.Catalog) -> None:
    """Filter and list the accelerators."""
    st.header("Browse", anchor=False)
    with st.container(horizontal=True):
        typed = box(page(), "name", placeholder="any, or e.g. RTX 40")
        vendor, segment, least, rentable = (
            box(page(), name) for name in ("vendor", "kind", "memory", "rentable")
        )
    state.write(page())
    shown = [
        card
        for card in catalog.accelerators
        if _named(card, typed or "")
        and vendor in ("", card.vendor)
        and segment in ("", card.segment)
        # Cards report a little less than the round figure they are sold by.
        and (not least or card.memory_reported_bytes >= NEARLY * least * GIB)
        and (not rentable or catalog.offers_for(card.key))
    ]
    if not shown:
        st.info("No accelerator has all of these. Loosen a filter.", icon=":material/help:")
        return
    table = tables.catalog_table(catalog, shown)
    number_list(
        table,
        key="catalog_list",
        numbers={
            "Memory (GiB)": "%.1f",
            "Bandwidth (GB/s)": "localized",
            "16-bit rate (TFLOPS)": "%.1f",
            "Power (W)": "%d",
            "Rent of one (USD/h)": "%.2f",
            "To buy (USD)": "localized",
        },
        others={
            "Prices of": st.column_config.TextColumn(
                width="medium", help="The day of the rent; kind and date of the price to buy"
            )
        },
    )
    st.caption(
        plain(
            f"{len(table):,} shown; a click on a title sorts. Dense rates with fp32 accumulation. "
            "Rent: cheapest believable offer on demand, divided by its cards; (from): the lowest "
            "of a list. Launch price: over a year old, shops ask otherwise. (?): some value is "
            "recalled, not checked. -: not known, or nobody rents it."
        )
    )
    csv_button("catalog", table)


NEARLY: Final = 0.93
"""A data-centre card with ECC shows 15/16 of what it is sold by."""


def _named(card: Accelerator, text: str) -> bool:
    words = text.casefold().split()
    return all(word in f"{card.name} {card.key} {card.architecture}".casefold() for word in words)


def choose(own: str) -> list[str]:
    """Ask for the cards to compare; the first is the question's own, where it names one."""
    boxes = [f"catalog_card_{place}" for place in range(1, len(DEFAULT_CARDS) + 1)]
    held = [*map(st.session_state.get, boxes)]
    if own in state.card_titles() and held[0] == DEFAULT_CARDS[0] and own not in held:
        st.session_state[boxes[0]] = own
    st.header("Compare", anchor=False)
    # Boxes, not one box with chips: white on the dark theme's chips is too faint to read.
    chosen = []
    for place, column in enumerate(st.columns(len(boxes)), start=1):
        with column:
            chosen.append(box(page(), f"card_{place}"))
    state.write(page())
    return list(dict.fromkeys(key for key in chosen if key))


@st.fragment
def compare(catalog: api.Catalog, keys: Sequence[str]) -> None:
    """Show cards side by side: facts, one quantity as a chart, sources and offers."""
    if not keys:
        st.info("Choose an accelerator.", icon=":material/help:")
        return
    found = compare_cards(keys, catalog)
    metric = BY_TITLE[box(page(), "quantity")]
    _spread(catalog, keys, metric)
    differences = box(page(), "differences")
    state.write(page())
    table = tables.comparison_table(found, differences=differences)
    if table.empty:
        st.info("These do not differ in any fact of the catalog.", icon=":material/help:")
    else:
        _facts(table)
    st.caption("(?): recalled, not checked.")
    csv_button("comparison", table)
    _sources(catalog, found)
    with st.expander("Offers of these", key="catalog_offers", icon=":material/sell:"):
        offers = tables.card_offers_table(found, catalog)
        number_list(offers, key="catalog_compared", numbers=PRICES)
        if found.doubtful_offers:
            st.caption(
                plain(f"Too cheap to be believed, not used: {', '.join(found.doubtful_offers)}.")
            )
        csv_button("offers", offers)
        plans = tables.commitments_table(found, catalog)
        if not plans.empty:
            st.markdown("**For a term**: every hour of it is paid.")
            number_list(plans, key="catalog_plans", numbers=PRICES)


def _facts(table: pd.DataFrame) -> None:
    """Show the facts; on a phone the main ones first, the others folded."""
    main = table["Fact"].isin(MAIN_FACTS)
    if not on_phone() or not main.any() or main.all():
        text_table(table)
        return
    text_table(table[main])
    with st.expander(f"{int((~main).sum())} more facts", key="catalog_facts"):
        text_table(table[~main])


def _spread(catalog: api.Catalog, keys: Sequence[str], metric: Metric) -> None:
    frame = tables.spread_frame(metric, keys, catalog)
    if frame.empty:
        st.info(
            plain(f"{metric.title}: not known of any of these, or nobody rents them."),
            icon=":material/help:",
        )
        return
    told = tables.verdict_sentences(metric, verdicts(metric, keys, catalog))
    st.markdown("\n".join(f"- {plain(line)}" for line in told))
    key = f"catalog_chart_{metric.title}"
    draw(spread_chart, frame, key=key, title=metric.title, unit=metric.unit)
    if metric.priced:
        st.caption(
            "The dot is the median over providers of the cheapest offer of each. A difference "
            "counts where every provider that rents both shows it, or where the ranges do not meet."
        )


def _sources(catalog: api.Catalog, found: Comparison) -> None:
    with st.expander("Where each value comes from", key="catalog_sources", icon=":material/link:"):
        names = [card.accelerator.name for card in found.cards]
        tabs = st.tabs(names)
        for index, tab in enumerate(tabs):
            with tab:
                text_table(
                    tables.fact_sources_table(found, catalog, card=index),
                    tallest_px=SOURCES_PX,
                    links=True,
                )
                notes = found.cards[index].accelerator.notes
                if notes:
                    st.caption(plain(notes))
