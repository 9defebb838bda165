"""The result of a sweep as a table: Parquet, CSV or a DataFrame."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from advisor.errors import InputError
from advisor.export.quoting import csv_cell
from advisor.foundation.files import is_file
from advisor.foundation.writing import rewritten
from advisor.sweeps.questions import column_type
from advisor.sweeps.rows import COLUMNS, Row

if TYPE_CHECKING:
    from pandas import DataFrame

ROW: Final = "row"
ARROW: Final = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
FORMATS: Final = (".parquet", ".csv")


def check_output(path: Path) -> Path:
    """Return the path of a file in a known format.

    Raises ``InputError`` for another name, or if a folder or a device is there.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            "the result has no known format",
            value=str(path),
            allowed="a file whose name ends in .parquet or .csv",
            remedy="Name it results.parquet.",
            field="--output",
        )
    if os.path.exists(path) and not is_file(path):  # noqa: PTH110 - a name may be too long for Path.exists
        raise InputError(
            "the result cannot replace what is there",
            value=str(path),
            allowed="a new file, or an older file",
            remedy="Name another file.",
            field="--output",
        )
    return path


def schema_of(inputs: Sequence[str]) -> pa.Schema:
    """Return names and types of all columns: the row's number, inputs, figures."""
    kinds = {ROW: int} | {name: column_type(name) for name in inputs} | dict(COLUMNS)
    return pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()])


def frame(chunks: Iterable[Sequence[Row]], inputs: Sequence[str]) -> DataFrame:
    """Return rows as a DataFrame."""
    schema = schema_of(inputs)
    made: DataFrame = pa.Table.from_batches(_batches(chunks, schema), schema).to_pandas()
    return made


def read(path: Path) -> DataFrame:
    """Return the rows of a written result."""
    table = pq.read_table(path) if path.suffix.lower() == ".parquet" else pc.read_csv(path)
    made: DataFrame = table.to_pandas()
    return made


def write(path: Path, chunks: Iterable[Sequence[Row]], inputs: Sequence[str]) -> None:
    """Write rows to a file, whole or not at all; ``TransferError`` if it cannot be written."""
    schema = schema_of(inputs)
    with rewritten(path) as stream:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetWriter(stream, schema) as writer:
                for batch in _batches(chunks, schema):
                    writer.write_batch(batch)
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        lines = csv.writer(text)
        lines.writerow(schema.names)
        for batch in _batches(chunks, schema):
            for row in batch.to_pylist():
                lines.writerow([csv_cell(value) for value in row.values()])
        text.detach()


def _batches(chunks: Iterable[Sequence[Row]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in chunks:
        columns = [
            pa.array([_cell(row.get(field.name), field.type) for row in rows], field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cell(value: object, kind: pa.DataType) -> object:
    """Return a value of a column's type; None where it is none, as in a row with a mistake."""
    if value is None:
        return None
    try:
        if kind == ARROW[int]:
            number = int(float(str(value))) if not isinstance(value, int) else int(value)
            return number if abs(number) < 1 << 63 else None
        if kind == ARROW[float]:
            return float(str(value))
        if kind == ARROW[bool]:
            return value if isinstance(value, bool) else str(value).casefold() == "true"
    except (ValueError, OverflowError):
        return None
    return str(value).encode("utf-8", errors="replace").decode()
