"""Charts on a page: to save as a picture, with words for who cannot see them, with a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import streamlit as st

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
WATCH_WINDOW: Final = """
let asked = null  // once for each theme and width, so that no difference asks for ever
export default function ({ data, setStateValue, setTriggerValue }) {
  const app = document.querySelector('[data-testid="stApp"]')
  const look = () => {
    const [red, green, blue] = getComputedStyle(app).backgroundColor.match(/\\d+/g).map(Number)
    const type = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 127 ? "light" : "dark"
    const narrow = window.innerWidth <= data.most
    if (type === data.drawn && narrow === data.narrow) { asked = null; return }
    const seen = `${type} ${narrow}`
    if (seen === asked) return
    asked = seen
    if (narrow !== data.narrow) setStateValue("narrow", narrow)
    if (type !== data.drawn) setTriggerValue("switched", type)
  }
  const observer = new MutationObserver(look)
  observer.observe(app, { attributes: true, attributeFilter: ["class"] })
  window.addEventListener("resize", look)
  look()
  return () => { observer.disconnect(); window.removeEventListener("resize", look) }
}
"""


def follow_window() -> None:
    """Run the page anew as soon as the theme or the kind of width changes: charts have both."""
    watch = st.components.v2.component(WINDOW_KEY, js=ONE_ENTRY + WATCH_WINDOW)
    with st.container(key=WINDOW_KEY):
        drawn = {"drawn": st.context.theme.type, "narrow": on_phone(), "most": PHONE_PX}
        watch(
            key=WINDOW, data=drawn, on_switched_change=lambda: None, on_narrow_change=lambda: None
        )


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


def draw(chart: Callable[..., charts.Figure], *data: object, key: str, **more: object) -> None:
    """Draw a chart as the reader's theme and window have it; its words are for who cannot see."""
    figure = chart(*data, theme=theme(), **more)
    st.plotly_chart(figure, theme=None, key=key, config=chart_config(key), alt=figure.alt)


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
