"""Who answers the chunks of a sweep: this process, worker processes beside it, or Dask."""

import pickle
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from advisor.catalog import Catalog
from advisor.errors import InputError, TransferError
from advisor.foundation.concurrency.processes import ended, exchanged, started
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
    _running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The worker of each thread."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __call__(self, chunks: Iterator[Chunk], catalog: Catalog) -> Iterator[Answered]:
        """Answer chunks, one at a time in each worker."""
        ahead, packed = 2 * self.workers, pickle.dumps(partial(answer_rows, catalog=catalog))
        with ThreadPoolExecutor(self.workers) as pool:

            def asked(most: int) -> set[Future[Answered]]:
                return {pool.submit(self._answered, one, packed) for one in islice(chunks, most)}

            try:
                waiting = asked(ahead)
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    waiting |= asked(len(done))
                    yield from (future.result() for future in done)
            finally:
                self._stop.set()
                for worker in [*self._running.values()]:
                    worker.kill()
                pool.shutdown(cancel_futures=True)
                for worker in self._running.values():
                    ended(worker)

    def _answered(self, chunk: Chunk, packed: bytes) -> Answered:
        """Answer a chunk in this thread's worker, or in another one where it dies."""
        thread, tried = threading.get_ident(), 0
        while tried < ATTEMPTS and not self._stop.is_set():
            worker = self._running.get(thread) or self._started(thread, packed)
            try:
                return chunk, exchanged(worker, chunk.cases)
            except (OSError, EOFError, pickle.UnpicklingError):
                ended(self._running.pop(thread))
                tried += 1
        return chunk, lost(chunk)

    def _started(self, thread: int, packed: bytes) -> subprocess.Popen[bytes]:
        worker = self._running[thread] = started(packed)
        self.on_start(worker.pid)
        return worker
