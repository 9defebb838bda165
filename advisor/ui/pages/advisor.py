"""The page *Advisor*: what to rent for a model, a task and limits."""

from collections.abc import Sequence

import streamlit as st

from advisor.frames.points import Pick, picks
from advisor.ui.forms import controls
from advisor.ui.forms.asked import work_words
from advisor.ui.parts import accuracy, details, memory, question, remedies, results, share, sliders
from advisor.ui.parts.wording import on_phone
from advisor.ui.session import state


@st.fragment
def behind(found: state.Answer, chosen: Sequence[Pick]) -> None:
    """Offer what is behind the answer: one fragment, because each costs every change of an input.

    Opening a part runs this fragment alone.
    """
    recommendation = found.recommendation
    best = chosen[0].plan.estimate if chosen else None
    if best and best.day:
        details.day(best.day)
    if best and best.time:
        details.scaling(recommendation, chosen)
    if best:
        details.what_if(recommendation, chosen)
    if not recommendation.pools:  # of two layouts
        if best:
            details.turning(recommendation)
        details.grid(recommendation)
    details.rejections(found)
    if best:
        if best.api:
            details.hosted(best.api)
        if recommendation.case.limits.deadline_hours is not None:
            details.fewest(found)
        memory.how_far(found, chosen)
        details.computed(found)
        accuracy.similar(recommendation)
    details.assumptions(recommendation)
    if best:
        details.set_up(found)
    share.side_by_side(found)
    details.download(found)


tools = question.head("Which GPU, how many, at what cost?")
# What comes and goes stands in containers: an answer that changes its place on the page would
# stand beside the one before until the script ends.
with st.container():
    opened = state.open_page()
    inputs = state.current()
    question.offer_examples(inputs)
    first = st.container()
    slots = controls.controls(inputs)
if state.write() != inputs:  # Boxes of a page that this server has just met.
    st.rerun()
said = first if on_phone() else st.container()
with st.container():
    sliders.question(state.usable(inputs))
with st.container():  # for the notice of a question that waits
    found = state.answer(inputs, lambda text, of: results.status(text, work_words(of), said))
if isinstance(found, state.Unanswered):
    controls.show_problems(found.problems, None, inputs, slots)
    st.stop()
controls.show_problems(found.problems, found.inputs, inputs, slots)
question.name_tab("Advisor", found.inputs)
with tools:
    share.tools(state.page(), found.inputs, found)
recommendation = found.recommendation
chosen = picks(recommendation)
remedies.undo(found.inputs)
remedies.own_card(found.inputs)
results.compared(opened, found)
details.start(found)
results.numbers(found)
results.assumed(found)
if chosen:
    results.other_plans(chosen)
else:
    remedies.offer(found.inputs, remedies.recommended, recommendation.rejections)
    results.nearest(recommendation)
    memory.ways_out(recommendation.nearest)
remedies.advice(found.inputs, recommendation)
details.why_not(found)
results.pictures(recommendation, chosen)
behind(found, chosen)
