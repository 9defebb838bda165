"""Downloads the providers' catalogs through ``gpuhunt``; no other module imports it."""

from __future__ import annotations

import logging
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from queue import SimpleQueue
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Final

from advisor.catalog.live.names import ONLINE, PROVIDERS, TITLES
from advisor.errors import RefreshError
from advisor.foundation.names import visible
from advisor.foundation.record import record

if TYPE_CHECKING:
    import gpuhunt

Progress = Callable[[float, str], None]
"""Receives the completed share, 0 to 1, and a description of the current step."""

SILENCE_S: Final = 30.0
"""A server that stays silent for this long has failed. [s]"""
POLL_S: Final = 0.1
_ONE_AT_A_TIME: Final = Lock()
"""One fetch at a time: log and socket settings are global, and the process may serve many users."""
LOADING: Final = 0.8
"""Share of the progress bar for the downloads."""


@record
class Row:
    """One row of a provider's catalog, as gpuhunt states it."""

    instance: str
    location: str
    usd_per_hour: float
    vcpus: float
    memory_gib: float
    gpus: int
    gpu_name: str
    gpu_memory_gb: float
    spot: bool
    flags: tuple[str, ...]


@record
class Fetched:
    """The answer of one provider."""

    version: str = ""
    rows: tuple[Row, ...] = ()
    malformed: int = 0
    """Rows that gpuhunt could not read."""
    error: str = ""
    """Why there are no rows. Empty if the download worked."""


class _Listener(logging.Handler):
    """Follows the state of each provider in gpuhunt's log, and keeps the log off the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.started: SimpleQueue[str] = SimpleQueue()
        """Providers in the order in which their downloads began."""
        self.errors: dict[str, str] = {}
        self.malformed: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Record downloads, unreadable rows, and the reason for a failure."""
        args = record.args if isinstance(record.args, tuple) else ()
        provider = str(args[0]) if args else ""
        if provider not in PROVIDERS:
            return
        if record.exc_info and record.exc_info[1] is not None:
            self.errors[provider] = _reason(record.exc_info[1])
        elif record.levelno == logging.WARNING:
            self.malformed[provider] += 1
        elif record.msg.startswith("Downloading"):
            self.started.put(provider)


def fetch(*, progress: Progress, online: bool) -> tuple[str, Mapping[str, Fetched]]:
    """Download the catalogs of all offline providers, and ``online`` of those with keys.

    Returns gpuhunt's version, and the answers by its name of the provider. Raises RefreshError if
    gpuhunt is not installed, or no provider could be loaded.
    """
    try:
        # Imported here because only a refresh needs them, but every command imports this module.
        from importlib.metadata import version

        import gpuhunt
    except ImportError:
        raise RefreshError(
            "live prices need the package gpuhunt, which is not installed",
            remedy="Install it: pip install 'gpu-advisor[prices]'.",
        ) from None
    progress(0.0, "Looking for the newest prices")
    listener = _Listener()
    with _ONE_AT_A_TIME, _listening(listener), _timeout(SILENCE_S):
        try:
            catalog = _load(gpuhunt, listener.started, progress, online=online)
        except gpuhunt.GPUHuntError as error:
            reasons = sorted(set(listener.errors.values())) or [_reason(error)]
            raise RefreshError(
                f"no provider's prices could be downloaded ({'; '.join(reasons)})",
                remedy="Check the connection and try again later.",
            ) from None
        found = {}
        asked = TITLES if online else PROVIDERS
        for index, (name, title) in enumerate(asked.items(), start=1):
            progress(LOADING + (1 - LOADING) * index / len(asked), f"Reading prices of {title}")
            found[name] = _ask(gpuhunt, catalog, name) if name in ONLINE else _read(catalog, name)
        for name, answer in found.items():
            if name in listener.errors and not answer.rows:
                found[name] = Fetched(error=listener.errors[name])
            elif listener.malformed[name]:
                found[name] = replace(answer, malformed=listener.malformed[name])
    return version("gpuhunt"), found


def day_of(catalog_version: str) -> str | None:
    """Return the day at the start of a catalog's version, or None if it is not a valid date.

    Examples
    --------
    >>> day_of("20261120-1432")
    '2026-11-20'
    >>> day_of("20260231-1") is None
    True
    """
    match = re.match(r"(20[0-9]{2})([0-9]{2})([0-9]{2})(?![0-9])", catalog_version)
    if match is None:
        return None
    try:
        return date(*map(int, match.groups())).isoformat()
    except ValueError:
        return None


def _load(
    package: ModuleType, started: SimpleQueue[str], progress: Progress, *, online: bool
) -> gpuhunt.Catalog:
    """Download everything. The caller's own thread reports progress, as interfaces require."""

    def load() -> gpuhunt.Catalog:
        if online:
            catalog = package.default_catalog()  # one for the process: it may be an earlier one
        else:
            catalog = package.Catalog(balance_resources=False, auto_reload=False)
        catalog.load()
        return catalog

    with ThreadPoolExecutor(max_workers=1) as executor:
        loading = executor.submit(load)
        count, finished = 0, False
        while not finished:
            finished = bool(wait([loading], timeout=POLL_S).done)
            while not started.empty():
                count += 1
                share = LOADING * min(1.0, count / len(PROVIDERS))
                progress(share, f"Downloading prices of {PROVIDERS[started.get()]}")
        return loading.result()


def _read(catalog: gpuhunt.Catalog, name: str) -> Fetched:
    """Return the downloaded list of an offline provider."""
    loaded = catalog.catalog.get(name)
    if loaded is None:
        return Fetched(error="it was not offered")
    rows = tuple(_rows(catalog.query(provider=name, min_gpu_count=1)))
    return Fetched(version=loaded.version, rows=rows)


def _ask(package: ModuleType, catalog: gpuhunt.Catalog, name: str) -> Fetched:
    """Return the answer of an online provider. A failure does not stop the others."""
    if name not in {provider.NAME for provider in catalog.providers}:
        return Fetched(error="no key for it is in the environment")
    try:
        return Fetched(rows=tuple(_rows(catalog.query(provider=name, min_gpu_count=1))))
    except (package.GPUHuntError, OSError, LookupError, TypeError, ValueError) as error:
        return Fetched(error=f"it did not answer, or the answer is unusable ({_reason(error)})")


def _rows(items: Iterable[gpuhunt.CatalogItem]) -> Iterator[Row]:
    for item in items:
        yield Row(
            instance=item.instance_name,
            location=item.location,
            usd_per_hour=item.price,
            vcpus=item.cpu,
            memory_gib=item.memory,
            gpus=item.gpu_count,
            gpu_name=item.gpu_name or "",
            gpu_memory_gb=item.gpu_memory or 0.0,
            spot=item.spot,
            flags=tuple(item.flags),
        )


def _reason(error: BaseException) -> str:
    """Return the reason in one line, without addresses, so that equal reasons read the same."""
    cause = getattr(error, "reason", None) or error
    text = getattr(cause, "strerror", None) or str(cause).partition("\n")[0]
    return visible(str(text)[:120]) or type(error).__name__


@contextmanager
def _listening(listener: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("gpuhunt")
    before = logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Set a socket timeout: gpuhunt sets none, and a silent server would block it forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
