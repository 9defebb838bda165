"""Deadline and budget in the cost-time chart: a line, and the area that it excludes."""

import math

from advisor.charts.theme import FONT_SIZE, Theme
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.frames import Axes


def limit_shapes(
    axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float], theme: Theme
) -> list[dict[str, object]]:
    """Return the deadline and the budget as dashed lines with the area beyond them shaded."""
    shapes: list[dict[str, object]] = []
    line = {"color": theme.text, "width": 1.5, "dash": "dash"}
    area: dict[str, object] = {"type": "rect", "layer": "below", "line": {"width": 0}}
    area |= {"fillcolor": theme.mark, "opacity": 0.16}
    if axes.time_limit is not None:
        at = axes.time_limit
        shapes.append(area | {"x0": at, "x1": x_range[1], "yref": "paper", "y0": 0, "y1": 1})
        shapes.append(
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}
        )
    if axes.cost_limit is not None and axes.priced:
        at = axes.cost_limit
        shapes.append(area | {"y0": at, "y1": y_range[1], "xref": "paper", "x0": 0, "x1": 1})
        shapes.append(
            {"type": "line", "y0": at, "y1": at, "xref": "paper", "x0": 0, "x1": 1, "line": line}
        )
    return shapes


def limit_notes(axes: Axes, theme: Theme) -> list[dict[str, object]]:
    """Return the labels inside the shaded areas."""
    notes: list[dict[str, object]] = []
    look: dict[str, object] = {
        "showarrow": False,
        "font": {"size": FONT_SIZE - 1, "color": theme.muted},
    }
    if axes.time_limit is not None:
        text = f"{axes.time_limit_words}, {time_text(axes.time_limit, axes)}"
        notes.append(
            look
            | {
                "x": math.log10(axes.time_limit),
                "xanchor": "left",
                "xshift": 3,
                "yref": "paper",
                "y": 0.02,
                "yanchor": "bottom",
                "textangle": -90,
                "text": text,
            }
        )
    if axes.cost_limit is not None and axes.priced:
        notes.append(
            look
            | {
                "xref": "paper",
                "x": 0.01,
                "xanchor": "left",
                "y": math.log10(axes.cost_limit),
                "yanchor": "bottom",
                "text": f"over your budget, {money(axes.cost_limit)}",
            }
        )
    return notes


def time_text(value: float, axes: Axes) -> str:
    """Return a value of the time axis as text in a readable unit."""
    if axes.time_unit == "ms":
        return milliseconds(value * MILLISECOND)
    return duration(value * HOUR_S)
