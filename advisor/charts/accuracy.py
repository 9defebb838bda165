"""Measured against predicted values, on equal logarithmic axes."""

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Drawn, Theme
from advisor.foundation.units import trimmed

HEIGHT: Final = 520
NEAR: Final = 0.25
"""Distance of the dashed lines from the line of equality. [fraction]"""
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross")
TICKS: Final = 9
MARGIN: Final = 1.25
OTHERS: Final = "Other work"


def accuracy_chart(frame: pd.DataFrame, *, quantity: str, theme: Theme) -> go.Figure:
    """Return a point for each measurement, a solid line of equality, and dashed lines 25 % off.

    ``quantity`` has name and unit for the axes; ``customdata`` of a point is its row in ``frame``.
    """
    draw.refuse_empty(frame, "the accuracy chart needs at least one measurement")
    ends = frame[["measured", "expected"]]
    low, high = float(ends.min().min()) / MARGIN, float(ends.max().max()) * MARGIN
    numbered = frame.assign(position=range(len(frame)), shown=_tasks(frame))
    traces = [
        _equal(low, high, 1.0, "Predicted as measured", theme.text, "solid"),
        _equal(low, high, 1 + NEAR, "25 % more or less", theme.muted, "dash"),
        _equal(low, high, 1 / (1 + NEAR), None, theme.muted, "dash"),
    ]
    for number, (task, rows) in enumerate(numbered.groupby("shown", sort=False)):
        place = number % len(theme.hues)
        traces.append(
            draw.marks(
                rows["measured"],
                rows["expected"],
                marker={"color": theme.hues[place], "symbol": SYMBOLS[place], "opacity": 0.75},
                name=str(task),
                customdata=rows["position"].tolist(),
                text=[
                    f"{row.model} on {row.count:,}x {row.accelerator}<br>{row.error_pct:+.0f} %"
                    for row in rows.itertuples()
                ],
                hovertemplate="%{text}<br>measured %{x:.3g}, predicted %{y:.3g}<extra></extra>",
            )
        )
    ticks = {tick: f"{tick:,.10g}" for tick in draw.log_ticks(low, high, at_most=TICKS)}
    measured = f"Measured: {quantity.replace(' (', '<br>(')}"
    return draw.figure(
        theme,
        traces,
        alt=accuracy_alt(frame, quantity=quantity),
        height=HEIGHT,
        x=draw.log_axis(theme, measured, low, high, ticks),
        y=draw.log_axis(theme, "Predicted", low, high, ticks),
    )


def accuracy_alt(frame: pd.DataFrame, *, quantity: str) -> str:
    """Return the chart in words."""
    near = (frame["expected"] / frame["measured"]).between(1 / (1 + NEAR), 1 + NEAR).mean()
    return (
        f"Scatter of {len(frame)} measurements against predictions of {quantity}, both axes "
        f"logarithmic from {trimmed(frame['measured'].min(), 3)} to "
        f"{trimmed(frame['measured'].max(), 3)}: "
        f"{100 * near:.0f} % lie within 25 % of the measurement."
    )


def _tasks(frame: pd.DataFrame) -> pd.Series:
    """Return the most frequent kinds of work: the palette has five hues."""
    counts = frame["task"].value_counts()
    if len(counts) <= len(SYMBOLS):
        return frame["task"]
    named = set(counts.index[: len(SYMBOLS) - 1])
    return frame["task"].where(frame["task"].isin(named), OTHERS)


def _equal(
    low: float, high: float, factor: float, name: str | None, color: str, dash: str
) -> Drawn:
    ends = [low, high]
    legend: Drawn = {"name": name, "showlegend": name is not None, "hoverinfo": "skip"}
    return draw.line(
        ends, [end * factor for end in ends], color=color, width=1.5, dash=dash, **legend
    )
