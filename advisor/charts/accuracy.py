"""Measured against predicted values, on equal logarithmic axes."""

import math
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts.theme import Theme, axis, base_layout, log_ticks, refuse_empty, unvalidated

HEIGHT: Final = 520
NEAR: Final = 0.25
"""Distance of the dashed lines from the line of equality. [fraction]"""
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross")
MARKER_PX: Final = 8
TICKS: Final = 9
MARGIN: Final = 1.25
OTHERS: Final = "Other work"


def accuracy_chart(frame: pd.DataFrame, *, quantity: str, theme: Theme) -> go.Figure:
    """Return a point for each measurement, a solid line of equality, and dashed lines 25 % off.

    ``quantity`` has name and unit for the axes; ``customdata`` of a point is its row in ``frame``.
    """
    refuse_empty(frame, "the accuracy chart needs at least one measurement")
    ends = frame[["measured", "expected"]]
    low, high = float(ends.min().min()) / MARGIN, float(ends.max().max()) * MARGIN
    numbered = frame.assign(position=range(len(frame)), shown=_tasks(frame))
    traces = [
        _line(low, high, 1.0, "Predicted as measured", theme.text, "solid"),
        _line(low, high, 1 + NEAR, "25 % more or less", theme.muted, "dash"),
        _line(low, high, 1 / (1 + NEAR), None, theme.muted, "dash"),
    ]
    for number, (task, rows) in enumerate(numbered.groupby("shown", sort=False)):
        place = number % len(theme.hues)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": str(task),
                "x": rows["measured"].tolist(),
                "y": rows["expected"].tolist(),
                "customdata": rows["position"].tolist(),
                "text": [
                    f"{row.model} on {row.count:,}x {row.accelerator}<br>{row.error_pct:+.0f} %"
                    for row in rows.itertuples()
                ],
                "marker": {
                    "color": theme.hues[place],
                    "symbol": SYMBOLS[place],
                    "size": MARKER_PX,
                    "opacity": 0.75,
                },
                "hovertemplate": "%{text}<br>measured %{x:.3g}, predicted %{y:.3g}<extra></extra>",
            }
        )
    ticks = log_ticks(low, high, at_most=TICKS)
    scale = {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
    }
    layout = base_layout(theme, height=HEIGHT) | {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": axis(theme, f"Measured: {quantity.replace(' (', '<br>(')}", **scale),
        "yaxis": axis(theme, "Predicted", **scale),
        "showlegend": True,
        "clickmode": "event+select",
    }
    return unvalidated(traces, layout)


def accuracy_alt(frame: pd.DataFrame, *, quantity: str) -> str:
    """Return the chart in words."""
    near = (frame["expected"] / frame["measured"]).between(1 / (1 + NEAR), 1 + NEAR).mean()
    return (
        f"Scatter of {len(frame)} measurements against predictions of {quantity}, both axes "
        f"logarithmic from {frame['measured'].min():.3g} to {frame['measured'].max():.3g}: "
        f"{100 * near:.0f} % lie within 25 % of the measurement."
    )


def _tasks(frame: pd.DataFrame) -> pd.Series:
    """Return the most frequent kinds of work: the palette has five hues."""
    counts = frame["task"].value_counts()
    if len(counts) <= len(SYMBOLS):
        return frame["task"]
    named = set(counts.index[: len(SYMBOLS) - 1])
    return frame["task"].where(frame["task"].isin(named), OTHERS)


def _line(
    low: float, high: float, factor: float, name: str | None, color: str, dash: str
) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [low, high],
        "y": [low * factor, high * factor],
        "name": name,
        "showlegend": name is not None,
        "line": {"color": color, "width": 1.5, "dash": dash},
        "hoverinfo": "skip",
    }
