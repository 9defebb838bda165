"""Cards side by side in one quantity: a dot each, and the range over providers."""

from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Drawn, Theme

ROW_PX: Final = 44
FRAME_PX: Final = 90
ROOM: Final = 1.18
"""The axis ends at this multiple of the largest value, to leave room for its label."""
NARROW_ROOM: Final = 2.2


def spread_chart(frame: pd.DataFrame, *, title: str, unit: str, theme: Theme) -> go.Figure:
    """Return dots with ranges, linear from 0, one row for each card."""
    draw.refuse_empty(frame, "the chart of cards needs at least one")
    cards: list[Any] = list(frame.itertuples())
    over = ", median and range over providers" if int(frame["providers"].max()) else ""
    words = unit if theme.compact else f"{title} ({unit}){over}"
    room = NARROW_ROOM if theme.compact else ROOM
    ranges: list[float | None] = []
    rows: list[str | None] = []
    for card in cards:
        ranges += [card.low, card.high, None]
        rows += [card.name, card.name, None]
    dot = {"size": 13, "color": theme.hues[0], "line": {"width": 2, "color": theme.page}}
    traces = [
        draw.line(ranges, rows, color=theme.mark, width=4, hoverinfo="skip"),
        draw.marks(
            [card.middle for card in cards],
            [card.name for card in cards],
            marker=dot,
            hovertemplate=f"%{{y}}: %{{x:.4g}} {unit}<extra></extra>",
        ),
    ]
    beside: Drawn = {"xanchor": "left", "xshift": 10}
    return draw.figure(
        theme,
        traces,
        alt=spread_alt(frame, title=title, unit=unit),
        height=FRAME_PX + ROW_PX * len(cards),
        x=draw.axis(theme, words, range=[0, room * max(card.high for card in cards)]),
        y=draw.names_axis(theme, autorange="reversed"),
        annotations=[
            draw.note(theme, card.label.replace(" to ", "–"), x=card.high, y=card.name, **beside)
            for card in cards
        ],
        showlegend=False,
    )


def spread_alt(frame: pd.DataFrame, *, title: str, unit: str) -> str:
    """Return the chart in words."""
    parts = frame["name"] + " " + frame["label"]
    return f"Dot plot of {title.lower()} in {unit}, linear from 0: {'; '.join(parts)}."
