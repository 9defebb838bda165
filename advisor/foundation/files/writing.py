"""Writes files whole or not at all: after a full disk or a crash, the old file is unchanged."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from advisor.errors import AdvisorError, TransferError


def write_whole(path: Path, text: str) -> None:
    """Write a file as UTF-8. A reader sees the old content or the new content, never a part.

    Its folder must exist. A symbolic link is followed and stays. A device or a named pipe receives
    the text directly. A question mark replaces a character that UTF-8 cannot hold. Raises
    TransferError if the file cannot be written. An existing file is then unchanged.
    """
    content = text.encode("utf-8", errors="replace")
    with _told(path):
        mode = _mode(path)
        if mode is None or stat.S_ISREG(mode):
            with _replaced(path.resolve(), mode) as file:
                file.write(content)
        else:
            _stream(path, content)


@contextmanager
def rewritten(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or a new one, to write it in parts.

    A reader sees all or the old content. Raises TransferError if the file cannot be written. An
    existing file is then unchanged.
    """
    with _told(path):
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            raise OSError(None, "it is no regular file")
        with _replaced(path.resolve(), mode) as file:
            yield file


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except AdvisorError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        # A loop of links is a RuntimeError, a NUL in the name a ValueError.
        why = getattr(error, "strerror", None) or str(error)
        raise TransferError(
            f"{str(path)!r} cannot be written ({why})",
            remedy="What stood there before is as it was. Make room, or choose a file in a folder "
            "that exists and that you may write to.",
        ) from None


def _mode(path: Path) -> int | None:
    """Return the type and permissions of an existing path; None if nothing exists."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _replaced(path: Path, mode: int | None) -> Iterator[BinaryIO]:
    if mode is not None and not os.access(path, os.W_OK):
        # Replacing would also succeed for a write-protected file, so check first.
        raise PermissionError(None, "Permission denied")
    beside = path.with_name(f".gpu-advisor-{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                beside.chmod(stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _stream(path: Path, content: bytes) -> None:
    """Write to a device or a pipe. A pipe without a reader is refused instead of waited for."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
