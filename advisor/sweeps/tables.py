"""A table of cases: CSV or Parquet, one case in each row, one field in each column."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from advisor.errors import InputError
from advisor.foundation.files import opened, too_large
from advisor.foundation.structured import NotPlainError, read_yaml
from advisor.sweeps.questions import LABELS, MAX_ROWS, Question, check_column, nested, shown

MAX_BYTES: Final = 256_000_000
MAX_COLUMNS: Final = 200
MAX_TEXT: Final = 1_000_000
"""Longest cell. [characters]"""
MAX_THRIFT: Final = 10_000_000
"""Most bytes, and most entries, of a Parquet file's description."""
MAX_GROUP: Final = 256_000_000
"""Largest row group of a Parquet file, unpacked. [bytes]"""
BATCH: Final = 256
"""Rows of a Parquet file read at once."""
ALLOWED: Final = "a table with fields of a case as columns: model.preset, workload.kind"
REMEDY: Final = "Give a CSV or Parquet file as docs/sweeps.md shows."


def row_question(cells: Mapping[str, object]) -> Question:
    """Return the question of one row; an empty cell states nothing."""
    stated = {name: value for name, value in cells.items() if value is not None and value != ""}
    seen = {name: shown(value) for name, value in stated.items()}
    try:
        fields = {name: _meant(name, value) for name, value in stated.items() if name not in LABELS}
    except InputError as error:
        return Question(seen, error)
    return Question(seen, nested(fields))


def _meant(name: str, value: object) -> object:
    """Return a cell's value; a list or a mapping is written as YAML: [AWS, Gcore]."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return read_yaml(value)
    except NotPlainError as error:
        raise error.as_input_error(
            f"column {name}",
            form="YAML",
            value=value,
            allowed="a value, a list or a mapping",
            field=name,
        ) from None


def _checked(names: list[str]) -> tuple[str, ...]:
    if not names or len(names) > MAX_COLUMNS:
        raise InputError(
            "the table has no columns" if not names else "the table has too many columns",
            value=f"{len(names):,}",
            allowed=f"1 to {MAX_COLUMNS}",
            remedy=REMEDY,
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(
            "the table has a column twice",
            value=twice[0],
            allowed="each column once",
            remedy="Remove one of them.",
            field=twice[0],
        )
    return tuple(map(check_column, names))


def _many_rows() -> InputError:
    return InputError(
        "the table has too many rows",
        value=f"more than {MAX_ROWS:,}",
        allowed=f"up to {MAX_ROWS:,}",
        remedy="Split the table.",
    )


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with opened(path, name="the table", allowed=ALLOWED, remedy=REMEDY) as (stream, size):
        if size > MAX_BYTES:
            raise too_large("the table", MAX_BYTES, remedy=REMEDY)
        yield stream


def _digest(path: Path) -> str:
    digest = sha256()
    with _opened(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header. Only the header stays in memory."""

    path: Path

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names in the header."""
        return _checked(next(self._rows(), []))

    @cached_property
    def count(self) -> int:
        """Number of rows; empty lines do not count."""
        count = sum(1 for row in itertools.islice(self._rows(), MAX_ROWS + 2) if row) - 1
        if count > MAX_ROWS:
            raise _many_rows()
        return count

    @cached_property
    def digest(self) -> str:
        """Digest of the file."""
        return _digest(self.path)

    def read(self) -> Iterator[Question]:
        """Yield every row's question."""
        for row in itertools.islice(filter(None, self._rows()), 1, None):
            if len(row) > len(self.columns):
                yield Question({}, self._too_long(row))
            else:
                cells = zip(self.columns, map(str.strip, row), strict=False)
                yield row_question(dict(cells))

    def _too_long(self, row: list[str]) -> InputError:
        return InputError(
            "the row has more cells than the table has columns",
            value=f"{len(row):,}",
            allowed=f"up to {len(self.columns)}",
            remedy="Put cells that hold a comma in quotes.",
        )

    def _rows(self) -> Iterator[list[str]]:
        csv.field_size_limit(MAX_TEXT)
        with _opened(self.path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            try:
                yield from csv.reader(text, strict=True)
            except (csv.Error, UnicodeDecodeError) as error:
                raise _unreadable("CSV in UTF-8", error) from None


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file; it is read in small batches."""

    path: Path

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        with self._file() as file:
            return _checked(file.schema_arrow.names)

    @cached_property
    def count(self) -> int:
        """Number of rows."""
        with self._file() as file:
            if file.metadata.num_rows > MAX_ROWS:
                raise _many_rows()
            return int(file.metadata.num_rows)

    @cached_property
    def digest(self) -> str:
        """Digest of the file."""
        return _digest(self.path)

    def read(self) -> Iterator[Question]:
        """Yield every row's question."""
        with self._file() as file:
            for batch in file.iter_batches(batch_size=BATCH):
                yield from map(row_question, batch.to_pylist())

    @contextmanager
    def _file(self) -> Iterator[pq.ParquetFile]:
        with _opened(self.path) as stream:
            try:
                file = pq.ParquetFile(
                    stream,
                    thrift_string_size_limit=MAX_THRIFT,
                    thrift_container_size_limit=MAX_THRIFT,
                )
                sizes = [
                    file.metadata.row_group(place).total_byte_size
                    for place in range(file.metadata.num_row_groups)
                ]
                if max(sizes, default=0) > MAX_GROUP:
                    raise too_large("a row group of the table", MAX_GROUP, remedy=REMEDY)
                yield file
            except (pa.ArrowException, OSError) as error:
                raise _unreadable("Parquet", error) from None


@dataclass(frozen=True)
class FrameTable:
    """A DataFrame."""

    table: pa.Table

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return _checked(self.table.column_names)

    @property
    def count(self) -> int:
        """Number of rows."""
        if self.table.num_rows > MAX_ROWS:
            raise _many_rows()
        return int(self.table.num_rows)

    @cached_property
    def digest(self) -> str:
        """Digest of the content."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return sha256(sink.getvalue()).hexdigest()

    def read(self) -> Iterator[Question]:
        """Yield every row's question."""
        for batch in self.table.to_batches(max_chunksize=BATCH):
            yield from map(row_question, batch.to_pylist())


def _unreadable(form: str, error: Exception) -> InputError:
    return InputError(f"the table is not {form}", value=str(error), allowed=ALLOWED, remedy=REMEDY)
