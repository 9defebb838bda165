"""Answers that the page keeps for whoever asks again, over all sessions of a server."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor.foundation.sharing import Shelf, Turns
from advisor.ui.session import own_catalog

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

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
        with _Notice() as notice, turns().turn(notice.show):
            found = shelf().find(place)  # another session may have asked it meanwhile
            if found is None:
                found = answer()
                shelf().keep(place, found)
    return cast("Answer", found)


class _Notice:
    """A line on the page while a question waits; writing it also notices the next input."""

    def __init__(self) -> None:
        self._line: DeltaGenerator | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.empty()

    def show(self, ahead: int) -> None:
        if get_script_run_ctx() is None:
            return
        self._line = self._line or st.empty()
        before = f"Questions that wait before yours: {ahead}" if ahead else "Yours is next"
        self._line.caption(f"Many people ask at once. {before}.")
