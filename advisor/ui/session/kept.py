"""Answers that the page keeps for whoever asks again, over all sessions of a server."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar, cast

import streamlit as st

from advisor import api
from advisor.foundation.shelf import Shelf

Answer = TypeVar("Answer")


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """Return the shelf of this server."""
    return Shelf()


def kept(answer: Callable[[], Answer], *question: object) -> Answer:
    """Return what ``answer`` returns, computed once for the same question.

    Parameters
    ----------
    answer : callable
    question : object
        What tells the question from others, by its ``repr``. A digest of it is kept, not the text.
        Answers before and after a refresh of the prices are apart, too.
    """
    asked = (api.load_catalog().prices.fetched_at, *question)
    place = sha256(repr(asked).encode(errors="backslashreplace")).digest()
    found = shelf().find(place)
    if found is None:
        found = answer()
        shelf().keep(place, found)
    return cast("Answer", found)
