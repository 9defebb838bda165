"""The page *What fits my GPU*: which known models some cards can serve and train."""

import streamlit as st

from advisor.charts import theme_named
from advisor.ui.parts import fits
from advisor.ui.session import state

with state.Boundary():
    inputs, found = fits.ask()
    fits.show(inputs, found, theme=theme_named(st.context.theme.type))
