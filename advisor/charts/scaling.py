"""Efficiency over the number of accelerators."""

from __future__ import annotations

import math
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts.theme import Theme, axis, base_layout, refuse_empty, unvalidated
from advisor.foundation.formatting import duration, percent
from advisor.foundation.units import HOUR_S

HEIGHT: Final = 360
TICKS: Final = 8
MARGIN: Final = 1.25


def scaling_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return the efficiency of each number of accelerators, with perfect scaling."""
    refuse_empty(frame, "the scaling chart needs at least one number of accelerators")
    counts = frame["count"].tolist()
    low, high = counts[0] / MARGIN, counts[-1] * MARGIN
    ticks = counts[:: math.ceil(len(counts) / TICKS)]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "Perfect scaling",
            "x": [low, high],
            "y": [1.0, 1.0],
            "line": {"color": theme.muted, "width": 1.5, "dash": "dash"},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "Best layout of each number",
            "x": counts,
            "y": frame["efficiency"].tolist(),
            "text": _hovers(frame),
            "line": {"color": theme.hues[0], "width": 2},
            "marker": {"color": theme.hues[0], "size": 8},
            "hovertemplate": "%{text}<extra></extra>",
        },
    ]
    layout = base_layout(theme, height=HEIGHT) | {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": axis(
            theme,
            "Accelerators",
            type="log",
            range=[math.log10(low), math.log10(high)],
            tickvals=ticks,
            ticktext=[f"{tick:,}" for tick in ticks],
        ),
        "yaxis": axis(
            theme,
            "Speed of each, against the fewest that fit",
            tickformat=".0%",
            range=[0, max(1.1, 1.05 * float(frame["efficiency"].max()))],
        ),
        "showlegend": True,
    }
    return unvalidated(traces, layout)


def _hovers(frame: pd.DataFrame) -> list[str]:
    columns = (frame[name].tolist() for name in ("count", "efficiency", "hours", "bound"))
    return [
        f"{count:,}: {percent(efficiency)} of the speed of each<br>"
        f"run in {duration(hours * HOUR_S)}, limited by {bound}"
        for count, efficiency, hours, bound in zip(*columns, strict=True)
    ]


def scaling_finding(frame: pd.DataFrame) -> str:
    """Return what the chart shows: how fast each of the most accelerators still is."""
    first, last = frame.iloc[0], frame.iloc[-1]
    return (
        f"With {last['count']:,} accelerators, each reaches "
        f"{percent(float(last['efficiency']))} of its speed with {first['count']:,}, "
        f"limited by {last['bound']}."
    )


def scaling_alt(frame: pd.DataFrame) -> str:
    """Return the chart in words."""
    first, last = frame["count"].iloc[0], frame["count"].iloc[-1]
    return (
        f"{scaling_finding(frame)} Line of efficiency over {len(frame)} numbers of accelerators, "
        f"on a logarithmic axis from {first:,} to {last:,}."
    )
