"""The bars of a lesson."""

from collections.abc import Iterator
from typing import Final

import plotly.graph_objects as go

from advisor.charts.theme import FONT_SIZE, Theme, axis, base_layout, unvalidated
from advisor.lessons.results import Figures

ROW_PX: Final = 36
FRAME_PX: Final = 80
ROOM: Final = 1.4
"""Length of the axis over the longest bar, so that the text beside it has room."""
LONGEST_LABEL: Final = 34
SHORT_LABEL: Final = 20
"""Characters of a label, on a wide page and on a phone."""


def lesson_chart(figures: Figures, *, theme: Theme, compact: bool) -> go.Figure:
    """Return a horizontal bar for each value, from zero.

    Raises ``ValueError`` if there are fewer than two: one point is no chart.
    """
    if len(figures.bars) < 2:
        msg = "a chart needs two bars at least"
        raise ValueError(msg)
    bars = figures.bars
    rows = [*range(len(bars))]
    most = SHORT_LABEL if compact else LONGEST_LABEL
    longest = max(bar.value.expected for bar in bars)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": rows,
            "x": [bar.value.expected for bar in bars],
            "marker": {"color": [theme.hues[0] if bar.chosen else theme.mark for bar in bars]},
            "customdata": [f"{bar.label}: {bar.text}" for bar in bars],
            "hovertemplate": "%{customdata}<extra></extra>",
        }
    ]
    layout = base_layout(theme, height=FRAME_PX + ROW_PX * len(bars)) | {
        "margin": {"l": 8, "r": 8, "t": 24, "b": 8},
        "xaxis": axis(
            theme, figures.axis, range=[0, ROOM * max(longest, figures.limit or 0.0) or 1.0]
        ),
        "yaxis": axis(
            theme,
            "",
            tickvals=rows,
            ticktext=[_cut(bar.label, most) for bar in bars],
            range=[len(bars) - 0.5, -0.5],
            showgrid=False,
        ),
        "showlegend": False,
        "shapes": _limit(figures, theme),
        "annotations": [*_notes(figures, theme)],
    }
    return unvalidated(traces, layout)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _limit(figures: Figures, theme: Theme) -> list[dict[str, object]]:
    if figures.limit is None:
        return []
    line = {"color": theme.text, "width": 1.5, "dash": "dash"}
    at = {"x0": figures.limit, "x1": figures.limit, "yref": "paper", "y0": 0, "y1": 1}
    return [{"type": "line", "line": line, **at}]


def _notes(figures: Figures, theme: Theme) -> Iterator[dict[str, object]]:
    """Yield the text beside each bar, readable above the line of the limit, and its words."""
    look = {"showarrow": False, "xanchor": "left"}
    font = {"size": FONT_SIZE, "color": theme.text}
    for row, bar in enumerate(figures.bars):
        yield look | {
            "x": bar.value.expected,
            "y": row,
            "xshift": 4,
            "text": bar.text,
            "font": font,
            "bgcolor": theme.page,
        }
    if figures.limit is not None:
        small = font | {"size": FONT_SIZE - 1, "color": theme.muted}
        at = {"x": figures.limit, "yref": "paper", "y": 1, "yanchor": "bottom"}
        yield look | at | {"text": figures.limit_words, "font": small}


def lesson_alt(figures: Figures) -> str:
    """Return the chart in words."""
    shown = "; ".join(f"{bar.label}: {bar.text}" for bar in figures.bars)
    return f"Bars of {figures.axis}. {shown}."
