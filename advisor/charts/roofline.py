"""The roofline of a machine: its measured ceilings and products."""

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import Drawn, Theme
from advisor.foundation.formatting import measured_rate
from advisor.foundation.units import TFLOP, trimmed

HEIGHT: Final = 430
PAD: Final = 1.6
"""Factor beyond the outermost point of an axis."""
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "star")
"""Formats also differ in shape, for readers who do not see the hues."""


def roofline_chart(frame: pd.DataFrame, *, bandwidth_bytes_per_s: float, theme: Theme) -> go.Figure:
    """Return rate against arithmetic intensity, both logarithmic.

    Filled marks are measured; hollow marks are expected by the catalog's constants. The line is the
    best rate of a format and the measured bandwidth [bytes/s].
    """
    draw.refuse_empty(frame, "the roofline needs at least one product")
    low, high = frame["flops_per_byte"].min() / PAD, frame["flops_per_byte"].max() * PAD
    rates = pd.concat([frame["tflops"], frame["expected_tflops"].dropna()])
    bottom = min(rates.min(), low * bandwidth_bytes_per_s / TFLOP) / PAD
    top = rates.max() * PAD
    traces: list[Drawn] = []
    for place, (name, rows) in enumerate(frame.groupby("format", sort=False)):
        hue = theme.hues[place % len(theme.hues)]
        symbol = SYMBOLS[place % len(SYMBOLS)]
        best = float(rows["tflops"].max())
        ridge = best * TFLOP / bandwidth_bytes_per_s
        corners = sorted({low, min(max(ridge, low), high), high})
        ceiling = [min(best, x * bandwidth_bytes_per_s / TFLOP) for x in corners]
        traces += [
            draw.line(corners, ceiling, color=hue, hoverinfo="skip", showlegend=False),
            _products(rows, "tflops", str(name), hue, symbol),
        ]
        expected = rows[rows["expected_tflops"].notna()]
        if not expected.empty:
            traces.append(
                _products(expected, "expected_tflops", f"{name}, expected", hue, f"{symbol}-open")
            )
    slope = f"slope: {measured_rate(bandwidth_bytes_per_s, 'B/s')} measured"
    corner: Drawn = {"xref": "paper", "yref": "paper", "x": 0.99, "y": 0.02}
    corner |= {"xanchor": "right", "yanchor": "bottom", "bgcolor": theme.page}
    return draw.figure(
        theme,
        traces,
        alt=roofline_alt(frame, bandwidth_bytes_per_s=bandwidth_bytes_per_s),
        height=HEIGHT,
        x=draw.log_axis(theme, "FLOPs per byte moved", low, high, _ticks(low, high)),
        y=draw.log_axis(theme, "TFLOPS", bottom, top, _ticks(bottom, top)),
        margin={"t": 40},
        annotations=[draw.note(theme, slope, **corner)],
    )


def roofline_alt(frame: pd.DataFrame, *, bandwidth_bytes_per_s: float) -> str:
    """Return the chart in words: ceilings, axes and their range."""
    best = "; ".join(
        f"{name} {measured_rate(rows['tflops'].max() * TFLOP, 'FLOPS')}"
        for name, rows in frame.groupby("format", sort=False)
    )
    return (
        f"Roofline chart of {len(frame)} matrix products, logarithmic axes. Ceilings: {best}; "
        f"memory {measured_rate(bandwidth_bytes_per_s, 'B/s')}. Intensity from "
        f"{trimmed(frame['flops_per_byte'].min(), 3)} to "
        f"{trimmed(frame['flops_per_byte'].max(), 3)} FLOPs per "
        "byte."
    )


def _products(rows: pd.DataFrame, column: str, name: str, hue: str, symbol: str) -> Drawn:
    return draw.marks(
        rows["flops_per_byte"],
        rows[column],
        marker={"color": hue, "symbol": symbol, "size": 10, "line": {"color": hue, "width": 2}},
        name=name,
        text=rows["shape"].tolist(),
        hovertemplate=f"{name}: %{{y:.3g}} TFLOPS<br>%{{text}}<extra></extra>",
    )


def _ticks(low: float, high: float) -> dict[float, str]:
    return {tick: f"{tick:g}" for tick in draw.log_ticks(low, high, at_most=9)}
