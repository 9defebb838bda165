"""A table of cases: CSV or Parquet, one case in each row, one field in each column."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest, sha256
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from advisor.errors import InputError, refusal
from advisor.foundation.files.reading import opened, too_large
from advisor.foundation.files.structured import NotPlainError, read_yaml
from advisor.foundation.files.tables import MAX_ROW, LongRowError, csv_rows
from advisor.sweeps.questions import (
    LABELS,
    MAX_COLUMNS,
    MAX_ROWS,
    Question,
    check_column,
    nested,
    shown,
)

MAX_BYTES: Final = 256_000_000
MAX_THRIFT: Final = 10_000_000
"""Most bytes, and most entries, of a Parquet file's description."""
MAX_GROUP: Final = 16_000_000
"""Largest row group of a Parquet file, unpacked; Arrow holds its texts several times. [bytes]"""
BATCH: Final = 64
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
        many, value = "too many" if names else "no", f"{len(names):,}"
        raise refusal("table_columns", value=value, many=many, most=MAX_COLUMNS, remedy=REMEDY)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise refusal("column_twice", value=twice[0], field=twice[0])
    return tuple(map(check_column, names))


def _counted(rows: int) -> int:
    """Return the number of rows, if a sweep takes so many."""
    if rows > MAX_ROWS:
        raise refusal("too_many_rows", value=f"more than {MAX_ROWS:,}", most=MAX_ROWS)
    return rows


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    with opened(path, name="the table", allowed=ALLOWED, remedy=REMEDY) as (stream, size):
        if size > MAX_BYTES:
            raise too_large("the table", MAX_BYTES, remedy=REMEDY)
        yield stream


@dataclass(frozen=True)
class _FileTable:
    path: Path

    @cached_property
    def digest(self) -> str:
        """Digest of the file."""
        with _opened(self.path) as stream:
            return file_digest(stream, "sha256").hexdigest()


class CsvTable(_FileTable):
    """A CSV file with a header. Only the header stays in memory."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names in the header."""
        return _checked(next(self._rows(), []))

    @cached_property
    def count(self) -> int:
        """Number of rows; empty lines do not count."""
        assert self.columns  # a header that is wrong is told before all rows are read
        return _counted(sum(1 for row in islice(self._rows(), MAX_ROWS + 2) if row) - 1)

    def read(self) -> Iterator[Question]:
        """Yield every row's question."""
        for row in islice(filter(None, self._rows()), 1, None):
            if len(row) > len(self.columns):
                most, value = len(self.columns), f"{len(row):,}"
                yield Question({}, refusal("row_too_long", value=value, most=most))
            else:
                cells = zip(self.columns, map(str.strip, row), strict=False)
                yield row_question(dict(cells))

    def _rows(self) -> Iterator[list[str]]:
        with _opened(self.path) as stream:
            try:
                yield from csv_rows(stream)
            except (csv.Error, LongRowError, UnicodeDecodeError) as error:
                raise _unreadable("CSV in UTF-8", error) from None


class ParquetTable(_FileTable):
    """A Parquet file; it is read in small batches."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        with self._file() as file:
            return _checked(file.schema_arrow.names)

    @cached_property
    def count(self) -> int:
        """Number of rows."""
        with self._file() as file:
            return _counted(int(file.metadata.num_rows))

    def read(self) -> Iterator[Question]:
        """Yield every row's question."""
        with self._file() as file:
            missing = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=BATCH):
                missing -= batch.num_rows
                if max(map(_longest, batch.columns), default=0) > MAX_ROW:
                    raise too_large("a cell of the table", MAX_ROW, remedy=REMEDY)
                yield from map(row_question, batch.to_pylist())
            if missing:  # Arrow stops without a word where a damaged column ends early
                raise ValueError("its columns hold fewer rows than it says")

    @contextmanager
    def _file(self) -> Iterator[pq.ParquetFile]:
        with _opened(self.path) as stream:
            try:
                yield _parquet(stream)
            except InputError:
                raise
            except (pa.ArrowException, ArithmeticError, LookupError, OSError, ValueError) as error:
                # Python has no such moment, or a text is not UTF-8.
                raise _unreadable("Parquet", error) from None


def _parquet(stream: BinaryIO) -> pq.ParquetFile:
    """Open a Parquet file that keeps a text that many rows share once."""
    bounds = {"thrift_string_size_limit": MAX_THRIFT, "thrift_container_size_limit": MAX_THRIFT}
    file = pq.ParquetFile(stream, **bounds)
    about = file.metadata
    groups = map(about.row_group, range(about.num_row_groups))
    # Of a damaged file, Arrow ends the process if a column of a group is asked for its size.
    if max((group.total_byte_size for group in groups), default=0) > MAX_GROUP:
        raise too_large(
            "a row group of the table",
            MAX_GROUP,
            remedy="Write smaller row groups, as in to_parquet(row_group_size=100_000).",
        )
    columns = map(file.schema.column, range(len(file.schema)))
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    stream.seek(0)
    return pq.ParquetFile(stream, read_dictionary=texts, **bounds)


def _longest(values: pa.Array) -> int:
    """Return the size of the longest text in an array, and in the arrays that it holds. [bytes]"""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _longest(values.dictionary)
    if pa.types.is_struct(kind):
        return max(map(_longest, values.flatten()), default=0)
    if pa.types.is_nested(kind):
        return _longest(values.values)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return int(pc.max(pc.binary_length(values)).as_py() or 0)
    return 0


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
        return _counted(int(self.table.num_rows))

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
