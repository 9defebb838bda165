"""Charts of rent or buy: cumulative cost, effects of inputs, break-even across one input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import FONT_SIZE, Drawn, Theme, faint
from advisor.foundation.formatting import money, signed_money
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import HOURS_PER_MONTH, round_significant

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
    draw.refuse_empty(frame, "the chart of cumulative cost needs at least one month")
    traces: list[Drawn] = []
    for name, column, hue, dash in (
        ("Owning", "own", OWN, "solid"),
        ("Renting", "rent", RENT, "dash"),
    ):
        color = theme.hues[hue]
        band = faint(color, BAND_OPACITY)
        traces += [
            _edge(frame, f"{column}_high_usd", color),
            _edge(frame, f"{column}_low_usd", color, fill="tonexty", fillcolor=band),
            draw.line(
                frame["month"],
                frame[f"{column}_usd"],
                color=color,
                width=3,
                dash=dash,
                name=name,
                hovertemplate=f"{name} after %{{x}} months: $%{{y:,.0f}}<extra></extra>",
            ),
        ]
    last = frame.iloc[-1]
    highest = float(frame[["own_high_usd", "rent_high_usd"]].max().max())
    first, middle, final = months
    dearer = bool(last["own_usd"] >= last["rent_usd"])  # labels of near ends stand apart
    return draw.figure(
        theme,
        traces,
        alt=timeline_alt(frame, month=middle),
        height=HEIGHT,
        x=draw.axis(theme, "Months", range=[0, float(last["month"])], dtick=6),
        y=draw.axis(
            theme, "USD paid, money of today", rangemode="tozero", tickformat=dollars(highest)
        ),
        margin={"r": 90, "t": 40},
        shapes=_crossing(first, middle, final or int(last["month"]), theme),
        annotations=[
            _end_label(last, "own_usd", "Owning", theme, OWN, "bottom" if dearer else "top"),
            _end_label(last, "rent_usd", "Renting", theme, RENT, "top" if dearer else "bottom"),
        ],
        showlegend=False,
    )


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
    found = timeline_finding(frame, month=month)
    return f"{found} Line chart of cumulative cost by month, linear from 0."


def effects_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return a tornado: renting minus owning with each input at its ends."""
    draw.refuse_empty(frame, "the tornado needs at least one uncertain input")
    base = float(frame["expected_usd"].iloc[0])
    traces = [
        draw.bars(
            frame["title"],
            frame[f"{end}_usd"] - base,
            marker={"color": theme.hues[hue], "pattern": {"shape": pattern}},
            name=name,
            base=base,
            customdata=frame[f"{end}_text"].tolist(),
            hovertemplate="%{y} at %{customdata}<extra></extra>",
        )
        for name, end, hue, pattern in (
            ("Input at its low end", "low", 4, ""),
            ("Input at its high end", "high", 2, "/"),
        )
    ]
    ends = pd.concat([frame["low_usd"], frame["high_usd"], pd.Series([0.0, base])])
    low, high = float(ends.min()), float(ends.max())
    room = (LABEL_ROOM / 4 if theme.compact else LABEL_ROOM) * (high - low or 1.0)
    return draw.figure(
        theme,
        traces,
        alt=effects_alt(frame),
        height=FRAME_PX + ROW_PX * len(frame),
        x=draw.axis(
            theme,
            "USD that owning saves"
            if theme.compact
            else "Owning dearer \u2190 USD \u2192 owning cheaper",
            nticks=3 if theme.compact else 8,
            tickangle=0,
            range=[low - room, high + room],
            tickformat=dollars(high - low),
        ),
        y=draw.names_axis(theme, autorange="reversed"),
        margin={"t": 40},
        barmode="overlay",
        shapes=[
            draw.rule(0.0, color=theme.text, width=3, dash="solid"),
            draw.rule(base, color=theme.mark, width=1, dash="solid"),
        ],
        annotations=[] if theme.compact else _end_texts(frame, base, theme),
    )


def _end_texts(frame: pd.DataFrame, base: float, theme: Theme) -> list[Drawn]:
    """Write what each end stands for beside its bar, on the page's colour: a line may cross it.

    Where both ends lie on one side, the inner one is written on the other.
    """
    look: Drawn = {"smaller": 2, "bgcolor": theme.page, "borderpad": 0}
    texts: list[Drawn] = []
    rows: Iterable[Any] = frame.itertuples()
    for row in rows:
        (low, left), (high, right) = sorted(
            [(row.low_usd, row.low_text), (row.high_usd, row.high_text)]
        )
        at_left: Drawn = {"x": min(low, base), "xanchor": "right", "xshift": -2}
        at_right: Drawn = {"x": max(high, base), "xanchor": "left", "xshift": 2}
        texts.append(draw.note(theme, left, y=row.title, **at_left, **look))
        texts.append(draw.note(theme, right, y=row.title, **at_right, **look))
    return texts


def effects_finding(frame: pd.DataFrame) -> str:
    """Return what the tornado shows: the strongest input, and how many can turn the answer."""
    top = frame.iloc[0]
    flips = int(((frame["low_usd"] < 0) != (frame["high_usd"] < 0)).sum())
    return (
        f"{top['title']} matters most: from {top['low_text']} to {top['high_text']} it moves the "
        f"saving from {_signed(top['low_usd'])} to {_signed(top['high_usd'])}. "
        f"Between their ends, {flips or 'none'} of the {len(frame)} inputs turns the answer alone."
    )


def effects_alt(frame: pd.DataFrame) -> str:
    """Return the tornado in words."""
    expected = _signed(frame["expected_usd"].iloc[0])
    return f"{effects_finding(frame)} Bar chart around the expected {expected}."


def _signed(usd: float) -> str:
    """Return a difference with the two digits of the figures on the page."""
    return signed_money(round_significant(usd, 2))


def strip_chart(
    frame: pd.DataFrame,
    *,
    title: str,
    value: float,
    text: str,
    hours: float | None,
    ticks: str,
    theme: Theme,
) -> go.Figure:
    """Return break-even hours across one input, with marks at its value and the ``hours`` in use.

    ``title`` names the input, ``text`` is the value for people, ``ticks`` the format of the labels,
    e.g. ``$,.0f``.
    """
    shapes = [draw.rule(value, color=theme.text, width=2, dash="solid")]
    if hours is not None:
        shapes.append(draw.rule(hours, color=theme.mark, width=1, dash="dot", along="y"))
    small: Drawn = {"tickfont": {"size": FONT_SIZE - 3, "color": theme.muted}}
    curve = draw.line(
        frame["value"],
        [None if pd.isna(each) else each for each in frame["hours"]],
        color=theme.hues[OWN],
        hovertemplate="%{x:.3g}: above %{y:,.0f} h<extra></extra>",
    )
    return draw.figure(
        theme,
        [curve],
        alt=strip_alt(frame, title=title, value_text=text),
        height=STRIP_PX,
        x=draw.axis(theme, "", tickformat=ticks, nticks=5, showgrid=False, **small),
        y=draw.axis(theme, "", range=[0, HOURS_PER_MONTH], tickvals=[0, 365, 730], **small),
        margin={"l": 4, "t": 18, "b": 48},  # the button is below the ticks
        shapes=shapes,
        annotations=[
            draw.note(theme, "you", smaller=3, x=value, yref="paper", y=1, yanchor="bottom")
        ],
        showlegend=False,
    )


def strip_alt(frame: pd.DataFrame, *, title: str, value_text: str) -> str:
    """Return a strip in words."""
    known = frame.dropna()
    if known.empty:
        return f"{title}, now {value_text}: buying pays at no value shown."
    low, high = known["hours"].min(), known["hours"].max()
    missing = ", at some values never" if len(known) < len(frame) else ""
    return (
        f"{title}, now {value_text}: over the values shown, buying starts to pay between "
        f"{low:,.0f} and {high:,.0f} hours a month{missing}."
    )


def dollars(span: float) -> str:
    """Return the format of ticks: cents where whole dollars would repeat. ``span`` in USD."""
    return "$,.0f" if span >= LEAST_WHOLE_USD else "$,.2f"


def _edge(frame: pd.DataFrame, column: str, color: str, **more: Any) -> Drawn:
    paid = frame[column].clip(lower=0)
    hidden: Drawn = {"hoverinfo": "skip", "showlegend": False}
    return draw.line(frame["month"], paid, color=color, width=0, **hidden, **more)


def _crossing(first: int | None, middle: int | None, final: int, theme: Theme) -> list[Drawn]:
    """Shade the months in which the bands cross, and mark the expected one."""
    shapes: list[Drawn] = []
    if first is not None:
        ends = {"x0": first, "x1": final, "yref": "paper", "y0": 0, "y1": 1}
        look: Drawn = {"layer": "below", "line": {"width": 0}, "fillcolor": theme.panel}
        shapes.append({"type": "rect", **ends, **look})
    if middle is not None:
        shapes.append(draw.rule(float(middle), color=theme.text, width=2, dash="solid"))
    return shapes


def _end_label(
    last: pd.Series[float], column: str, name: str, theme: Theme, hue: int, yanchor: str
) -> Drawn:
    at: Drawn = {
        "x": last["month"],
        "y": last[column],
        "xanchor": "left",
        "xshift": 6,
        "yanchor": yanchor,
    }
    look: Drawn = {"color": theme.hues[hue], "bgcolor": theme.page}
    return draw.note(theme, f"<b>{name}</b>", smaller=0, **look, **at)
