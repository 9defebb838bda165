"""Charts of rent or buy: cumulative cost, effects of inputs, break-even across one input."""

from __future__ import annotations

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts.theme import (
    FONT_SIZE,
    Theme,
    axis,
    base_layout,
    faint,
    refuse_empty,
    unvalidated,
)
from advisor.foundation.formatting import money, signed_money
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.rounding import round_significant
from advisor.foundation.units import HOURS_PER_MONTH

HEIGHT: Final = 360
ROW_PX: Final = 34
FRAME_PX: Final = 110
STRIP_PX: Final = 150
OWN, RENT = 0, 3
"""Hues of the two sides in every chart of the page."""
BAND_OPACITY: Final = 0.18
LEAST_WHOLE_USD: Final = 8.0
"""From this span of an axis, ticks stand a dollar or more apart. [USD]"""
LABEL_ROOM: Final = 0.4
"""Room for labels on each side, as a share of the span of all bars."""


def timeline_chart(
    frame: pd.DataFrame, *, months: tuple[int | None, int | None, int | None], theme: Theme
) -> go.Figure:
    """Return cumulative cost of owning and renting as bands, linear from 0.

    ``months``: first, expected and last one in which owning becomes cheaper; None if it does not.
    """
    refuse_empty(frame, "the chart of cumulative cost needs at least one month")
    traces: list[dict[str, object]] = []
    for name, column, hue, dash in (
        ("Owning", "own", OWN, "solid"),
        ("Renting", "rent", RENT, "dash"),
    ):
        color = theme.hues[hue]
        traces += [
            _edge(frame, f"{column}_high_usd", color),
            _edge(frame, f"{column}_low_usd", color)
            | {"fill": "tonexty", "fillcolor": faint(color, BAND_OPACITY)},
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": frame["month"].tolist(),
                "y": frame[f"{column}_usd"].tolist(),
                "line": {"color": color, "width": 3, "dash": dash},
                "hovertemplate": f"{name} after %{{x}} months: $%{{y:,.0f}}<extra></extra>",
            },
        ]
    last = frame.iloc[-1]
    highest = float(frame[["own_high_usd", "rent_high_usd"]].max().max())
    first, middle, final = months
    dearer = bool(last["own_usd"] >= last["rent_usd"])  # labels of near ends stand apart
    layout = base_layout(theme, height=HEIGHT) | {
        "margin": {"l": 8, "r": 90, "t": 40, "b": 8},
        "xaxis": axis(theme, "Months", range=[0, float(last["month"])], dtick=6),
        "yaxis": axis(
            theme, "USD paid, money of today", rangemode="tozero", tickformat=dollars(highest)
        ),
        "shapes": _crossing(first, middle, final or int(last["month"]), theme),
        "annotations": [
            _end_label(last, "own_usd", "Owning", theme.hues[OWN], theme)
            | {"yanchor": "bottom" if dearer else "top"},
            _end_label(last, "rent_usd", "Renting", theme.hues[RENT], theme)
            | {"yanchor": "top" if dearer else "bottom"},
        ],
        "showlegend": False,
    }
    return unvalidated(traces, layout)


def timeline_finding(frame: pd.DataFrame, *, month: int | None) -> str:
    """Return what the chart of cumulative cost shows, in one sentence."""
    last = frame.iloc[-1]
    crossing = (
        f"Owning overtakes renting in month {month}"
        if month is not None
        else "Owning does not overtake renting within the horizon"
    )
    return (
        f"{crossing}: after {int(last['month'])} months owning has cost {_paid(last, 'own')}, "
        f"renting {_paid(last, 'rent')}."
    )


def _paid(month: pd.Series[float], way: str) -> str:
    """Return a sum with the digits and range of the figures on the page."""
    low, expected, high = (float(month[f"{way}{end}_usd"]) for end in ("_low", "", "_high"))
    paid = Range(low=low, expected=expected, high=high, evidence=Evidence.ASSUMED)
    return money(paid, with_range=True)


def timeline_alt(frame: pd.DataFrame, *, month: int | None) -> str:
    """Return the chart of cumulative cost in words."""
    last = frame.iloc[-1]
    crossing = (
        f"Owning overtakes in month {month}"
        if month is not None
        else "Owning does not overtake within the horizon"
    )
    return (
        f"{crossing}. After {int(last['month'])} months owning costs {money(last['own_usd'])} "
        f"({money(last['own_low_usd'])} to {money(last['own_high_usd'])}), renting "
        f"{money(last['rent_usd'])} ({money(last['rent_low_usd'])} to "
        f"{money(last['rent_high_usd'])}). Line chart of cumulative cost by month, linear from 0."
    )


def effects_chart(frame: pd.DataFrame, *, theme: Theme, compact: bool = False) -> go.Figure:
    """Return a tornado: renting minus owning with each input at its ends."""
    refuse_empty(frame, "the tornado needs at least one uncertain input")
    base = float(frame["expected_usd"].iloc[0])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": frame["title"].tolist(),
            "base": base,
            "x": (frame[f"{end}_usd"] - base).tolist(),
            "customdata": frame[f"{end}_text"].tolist(),
            "marker": {"color": theme.hues[hue], "pattern": {"shape": pattern}},
            "hovertemplate": "%{y} at %{customdata}<extra></extra>",
        }
        for name, end, hue, pattern in (
            ("Input at its low end", "low", 4, ""),
            ("Input at its high end", "high", 2, "/"),
        )
    ]
    ends = pd.concat([frame["low_usd"], frame["high_usd"], pd.Series([0.0, base])])
    room = (LABEL_ROOM / 4 if compact else LABEL_ROOM) * float(ends.max() - ends.min() or 1.0)
    layout = base_layout(theme, height=FRAME_PX + ROW_PX * len(frame)) | {
        "barmode": "overlay",
        "margin": {"l": 8, "r": 8, "t": 40, "b": 8},
        "xaxis": axis(
            theme,
            "USD that owning saves"
            if compact
            else "Owning dearer \u2190 USD \u2192 owning cheaper",
            nticks=4 if compact else 8,
            range=[float(ends.min()) - room, float(ends.max()) + room],
            tickformat=dollars(float(ends.max() - ends.min())),
        ),
        "yaxis": axis(theme, "", autorange="reversed", showgrid=False)
        | {"tickfont": {"size": FONT_SIZE - 1, "color": theme.text}},
        "shapes": [_vertical(0.0, theme.text, 3), _vertical(base, theme.mark, 1)],
        "annotations": [] if compact else _end_texts(frame, base, theme),
        "showlegend": True,
    }
    return unvalidated(traces, layout)


def _end_texts(frame: pd.DataFrame, base: float, theme: Theme) -> list[dict[str, object]]:
    """Write what each end stands for beside its bar, on the page's colour: a line may cross it.

    Where both ends lie on one side, the inner one is written on the other.
    """
    texts: list[dict[str, object]] = []
    columns = ("title", "low_usd", "low_text", "high_usd", "high_text")
    for title, *both in zip(*(frame[name].tolist() for name in columns), strict=True):
        ends = sorted([(both[0], both[1]), (both[2], both[3])])
        for (usd, text), anchor, nearer in zip(ends, ("right", "left"), (min, max), strict=True):
            texts.append(
                {
                    "x": nearer(usd, base),
                    "y": title,
                    "xanchor": anchor,
                    "xshift": -2 if anchor == "right" else 2,
                    "showarrow": False,
                    "text": text,
                    "font": {"size": FONT_SIZE - 2, "color": theme.text},
                    "bgcolor": theme.page,
                    "borderpad": 0,
                }
            )
    return texts


def effects_finding(frame: pd.DataFrame) -> str:
    """Return what the tornado shows: the strongest input, and how many can turn the answer."""
    top = frame.iloc[0]
    flips = int(((frame["low_usd"] < 0) != (frame["high_usd"] < 0)).sum())
    return (
        f"{top['title']} matters most: from {top['low_text']} to {top['high_text']} it moves the "
        f"saving from {_signed(top['low_usd'])} to {_signed(top['high_usd'])}. "
        f"{flips} of {len(frame)} inputs alone can turn the answer."
    )


def effects_alt(frame: pd.DataFrame) -> str:
    """Return the tornado in words."""
    expected = _signed(frame["expected_usd"].iloc[0])
    return f"{effects_finding(frame)} Bar chart around the expected {expected}."


def _signed(usd: float) -> str:
    """Return a difference with the two digits of the figures on the page."""
    return signed_money(round_significant(usd, 2))


def strip_chart(
    frame: pd.DataFrame, *, value: float, hours: float | None, ticks: str, theme: Theme
) -> go.Figure:
    """Return break-even hours across one input, with marks at its value and the ``hours`` in use.

    ``ticks`` is the format of the labels, e.g. ``$,.0f``.
    """
    shapes = [_vertical(value, theme.text, 2)]
    if hours is not None:
        shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": hours,
                "y1": hours,
                "line": {"color": theme.mark, "width": 1, "dash": "dot"},
            }
        )
    small = {"tickfont": {"size": FONT_SIZE - 3, "color": theme.muted}}
    layout = base_layout(theme, height=STRIP_PX) | {
        "margin": {"l": 4, "r": 8, "t": 18, "b": 48},  # the button is below the ticks
        "xaxis": axis(theme, "", tickformat=ticks, nticks=5, showgrid=False) | small,
        "yaxis": axis(theme, "", range=[0, HOURS_PER_MONTH], tickvals=[0, 365, 730]) | small,
        "shapes": shapes,
        "annotations": [
            {
                "x": value,
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "text": "you",
                "font": {"size": FONT_SIZE - 3, "color": theme.text},
            }
        ],
        "showlegend": False,
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": frame["value"].tolist(),
        "y": [None if pd.isna(each) else each for each in frame["hours"]],
        "line": {"color": theme.hues[OWN], "width": 2},
        "hovertemplate": "%{x:.3g}: above %{y:,.0f} h<extra></extra>",
    }
    return unvalidated([line], layout)


def strip_alt(frame: pd.DataFrame, *, title: str, value_text: str) -> str:
    """Return a strip in words."""
    known = frame.dropna()
    if known.empty:
        return f"{title}: buying pays at no value shown."
    low, high = known["hours"].min(), known["hours"].max()
    missing = ", at some values never" if len(known) < len(frame) else ""
    return (
        f"{title}: break-even between {low:,.0f} and {high:,.0f} hours a month{missing}; "
        f"you are at {value_text}."
    )


def dollars(span: float) -> str:
    """Return the format of ticks: cents where whole dollars would repeat. ``span`` in USD."""
    return "$,.0f" if span >= LEAST_WHOLE_USD else "$,.2f"


def _edge(frame: pd.DataFrame, column: str, color: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": frame["month"].tolist(),
        "y": frame[column].clip(lower=0).tolist(),
        "line": {"color": color, "width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _crossing(
    first: int | None, middle: int | None, final: int, theme: Theme
) -> list[dict[str, object]]:
    """Shade the months in which the bands cross, and mark the expected one."""
    shapes: list[dict[str, object]] = []
    if first is not None:
        shapes.append(
            {
                "type": "rect",
                "layer": "below",
                "x0": first,
                "x1": final,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"width": 0},
                "fillcolor": theme.panel,
            }
        )
    if middle is not None:
        shapes.append(_vertical(float(middle), theme.text, 2))
    return shapes


def _vertical(x: float, color: str, width: int) -> dict[str, object]:
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": color, "width": width},
    }


def _end_label(
    last: pd.Series[float], column: str, name: str, color: str, theme: Theme
) -> dict[str, object]:
    return {
        "x": last["month"],
        "y": last[column],
        "xanchor": "left",
        "xshift": 6,
        "showarrow": False,
        "text": f"<b>{name}</b>",
        "font": {"size": FONT_SIZE, "color": color},
        "bgcolor": theme.page,
    }
