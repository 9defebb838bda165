"""The chunks of a sweep on a Dask cluster that runs already (optional extra ``dask``)."""

import pickle
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from functools import lru_cache
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from advisor import __version__
from advisor.catalog import Catalog
from advisor.errors import TransferError, refusal
from advisor.sweeps.crew import Answered, Chunk, lost
from advisor.sweeps.rows import Row, answer_rows

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
