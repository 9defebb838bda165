"""The page *Catalog*: what exists, what it costs, and cards side by side."""

import streamlit as st

from advisor import api
from advisor.charts import theme_named
from advisor.ui.parts import catalog
from advisor.ui.parts.wording import on_phone
from advisor.ui.session import address, state

st.title("Accelerators and prices", anchor=False)
with state.Boundary():
    address.open_page(catalog.page())
    catalog.said()
    shown = catalog.prices(api.load_catalog())
    chosen = catalog.choose()
    catalog.compare(
        shown,
        chosen,
        theme=theme_named(st.context.theme.type),
        compact=on_phone(),
    )
    catalog.browse(shown)
