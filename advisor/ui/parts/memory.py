"""What memory allows: ways out where nothing fits, and how far batch and length can go."""

from collections.abc import Sequence

import streamlit as st

from advisor import api
from advisor.charts.curves import curve_chart
from advisor.errors import without_options
from advisor.frames.points import Pick
from advisor.frames.turning import curve_frame, curve_table
from advisor.nouns.case import Case
from advisor.ui.parts.chart_view import draw, plan_asked, table_below
from advisor.ui.parts.widgets import behind
from advisor.ui.parts.wording import plain
from advisor.ui.session import state
from advisor.ui.session.kept import kept_for
from advisor.ui.session.state import Answer


def ways_out(estimate: api.Estimate | None) -> None:
    """List what would make an estimate fit; nothing where it does."""
    if estimate is None or estimate.memory.fits:
        return
    ways = [api.way_out_sentence(way, estimate) for way in estimate.ways_out]
    lines = [f"- {plain(without_options(text))}" for text in (*estimate.improvements, *ways)]
    if lines:
        st.markdown("\n".join(("What would make it fit, smallest sacrifice first:\n", *lines)))


@behind("How far batch and length can go", key="curves", icon="show_chart")
def how_far(found: Answer, chosen: Sequence[Pick]) -> None:
    """Draw memory and speed against batch and length, computed when opened."""
    estimate = plan_asked(chosen, key="curves_plan")
    for curve in kept_for(_case_of(found, estimate), api.memory_curves):
        show_curve(curve)


def show_curve(curve: api.Curve) -> None:
    """Draw one curve with its sentence, its table and its CSV."""
    frame = curve_frame(curve)
    st.markdown(plain(curve.sentence))
    key = f"curve_{curve.variable}"
    draw(curve_chart, frame, key=key, title=curve.title, sentence=curve.sentence)
    table_below(key, lambda: curve_table(curve), frame)


def _case_of(found: Answer, estimate: api.Estimate) -> Case:
    """Return the case that asks for a plan's own hardware, layout and precision."""
    case = state.asked_case(
        found.inputs,
        hardware={"accelerator": estimate.accelerator, "count": estimate.count},
        layout=estimate.layout.model_dump(mode="json"),
    )
    workload = case.workload.model_copy(update=estimate.numerics)
    return case.changed(workload=workload)
