"""Charts on a page: without Plotly's toolbar, with words for who cannot see them, with a table.

And of which plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from advisor import api, frames
from advisor.charts import Figure, Theme, theme_named
from advisor.ui.parts.widgets import csv_button
from advisor.ui.parts.wording import text_table

CHART_CONFIG: Final = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}
"""No toolbar: its buttons are too small to hit, and table and CSV stand beside each chart."""
TABLE_PX: Final = 420
"""A longer table scrolls on its own. [px]"""


def plan_asked(chosen: Sequence[frames.Pick], *, key: str) -> api.Estimate:
    """Ask for one of the plans; the first stands for one that an earlier answer had."""
    titles = [f"{pick.title}: {pick.plan.title}" for pick in chosen]
    title = st.selectbox("Plan", titles, key=key)
    return chosen[titles.index(title) if title in titles else 0].plan.estimate


def theme() -> Theme:
    """Return the colours of charts in the reader's theme."""
    return theme_named(st.context.theme.type)


def draw(figure: Figure, *, key: str, alt: str | None = None) -> None:
    """Draw a chart; ``alt`` says it in words, where no caption does."""
    st.plotly_chart(figure, theme=None, key=key, config=CHART_CONFIG, alt=alt)


def table_below(name: str, shown: Callable[[], frames.Table], data: frames.Table) -> None:
    """Offer a chart's figures as a table, built when opened, and as CSV."""
    with st.container(horizontal=True, vertical_alignment="center"):
        expander = st.expander(
            "View as table", key=f"{name}_table", on_change="rerun", type="compact"
        )
        csv_button(name, data)
    if expander.open:
        with expander:
            text_table(shown(), tallest_px=TABLE_PX)
