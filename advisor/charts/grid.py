"""Cost or time of each accelerator in each number, as a heat map."""

from __future__ import annotations

import math
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import FONT_SIZE, Drawn, Theme, faint
from advisor.frames.turning import NOT_OFFERED

ROW_PX: Final = 32
FRAME_PX: Final = 60
COMPACT_ROWS: Final = 8
COMPACT_COUNTS: Final = 4
STRONGEST: Final = 0.5
"""Opacity of the best cell: text on it keeps its contrast."""


def grid_chart(frame: pd.DataFrame, *, by: str, theme: Theme) -> go.Figure:
    """Return a heat map by ``usd`` or ``time``: the stronger, the better.

    Cells that do not work are grey.

    ``frame`` is `advisor.frames.grid_frame`'s; without a cell it is a ``ValueError``. A
    compact one has fewer cards and numbers, and short names.
    """
    draw.refuse_empty(frame, "the heat map needs at least one accelerator")
    alt = f"{grid_finding(frame)} Heat map, cards down, their number across; stronger is better."
    cards, counts = frame["card"].drop_duplicates(), frame["count"].drop_duplicates()
    if theme.compact:
        cards, counts = cards.head(COMPACT_ROWS), counts.head(COMPACT_COUNTS)
        frame = frame[frame["card"].isin(cards) & frame["count"].isin(counts)]
    across, down = [f"{count:,}x" for count in counts], cards.tolist()
    works = frame["why"] == ""
    known = frame.loc[works & (frame[by] > 0), by]
    levels = [
        -math.log10(value) if able and value > 0 else None
        for value, able in zip(frame[by], works, strict=True)
    ]
    shown = frame[f"text_{by}"].where(works, "" if theme.compact else frame["why"])
    texts = shown.where(frame["text_usd"] != NOT_OFFERED, "").tolist()
    width = len(across)
    rows = range(0, len(levels), width)
    traces: list[Drawn] = [
        {
            "type": "heatmap",
            "x": across,
            "y": down,
            "z": [levels[start : start + width] for start in rows],
            "text": [texts[start : start + width] for start in rows],
            "texttemplate": "%{text}",
            "textfont": {"size": FONT_SIZE - 2, "color": theme.text},
            "colorscale": [[0, theme.page], [1, faint(theme.hues[0], STRONGEST)]],
            "zmin": -math.log10(known.max() * 2) if len(known) else 0,
            "zmax": -math.log10(known.min()) if len(known) else 1,
            "xgap": 2,
            "ygap": 2,
            "showscale": False,
            "hovertemplate": "%{x} %{y}: %{text}<extra></extra>",
        }
    ]
    return draw.figure(
        theme,
        traces,
        alt=alt,
        height=FRAME_PX + ROW_PX * len(down),
        x=draw.axis(theme, "Number of cards", type="category", showgrid=False),
        y=draw.axis(
            theme,
            "",
            type="category",
            autorange="reversed",
            showgrid=False,
            tickvals=down,
            ticktext=[_short(name) for name in down] if theme.compact else down,
        ),
        plot_bgcolor=theme.panel,
        showlegend=False,
    )


def grid_finding(frame: pd.DataFrame) -> str:
    """Return the cheapest and the fastest cell, and why others do not work."""
    works = frame[frame["why"] == ""]
    counts = frame.loc[frame["why"] != "", "why"].value_counts()
    fails = ", ".join(f"{number} {why}" for why, number in counts.items())
    out = (
        f" {len(frame) - len(works)} of {len(frame)} cells have no plan: {fails}." if fails else ""
    )
    if works.empty:
        return f"Nothing shown works.{out}"
    fast = works.sort_values("time").iloc[0]
    fastest = f"{_named(fast)}, {fast['text_time']}"
    if not (works["usd"] > 0).any():
        return f"Fastest: {fastest}.{out}"
    cheap = works.sort_values("usd").iloc[0]
    return (
        f"Cheapest: {_named(cheap)}, about {cheap['text_usd']}, {cheap['text_time']}. Fastest "
        f"shown: {fastest}, about {fast['text_usd']}.{out}"
    )


def _named(cell: pd.Series[float]) -> str:
    return f"{cell['count']:,}x {cell['card']}"


def _short(name: str) -> str:
    """Return a name without its maker, for a phone."""
    words = [word for word in name.split() if word not in ("NVIDIA", "AMD", "GeForce", "Instinct")]
    return " ".join(words[:3])
