"""Deadline and budget in the cost-time chart: a line, and the area that it excludes."""

import math

from advisor.charts.theme import Drawn, Theme, note, rule
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.frames import Axes


def limit_shapes(
    axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float], theme: Theme
) -> list[Drawn]:
    """Return the deadline and the budget as dashed lines with the area beyond them shaded."""
    shapes: list[Drawn] = []
    area: Drawn = {"type": "rect", "layer": "below", "line": {"width": 0}}
    area |= {"fillcolor": theme.mark, "opacity": 0.16}
    if (at := axes.time_limit) is not None:
        shapes.append(area | {"x0": at, "x1": x_range[1], "yref": "paper", "y0": 0, "y1": 1})
        shapes.append(rule(at, color=theme.text))
    if (at := axes.cost_limit) is not None and axes.priced:
        shapes.append(area | {"y0": at, "y1": y_range[1], "xref": "paper", "x0": 0, "x1": 1})
        shapes.append(rule(at, color=theme.text, along="y"))
    return shapes


def limit_notes(axes: Axes, theme: Theme) -> list[Drawn]:
    """Return the labels inside the shaded areas."""
    notes: list[Drawn] = []
    corner: Drawn = {"color": theme.muted, "xanchor": "left", "yanchor": "bottom"}
    if (at := axes.time_limit) is not None:
        side: Drawn = {
            "x": math.log10(at),
            "xshift": 3,
            "yref": "paper",
            "y": 0.02,
            "textangle": -90,
        }
        notes.append(
            note(theme, f"{axes.time_limit_words}, {time_text(at, axes)}", **corner, **side)
        )
    if (at := axes.cost_limit) is not None and axes.priced:
        top: Drawn = {"xref": "paper", "x": 0.01, "y": math.log10(at)}
        notes.append(note(theme, f"over your budget, {money(at)}", **corner, **top))
    return notes


def time_text(value: float, axes: Axes) -> str:
    """Return a value of the time axis as text in a readable unit."""
    if axes.time_unit == "ms":
        return milliseconds(value * MILLISECOND)
    return duration(value * HOUR_S)
