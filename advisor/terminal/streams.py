"""Standard streams that may be closed, full, of a narrow encoding, or without a reader."""

from __future__ import annotations

import os
import sys

from advisor.errors import TransferError

TYPE_CHECKING = False  # its module takes long to import
if TYPE_CHECKING:
    from typing import IO


def prepare_streams() -> None:
    """Make standard output and error fit to print to.

    A character that the encoding lacks becomes a question mark in what people read. A closed
    standard error discards its text, so that messages do not end up in the answer. Raises
    TransferError if standard output is closed: the answer would be lost.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if sys.stdout is None:
        raise TransferError("standard output is closed", remedy="Open it: the answer goes there.")


def keep_output() -> None:
    """Keep standard output for the answer and discard what C libraries print.

    HiGHS 1.12 prints a line of its own where it repairs a solution: it would follow the JSON.
    """
    answer = os.dup(sys.stdout.fileno())
    terminal, encoding = sys.stdout.isatty(), sys.stdout.encoding
    _drop(sys.stdout)
    sys.stdout = os.fdopen(
        answer, "w", encoding=encoding, errors="replace", buffering=1 if terminal else -1
    )


def print_content(text: str) -> None:
    """Print the content of a file, JSON or an export: as UTF-8, unless a terminal shows it."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and not sys.stdout.isatty():
        reconfigure(encoding="utf-8", errors="replace")
    print(text)


def drop_output() -> None:
    """Discard further standard output: Python would report an error again at the exit."""
    _drop(sys.stdout)


def complain(text: str) -> None:
    """Print a sentence to standard error; if that fails, discard it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def read_input(limit: int) -> bytes:
    """Return up to ``limit`` bytes of standard input.

    Raises TransferError if it is closed or cannot be read.
    """
    why = "it is closed"
    if sys.stdin is not None:
        try:
            return sys.stdin.buffer.read(limit)
        except OSError as error:
            why = error.strerror or str(error)
    raise TransferError(
        f"standard input cannot be read ({why})",
        remedy="Pipe the case into the command, or name a file.",
    )


def _drop(stream: IO[str]) -> None:
    """Discard everything that is written to a stream from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
