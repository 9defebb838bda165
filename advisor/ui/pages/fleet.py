"""The page *Fleet*: what to buy and what to rent, and when, for many workloads."""

import streamlit as st

from advisor.charts import theme_named
from advisor.ui.parts import fleet
from advisor.ui.session import state

with state.Boundary():
    portfolio = fleet.ask()
    if portfolio is not None:
        fleet.show(portfolio, theme=theme_named(st.context.theme.type))
    else:
        st.caption("A plan appears here once the inputs can be used.")
