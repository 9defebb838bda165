"""The page *Accuracy*: how far the predictions are from what people measured."""

import streamlit as st

from advisor import api
from advisor.charts import theme_named
from advisor.ui.parts import accuracy
from advisor.ui.session import address, state

st.title("How right are the numbers?", anchor=False)
with state.Boundary():
    address.open_page(accuracy.page())
    runs = api.published_runs()
    accuracy.overview(runs)
    accuracy.explore(runs, theme=theme_named(st.context.theme.type))
