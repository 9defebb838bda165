"""Charts on a page: to save as a picture, with words for who cannot see them, with a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import streamlit as st
from streamlit.components.v1 import declare_component

from advisor import api, charts, frames
from advisor.ui.parts.widgets import csv_button
from advisor.ui.parts.wording import PHONE_PX, WINDOW, on_phone, text_table
from advisor.ui.session.address import ONE_ENTRY

PICTURE: Final = "picture"
"""Session's key of the format in which charts are saved."""
PICTURES: Final = {"svg": "SVG (sharp at any size)", "png": "PNG"}
TABLE_PX: Final = 420
"""A longer table scrolls on its own. [px]"""


WINDOW_KEY: Final = "follow_window"
"""Of the element that watches theme and width; ``page.css`` hides it."""
BROWSER: Final = Path(__file__).parents[1] / "browser"
WATCH: Final = st.components.v2.component(
    WINDOW_KEY, js=ONE_ENTRY + (BROWSER / "window.js").read_text()
)
PLOTLY: Final = "plotly-cartesian-4.1.1.min.js"
"""The part of Plotly with two axes, as its npm package plotly.js-cartesian-dist-min has it."""
CHART: Final = st.components.v2.component(
    "chart", js=(BROWSER / "chart.js").read_text(), isolate_styles=False
)
"""Streamlit's own chart is another node for other data: every input would mount it anew."""


@st.cache_resource(show_spinner=False)
def plotly_path() -> str:
    """Return where the server has Plotly, below the address of all components."""
    return f"{declare_component('browser', path=BROWSER).name}/{PLOTLY}"


def follow_window() -> None:
    """Run the page anew as soon as the theme or the kind of width changes: charts have both.

    Meanwhile, the browser fetches Plotly.
    """
    with st.container(key=WINDOW_KEY):
        drawn = {"drawn": st.context.theme.type, "narrow": on_phone(), "most": PHONE_PX}
        WATCH(
            key=WINDOW, data=drawn, on_switched_change=lambda: None, on_narrow_change=lambda: None
        )
        CHART(key="plotly", data={"plotly": plotly_path()})


def plan_asked(chosen: Sequence[frames.Pick], *, key: str) -> api.Estimate:
    """Ask for one of the plans; the first stands for one that an earlier answer had."""
    titles = [f"{pick.title}: {pick.plan.title}" for pick in chosen]
    title = st.selectbox("Plan", titles, key=key)
    return chosen[titles.index(title) if title in titles else 0].plan.estimate


def theme() -> charts.Theme:
    """Return how charts look in the reader's theme and window."""
    return replace(charts.theme_named(st.context.theme.type), compact=on_phone())


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
    chart: Callable[..., charts.Figure],
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
        "plotly": plotly_path(),
    }
    return CHART(key=key, data=drawn, on_clicked_change=lambda: None).clicked


def table_below(
    name: str, shown: Callable[[], frames.Table], data: frames.Table | Callable[[], frames.Table]
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
