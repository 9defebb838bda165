"""Questions that a reader saved: in the address of every page, so that a bookmark keeps them."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import parse_qsl, urlencode

import streamlit as st

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


def take(inputs: Inputs) -> None:
    """Put a question into the boxes; a callback."""
    for name, value in asdict(inputs).items():
        st.session_state[state.key(name)] = list(value) if isinstance(value, tuple) else value
