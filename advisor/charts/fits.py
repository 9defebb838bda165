"""The chart of models on a card: what each needs, against what the card can hold."""

from __future__ import annotations

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts.theme import (
    FONT_SIZE,
    Theme,
    axis,
    base_layout,
    refuse_empty,
    uncertain_end,
    unvalidated,
)

ROW_PX: Final = 30
FRAME_PX: Final = 130
SHOWN_SHARE: Final = 1.6
"""The axis ends at this multiple of the usable memory; it cuts longer bars."""
HUES: Final = {"Weights": 0, "Key-value cache": 3, "Overheads": 4}
"""The same hues as in the memory chart."""


def fits_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return horizontal bars stacked by group, from 0, against the usable memory."""
    refuse_empty(frame, "the chart of models needs at least one")
    models = frame["model"].drop_duplicates().tolist()
    usable = float(frame["usable_gib"].min())
    traces: list[dict[str, object]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": group,
            "y": frame[frame["group"] == group]["model"].tolist(),
            "x": frame[frame["group"] == group]["gib"].tolist(),
            "marker": {"color": theme.hues[hue], "line": {"width": 1, "color": theme.page}},
            "hovertemplate": f"{group}: %{{x:.1f}} GiB<extra></extra>",
        }
        for group, hue in HUES.items()
    ]
    each = frame.drop_duplicates("model")
    spread = each["total_high_gib"] - each["total_gib"]
    traces.append(uncertain_end(theme, names=models, gib=spread))
    layout = base_layout(theme, height=FRAME_PX + ROW_PX * len(models)) | {
        "barmode": "stack",
        "margin": {"l": 8, "r": 8, "t": 40, "b": 8},
        "xaxis": axis(
            theme,
            "GiB on each card",
            range=[0, SHOWN_SHARE * usable],
        ),
        "yaxis": axis(theme, "", autorange="reversed", showgrid=False)
        | {"tickfont": {"size": FONT_SIZE - 1, "color": theme.text}},
        "shapes": [
            {
                "type": "line",
                "x0": usable,
                "x1": usable,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": theme.text, "width": 3},
            }
        ],
        "annotations": [
            {
                "x": usable,
                "yref": "paper",
                "y": 1,
                "xanchor": "center",
                "yanchor": "bottom",
                "showarrow": False,
                "bgcolor": theme.page,
                "text": f"{usable:.1f} GiB usable",
                "font": {"size": FONT_SIZE - 1, "color": theme.text},
            }
        ],
        "showlegend": True,
    }
    return unvalidated(traces, layout)


def fits_finding(frame: pd.DataFrame) -> str:
    """Return what the chart shows: how many models stay below the limit."""
    models = frame.drop_duplicates("model")
    fitting = int((models["total_high_gib"] <= models["usable_gib"]).sum())
    return (
        f"{fitting} of {len(models)} models stay below the {models['usable_gib'].min():.1f} GiB "
        "usable on each card. Bars that reach the right edge are longer."
    )


def fits_alt(frame: pd.DataFrame) -> str:
    """Return the chart in words."""
    return (
        f"{fits_finding(frame)} Bar chart of the memory that each model needs, linear from 0. The "
        "tables hold the numbers."
    )
