"""Who answers the chunks of a sweep: this process, worker processes beside it, or Dask."""

import contextlib
import json
import pickle
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from advisor.catalog import Catalog
from advisor.errors import InputError, TransferError
from advisor.foundation.processes import ended, receive, send, started
from advisor.foundation.record import record
from advisor.sweeps.rows import Row, answer_rows, mistake

ATTEMPTS: Final = 3
"""Workers that may die over one chunk before its rows are reported as failed."""


@record
class Chunk:
    """Consecutive rows of a sweep."""

    number: int
    shown: tuple[dict[str, object], ...]
    """The inputs of each row, by column."""
    cases: tuple[dict[str, Any] | InputError, ...]


Answered = tuple[Chunk, Sequence[Row]]
Crew = Callable[[Iterator[Chunk], Catalog], Iterator[Answered]]
"""Answers chunks in any order. It holds few of them at a time."""


def lost(chunk: Chunk) -> list[Row]:
    """Return the rows of a chunk over which workers died again and again."""
    error = TransferError(
        f"{ATTEMPTS} worker processes died over these rows",
        remedy="They may need more memory than a worker has: run these rows alone.",
    )
    return [mistake(error)] * len(chunk.cases)


def split(chunk: Chunk) -> tuple[list[dict[str, Any]], dict[int, Row]]:
    """Return the cases of a chunk that have content, and the rows of the others by place."""
    wrong = {
        place: mistake(case)
        for place, case in enumerate(chunk.cases)
        if isinstance(case, InputError)
    }
    return [case for case in chunk.cases if not isinstance(case, InputError)], wrong


def joined(chunk: Chunk, rows: Sequence[Row], wrong: dict[int, Row]) -> list[Row]:
    """Return the rows of a whole chunk."""
    following = iter(rows)
    return [
        wrong[place] if place in wrong else next(following) for place in range(len(chunk.cases))
    ]


def here(chunks: Iterator[Chunk], catalog: Catalog) -> Iterator[Answered]:
    """Answer chunks in this process."""
    for chunk in chunks:
        yield chunk, answer_rows(chunk.cases, catalog)


@dataclass
class LocalCrew:
    """Worker processes on this machine; one that dies is replaced."""

    workers: int
    on_start: Callable[[int], object] = lambda _: None
    """Receives the process id of each worker."""
    _done: queue.Queue[Answered | BaseException | None] = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)

    def __call__(self, chunks: Iterator[Chunk], catalog: Catalog) -> Iterator[Answered]:
        """Answer chunks, one at a time in each worker."""
        self._done = queue.Queue(maxsize=2 * self.workers)
        lock, packed = threading.Lock(), pickle.dumps(catalog)

        def following() -> Chunk | None:
            with lock:
                return None if self._stop.is_set() else next(chunks, None)

        threads = [
            threading.Thread(target=self._work, args=(following, packed), daemon=True)
            for _ in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        try:
            working = len(threads)
            while working:
                item = self._done.get()
                if item is None:
                    working -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            self._end()

    def _work(self, following: Callable[[], Chunk | None], packed: bytes) -> None:
        """Feed one worker process until no chunk is left."""
        worker, end = None, None
        try:
            while (chunk := following()) is not None:
                cases, wrong = split(chunk)
                answer, attempt = None, 0
                while answer is None and attempt < ATTEMPTS and not self._stop.is_set():
                    worker = worker or self._started(packed)
                    answer = _asked(worker, cases)
                    attempt += 1
                    if answer is None:
                        self._ended(worker)
                        worker = None
                rows = lost(chunk) if answer is None else joined(chunk, answer, wrong)
                self._put((chunk, rows))
        except BaseException as error:  # noqa: BLE001 - raised again where the sweep waits
            end = error
        finally:
            if worker is not None:
                self._ended(worker)
            self._put(end)

    def _put(self, item: Answered | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                return self._done.put(item, timeout=0.2)
            except queue.Full:
                continue
        return None

    def _started(self, packed: bytes) -> subprocess.Popen[bytes]:
        worker = started("advisor.sweeps.worker")
        self._running.add(worker)
        self.on_start(worker.pid)
        with contextlib.suppress(OSError):  # it died at once: seen when it is asked
            send(worker.stdin, packed)
        return worker

    def _ended(self, worker: subprocess.Popen[bytes]) -> None:
        ended(worker)
        self._running.discard(worker)

    def _end(self) -> None:
        self._stop.set()
        for worker in list(self._running):
            worker.kill()


def _asked(worker: subprocess.Popen[bytes], cases: Sequence[dict[str, Any]]) -> list[Row] | None:
    """Return the rows of cases; None if the worker died."""
    try:
        send(worker.stdin, json.dumps(cases, default=str).encode())
        message = receive(worker.stdout)
    except (OSError, ValueError):
        return None
    rows: list[Row] | None = None if message is None else json.loads(message)
    return rows
