"""The page *Fleet*: what to buy and what to rent, and when, for many workloads."""

import streamlit as st

from advisor.ui.parts import fleet

portfolio = fleet.ask()
if portfolio is not None:
    fleet.show(portfolio)
else:
    st.caption("A plan appears here once the inputs can be used.")
