"""Replicas through the day: what requests need, what an autoscaler runs, and a fixed fleet."""

from __future__ import annotations

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts.theme import Theme, axis, base_layout, refuse_empty, unvalidated

HEIGHT: Final = 320
LINES: Final = (("needed", "Needed by the requests"), ("running", "Autoscaled fleet"))


def day_chart(frame: pd.DataFrame, fixed: int, *, theme: Theme) -> go.Figure:
    """Return demand and capacity by hour, in replicas.

    Parameters
    ----------
    fixed : int
        Replicas of the fleet for the peak.
    """
    refuse_empty(frame, "the chart of the day needs at least one hour")
    hours = frame["hour"].tolist()
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "Fixed for the peak",
            "x": [hours[0], hours[-1]],
            "y": [fixed, fixed],
            "line": {"color": theme.muted, "width": 1.5, "dash": "dash"},
            "hovertemplate": "%{y} replicas<extra></extra>",
        },
        *(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": hours,
                "y": frame[column].tolist(),
                "line": {"color": theme.hues[place], "width": 2, "shape": "hvh"},
                "hovertemplate": "hour %{x}: %{y:.1f} replicas<extra></extra>",
            }
            for place, (column, name) in enumerate(LINES)
        ),
    ]
    layout = base_layout(theme, height=HEIGHT) | {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": axis(theme, "Hour"),
        "yaxis": axis(theme, "Replicas", rangemode="tozero"),
        "showlegend": True,
    }
    return unvalidated(traces, layout)


def day_alt(frame: pd.DataFrame, fixed: int) -> str:
    """Return the chart in words."""
    return (
        f"Lines of replicas over {len(frame)} hours: requests need {frame['needed'].min():.1f} to "
        f"{frame['needed'].max():.1f}, an autoscaled fleet runs {frame['running'].min():.1f} to "
        f"{frame['running'].max():.1f}, a fixed one {fixed}."
    )
