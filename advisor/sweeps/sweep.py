"""The sweep: reads questions, hands chunks to workers, keeps what is done, writes the result."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from advisor import __version__
from advisor.catalog import Catalog, load_catalog
from advisor.errors import refusal
from advisor.export.quoting import csv_cell
from advisor.foundation.concurrency.processes import usable_cores
from advisor.foundation.files.reading import is_file
from advisor.foundation.files.writing import rewritten
from advisor.foundation.noun import Noun
from advisor.nouns.case_files import read_case
from advisor.sweeps.crew import Chunk, Crew, DaskCrew, LocalCrew, here
from advisor.sweeps.journal import SUFFIX, Journal
from advisor.sweeps.questions import Questions, column_type, read_grid
from advisor.sweeps.rows import COLUMNS, Outcome, Row

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_IN_CHUNK: Final = 64
LEAST_CHUNKS: Final = 32
"""A sweep has at least so many chunks, so that the last ones keep all workers busy."""
FEW: Final = 24
"""Up to so many rows, starting workers takes longer than the answers."""
MAX_WORKERS: Final = 256
ROW: Final = "row"
ARROW: Final = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
FORMATS: Final = (".parquet", ".csv")
Progress = Callable[[int, int], object]


class SweepSummary(Noun):
    """What became of a sweep."""

    rows: int
    outcomes: dict[str, int]
    """Number of rows by outcome, without those that no row has."""
    resumed: int
    """Rows that an earlier, interrupted run had finished."""
    output: str = ""


@dataclass
class _Sweep:
    """A sweep under way."""

    questions: Questions
    catalog: Catalog
    crew: Crew
    progress: Progress
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """Rows of a chunk; the number of workers does not change it."""
        return max(1, min(MOST_IN_CHUNK, self.questions.count // LEAST_CHUNKS))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.questions.count // self.size)

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that the result depends on."""
        prices = sha256(self.catalog.model_dump_json().encode()).hexdigest()
        return {
            "sweep": self.questions.digest,
            "catalog": prices,
            "version": __version__,
            "rows": self.questions.count,
        }

    def answered(self, done: Mapping[int, int]) -> Iterator[tuple[int, list[Row]]]:
        """Yield the rows of each chunk that is not done, in any order."""
        total = self.questions.count
        finished = min(total, len(done) * self.size)
        self.progress(finished, total)
        for chunk, figures in self.crew(self._chunks(done), self.catalog):
            first = chunk.number * self.size
            rows = [
                {ROW: first + place} | given | found
                for place, (given, found) in enumerate(zip(chunk.shown, figures, strict=True))
            ]
            finished += len(rows)
            yield chunk.number, rows
            self.progress(min(finished, total), total)

    def _chunks(self, done: Mapping[int, int]) -> Iterator[Chunk]:
        following = self.questions.read()
        number = 0
        while part := list(islice(following, self.size)):
            if number not in done:
                yield Chunk(number, *map(tuple, zip(*part, strict=True)))
            number += 1

    def counted(self, chunks: Iterator[list[Row]]) -> Iterator[list[Row]]:
        """Pass rows on, and count their outcomes."""
        for rows in chunks:
            self.outcomes.update(str(row.get("outcome", Outcome.MISTAKE.value)) for row in rows)
            yield rows


def sweep_to(
    source: object,
    output: Path,
    *,
    workers: int | None = None,
    on: str | None = None,
    progress: Progress = lambda done, total: None,
    catalog: Catalog | None = None,
) -> SweepSummary:
    """Answer many cases and write one row for each, from the inputs of :func:`sweep`.

    ``output``: ``.parquet`` or ``.csv``. Beside it, ``NAME.partial`` keeps what is done until the
    sweep ends; with it, an interrupted sweep goes on where it stopped.

    Raises InputError if the source cannot be read, or an unfinished sweep of something else is in
    the way. Raises TransferError if a file cannot be written, or the cluster goes away.
    """
    _check_output(output, source)
    sweep = _prepared(source, workers, on, progress, catalog)
    journal = Journal(output.with_name(output.name + SUFFIX), sweep.fingerprint, sweep.chunks)
    resumed = min(len(journal.places) * sweep.size, sweep.questions.count)
    for number, rows in sweep.answered(dict(journal.places)):
        journal.add(number, rows)
    write_result(output, sweep.counted(journal.read()), sweep.questions.columns)
    journal.remove()
    return SweepSummary(
        rows=sweep.questions.count,
        outcomes={one.value: sweep.outcomes[one] for one in Outcome if sweep.outcomes[one]},
        resumed=resumed,
        output=str(output),
    )


def sweep(
    source: object,
    *,
    output: str | Path | None = None,
    workers: int | None = None,
    on: str | None = None,
    progress: Progress = lambda done, total: None,
    catalog: Catalog | None = None,
) -> DataFrame:
    """Answer many cases and return one row for each.

    ``source``: a grid: a case in which any field may be a list of values or a range. Or a table
    with fields of a case as columns: ``model.preset``, ``workload.kind``, ``hardware.count``. Or
    the path of either: YAML or JSON for a grid, CSV or Parquet for a table. ``output``: also write
    the result here; then an interrupted sweep can go on. ``workers``: processes on this machine;
    default: one for each core. ``on``: address of a Dask scheduler that does the work instead:
    ``dask://host:8786``. ``progress``: receives the number of finished rows and of all rows.
    ``catalog``: default: the shipped catalog.

    Returns the inputs that vary, ``outcome``, figures, and what is wrong with a row. A case with
    hardware is estimated on it; one without gets its best plan. Order and figures do not depend on
    the workers.

    Raises InputError if the source cannot be read. A mistake in one row is a row with ``outcome``
    *mistake*.

    >>> import advisor
    >>> answers = advisor.sweep(
    ...     {
    ...         "model": {"preset": "llama-3.1-8b"},
    ...         "workload": {"kind": "serving", "concurrency": [1, 32]},
    ...         "hardware": {"accelerator": ["l40s", "h100-sxm"], "count": 1},
    ...     }
    ... )
    >>> answers[["workload.concurrency", "hardware.accelerator", "outcome"]].shape
    (4, 3)
    """
    if output is not None:
        path = Path(output)
        sweep_to(source, path, workers=workers, on=on, progress=progress, catalog=catalog)
        return read_result(path)
    running = _prepared(source, workers, on, progress, catalog)
    chunks = [rows for _, rows in sorted(running.answered({}), key=lambda item: item[0])]
    return frame(chunks, running.questions.columns)


def _prepared(
    source: object, workers: int | None, on: str | None, progress: Progress, catalog: Catalog | None
) -> _Sweep:
    questions = questions_of(source)
    crew = _crew(questions.count, workers, on)
    return _Sweep(questions, catalog or load_catalog(), crew, progress)


def _crew(rows: int, workers: int | None, on: str | None) -> Crew:
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise refusal("workers_out_of_range", value=workers, most=MAX_WORKERS)
    if on is not None:
        if workers is not None:
            raise refusal("workers_beside_cluster", value=workers)
        return DaskCrew(on)
    if workers is None:
        workers = 1 if rows <= FEW else min(usable_cores(), MAX_WORKERS)
    return here if workers == 1 else LocalCrew(workers)


def questions_of(source: object) -> Questions:
    """Return the questions of a grid, a table or the path of one."""
    if isinstance(source, Mapping):
        return read_grid(source)
    if isinstance(source, str | Path):
        path = Path(source)
        kind = path.suffix.lower()
        if kind in {".yaml", ".yml", ".json"}:
            return read_grid(read_case(path))
        if kind in {".csv", ".parquet"}:
            from advisor.sweeps.tables import CsvTable, ParquetTable

            return CsvTable(path) if kind == ".csv" else ParquetTable(path)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        from advisor.sweeps.tables import FrameTable

        return FrameTable(pa.Table.from_pandas(source, preserve_index=False))
    raise refusal("no_sweep", value=source if isinstance(source, str) else str(source))


def _check_output(path: Path, source: object) -> None:
    """Refuse a name of no known format, and a path where a folder, a device or the source is."""
    if path.suffix.lower() not in FORMATS:
        raise refusal("result_format", value=str(path))
    named = Path(source) if isinstance(source, str | Path) else None
    own = named is not None and is_file(named) and is_file(path) and path.samefile(named)
    if own or (os.path.exists(path) and not is_file(path)):  # noqa: PTH110 - a name may be too long for Path.exists
        raise refusal("result_in_the_way", value=str(path))


def schema_of(inputs: Sequence[str]) -> pa.Schema:
    """Return names and types of all columns: the row's number, inputs, figures."""
    kinds = {ROW: int} | {name: column_type(name) for name in inputs} | dict(COLUMNS)
    return pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()])


def frame(chunks: Iterable[Sequence[Row]], inputs: Sequence[str]) -> DataFrame:
    """Return rows as a DataFrame."""
    schema = schema_of(inputs)
    made: DataFrame = pa.Table.from_batches(_batches(chunks, schema), schema).to_pandas()
    return made


def read_result(path: Path) -> DataFrame:
    """Return the rows of a written result."""
    table = pq.read_table(path) if path.suffix.lower() == ".parquet" else pc.read_csv(path)
    made: DataFrame = table.to_pandas()
    return made


def write_result(path: Path, chunks: Iterable[Sequence[Row]], inputs: Sequence[str]) -> None:
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
