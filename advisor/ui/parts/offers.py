"""What there is to rent: the list of offers on the page *Catalog*."""

import streamlit as st

from advisor import api
from advisor.frames.catalog import offers_frame
from advisor.ui.parts.widgets import box, download, number_list
from advisor.ui.parts.wording import plain
from advisor.ui.session import state
from advisor.ui.session.links import Field, Page, choice, flag


def fields() -> dict[str, Field]:
    """Return the inputs of the list as they stand in the address."""
    return {
        "offered": choice(
            "catalog_offers_card",
            "Offers of",
            "",
            lambda: {"": "Any accelerator"} | state.accelerator_names(),
        ),
        "offered_by": choice(
            "catalog_offers_by",
            "Provider",
            "",
            lambda: {"": "Any provider"} | {name: name for name in state.provider_names()},
        ),
        "offered_spot": flag("catalog_offers_spot", "Spot"),
    }


def offers(page: Page, catalog: api.Catalog) -> None:
    """List offers by price, with filters and as CSV."""
    st.header("What does it cost where?", anchor=False)
    asked = []
    for column, name in zip(
        st.columns([3, 3, 1], vertical_alignment="bottom"), fields(), strict=True
    ):
        with column:
            asked.append(box(page, name))
    card, provider, spot = asked
    found = api.list_offers(
        catalog, [card] if card else [], providers=[provider] if provider else [], spot=spot
    )
    if not found.lines:
        told = found.remarks or ("Nothing offers this. Loosen a filter.",)
        st.info(" ".join(map(plain, told)), icon=":material/help:")
        return
    table = offers_frame(found)
    table["Accelerator"] = table["Accelerator"].map(state.accelerator_names())
    number_list(
        table,
        key="catalog_offers",
        numbers={
            "A card (USD/h)": "%.2f",
            "A GiB (USD/h)": "%.4f",
            "Spot, a card (USD/h)": "%.2f",
            "Network (Gbit/s)": "%.0f",
        },
        others={
            "Earlier prices": st.column_config.LineChartColumn(
                help="Of the whole instance, oldest first; empty where no source has a history"
            )
        },
    )
    st.caption(
        plain(
            f"{len(table):,} offers, cheapest first; a click on a title sorts. Prices are divided "
            "by the cards of the instance. Age: the largest possible if the day is unknown."
        )
    )
    file = "gpu-advisor-offers.csv"
    download("CSV", file, lambda: api.offers_csv(found), key="catalog_offers_csv")
