"""The page *Learn*: questions that people ask, answered with figures of their own case."""

import streamlit as st

from advisor.charts import theme_named
from advisor.ui.parts import learn
from advisor.ui.parts.wording import on_phone
from advisor.ui.session import state

with state.Boundary():
    learn.page(theme=theme_named(st.context.theme.type), compact=on_phone())
