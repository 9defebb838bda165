"""Questions that a reader saved: in the address of every page, so that a bookmark keeps them."""

from dataclasses import asdict
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from advisor import api
from advisor.errors import refusal
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_sent
from advisor.ui.forms.asked import question_words
from advisor.ui.forms.from_case import inputs_of_case
from advisor.ui.forms.inputs import Inputs
from advisor.ui.session import links, state
from advisor.ui.session.question import SAVED


def saved() -> tuple[str, ...]:
    """Return the saved questions as addresses spell them, the oldest first."""
    return tuple(st.session_state.get(SAVED, ()))


def spelled(inputs: Inputs) -> str:
    """Return a question as an address spells it."""
    page = state.page()
    return urlencode(links.encode(page, asdict(inputs)))


def inputs_spelled(text: str) -> Inputs:
    """Return the question that an address spells; what it cannot use keeps its default."""
    page = state.page()
    return state.inputs_of(links.decode(page, dict(parse_qsl(text))).values)


def save(text: str) -> None:
    """Add a question; a callback."""
    st.session_state[SAVED] = [*saved(), text]


def forget(text: str) -> None:
    """Remove a question; a callback."""
    st.session_state[SAVED] = [item for item in saved() if item != text]


def take_case(content: bytes) -> str:
    """Put the question of a case file into the boxes; return what was understood and what not.

    Raises InputError if the file is no case, or the page cannot ask it.
    """
    case = load_sent(Case, api.parse_case(content.decode("utf-8-sig", errors="replace")))
    inputs, left = inputs_of_case(case)
    page = state.page()
    known = links.decode(page, links.encode(page, asdict(inputs) | {"config": ""}))
    if known.corrections:
        raise refusal("case_of_other_catalog", value=" ".join(known.corrections))
    state.take(asdict(inputs))
    owned = {item.accelerator: item for item in case.limits.owned if item.measured}
    if owned:
        st.session_state[state.MEASURED] = owned
    more = f" The page has no input for: {', '.join(left)}." if left else ""
    return f"Opened: {question_words(inputs)}.{more}"
