"""Tables of requests and of cases, broken."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from advisor.catalog.traces import TRACES, read_demand
from advisor.errors import InputError
from advisor.nouns.case_files import load_case
from advisor.nouns.demand import Demand
from advisor.sweeps.journal import Journal
from advisor.sweeps.questions import LABELS, Questions
from advisor.sweeps.sweep import questions_of
from tests.fuzz.answers import BrokenAnswerError
from tests.fuzz.mutate import HOSTILE, torn

READ: Final = 20
"""Rows that are checked."""
COLUMNS: Final = (
    *LABELS,
    "model",
    "model.preset",
    "model.config",
    "workload.kind",
    "workload.concurrency",
    "hardware.accelerator",
    "hardware.count",
    "limits.providers",
    "nope",
)
USUAL: Final[dict[str, Any]] = {
    "model.preset": "gpt2",
    "workload.kind": "serving",
    "workload.concurrency": 8,
    "hardware.accelerator": "l40s",
    "hardware.count": 2,
    "limits.providers": "[AWS, Gcore]",
}
ODD: Final = (
    *(item for item in HOSTILE if isinstance(item, str)),
    *("[AWS", "{a: &x 1, b: *x}", "[" * 70, "a\nb", '"', "1e18", "-5", "2023-11-16 18:17:03.979"),
)


def _text(rows: list[list[object]], source: Random) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    text = torn(file.getvalue(), source, 2) if source.random() < 0.4 else file.getvalue()
    return text.encode("utf-8", "surrogatepass")


def _file(name: str, content: bytes) -> Path:
    path = Path(os.environ["GPU_ADVISOR_CACHE_DIR"]) / name
    path.write_bytes(content)
    return path


def make_demand(source: Random) -> tuple[str, bytes]:
    """Return hourly rates or a trace, with odd cells."""
    moments = [source.uniform(0, 10 ** source.randint(0, 7)) for _ in range(source.randint(1, 9))]
    if source.random() < 0.3:
        hours = source.choice((24, 24, 168, 23))
        rows: list[list[object]] = [["hour", "requests_per_s"]]
        rows += [[hour, 2.5] for hour in range(hours)]
    else:
        layout = source.choice(TRACES)
        rows = [[layout.moment, layout.prompt, layout.answer]]
        rows += [[moment, source.randint(0, 9999), source.randint(0, 500)] for moment in moments]
    for _ in range(source.choice((0, 1, 1, 3))):
        row = source.choice(rows)
        row[source.randrange(len(row))] = source.choice(HOSTILE)
    if source.random() < 0.6:
        return "demand.csv", _text(rows, source)
    lines = [dict(zip(map(str, rows[0]), row, strict=True)) for row in rows[1:]]
    text = "\n".join(json.dumps(line, default=str) for line in lines)
    return "demand.jsonl", torn(text, source, source.choice((0, 0, 2))).encode(errors="replace")


def run_demand(given: tuple[str, bytes]) -> None:
    """Read a demand; what it gives is a demand that a case may state."""
    seen = read_demand(_file(*given))
    Demand(hourly=seen.hourly)


def make_cells(source: Random) -> tuple[str, bytes]:
    """Return a table of cases: CSV or Parquet."""
    names = source.sample(COLUMNS, source.randint(1, 5))
    names = [*dict.fromkeys([*list(USUAL)[: source.choice((0, 2, 5))], *names])]
    if "nope" in names and source.random() < 0.8:
        names.remove("nope")
    rows = [
        [USUAL.get(name, "x") if source.random() < 0.8 else source.choice(ODD) for name in names]
        for _ in range(source.randint(0, 4))
    ]
    if source.random() < 0.7:
        return "cells.csv", _text([list(names), *rows], source)
    columns = [pa.array([str(row[place]).encode(errors="replace") for row in rows], pa.binary())
               for place in range(len(names))]  # fmt: skip
    kind = source.choice((pa.string(), pa.string(), pa.binary()))
    table = pa.table([column.view(kind) for column in columns], names=names)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    content = bytearray(sink.getvalue())
    for _ in range(source.choice((0, 0, 1, 20))):
        content[source.randrange(len(content))] = source.randrange(256)
    return "cells.parquet", bytes(content)


def run_cells(given: tuple[str, bytes]) -> None:
    """Read a table of cases, and keep what its rows show as a sweep does."""
    questions = questions_of(_file(*given))
    count, shown = questions.count, kept(questions)
    if len(shown) != min(count, READ):
        raise BrokenAnswerError("a table has another number of rows", f"{count} {len(shown)}")
    for question in itertools.islice(questions.read(), READ):
        if isinstance(question.case, InputError):
            raise question.case
        load_case(question.case)


def kept(questions: Questions) -> list[dict[str, Any]]:
    """Return what the first rows show, after a journal kept it."""
    shown = [question.shown for question in itertools.islice(questions.read(), READ)]
    path = Path(os.environ["GPU_ADVISOR_CACHE_DIR"]) / "rows.partial"
    path.unlink(missing_ok=True)
    journal = Journal(path, {}, 1)
    journal.add(0, shown)
    [read] = Journal(path, {}, 1).read()
    if read != shown:
        raise BrokenAnswerError("a journal does not give back its rows", ascii(shown)[:300])
    return read
