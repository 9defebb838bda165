"""The rows that a sweep has finished, in a file beside its result: a kill loses none of them."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from advisor.errors import TransferError, refusal
from advisor.foundation.files.reading import opened
from advisor.foundation.files.structured import NotPlainError, read_json
from advisor.sweeps.rows import Row, as_text

SUFFIX: Final = ".partial"
MAX_LINE: Final = 40_000_000
"""Longest line: one chunk, whose cells may be escaped. [bytes]"""
MAX_HEAD: Final = 10_000
MAX_DIGITS: Final = 9
DELETE: Final = "Delete it to start again, or write the result elsewhere."


@dataclass
class Journal:
    """Finished chunks, one a line, after a line that says which sweep they belong to.

    Raises InputError if the file belongs to another sweep, TransferError if it cannot be written.
    """

    path: Path
    sweep: dict[str, object]
    chunks: int
    places: dict[int, int] = field(default_factory=dict)
    """Where the line of each finished chunk starts. [bytes]"""

    def __post_init__(self) -> None:
        """Find what is finished, and cut a line that a kill left torn."""
        if os.path.exists(self.path):  # noqa: PTH110 - a name may be too long for Path.exists
            self._read()
            return
        self._append((json.dumps(self.sweep) + "\n").encode())

    def _read(self) -> None:
        with opened(self.path, name="the unfinished sweep", allowed="a file", remedy=DELETE) as (
            stream,
            _,
        ):
            head = stream.readline(MAX_HEAD)
            if not head.endswith(b"\n") or _parsed(head) != self.sweep:
                raise refusal("sweep_in_the_way", value=str(self.path), remedy=DELETE)
            end = stream.tell()
            while (line := stream.readline(MAX_LINE)).endswith(b"\n"):
                number = line.split(b" ", 1)[0]
                if not number.isdigit() or len(number) > MAX_DIGITS or int(number) >= self.chunks:
                    break
                self.places[int(number)] = end
                end += len(line)
        with self._told():
            os.truncate(self.path, end)

    def add(self, number: int, rows: Sequence[Row]) -> None:
        """Keep a finished chunk."""
        self.places[number] = self._append(f"{number} {as_text(rows)}\n".encode())

    def _append(self, line: bytes) -> int:
        with self._told(), self.path.open("ab") as file:
            place = file.tell()
            file.write(line)
        return place

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
            raise TransferError(
                f"{str(self.path)!r} cannot be written ({getattr(error, 'strerror', error)})",
                remedy="Make room, or choose a folder that you may write to.",
            ) from None

    def read(self) -> Iterator[list[Row]]:
        """Yield the rows of every finished chunk in order."""
        with self.path.open("rb") as stream:
            for number in sorted(self.places):
                yield self._rows(stream, number)

    def _rows(self, stream: BinaryIO, number: int) -> list[Row]:
        stream.seek(self.places[number])
        rows = _parsed(stream.readline(MAX_LINE).partition(b" ")[2])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise refusal("sweep_damaged", value=str(self.path), remedy=DELETE)
        return rows

    def remove(self) -> None:
        """Delete the file, once the result stands."""
        with self._told():
            self.path.unlink(missing_ok=True)


def _parsed(line: bytes) -> object:
    try:
        return read_json(line.decode("utf-8", errors="replace"))
    except NotPlainError:
        return None
