"""The bars of a lesson."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Drawn, Theme
from advisor.lessons.results import Figures

ROW_PX: Final = 36
FRAME_PX: Final = 80
ROOM: Final = (1.4, 2.5)
"""Length of the axis over the longest bar, so that the text beside it has room; on a phone."""
LONGEST_LABEL: Final = 34
SHORT_LABEL: Final = 20
"""Characters of a label, on a wide page and on a phone."""


def lesson_chart(figures: Figures, *, theme: Theme) -> go.Figure:
    """Return a horizontal bar for each value, from zero.

    Raises ``ValueError`` if there are fewer than two: one point is no chart.
    """
    if len(figures.bars) < 2:
        raise ValueError("a chart needs two bars at least")
    shown = figures.bars
    rows = [*range(len(shown))]
    most = SHORT_LABEL if theme.compact else LONGEST_LABEL
    longest = max(bar.value.expected for bar in shown)
    traces = [
        draw.bars(
            rows,
            [bar.value.expected for bar in shown],
            marker={"color": [theme.hues[0] if bar.chosen else theme.mark for bar in shown]},
            customdata=[f"{bar.label}: {bar.text}" for bar in shown],
            hovertemplate="%{customdata}<extra></extra>",
        )
    ]
    end = ROOM[theme.compact] * max(longest, figures.limit or 0.0) or 1.0
    return draw.figure(
        theme,
        traces,
        alt=lesson_alt(figures),
        height=FRAME_PX + ROW_PX * len(shown),
        x=draw.axis(theme, figures.axis, range=[0, end]),
        y=draw.axis(
            theme,
            "",
            tickvals=rows,
            ticktext=[_broken(bar.label, most) for bar in shown],
            range=[len(shown) - 0.5, -0.5],
            showgrid=False,
        ),
        margin={"t": 24},
        showlegend=False,
        shapes=[] if figures.limit is None else [draw.rule(figures.limit, color=theme.text)],
        annotations=[*_notes(figures, theme)],
    )


def _broken(text: str, most: int) -> str:
    """Return a label on two lines at most."""
    return "<br>".join(wrap(text, most, max_lines=2, placeholder="…"))


def _notes(figures: Figures, theme: Theme) -> Iterator[Drawn]:
    """Yield the text beside each bar, readable above the line of the limit, and its words."""
    beside: Drawn = {"xanchor": "left", "xshift": 4, "bgcolor": theme.page}
    for row, bar in enumerate(figures.bars):
        yield draw.note(theme, bar.text, smaller=0, x=bar.value.expected, y=row, **beside)
    if figures.limit is not None:
        top: Drawn = {
            "x": figures.limit,
            "xanchor": "center",
            "yref": "paper",
            "y": 1,
            "yanchor": "bottom",
        }
        yield draw.note(theme, figures.limit_words, color=theme.muted, **top)


def lesson_alt(figures: Figures) -> str:
    """Return the chart in words."""
    shown = "; ".join(f"{bar.label}: {bar.text}" for bar in figures.bars)
    return f"Bars of {figures.axis}. {shown}."
