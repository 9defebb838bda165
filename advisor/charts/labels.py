"""Placement of labels at points, so that none covers another."""

import math
from collections.abc import Sequence
from html import escape
from itertools import product

from advisor.foundation.record import record

CHARACTER_PX = 6.6
"""Mean width of a character of the chart font at 13 px. [px]"""
LINE_PX = 17.0
MARKER_PX = 9.0
ASIDE_PX = 8.0
"""Horizontal distance from a point to its text. [px]"""
ABOVE_PX = 4.0
"""Vertical distance from a point to its text. [px]"""
EDGE_PX = 3.0
"""Background around a text. [px]"""
PLACES = tuple(product(("left", "right", "center"), ("bottom", "top")))
"""Anchors of the text: ``left`` puts it right of its point, ``bottom`` above it."""
LIFTS_PX = (0.0, 40.0, 80.0)
"""How far a text may move up or down from its point, with a leader line. [px]"""


@record
class Label:
    """A text for a point; x and y in axis units."""

    x: float
    y: float
    lines: tuple[str, ...]
    required: bool = False
    """Always placed, where it covers least."""


@record
class Placed:
    """A label with its anchors."""

    label: Label
    xanchor: str
    yanchor: str
    lift_px: float = 0.0

    @property
    def html(self) -> str:
        """The text for Plotly: the first line of a required label is bold."""
        first, *others = (escape(line, quote=False) for line in self.label.lines)
        return "<br>".join((f"<b>{first}</b>" if self.label.required else first, *others))


@record
class LogPlot:
    """A plot with two logarithmic axes and its approximate size on screen."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width_px: float
    height_px: float

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies, from the upper left corner. [px]"""
        return (
            _share(x, self.x_range) * self.width_px,
            (1 - _share(y, self.y_range)) * self.height_px,
        )


Box = tuple[float, float, float, float]


def place(
    labels: Sequence[Label],
    plot: LogPlot,
    *,
    at_most: int,
    avoid: Sequence[tuple[float, float]] = (),
    wall: float | None = None,
) -> list[Placed]:
    """Place labels in order of importance, at most so many.

    Labels without a free place are left out, unless required. They cover no point of ``avoid`` and
    do not cross the vertical line ``wall``, all in axis units.
    """
    half = MARKER_PX / 2
    middles = [plot.pixel(x, y) for x, y in avoid]
    points = [(x - half, y - half, x + half, y + half) for x, y in middles]
    taken: list[Box] = []
    if wall is not None:
        x, _ = plot.pixel(wall, plot.y_range[0])
        taken.append((x - 2, 0.0, x + LINE_PX + 4, plot.height_px))
    placed: list[Placed] = []
    for label in labels:
        if len(placed) >= at_most:
            break
        at = plot.pixel(label.x, label.y)
        options = [
            (Placed(label, *anchor, lift), _box(label, *at, *anchor, lift))
            for lift in (LIFTS_PX if label.required else LIFTS_PX[:1])
            for anchor in PLACES
        ]
        inside = [item for item in options if _inside(item[1], plot)] or options[:1]
        # Text on text reads worse than text on a point.
        covered = [(_covered(box, taken), _covered(box, points)) for _, box in inside]
        if any(min(covered)) and not label.required:
            continue
        best, box = inside[covered.index(min(covered))]
        taken.append(box)
        placed.append(best)
    return placed


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = (math.log10(bound) for bound in bounds)
    return (math.log10(value) - low) / (high - low)


def _box(label: Label, x: float, y: float, xanchor: str, yanchor: str, lift: float) -> Box:
    width = CHARACTER_PX * max(len(line) for line in label.lines)
    height = LINE_PX * len(label.lines)
    left = {"left": x + ASIDE_PX, "right": x - ASIDE_PX - width, "center": x - width / 2}[xanchor]
    top = {"bottom": y - ABOVE_PX - lift - height, "top": y + ABOVE_PX + lift}[yanchor]
    return (left, top - EDGE_PX, left + width, top + height + EDGE_PX)


def _inside(box: Box, plot: LogPlot) -> bool:
    left, top, right, bottom = box
    return left >= 0 and top >= 0 and right <= plot.width_px and bottom <= plot.height_px


def _covered(box: Box, others: Sequence[Box]) -> int:
    """Return how many of the others a box overlaps."""
    left, top, right, bottom = box
    return len(
        [1 for x0, y0, x1, y1 in others if left < x1 and x0 < right and top < y1 and y0 < bottom]
    )
