"""Lines of one plan: memory and speed by size, efficiency by number, replicas by hour."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Drawn, Theme, faint
from advisor.foundation.formatting import duration, percent
from advisor.foundation.units import HOUR_S

HEIGHT: Final = 420
MEMORY_DOMAIN: Final = (0.42, 1.0)
SPEED_DOMAIN: Final = (0.0, 0.3)
CHOSEN_PX: Final = 13
BAND_OPACITY: Final = 0.18
HEADROOM: Final = 1.5
"""The memory axis ends at this multiple of the usable memory."""
SCALING_HEIGHT: Final = 360
TICKS: Final = 8
MARGIN: Final = 1.25
DAY_HEIGHT: Final = 320
DAY_LINES: Final = (("needed", "Needed by the requests"), ("running", "Autoscaled fleet"))


def curve_chart(frame: pd.DataFrame, *, title: str, sentence: str, theme: Theme) -> go.Figure:
    """Return memory with its range above, speed below, both against one quantity with a title.

    ``frame`` is `advisor.frames.curve_frame`'s; without a point it is a ``ValueError``.
    """
    draw.refuse_empty(frame, "the chart of a curve needs at least one point")
    values = frame["value"].tolist()
    usable = float(frame["usable_gib"].min())
    chosen = frame[frame["chosen"]]
    fitting, failing = frame[frame["fits"]], frame[~frame["fits"]]
    speed_unit = str(frame["unit"].iloc[0])
    top = max(usable * HEADROOM, float(fitting["high_gib"].max()) if len(fitting) else usable)
    band = {"fill": "tonexty", "fillcolor": faint(theme.hues[0], BAND_OPACITY)}
    star = {"color": theme.hues[3], "size": CHOSEN_PX, "symbol": "star"}
    traces = [
        _memory(values, frame["low_gib"], theme, width=0, showlegend=False),
        _memory(values, frame["high_gib"], theme, width=0, name="Memory, 80 % range", **band),
        _memory(values, frame["expected_gib"], theme, width=2, name="Memory on each card"),
        _speed(fitting, theme, name="Speed where it fits", symbol="circle"),
        _speed(failing, theme, name="Speed where it does not", symbol="circle-open"),
        _speed(chosen, theme, name="Chosen") | {"marker": star},
    ]
    ticks = values[:: max(1, math.ceil(len(values) / (4 if theme.compact else 9)))]
    limit: Drawn = {"xref": "paper", "x": 0.01, "xanchor": "left", "y": usable, "yanchor": "bottom"}
    return draw.figure(
        theme,
        [trace for trace in traces if trace["x"]],
        alt=curve_alt(frame, title=title, sentence=sentence),
        height=HEIGHT,
        x=draw.axis(
            theme,
            title,
            type="log",
            tickvals=ticks,
            ticktext=[f"{tick:,}" for tick in ticks],
            anchor="y2",
        ),
        y=draw.axis(theme, "GiB on each card", domain=MEMORY_DOMAIN, range=[0, top]),
        yaxis2=draw.axis(
            theme,
            speed_unit.capitalize(),
            domain=SPEED_DOMAIN,
            rangemode="tozero",
            nticks=4,
            tickformat=",",
        ),
        shapes=[draw.rule(usable, color=theme.text, along="y")],
        annotations=[draw.note(theme, f"{usable:.1f} GiB usable", **limit)],
    )


def curve_alt(frame: pd.DataFrame, *, title: str, sentence: str) -> str:
    """Return the chart in words: the finding, the axes and their ranges."""
    values = frame["value"]
    return (
        f"{sentence} Memory on each card in GiB, from {frame['expected_gib'].min():.1f} to "
        f"{frame['expected_gib'].max():.1f}, and speed in {frame['unit'].iloc[0]}, from "
        f"{frame['speed_per_s'].min():,.0f} to {frame['speed_per_s'].max():,.0f}, against "
        f"{title.lower()} from {values.min():,} to {values.max():,}."
    )


def _memory(
    values: list[int], column: pd.Series[float], theme: Theme, *, width: int, **more: Any
) -> Drawn:
    hover = "%{x:,}: %{y:.1f} GiB<extra></extra>"
    return draw.line(values, column, color=theme.hues[0], width=width, hovertemplate=hover, **more)


def _speed(rows: pd.DataFrame, theme: Theme, *, name: str, symbol: str = "star") -> Drawn:
    return draw.marks(
        rows["value"],
        rows["speed_per_s"],
        marker={"color": theme.hues[2], "symbol": symbol},
        name=name,
        yaxis="y2",
        hovertemplate="%{x:,}: %{y:,.0f} per second<extra></extra>",
    )


def scaling_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return the efficiency of each number of accelerators, with perfect scaling."""
    draw.refuse_empty(frame, "the scaling chart needs at least one number of accelerators")
    counts = frame["count"].tolist()
    low, high = counts[0] / MARGIN, counts[-1] * MARGIN
    ticks = counts[:: math.ceil(len(counts) / TICKS)]
    traces = [
        draw.line(
            [low, high],
            [1.0, 1.0],
            color=theme.muted,
            width=1.5,
            dash="dash",
            name="Perfect scaling",
            hoverinfo="skip",
        ),
        draw.line(
            counts,
            frame["efficiency"],
            color=theme.hues[0],
            mode="lines+markers",
            name="Best layout of each number",
            text=_hovers(frame),
            marker={"color": theme.hues[0], "size": 8},
            hovertemplate="%{text}<extra></extra>",
        ),
    ]
    return draw.figure(
        theme,
        traces,
        alt=scaling_alt(frame),
        height=SCALING_HEIGHT,
        x=draw.log_axis(theme, "Accelerators", low, high, {tick: f"{tick:,}" for tick in ticks}),
        y=draw.axis(
            theme,
            "Speed of each, against the fewest that fit",
            tickformat=".0%",
            range=[0, max(1.1, 1.05 * float(frame["efficiency"].max()))],
        ),
    )


def _hovers(frame: pd.DataFrame) -> list[str]:
    rows: Iterable[Any] = frame.itertuples()
    return [
        f"{row.count:,}: {percent(row.efficiency)} of the speed of each<br>"
        f"run in {duration(row.hours * HOUR_S)}, limited by {row.bound}"
        for row in rows
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


def day_chart(frame: pd.DataFrame, fixed: int, *, theme: Theme) -> go.Figure:
    """Return demand and capacity by hour, in replicas.

    ``fixed`` are those of the fleet for the peak.
    """
    draw.refuse_empty(frame, "the chart of the day needs at least one hour")
    hours = frame["hour"].tolist()
    fixed_line = draw.line(
        [hours[0], hours[-1]],
        [fixed, fixed],
        color=theme.muted,
        width=1.5,
        dash="dash",
        name="Fixed for the peak",
        hovertemplate="%{y} replicas<extra></extra>",
    )
    by_hour = [
        draw.line(
            hours,
            frame[column],
            color=theme.hues[place],
            name=name,
            hovertemplate="hour %{x}: %{y:.1f} replicas<extra></extra>",
        )
        for place, (column, name) in enumerate(DAY_LINES)
    ]
    for trace in by_hour:
        trace["line"] |= {"shape": "hvh"}
    return draw.figure(
        theme,
        [fixed_line, *by_hour],
        alt=day_alt(frame, fixed),
        height=DAY_HEIGHT,
        x=draw.axis(theme, "Hour"),
        y=draw.axis(theme, "Replicas", rangemode="tozero"),
    )


def day_alt(frame: pd.DataFrame, fixed: int) -> str:
    """Return the chart in words."""
    return (
        f"Lines of replicas over {len(frame)} hours: requests need {frame['needed'].min():.1f} to "
        f"{frame['needed'].max():.1f}, an autoscaled fleet runs {frame['running'].min():.1f} to "
        f"{frame['running'].max():.1f}, a fixed one {fixed}."
    )
