"""Answers that the page keeps for whoever asks again, over all sessions of a server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final, TypeVar, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor.foundation.concurrency.sharing import Shelf, Turns
from advisor.nouns.case import Case
from advisor.ui.session import own_catalog

AT_ONCE: Final = 4
"""Questions computed at once. They share one core, so that a heavy one slows light ones and does
not block them; more would only hold more memory."""

Answer = TypeVar("Answer")


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """Return the shelf of this server."""
    return Shelf()


@st.cache_resource(show_spinner=False)
def turns() -> Turns:
    """Return the queue of this server."""
    return Turns(AT_ONCE)


def kept(answer: Callable[[], Answer], *question: object) -> Answer:
    """Return what ``answer`` returns, computed once for the same question.

    A few questions are computed at once; the page says how many wait before it. A reader's next
    input takes a waiting question out of the queue.

    ``question``: what tells the question from others, by its ``repr``. A digest of it is kept, not
    the text. Answers of another catalog, by a refresh or by files of the session, are apart, too.
    """
    asked = (own_catalog.version(), *question)
    place = sha256(repr(asked).encode(errors="backslashreplace")).digest()
    found = shelf().find(place)
    if found is None:
        with _notice() as show, turns().turn(show):
            found = shelf().find(place)  # another session may have asked it meanwhile
            if found is None:
                found = answer()
                shelf().keep(place, found)
    return cast("Answer", found)


def kept_for(case: Case, answer: Callable[[Case], Answer]) -> Answer:
    """Return what a function of the engine says of a case, computed once for the same case."""
    return kept(lambda: answer(case), answer.__name__, case.to_json(indent=None))


@contextmanager
def _notice() -> Iterator[Callable[[int], None]]:
    """Show a line on the page while a question waits; writing it also notices the next input."""
    lines: list[DeltaGenerator] = []

    def show(ahead: int) -> None:
        if get_script_run_ctx() is None:
            return
        if not lines:
            lines.append(st.empty())
        before = f"Questions that wait before yours: {ahead}" if ahead else "Yours is next"
        lines[0].caption(f"Many people ask at once. {before}.")

    try:
        yield show
    finally:
        for line in lines:
            line.empty()
