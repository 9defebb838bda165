"""The page *What fits my GPU*: which known models some cards can serve and train."""

import streamlit as st

from advisor.charts import theme_named
from advisor.ui.parts import fits
from advisor.ui.session import state

st.title("What fits my GPU", anchor=False)
with state.Boundary():
    fits.show(fits.ask(), theme=theme_named(st.context.theme.type))
