"""The week of a fleet: which workload holds how much of each machine."""

from textwrap import wrap
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Theme
from advisor.foundation.formatting import percent

ROW_HEIGHT, COMPACT_ROW = 34, 72
TOP_HEIGHT: Final = 110
SHOWN: Final = 5
"""Workloads with a colour of their own."""
REST: Final = "All others"
LINE: Final = 22
"""Characters of a line of a machine's name on a phone."""


def weeks_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return one bar for each machine and part of the week, divided by workload.

    A compact one, for a phone, breaks names.
    """
    shares = _by_workload(frame)
    rows = [*shares.index]
    if theme.compact:
        rows = ["<br>".join(wrap(name, LINE)) for name in rows]
    traces = [
        draw.bars(
            rows,
            100 * shares[name],
            marker={"color": theme.mark if name == REST else theme.hues[place]},
            name=name,
            hovertemplate=f"{name}: %{{x:.0f}} %<extra></extra>",
        )
        for place, name in enumerate(shares.columns)
    ]
    row = COMPACT_ROW if theme.compact else ROW_HEIGHT
    return draw.figure(
        theme,
        traces,
        alt=weeks_alt(frame),
        height=TOP_HEIGHT + row * len(shares),
        x=draw.axis(theme, "Share of the cards (%)", range=[0, 100]),
        y=draw.axis(theme, "", autorange="reversed"),
        barmode="stack",
    )


def weeks_alt(frame: pd.DataFrame) -> str:
    """Return the chart in words."""
    busy = frame.groupby("row", sort=False)["share"].sum()
    words = "; ".join(f"{row}: {percent(share)} in use" for row, share in busy.items())
    return f"Bars of the share of the cards that each workload holds. {words}."


def weeks_finding(frame: pd.DataFrame) -> str:
    """Return which machine is fullest, by which work, and which has most room."""
    busy = frame.groupby("row", sort=False)["share"].sum().sort_values(kind="stable")
    rows = list(busy.items())
    (emptiest, least), (fullest, most) = rows[0], rows[-1]
    inside = frame[frame["row"] == fullest].groupby("workload", sort=False)["share"].sum()
    by = f", most of it by {inside.idxmax()}" if len(inside) > 1 else f" by {inside.idxmax()}"
    text = f"{fullest}: {percent(most)} in use{by}."
    if percent(least) != percent(most):
        text += f" Most room: {emptiest}, {percent(max(0.0, 1 - least))} free."
    return text


def weeks_differ(frame: pd.DataFrame) -> bool:
    """Return whether there is something to compare: another share, or another workload."""
    shares = frame["share"].map(percent)
    return shares.nunique() > 1 or frame["workload"].nunique() > 1


def _by_workload(frame: pd.DataFrame) -> pd.DataFrame:
    """Return shares by row and workload; the smaller workloads together."""
    draw.refuse_empty(frame, "the chart of the week needs a machine in use")
    largest = frame.groupby("workload")["share"].sum().nlargest(SHOWN).index
    shown = frame.assign(workload=frame["workload"].where(frame["workload"].isin(largest), REST))
    shares = shown.pivot_table(
        index="row", columns="workload", values="share", aggfunc="sum", fill_value=0.0, sort=False
    )
    return shares[[*(one for one in largest if one in shares), *({REST} & {*shares.columns})]]
