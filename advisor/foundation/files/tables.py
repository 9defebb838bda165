"""Reads text files row by row, so that neither a line nor a row can fill the memory."""

import csv
import io
from collections.abc import Iterator
from typing import BinaryIO, Final

MAX_ROW: Final = 1_000_000
"""Longest line, and longest row of a table. [characters]"""


class LongRowError(ValueError):
    """A line or a row is longer than ``MAX_ROW`` characters."""

    def __init__(self) -> None:
        super().__init__(f"a line of more than {MAX_ROW:,} characters")


def text_lines(stream: BinaryIO, *, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a UTF-8 file, each with its end; then close the file.

    ``errors``: what becomes of bytes that are not UTF-8, as in ``bytes.decode``.

    Raises LongRowError if a line is too long. Raises UnicodeDecodeError if the file is not UTF-8
    and ``errors`` is *strict*.
    """
    with io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline="") as text:
        while line := text.readline(MAX_ROW + 1):
            if len(line) > MAX_ROW:
                raise LongRowError
            yield line


def csv_rows(stream: BinaryIO, *, errors: str = "strict") -> Iterator[list[str]]:
    r"""Yield the rows of a CSV file; the first one is the header. An empty line is an empty row.

    Raises
    ------
    LongRowError
        If a row is too long; its quoted cells may have many lines.
    UnicodeDecodeError
        As in `text_lines`.
    csv.Error
        If the file is not CSV.

    >>> list(csv_rows(io.BytesIO(b'a,b\n1,"2,3"\n')))
    [['a', 'b'], ['1', '2,3']]
    """
    length = 0

    def counted() -> Iterator[str]:
        nonlocal length
        for line in text_lines(stream, errors=errors):
            length += len(line)
            if length > MAX_ROW:
                raise LongRowError
            yield line

    csv.field_size_limit(MAX_ROW)
    for row in csv.reader(counted(), strict=True):
        length = 0
        yield row
