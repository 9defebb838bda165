"""Bars of memory against its limit: what fills each card of the plans, and models on one card."""

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from advisor.charts import draw
from advisor.charts.theme import FONT_SIZE, Drawn, Theme
from advisor.foundation.formatting import percent
from advisor.foundation.units import trimmed
from advisor.frames.memory import MEMORY_GROUPS, MemoryTerm

ROW_PX: Final = 84
COMPACT_ROW_PX: Final = 110
FRAME_PX: Final = 110
LABELLED_SHARE: Final = 0.07
"""A segment narrower than this share of the axis has no number; the table has it."""
HALF_BAR: Final = 0.28
NOTE_ROOM: Final = 0.25
"""Room above the first bar for the label of its capacity line. [bars]"""
MODEL_PX: Final = 30
MODELS_FRAME_PX: Final = 130
SHOWN_SHARE: Final = 1.6
"""The axis ends at this multiple of the usable memory; it cuts longer bars."""
HUES: Final = {"Weights": 0, "Key-value cache": 3, "Overheads": 4}
"""The same hues as in the memory chart."""


def memory_chart(memory: Sequence[MemoryTerm], *, theme: Theme) -> go.Figure:
    """Return horizontal bars stacked by term, from 0, against each accelerator's usable memory."""
    draw.refuse_empty(memory, "the memory chart needs at least one plan")
    plans = [terms[0] for terms in _plans(memory)]
    names = [_row_name(bar.plan, bar.accelerator, compact=theme.compact) for bar in plans]
    longest = max(max(bar.total_high_gib, bar.usable_gib) for bar in plans)
    sizes: dict[str, list[float]] = {}
    for term in memory:
        sizes.setdefault(term.group, []).append(term.gib)
    rows = list(range(len(plans)))
    traces = [
        _segments(sizes[group], group, rows, theme=theme, hue=index, longest=longest)
        for index, group in enumerate(MEMORY_GROUPS)
        if group in sizes
    ]
    spread = [bar.total_high_gib - bar.total_gib for bar in plans]
    traces.append(draw.uncertain_end(theme, names=rows, gib=spread) | {"width": 2 * HALF_BAR})
    row_px = COMPACT_ROW_PX if theme.compact else ROW_PX
    return draw.figure(
        theme,
        traces,
        alt=memory_alt(memory),
        height=FRAME_PX + row_px * len(plans),
        x=draw.axis(
            theme, "GiB on each accelerator", range=[0, longest * 1.08], rangemode="tozero"
        ),
        y=draw.names_axis(
            theme, tickvals=rows, ticktext=names, range=[len(plans) - 0.5, -0.5 - NOTE_ROOM]
        ),
        barmode="stack",
        shapes=[_capacity_line(row, plans[row].usable_gib, theme) for row in rows],
        annotations=[_capacity_note(row, plans[row].usable_gib, longest, theme) for row in rows],
    )


def memory_finding(memory: Sequence[MemoryTerm]) -> str:
    """Return what the chart shows of the first plan: its largest part and what stays free."""
    plans = _plans(memory)
    largest = max(plans[0], key=lambda term: term.gib)
    share = percent(largest.gib / largest.total_gib)
    free = largest.usable_gib - largest.total_high_gib
    left = (
        f"at least {trimmed(free, 2)} GiB stay free"
        if free > 0
        else f"the range ends {trimmed(-free, 2)} GiB above what is usable"
    )
    verb = "take" if largest.group.endswith("s") or " and " in largest.group else "takes"
    which = "first plan" if len(plans) > 1 else "plan"
    return f"{largest.group} {verb} {share} of the memory of the {which}; {left}."


def memory_alt(memory: Sequence[MemoryTerm]) -> str:
    """Return the chart in words: used and usable memory of each plan, with the range."""
    sentences = []
    for terms in _plans(memory):
        most = max(terms, key=lambda term: term.gib)
        sentences.append(
            f"{most.plan}, {most.accelerator}: {most.total_gib:.0f} GiB (up to "
            f"{most.total_high_gib:.0f}) of {most.usable_gib:.1f} GiB usable, most of it "
            f"{most.group.lower()} ({most.gib:.0f} GiB)."
        )
    return "Bar chart of memory on each accelerator, linear from 0. " + " ".join(sentences)


def _plans(memory: Sequence[MemoryTerm]) -> list[list[MemoryTerm]]:
    """Return the terms of each plan, in order."""
    plans: dict[tuple[str, str], list[MemoryTerm]] = {}
    for term in memory:
        plans.setdefault((term.plan, term.accelerator), []).append(term)
    return list(plans.values())


def _row_name(plan: str, accelerator: str, *, compact: bool) -> str:
    width = 16 if compact else 30
    lines = textwrap.wrap(accelerator, width=width)
    title = "<br>".join(f"<b>{escape(line)}</b>" for line in textwrap.wrap(plan, width=width))
    return "<br>".join((title, *(escape(line, quote=False) for line in lines)))


def _segments(
    sizes: list[float], group: str, rows: list[int], *, theme: Theme, hue: int, longest: float
) -> Drawn:
    return _stacked(rows, sizes, group, theme, hue) | {
        "width": 2 * HALF_BAR,
        "text": [f"{size:.0f}" if size > LABELLED_SHARE * longest else "" for size in sizes],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": theme.on_hue, "size": FONT_SIZE - 1},
    }


def _stacked(
    rows: Iterable[object], gib: Iterable[object], group: str, theme: Theme, hue: int
) -> Drawn:
    look: Drawn = {"color": theme.hues[hue], "line": {"width": 1, "color": theme.page}}
    hover = f"{group}: %{{x:.1f}} GiB<extra></extra>"
    return draw.bars(rows, gib, marker=look, name=group, hovertemplate=hover)


def _capacity_line(row: int, usable: float, theme: Theme) -> Drawn:
    ends = {"y0": row - 1.35 * HALF_BAR, "y1": row + 1.35 * HALF_BAR, "yref": "y"}
    return draw.rule(usable, color=theme.text, width=3, dash="solid") | ends


def _capacity_note(row: int, usable: float, longest: float, theme: Theme) -> Drawn:
    side = "right" if usable > longest / 2 else "left"
    above: Drawn = {"x": usable, "y": row - 1.35 * HALF_BAR, "xanchor": side, "yanchor": "bottom"}
    return draw.note(theme, f"{usable:.1f} GiB usable", **above)


def fits_chart(frame: pd.DataFrame, *, theme: Theme) -> go.Figure:
    """Return horizontal bars stacked by group, from 0, against the usable memory."""
    draw.refuse_empty(frame, "the chart of models needs at least one")
    models = frame["model"].drop_duplicates().tolist()
    usable = float(frame["usable_gib"].min())
    groups = {group: frame[frame["group"] == group] for group in HUES}
    traces = [
        _stacked(rows["model"], rows["gib"], group, theme, HUES[group])
        for group, rows in groups.items()
    ]
    each = frame.drop_duplicates("model")
    spread = each["total_high_gib"] - each["total_gib"]
    traces.append(draw.uncertain_end(theme, names=models, gib=spread.tolist()))
    top: Drawn = {"x": usable, "yref": "paper", "y": 1, "xanchor": "center", "yanchor": "bottom"}
    return draw.figure(
        theme,
        traces,
        alt=fits_alt(frame),
        height=MODELS_FRAME_PX + MODEL_PX * len(models),
        x=draw.axis(theme, "GiB on each card", range=[0, SHOWN_SHARE * usable]),
        y=draw.names_axis(theme, autorange="reversed"),
        margin={"t": 40},
        barmode="stack",
        shapes=[draw.rule(usable, color=theme.text, width=3, dash="solid")],
        annotations=[draw.note(theme, f"{usable:.1f} GiB usable", bgcolor=theme.page, **top)],
    )


def fits_finding(frame: pd.DataFrame) -> str:
    """Return what the chart shows: how many models stay below the limit."""
    models = frame.drop_duplicates("model")
    fitting = int((models["total_high_gib"] <= models["usable_gib"]).sum())
    return (
        f"{fitting} of {len(models)} models stay below the {models['usable_gib'].min():.1f} GiB "
        "usable on each card. Bars that reach the right edge are longer."
    )


def fits_alt(frame: pd.DataFrame) -> str:
    """Return the chart in words."""
    return (
        f"{fits_finding(frame)} Bar chart of the memory that each model needs, linear from 0. The "
        "tables hold the numbers."
    )
