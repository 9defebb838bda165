"""What charts are drawn of: figures, axes with 1-2-5 ticks, lines, marks, bars and notes."""

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from advisor.charts.theme import FONT_SIZE, Drawn, Theme

FONT: Final = '"Source Sans", "Source Sans Pro", sans-serif'


LEGEND_LETTERS: Final = 52
"""Of a line of a legend on a phone."""


LINE_PX: Final = 18


SIGNS: Final = {
    "circle-open": "\u25cb",
    "star": "\u2605",
    "diamond": "\u25c6",
    "square": "\u25a0",
    "triangle-up": "\u25b2",
    "cross": "\u271a",
}
"""Signs of markers in such a legend; others are a filled circle."""


def log_ticks(low: float, high: float, *, at_most: int) -> list[float]:
    """Return the tick values 1, 2, 5 times a power of ten from ``low`` to ``high``, positive.

    With more than ``at_most``, only the powers of ten remain. ``ValueError`` for ends out of order.

    >>> log_ticks(0.9, 60, at_most=9)
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    """
    if not 0 < low <= high:
        raise ValueError(f"log_ticks needs 0 < low <= high, got {low} and {high}")
    exponents = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    slack = 1e-9
    for digits in ((1, 2, 5), (1,)):
        ticks = [
            float(f"{digit}e{exponent}")
            for exponent in exponents
            for digit in digits
            if low * (1 - slack) <= float(f"{digit}e{exponent}") <= high * (1 + slack)
        ]
        if len(ticks) <= at_most:
            return ticks
    step = math.ceil(len(ticks) / at_most)
    return ticks[::step]


def refuse_empty(rows: Sized, message: str) -> None:
    """Raise a ``ValueError`` with ``message`` if there is nothing to draw."""
    if not len(rows):
        raise ValueError(message)


def uncertain_end(theme: Theme, *, names: Sequence[str | int], gib: Sequence[float]) -> Drawn:
    """Return the hatched ends of memory bars: memory that could be needed too."""
    pattern = {"shape": "/", "fgcolor": theme.mark, "bgcolor": theme.page}
    return bars(
        names,
        gib,
        marker={
            "color": theme.page,
            "line": {"width": 1, "color": theme.mark},
            "pattern": pattern | {"fillmode": "replace", "size": 6},
        },
        name="Possible extra (range)",
        hovertemplate="Range: up to %{x:.1f} GiB more<extra></extra>",
    )


def _base_layout(theme: Theme, *, height: int) -> Drawn:
    """Return the common layout of charts: page colour, fonts, legend on top, no dragging."""
    return {
        "template": {},
        "height": height,
        "paper_bgcolor": theme.page,
        "plot_bgcolor": theme.page,
        "font": {"family": FONT, "size": FONT_SIZE, "color": theme.text},
        "dragmode": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": theme.muted, "activecolor": theme.text},
        "hoverlabel": {
            "bgcolor": theme.panel,
            "bordercolor": theme.muted,
            "font": {"family": FONT, "size": FONT_SIZE, "color": theme.text},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": FONT_SIZE - 1, "color": theme.text},
            "traceorder": "normal",
            "itemclick": False,
            "itemdoubleclick": False,
        },
    }


def _legend_in_lines(traces: Sequence[Drawn], layout: Drawn, theme: Theme) -> Drawn:
    """Return what a chart for a phone has in place of a legend: lines of text over its whole width.

    Plotly's own would have a line for each entry, as wide as the plot alone.
    """
    lines = [""]
    letters = 0
    for trace in traces:
        name = trace.get("name")
        if not name or trace.get("showlegend") is False:
            continue
        letters += len(name) + len("# ")
        if letters > LEGEND_LETTERS:
            lines.append("")
            letters = len(name)
        lines[-1] += f"{_mark(trace)} {escape(name)}   "
    text = "<br>".join(line.rstrip() for line in lines)
    above: Drawn = {"xref": "paper", "x": 1, "xanchor": "right", "align": "left"}
    above |= {"yref": "paper", "y": 1, "yanchor": "bottom", "yshift": LINE_PX}
    top = max(layout["margin"]["t"], (len(lines) + 1) * LINE_PX + 8)
    return {
        "showlegend": False,
        "annotations": [*layout.get("annotations", ()), note(theme, text, smaller=2, **above)],
        "margin": layout["margin"] | {"t": top},
    }


def _mark(trace: Drawn) -> str:
    """Return the sign of a trace in its colour."""
    marker, mode = trace.get("marker", {}), trace.get("mode", "")
    color, sign = marker.get("color"), SIGNS.get(marker.get("symbol"), "\u25cf")
    if trace["type"] == "bar":
        pattern = marker.get("pattern", {})
        sign = "\u25a8" if pattern.get("shape") else "\u25a0"
        color = pattern.get("fgcolor") or color
    elif "markers" not in mode:
        color = trace.get("fillcolor") or trace["line"]["color"]
        sign = "\u2505" if trace["line"]["dash"] == "dash" else "\u2501"
    return f'<span style="color:{color}">{sign}</span>'


def axis(theme: Theme, title: str, **more: object) -> Drawn:
    """Return one axis with readable ticks and title."""
    return {
        "title": {"text": title, "font": {"size": FONT_SIZE, "color": theme.text}, "standoff": 8},
        "tickfont": {"size": FONT_SIZE - 1, "color": theme.muted},
        "gridcolor": theme.grid,
        "linecolor": theme.muted,
        "zeroline": False,
        "showline": True,
        "fixedrange": True,
        "automargin": True,
        **more,
    }


def log_axis(
    theme: Theme, title: str, low: float, high: float, ticks: Mapping[float, str], **more: object
) -> Drawn:
    """Return a logarithmic axis between two values, with a text at each tick."""
    ends = [math.log10(low), math.log10(high)]
    scale = {"range": ends, "tickvals": [*ticks], "ticktext": [*ticks.values()]}
    return axis(theme, title, type="log", **scale, **more)


def names_axis(theme: Theme, **more: object) -> Drawn:
    """Return the axis of the names of rows, without gridlines."""
    font = {"size": FONT_SIZE - 1, "color": theme.text}
    return axis(theme, "", showgrid=False, tickfont=font, **more)


def figure(
    theme: Theme,
    traces: Sequence[Drawn],
    *,
    alt: str,
    height: int,
    x: Drawn,
    y: Drawn,
    margin: Mapping[str, int] | None = None,
    **more: object,
) -> go.Figure:
    """Return a chart of plain dictionaries without Plotly's copy and check of every property.

    They take half of the processor time of a chart. A test makes the check for every page.
    ``alt`` says the chart in words. ``more`` are further entries of the layout; a legend stands on
    top unless they say otherwise.
    """
    sides = {"l": 8, "r": 8, "t": 8, "b": 8, **(margin or {})}
    layout = {"margin": sides, "xaxis": x, "yaxis": y, "showlegend": True, **more}
    if theme.compact and layout["showlegend"]:
        layout |= _legend_in_lines(traces, layout, theme)
    return _Plain(alt, data=[*traces], layout=_base_layout(theme, height=height) | layout)


def line(
    x: Iterable[object],
    y: Iterable[object],
    *,
    color: str,
    width: float = 2,
    dash: str = "solid",
    **more: object,
) -> Drawn:
    """Return a line through points; ``more`` are further entries of Plotly's trace."""
    look = {"color": color, "width": width, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": [*x], "y": [*y], "line": look, **more}


def marks(
    x: Iterable[object], y: Iterable[object], *, marker: Mapping[str, object], **more: object
) -> Drawn:
    """Return a mark for each point."""
    look = {"size": 8, **marker}
    return {"type": "scatter", "mode": "markers", "x": [*x], "y": [*y], "marker": look, **more}


def bars(
    rows: Iterable[object], sizes: Iterable[object], *, marker: Mapping[str, object], **more: object
) -> Drawn:
    """Return a horizontal bar in each row."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": [*rows],
        "x": [*sizes],
        "marker": marker,
        **more,
    }


def rule(
    at: float, *, color: str, width: float = 1.5, dash: str = "dash", along: str = "x"
) -> Drawn:
    """Return a line across the whole chart at a value of the axis ``along``."""
    across = "y" if along == "x" else "x"
    ends = {f"{along}0": at, f"{along}1": at, f"{across}ref": "paper"}
    look = {"color": color, "width": width, "dash": dash}
    return {"type": "line", **ends, f"{across}0": 0, f"{across}1": 1, "line": look}


def note(
    theme: Theme, text: str, *, smaller: int = 1, color: str | None = None, **where: object
) -> Drawn:
    """Return a text in the chart, ``smaller`` than the chart's own by some pixels."""
    font = {"size": FONT_SIZE - smaller, "color": color or theme.text}
    return {"text": text, "showarrow": False, "font": font, **where}


class _Plain(go.Figure):  # type: ignore[misc]
    """A figure that is its dictionaries; Plotly copies and checks them where code looks inside."""

    alt = ""  # Plotly's figures take no attribute that their class does not have

    def __init__(self, alt: str, **drawn: object) -> None:
        self.alt = alt
        self._drawn = drawn

    def to_dict(self) -> dict[str, Any]:
        return self._drawn

    data = property(lambda self: go.Figure(self._drawn).data)
    layout = property(lambda self: go.Figure(self._drawn).layout)
