"""The question that every page asks about: in words, with its inputs folded."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

import streamlit as st

from advisor.nouns.inputs import Task
from advisor.ui.forms import controls
from advisor.ui.forms.asked import question_words, work_words
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.reading import read
from advisor.ui.forms.rules import OWN
from advisor.ui.parts import share
from advisor.ui.parts.widgets import folded
from advisor.ui.parts.wording import plain
from advisor.ui.session import own_catalog, state
from advisor.ui.session.links import Page

ONE_CARD: Final[dict[str, Any]] = {"max_accelerators": "1"}
EXAMPLES: Final = {
    "Fine-tune an 8B on one card": replace(DEFAULTS, task=Task.QLORA, **ONE_CARD),
    "Serve a chat to 500 users": replace(DEFAULTS, task=Task.SERVE, users="500"),
    "Plan an 8-GPU server": replace(
        DEFAULTS,
        task=Task.FULL,
        tokens="100M",
        deadline="7 days",
        rent=OWN,
        own_accelerator="h100-sxm",
        own_count="8",
    ),
}


def asked(page: Page, *, title: str, heading: str, elsewhere: Collection[str] = ()) -> Inputs:
    """Open a page, show the question with its inputs folded, and return what can be used of it.

    The browser's tab has ``title`` and the work. ``heading`` says what the page answers. Inputs of
    the question in ``elsewhere`` have another place on the page.
    """
    tools = head(heading)
    with st.container():  # Its notes come and go; what follows keeps its place.
        state.open_page(page)
    before = state.current(page)
    st.markdown(f"Your question: **{plain(question_words(state.usable(before)))}**")
    if files := own_catalog.held():
        names = ", ".join(name for name, _ in files)
        st.caption(plain(f"With your own offers and cards: {names}"))
    part = folded("Change the question", key="question", icon="edit")
    slots: controls.Slots = {}
    if part.open:
        with part:
            slots = controls.controls(before, elsewhere=elsewhere)
    inputs = state.write(page)
    if inputs != before:  # Boxes of a page that this server has just met.
        st.rerun()
    usable = state.usable(inputs)
    name_tab(title, usable)
    controls.show_problems(read(inputs).problems, usable, inputs, slots)
    with tools:
        share.tools(page, usable)
    return usable


def head(heading: str) -> st.delta_generator.DeltaGenerator:
    """Write the heading of a page; return the place for what can be done with the page."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title(heading, anchor=False, width="stretch")
        return st.container(width="content")


def name_tab(title: str, inputs: Inputs) -> None:
    """Name the browser's tab by page and question."""
    st.set_page_config(page_title=f"{title}: {work_words(inputs)}")


def offer_examples(inputs: Inputs) -> None:
    """Offer the examples to a reader who has changed nothing yet."""
    place = st.container(horizontal=True, vertical_alignment="center", key="examples")
    if inputs != DEFAULTS:  # an empty place: boxes that moved would lose the reader's focus
        return
    with place:
        st.markdown("Change what you like, or try:", width="content")
        for title, example in EXAMPLES.items():
            st.button(title, on_click=state.take, args=(vars(example),), key=title)
