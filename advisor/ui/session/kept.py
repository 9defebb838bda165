"""Answers that the page keeps for whoever asks again: the newest, within a bound in bytes."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Final, TypeVar, cast

import streamlit as st

from advisor import api

MAX_BYTES: Final = 64_000_000
"""Of all answers together, over all sessions. [bytes]"""
BYTES_PER_PICKLED: Final = 8
"""An answer takes six times its pickle in memory (a recommendation: 1.2 MB and 0.19 MB)."""

Answer = TypeVar("Answer")


class Shelf:
    """A place for answers that forgets the longest unused first.

    Answers are frozen: sessions share them without copies.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._places: OrderedDict[bytes, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def find(self, question: bytes) -> object | None:
        """Return the answer to a question, or None."""
        with self._lock:
            if question not in self._places:
                return None
            self._places.move_to_end(question)
            return self._places[question][0]

    def keep(self, question: bytes, answer: object) -> None:
        """Keep an answer, and forget others until it has room."""
        size = BYTES_PER_PICKLED * len(pickle.dumps(answer))
        with self._lock:
            self._bytes -= self._places.pop(question, (None, 0))[1]
            self._places[question] = answer, size
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._places.popitem(last=False)
                self._bytes -= freed

    def __len__(self) -> int:
        return len(self._places)


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
