"""The page *Rent or buy*: above how many hours a month owning beats renting."""

import streamlit as st

from advisor.charts import theme_named
from advisor.ui.parts import rent_or_buy
from advisor.ui.parts.wording import on_phone
from advisor.ui.session import state

with state.Boundary():
    rent_or_buy.page(theme=theme_named(st.context.theme.type), compact=on_phone())
