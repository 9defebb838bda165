"""Scoring the engine on a table of measurements: recognise it, predict its rows, summarise."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from advisor.calibration.scoring.report import (
    FitVerdict,
    SkippedRow,
    ValidationReport,
    ValidationRow,
    summarise,
)
from advisor.calibration.tables.cache_rows import predict_cache_row
from advisor.calibration.tables.context import Engine, shipped_engine, stored_configs
from advisor.calibration.tables.deployments import as_run
from advisor.calibration.tables.memory_rows import predict_image_memory_row, predict_memory_row
from advisor.calibration.tables.reading import Row, read_table
from advisor.calibration.tables.serving_rows import predict_serving_row
from advisor.calibration.tables.training_rows import judge_training_row, predict_training_row
from advisor.errors import AdvisorError, InputError
from advisor.foundation.record import record

Predictor = Callable[[Row, Engine], list[ValidationRow]]


@record
class TableKind:
    """One kind of table, known by the columns it must have."""

    name: str
    columns: frozenset[str]
    quantity: str | None
    """Scored quantity if the table has no ``primary_quantity``."""
    predict: Predictor
    judge: Callable[[Row, Engine], FitVerdict | None] | None = None
    """Predicts whether a row's run fits its card."""
    prepare: Callable[[Row], Row] = Row
    """Fills in what a row leaves open."""


KINDS: Final = (
    TableKind(
        "memory peaks",
        frozenset({"id", "model", "seq_len", "micro_batch", "peak_total"}),
        "peak_total",
        predict_memory_row,
    ),
    TableKind(
        "memory peaks of image networks",
        frozenset({"model", "batch", "px", "mode", "peak_total"}),
        "peak_total",
        predict_image_memory_row,
    ),
    TableKind(
        "cache sizes of engine logs",
        frozenset({"id", "accelerator", "gpu_memory_utilization", "kv_cache_gib"}),
        None,
        predict_cache_row,
    ),
    TableKind(
        "training runs",
        frozenset({"id", "workload", "accelerator", "num_accelerators", "primary_quantity"}),
        None,
        predict_training_row,
        judge_training_row,
    ),
    TableKind(
        "serving",
        frozenset({"id", "kind", "accelerator", "engine", "primary_quantity"}),
        None,
        predict_serving_row,
        prepare=as_run,
    ),
)
"""Kinds of tables, in the order of their comparison with a table."""


def validate(path: str | Path, configs: str | Path | None = None) -> ValidationReport:
    """Score the engine on a table of measurements, in the units of its columns.

    Raises InputError if the file cannot be read or has no known kind, or ``configs`` is no folder.

    ``path``: CSV file with the columns that docs/accuracy.md lists; its kind is recognised by them.
    ``configs``: folder of Hugging Face configurations named ``org__name.json``, for models that are
    not among the presets.
    """
    stored = {} if configs is None else stored_configs(Path(configs))
    rows = read_table(Path(path))
    engine = replace(shipped_engine(), configs=stored)
    return score(rows, recognise(rows[0]), engine, table=Path(path).name)


def recognise(columns: Iterable[str]) -> TableKind:
    """Return the kind of table that has these columns.

    Raises InputError if no kind matches; the message names the columns that are missing for the
    nearest kind.
    """
    present = set(columns)
    for kind in KINDS:
        if kind.columns <= present:
            return kind
    nearest = min(KINDS, key=lambda kind: len(kind.columns - present))
    raise InputError(
        "the table is of no known kind",
        value=", ".join(sorted(str(name) for name in present if name))[:80],
        allowed="; ".join(f"{kind.name}: {', '.join(sorted(kind.columns))}" for kind in KINDS),
        remedy=f"For {nearest.name}, add {', '.join(sorted(nearest.columns - present))}.",
    )


def score(rows: Iterable[Row], kind: TableKind, engine: Engine, *, table: str) -> ValidationReport:
    """Predict every row that is not marked as unpredictable, and summarise the errors."""
    found: list[ValidationRow] = []
    skipped: list[SkippedRow] = []
    verdicts: list[FitVerdict] = []
    for position, written in enumerate(rows, start=1):
        name = written.cell("id") or f"row {position}"
        quantity = kind.quantity or written.cell("primary_quantity") or "unstated"
        try:
            row = kind.prepare(written)
            if row.cell("predictable") and not row.flag("predictable"):
                reason = "marked unpredictable in the table"
            else:
                found.extend(kind.predict(row, engine))
                verdict = kind.judge(row, engine) if kind.judge else None
                if verdict:
                    verdicts.append(verdict)
                continue
        except AdvisorError as error:
            reason = str(error)
        except ValidationError as error:
            # A noun refused a value, e.g. a degree of zero.
            first = error.errors(include_url=False)[0]
            reason = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        skipped.append(SkippedRow(id=name, quantity=quantity, reason=reason))
    return ValidationReport(
        table=table,
        kind=kind.name,
        rows=tuple(found),
        summary=summarise(found),
        skipped=tuple(skipped),
        verdicts=tuple(verdicts),
    )
