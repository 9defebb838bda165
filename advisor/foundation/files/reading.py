"""Reads files that a user names: only regular files, and only up to a given size."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from advisor.errors import InputError, refusal

_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
# Even a pipe that replaces the file after the check must not block.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@contextmanager
def opened(
    path: Path, *, name: str = "the file", allowed: str, remedy: str, field: str = ""
) -> Iterator[tuple[BufferedReader, int]]:
    """Open a regular file for reading; yields it with its size. [bytes]

    ``name`` is the file's in messages (``the case file``); the rest is as in `InputError`. Raises
    InputError if the file cannot be opened or read, or is a folder, a pipe, a device or a socket.
    """
    try:
        stream, size = _open(path)
        with stream:
            yield stream, size
    except OSError as error:
        reason = str(error) if isinstance(error, _IrregularError) else error.__class__.__name__
        what, at = f"{name} cannot be read ({reason})", str(path)
        raise InputError(what, value=at, allowed=allowed, remedy=remedy, field=field) from None


def read_file(
    path: Path,
    *,
    most: int,
    name: str = "the file",
    allowed: str = "a readable file",
    remedy: str,
    field: str = "",
) -> bytes:
    """Return the whole content of a regular file of at most ``most`` bytes.

    Names and errors are as in `opened`.
    """
    with opened(path, name=name, allowed=allowed, remedy=remedy, field=field) as (stream, size):
        content = b"" if size > most else stream.read(most + 1)
    if max(size, len(content)) > most:
        raise too_large(name, most, remedy=remedy, field=field)
    return content


def is_file(path: Path) -> bool:
    """Return whether a regular file stands there; what cannot be looked up is none.

    ``Path.is_file`` raises for a name that is too long and for a folder that may not be searched.
    """
    return _is(stat.S_ISREG, path)


def is_folder(path: Path) -> bool:
    """Return whether a folder stands there, as `is_file`."""
    return _is(stat.S_ISDIR, path)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def too_large(name: str, most: int, *, remedy: str, field: str = "") -> InputError:
    """Return the error for a file larger than ``most`` bytes."""
    return refusal("file_too_large", remedy=remedy, field=field, name=name, most=most)


class _IrregularError(OSError):
    """The path is not a file on disk; the message says what it is."""


def _open(path: Path) -> tuple[BufferedReader, int]:
    try:
        _regular(path.stat())  # opening some devices has side effects
        stream = os.fdopen(os.open(path, _FLAGS), "rb")
    except ValueError:  # a NUL, or half a surrogate pair
        raise _IrregularError("it is no path") from None
    try:
        return stream, _regular(os.fstat(stream.fileno()))
    except OSError:
        stream.close()
        raise


def _regular(found: os.stat_result) -> int:
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    kind = next((words for test, words in _KINDS if test(found.st_mode)), "no regular file")
    raise _IrregularError(f"it is {kind}")
