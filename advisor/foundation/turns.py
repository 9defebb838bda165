"""Turns: a few work at once, the others wait in the order in which they came."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LOOK_S: Final = 0.25
"""Between two looks at the queue. [s]"""


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

        Notes
        -----
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
