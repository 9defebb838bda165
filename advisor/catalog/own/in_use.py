"""Which files and discounts of your own lie over the catalog; `facts` reads them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

VARIABLE: Final = "GPU_ADVISOR_CATALOG"
"""Environment variable with files, separated as in PATH."""

Upload = tuple[str, bytes]
"""Name and content of a file."""
_FILES: ContextVar[tuple[Path, ...]] = ContextVar("own catalog files", default=())
_DISCOUNTS: ContextVar[tuple[str, ...]] = ContextVar("discounts", default=())


@contextmanager
def using_catalog(files: Sequence[str], *, discounts: Sequence[str] = ()) -> Iterator[None]:
    """Put files and discounts over the catalog inside the context.

    Files are as ``read_own_facts`` reads them; ``AWS=22%`` takes a share off a provider's on-demand
    price.
    """
    tokens = _FILES.set(tuple(map(Path, files))), _DISCOUNTS.set(tuple(discounts))
    try:
        yield
    finally:
        _FILES.reset(tokens[0])
        _DISCOUNTS.reset(tokens[1])


def own_files() -> tuple[Path, ...]:
    """Return the files in use: those of the environment, then those of the context."""
    named = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return (*named, *_FILES.get())


class _Visitors:
    """How a server with several visitors finds the files of the one who asks."""

    uploads: Callable[[], tuple[Upload, ...]] = tuple


def uploads_come_from(find: Callable[[], tuple[Upload, ...]]) -> None:
    """Name the function that returns the files of whoever asks for the catalog."""
    _Visitors.uploads = staticmethod(find)


def uploads() -> tuple[Upload, ...]:
    """Return the files of the visitor who asks; none outside a server."""
    return _Visitors.uploads()


def stated_discounts() -> tuple[str, ...]:
    """Return the discounts of the context."""
    return _DISCOUNTS.get()
