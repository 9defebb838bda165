"""The cost-time chart: the best plans, and the price of a faster one."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.labels import ABOVE_PX, ASIDE_PX, Label, LogPlot, Placed, place
from advisor.charts.theme import Drawn, Theme, faint
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND, round_significant
from advisor.frames.points import Axes, Point

HEIGHT: Final = 430
COMPACT_HEIGHT: Final = 320
PLOT_PX: Final = (1000.0, 320.0)
"""Approximate width and height of the area for labels. [px]"""
COMPACT_PLOT_PX: Final = (270.0, 200.0)
LABELS: Final = 7
COMPACT_LABELS: Final = 3
LEAST_SPAN: Final = 5.0
"""An axis spans at least this factor, so that it has at least two ticks."""
PAD: Final = 1.25
"""Factor beyond the outermost point."""
LABEL_OPACITY: Final = 0.6
"""Of what is behind the text of a label."""
EXCLUDED_PAD: Final = 1.7
"""Factor beyond a limit, so that the excluded area is visible."""


def cost_time_chart(
    points: Sequence[Point],
    chosen: Sequence[Point],
    axes: Axes,
    *,
    theme: Theme,
) -> go.Figure:
    """Return cost against time, both logarithmic, with the frontier as a step line.

    A compact one, for a phone, is lower and has three labels.
    """
    draw.refuse_empty(points, "the cost-time chart needs at least one candidate")
    shown, plans = _with_heights(points, axes), _with_heights(chosen, axes)
    frontier = [item for item in shown if item.on_frontier]
    beaten = [item for item in shown if not item.on_frontier]
    x_range, y_range = _ranges(shown, [*frontier, *plans], axes)
    width, height = COMPACT_PLOT_PX if theme.compact else PLOT_PX
    plot = LogPlot(x_range, y_range, width, height)
    placed = place(
        _labels(frontier, plans, compact=theme.compact),
        plot,
        at_most=COMPACT_LABELS if theme.compact else LABELS,
        avoid=[(item.time, item.cost) for item in (*plans, *shown)],
        wall=axes.time_limit,
    )
    color, gold = theme.hues[0], theme.hues[3]
    diamond = {"symbol": "diamond", "size": 13, "line": {"width": 1.5, "color": theme.page}}
    traces = [
        _dots(beaten, axes, "Slower and dearer", theme.mark, {"symbol": "circle-open"}),
        # Steps: each cost holds until the next cheaper point.
        _dots(frontier, axes, "Best trade-offs", color, {"symbol": "circle"})
        | {"mode": "lines+markers", "line": {"shape": "hv", "width": 2, "color": color}}
        | _crosses(frontier, color, priced=axes.priced),
        _dots(plans, axes, "The plans above", gold, diamond)
        | _crosses(plans, gold, priced=axes.priced),
    ]
    return draw.figure(
        theme,
        traces,
        alt=cost_time_alt(points, chosen, axes),
        height=COMPACT_HEIGHT if theme.compact else HEIGHT,
        x=_time_axis(axes, x_range, theme),
        y=_cost_axis(axes, y_range, theme),
        shapes=_limit_shapes(axes, x_range, y_range, theme),
        annotations=[*(_annotation(item, theme) for item in placed), *_limit_notes(axes, theme)],
    )


def cost_time_finding(points: Sequence[Point], chosen: Sequence[Point], axes: Axes) -> str:
    """Return what the chart shows: what the fastest plan costs beside the cheapest.

    Says where the frontier goes on to faster ``points`` that nobody would pay for. Empty where the
    plans are one point, or have no price.
    """
    plans = [item for item in chosen if item.priced]
    if not plans:
        return ""
    cheap, fast = min(plans, key=lambda item: item.cost), min(plans, key=lambda item: item.time)
    if fast.cost <= cheap.cost or cheap.time <= fast.time:
        return ""
    faster, dearer = (
        f"{round_significant(ratio, 2):,g} times"
        for ratio in (cheap.time / fast.time, fast.cost / cheap.cost)
    )
    faster_still = any(item.on_frontier and item.time < fast.time for item in points)
    beyond = " What is faster still, further left, saves little for its cost."
    return (
        f"The fastest plan takes {_time_text(fast.time, axes)} instead of "
        f"{_time_text(cheap.time, axes)} ({faster} as fast) and costs "
        f"{_cost_text(fast)} instead of {_cost_text(cheap)} ({dearer} as much)."
        f"{beyond * faster_still}"
    )


def cost_time_alt(points: Sequence[Point], chosen: Sequence[Point], axes: Axes) -> str:
    """Return the chart in words: the finding, the axes and their range."""
    found = "; ".join(
        f"{item.pick}: {item.label}, {_time_text(item.time, axes)}"
        + (f", {_cost_text(item)}" if item.priced else "")
        for item in chosen
    )
    times = [item.time for item in points]
    spread = f"{axes.time_title} from {_time_text(min(times), axes)} to "
    spread += _time_text(max(times), axes)
    if costs := [item.cost for item in points if item.priced]:
        spread += f", {axes.cost_title.lower()} from {money(min(costs))} to {money(max(costs))}"
    limits = ""
    if axes.time_limit is not None:
        limits += f" Excluded: {axes.time_limit_words}, {_time_text(axes.time_limit, axes)}."
    if axes.cost_limit is not None:
        limits += f" Excluded: over your budget, {money(axes.cost_limit)}."
    start = f"Scatter chart of {len(points)} configurations, logarithmic axes. "
    return f"{start}{found or 'No configuration meets the limits'}. {spread}.{limits}"


def time_scale(axes: Axes, x_range: tuple[float, float]) -> tuple[str, float]:
    """Return the unit that suits the middle of the time axis, and its size in the axis's own."""
    middle = math.sqrt(x_range[0] * x_range[1])
    if axes.time_unit == "ms":
        return ("ms", 1.0) if middle < 1000 else ("s", 1000.0)
    if middle < 0.75:
        return "minutes", 1 / 60
    return ("hours", 1.0) if middle < 72 else ("days", 24.0)


def _with_heights(points: Sequence[Point], axes: Axes) -> list[Point]:
    """Return the points to draw; owned hardware has no price, so its height is the cards."""
    if axes.priced:
        return [item for item in points if item.priced]
    return [
        item._replace(cost_low=height, cost=height, cost_high=height)
        for item in points
        for height in (float(item.cards),)
    ]


def _ranges(
    points: Sequence[Point], shown: Sequence[Point], axes: Axes
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of the axes: all points, and the bounds of those ``shown`` with them."""
    x, y = [item.time for item in points], [item.cost for item in points]
    for item in shown:
        x += item.time_low, item.time_high
        y += item.cost_low, item.cost_high
    return _padded(x, axes.time_limit), _padded(y, axes.cost_limit if axes.priced else None)


def _padded(values: list[float], limit: float | None) -> tuple[float, float]:
    low, high = min(values) / PAD, max(values) * PAD
    if limit is not None:
        low, high = min(low, limit / PAD), max(high, limit * EXCLUDED_PAD)
    missing = math.sqrt(max(1.0, LEAST_SPAN / (high / low)))
    return low / missing, high * missing


def _dots(points: Sequence[Point], axes: Axes, name: str, color: str, marker: Drawn) -> Drawn:
    return draw.marks(
        [item.time for item in points],
        [item.cost for item in points],
        marker={"color": color, "line": {"width": 1.5, "color": color}, **marker},
        name=name,
        text=[_hover(item, axes) for item in points],
        hovertemplate="%{text}<extra></extra>",
    )


def _crosses(points: Sequence[Point], color: str, *, priced: bool) -> Drawn:
    look: Drawn = {"type": "data", "symmetric": False, "color": color, "thickness": 1, "width": 3}
    crosses: Drawn = {
        "error_x": look
        | {
            "array": [item.time_high - item.time for item in points],
            "arrayminus": [item.time - item.time_low for item in points],
        }
    }
    if priced:
        crosses["error_y"] = look | {
            "array": [item.cost_high - item.cost for item in points],
            "arrayminus": [item.cost - item.cost_low for item in points],
        }
    return crosses


def _labels(frontier: Sequence[Point], chosen: Sequence[Point], *, compact: bool) -> list[Label]:
    """Return labels: the plans, then the frontier from its ends inwards; on a phone, only plans."""
    labels = [
        Label(
            item.time,
            item.cost,
            (item.pick,) if compact else (item.pick, item.label),
            required=True,
        )
        for item in chosen
    ]
    if compact:
        return labels
    named = {item.label for item in chosen}
    rows = [*frontier]
    inwards = [rows.pop(0 if index % 2 else -1) for index in range(len(rows))]
    for item in inwards:
        short = f"{item.cards:,}x {item.accelerator}"
        if short not in named:
            labels.append(Label(item.time, item.cost, (short,)))
            named.add(short)
    return labels


def _annotation(placed: Placed, theme: Theme) -> Drawn:
    """Return a text beside its point, with a thin line if it had to move away."""
    aside = {"left": ASIDE_PX, "right": -ASIDE_PX, "center": 0}[placed.xanchor]
    up = (ABOVE_PX + placed.lift_px) * (1 if placed.yanchor == "bottom" else -1)
    where: Drawn = {"xshift": aside, "yshift": up}
    if placed.lift_px:
        where = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "ax": aside, "ay": -up}
    look: Drawn = {
        "arrowcolor": theme.muted,
        "bgcolor": faint(theme.page, LABEL_OPACITY),
        "borderpad": 1,
    }
    at: Drawn = {"x": math.log10(placed.label.x), "y": math.log10(placed.label.y)}
    anchors: Drawn = {"xanchor": placed.xanchor, "yanchor": placed.yanchor}
    align = "right" if placed.xanchor == "right" else "left"
    return draw.note(theme, placed.html, align=align, **at, **anchors, **look, **where)


def _time_axis(axes: Axes, x_range: tuple[float, float], theme: Theme) -> Drawn:
    unit, size = time_scale(axes, x_range)
    low, high = x_range[0] / size, x_range[1] / size
    ticks = draw.log_ticks(low, high, at_most=5 if theme.compact else 12)
    texts = {tick * size: f"{tick:,.10g}" for tick in ticks}
    return draw.log_axis(theme, f"{axes.time_title} ({unit})", *x_range, texts)


def _cost_axis(axes: Axes, y_range: tuple[float, float], theme: Theme) -> Drawn:
    ticks = draw.log_ticks(*y_range, at_most=5 if theme.compact else 9)
    title = f"{axes.cost_title} (USD)" if axes.priced else "Cards used"
    texts = {tick: f"{tick:,.10g}" for tick in ticks}
    if axes.priced:
        texts = {tick: f"${tick:,.0f}" if tick >= 1 else f"${tick:.2f}" for tick in ticks}
    return draw.log_axis(theme, title, *y_range, texts)


def _hover(item: Point, axes: Axes) -> str:
    text = f"{escape(item.label, quote=False)}<br>{_time_text(item.time, axes)}"
    return f"{text}, {_cost_text(item)}" if axes.priced else text


def _cost_text(item: Point) -> str:
    """Return a cost as a plan shows it: a list price in full, an estimate in two digits."""
    listed = item.cost_low == item.cost_high
    return money(item.cost if listed else round_significant(item.cost, 2))


def _limit_shapes(
    axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float], theme: Theme
) -> list[Drawn]:
    """Return the deadline and the budget as dashed lines with the area beyond them shaded."""
    shapes: list[Drawn] = []
    area: Drawn = {"type": "rect", "layer": "below", "line": {"width": 0}}
    area |= {"fillcolor": theme.mark, "opacity": 0.16}
    if (at := axes.time_limit) is not None:
        shapes.append(area | {"x0": at, "x1": x_range[1], "yref": "paper", "y0": 0, "y1": 1})
        shapes.append(draw.rule(at, color=theme.text))
    if (at := axes.cost_limit) is not None and axes.priced:
        shapes.append(area | {"y0": at, "y1": y_range[1], "xref": "paper", "x0": 0, "x1": 1})
        shapes.append(draw.rule(at, color=theme.text, along="y"))
    return shapes


def _limit_notes(axes: Axes, theme: Theme) -> list[Drawn]:
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
            draw.note(theme, f"{axes.time_limit_words}, {_time_text(at, axes)}", **corner, **side)
        )
    if (at := axes.cost_limit) is not None and axes.priced:
        top: Drawn = {"xref": "paper", "x": 0.01, "y": math.log10(at)}
        notes.append(draw.note(theme, f"over your budget, {money(at)}", **corner, **top))
    return notes


def _time_text(value: float, axes: Axes) -> str:
    """Return a value of the time axis as text in a readable unit."""
    if axes.time_unit == "ms":
        return milliseconds(value * MILLISECOND)
    return duration(value * HOUR_S)
