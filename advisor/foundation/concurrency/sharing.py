"""What visitors of a server share: kept answers, and turns at work.

The shelf keeps the newest answers within a bound in bytes. Of those who want the same work, a few
work at once; the others wait in the order in which they came.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from pydantic_core import to_json

MAX_BYTES: Final = 64_000_000
"""Of all answers together. [bytes]"""
BYTES_PER_WRITTEN: Final = 8
"""An answer takes five times its JSON in memory (a recommendation: 1.2 MB and 0.25 MB)."""
LOOK_S: Final = 0.25
"""Between two looks at the queue. [s]"""


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
        size = BYTES_PER_WRITTEN * len(to_json(answer, fallback=repr))
        with self._lock:
            self._bytes -= self._places.pop(question, (None, 0))[1]
            self._places[question] = answer, size
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._places.popitem(last=False)
                self._bytes -= freed

    def __len__(self) -> int:
        return len(self._places)


class Turns:
    """A queue in front of work that several threads want, some of them at once."""

    def __init__(self, at_once: int) -> None:
        self._free, self._changed = at_once, threading.Condition()
        self._waiting: deque[object] = deque()
        self._mine = threading.local()

    @property
    def waiting(self) -> int:
        """Threads that wait."""
        return len(self._waiting)

    @contextmanager
    def turn(self, ahead: Callable[[int], object] = lambda _: None) -> Iterator[None]:
        """Wait for a turn, and hold it inside the context.

        ``ahead`` receives the number of threads that wait before this one, again and again while it
        waits; what it raises ends the waiting.

        A thread that holds a turn takes another one at once: its work may be part of its work.
        """
        if getattr(self._mine, "held", False):
            yield
            return
        self._wait(ahead)
        self._mine.held = True
        try:
            yield
        finally:
            self._mine.held = False
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _wait(self, ahead: Callable[[int], object]) -> None:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
        try:
            while True:
                with self._changed:
                    place = self._waiting.index(ticket)
                    if place == 0 and self._free:
                        self._free -= 1
                        return
                    self._changed.wait(LOOK_S)
                    place = self._waiting.index(ticket)
                    ready = place == 0 and self._free
                if not ready:
                    ahead(place)
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()
