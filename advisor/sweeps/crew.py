"""Who answers the chunks of a sweep: this process, worker processes beside it, or Dask."""

import pickle
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from advisor import __version__
from advisor.catalog import Catalog
from advisor.errors import InputError, TransferError, refusal
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


CONNECT_S: Final = 5
AHEAD: Final = 2
"""Chunks under way for each thread of the cluster."""
AGAIN: Final = "Rows that are done are kept: run the same command again."


def answer_packed(packed: bytes, cases: Sequence[Any], version: str) -> list[Row] | str:
    """Answer cases on a worker of the cluster, from the catalog pickled and compressed.

    A worker of another version than the program that asks returns its own.
    """
    return answer_rows(cases, _unpacked(packed)) if version == __version__ else __version__


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Catalog:
    catalog = pickle.loads(zlib.decompress(packed))  # from the client, which the cluster trusts
    assert isinstance(catalog, Catalog)
    return catalog


def dask_address(text: str) -> str:
    """Return the address of a scheduler as Dask writes it.

    Raises InputError if the text is no address.

    >>> dask_address("dask://127.0.0.1:8786")
    'tcp://127.0.0.1:8786'
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"dask", "tcp", "tls"} and parts.hostname and parts.port
        usable = usable and not (parts.username or parts.path.strip("/") or parts.query)
        str(parts.hostname).encode("idna")  # as the resolver will
    except ValueError:  # UnicodeError among them
        usable = False
    if not usable:
        raise refusal("cluster_address", value=text)
    scheme = "tls" if parts.scheme == "tls" else "tcp"
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{scheme}://{host}:{parts.port}"


class DaskCrew:
    """The workers of a Dask cluster; its scheduler gives a dead worker's chunks to others.

    Raises ``InputError`` if the address is none, or Dask is not installed.
    """

    def __init__(self, address: str) -> None:
        self._address = dask_address(address)
        self._dask = _library()

    def __call__(self, chunks: Iterator[Chunk], catalog: Catalog) -> Iterator[Answered]:
        """Answer chunks.

        Raises ``TransferError`` if the cluster cannot be reached or runs another version.
        """
        try:
            client = self._dask.Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, TypeError, ValueError) as error:
            # Without certificates in Dask's own configuration, tls:// is a TypeError.
            raise TransferError(
                f"the Dask scheduler {self._address} cannot be reached ({type(error).__name__})",
                remedy="Start it with 'dask scheduler', or name another one; tls:// needs "
                "certificates in Dask's configuration.",
            ) from None
        packed = zlib.compress(pickle.dumps(catalog))
        with client:
            ahead = AHEAD * max(1, sum(client.nthreads().values()))
            waiting: dict[object, Chunk] = {}

            def submitted(chunk: Chunk) -> Any:
                future = client.submit(answer_packed, packed, chunk.cases, __version__, pure=False)
                waiting[future.key] = chunk
                return future

            first = [submitted(chunk) for chunk in islice(chunks, ahead)]
            done = self._dask.as_completed(first, loop=client.loop)
            for future in done:
                chunk = waiting.pop(future.key)
                yield chunk, self._rows(future, chunk)
                future.release()
                for following in islice(chunks, 1):
                    done.add(submitted(following))

    def _rows(self, future: Any, chunk: Chunk) -> Sequence[Row]:
        """Return the rows of a finished chunk."""
        try:
            found: Sequence[Row] | str = future.result(timeout=CONNECT_S)
        except self._dask.KilledWorker:
            return lost(chunk)
        except (CancelledError, OSError, TimeoutError) as error:
            raise TransferError(
                f"the Dask cluster went away ({type(error).__name__})", remedy=AGAIN
            ) from None
        except ImportError:
            raise TransferError(
                "the cluster's workers do not have this program",
                remedy="Install the same gpu-advisor in the workers' environment.",
            ) from None
        if isinstance(found, str):
            raise TransferError(
                f"the cluster runs gpu-advisor {found}, and this is {__version__}",
                remedy="Install the same version on both.",
            )
        return found


def _library() -> Any:
    try:
        import distributed
    except ImportError:
        raise refusal("extra_missing", name="dask", value="distributed", field="--on") from None
    return distributed
