"""Answers that a server keeps for whoever asks again: the newest, within a bound in bytes."""

import pickle
from collections import OrderedDict
from threading import Lock
from typing import Final

MAX_BYTES: Final = 64_000_000
"""Of all answers together. [bytes]"""
BYTES_PER_PICKLED: Final = 8
"""An answer takes six times its pickle in memory (a recommendation: 1.2 MB and 0.19 MB)."""


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
