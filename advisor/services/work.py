"""The work of a service: answers shared by all who ask, within bounds of work and waiting."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Final

from advisor import api
from advisor.errors import AdvisorError
from advisor.foundation.noun import Noun
from advisor.foundation.sharing import Shelf
from advisor.services.questions import Door

WAITING: Final = 32
"""Questions that may wait for a free worker."""


class BusyError(AdvisorError):
    """More questions wait than the service takes."""


class Work:
    """Answers questions, ``workers`` at once while ``waiting`` others may wait.

    Equal questions are computed once.
    """

    def __init__(self, workers: int, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="answers")
        self._most, self._lock, self._shelf = workers + waiting, threading.Lock(), Shelf()
        self._running: dict[bytes, Future[str]] = {}

    @property
    def running(self) -> int:
        """Questions that are computed or wait."""
        return len(self._running)

    def answer(self, door: Door, question: Noun) -> Future[str]:
        """Return the future answer as JSON text.

        Raises ``BusyError`` if as many are under way as the service takes.
        """
        place = self._place(door, question)
        kept = self._shelf.find(place)
        if isinstance(kept, str):
            done: Future[str] = Future()
            done.set_result(kept)
            return done
        with self._lock:
            if place in self._running:
                return self._running[place]
            if len(self._running) >= self._most:
                busy = f"{len(self._running)} questions are under way. Ask again in a few seconds."
                raise BusyError(busy)
            # Registered first: a quick answer must find itself there when it ends.
            future = self._running[place] = self._pool.submit(self._computed, place, door, question)
        future.add_done_callback(lambda _: self._forget(place))
        return future

    def end(self) -> None:
        """Drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self, place: bytes) -> None:
        with self._lock:
            self._running.pop(place, None)

    def _computed(self, place: bytes, door: Door, question: Noun) -> str:
        ask: Callable[[Noun], Noun] = door.ask
        text = ask(question).to_json(indent=None)
        self._shelf.keep(place, text)
        return text

    def _place(self, door: Door, question: Noun) -> bytes:
        asked = [door.name, api.load_catalog().prices.fetched_at, question.model_dump_json()]
        return sha256(json.dumps(asked).encode(errors="backslashreplace")).digest()
