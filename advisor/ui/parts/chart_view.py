"""Charts on a page: to save as a picture, with words for who cannot see them, with a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd
import streamlit as st

from advisor import api
from advisor.charts.theme import Theme, theme_named
from advisor.frames.points import Pick
from advisor.ui.parts.widgets import csv_button
from advisor.ui.parts.wording import PHONE_PX, WINDOW, on_phone, text_table
from advisor.ui.session.address import ONE_ENTRY
from advisor.ui.session.server import BROWSER, PLOTLY

PICTURE: Final = "picture"
"""Session's key of the format in which charts are saved."""
PICTURES: Final = {"svg": "SVG (sharp at any size)", "png": "PNG"}
TABLE_PX: Final = 420
"""A longer table scrolls on its own. [px]"""


WINDOW_KEY: Final = "follow_window"
"""Of the element that watches theme and width; ``page.css`` hides it."""
WATCH: Final = st.components.v2.component(
    WINDOW_KEY, js=ONE_ENTRY + (BROWSER / "window.js").read_text()
)
CHART: Final = st.components.v2.component(
    "chart",
    js=f"const PLOTLY = {PLOTLY.name!r}\n" + (BROWSER / "chart.js").read_text(),
    isolate_styles=False,
)
"""Streamlit's own chart is another node for other data: every input would mount it anew."""


def follow_window() -> None:
    """Run the page anew as soon as the theme or the kind of width changes: charts have both.

    Meanwhile, the browser fetches Plotly.
    """
    with st.container(key=WINDOW_KEY):
        drawn = {"drawn": st.context.theme.type, "narrow": on_phone(), "most": PHONE_PX}
        WATCH(
            key=WINDOW, data=drawn, on_switched_change=lambda: None, on_narrow_change=lambda: None
        )
        CHART(key="plotly")


def plan_asked(chosen: Sequence[Pick], *, key: str) -> api.Estimate:
    """Ask for one of the plans; the first stands for one that an earlier answer had."""
    titles = [f"{pick.title}: {pick.plan.title}" for pick in chosen]
    title = st.selectbox("Plan", titles, key=key)
    return chosen[titles.index(title) if title in titles else 0].plan.estimate


def theme() -> Theme:
    """Return how charts look in the reader's theme and window."""
    return replace(theme_named(st.context.theme.type), compact=on_phone())


def chart_config(name: str) -> dict[str, object]:
    """Return Plotly's settings: of its toolbar only the button that saves a picture."""
    picture = {
        "format": st.session_state.get(PICTURE) or next(iter(PICTURES)),
        "filename": f"gpu-advisor-{name.replace('_', '-')}",
        "scale": 2,
    }
    return {
        "displayModeBar": True,
        "displaylogo": False,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": picture,
        "scrollZoom": False,
        "doubleClick": False,
    }


def draw(
    chart: Callable[..., Any],
    *data: object,
    key: str,
    clicks: bool = False,
    **more: object,
) -> object:
    """Draw a chart as the reader's theme and window have it; its words are for who cannot see.

    Return what belongs to a point that was just clicked, where ``clicks`` are asked for.
    """
    figure = chart(*data, theme=theme(), **more)
    drawn = {
        "figure": figure.to_json(validate=False),
        "alt": figure.alt,
        "config": chart_config(key),
        "clicks": clicks,
    }
    return CHART(key=key, data=drawn, on_clicked_change=lambda: None).clicked


def table_below(
    name: str, shown: Callable[[], pd.DataFrame], data: pd.DataFrame | Callable[[], pd.DataFrame]
) -> None:
    """Offer a chart's figures as a table, built when opened, and as CSV."""
    with st.container(horizontal=True, vertical_alignment="center"):
        expander = st.expander(
            "View as table", key=f"{name}_table", on_change="rerun", type="compact"
        )
        csv_button(name, data)
    if expander.open:
        with expander:
            text_table(shown(), tallest_px=TABLE_PX)
