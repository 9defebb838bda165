"""The engine's predictions of the shipped measurements, kept in a file: nobody waits for them.

``make accuracy`` writes it together with docs/accuracy.md, from the same rows.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.calibration.scoring.report import IN_BYTES, ValidationReport, ValidationRow, summarise
from advisor.calibration.tables.reading import Row
from advisor.errors import CatalogError
from advisor.foundation.resources import data_path

PREDICTIONS: Final = "predictions.csv"
COLUMNS: Final = ("table", "id", "quantity", "regime", "group", "low", "expected", "high")
BOUNDS: Final = ("low", "expected", "high")
REMEDY: Final = "Run 'make accuracy', which writes the file anew."


def rounded(report: ValidationReport) -> ValidationReport:
    """Return a report with the digits that the file keeps: four, of bytes all."""
    rows = tuple(
        row.model_copy(update={name: float(_digits(row, name)) for name in BOUNDS})
        for row in report.rows
    )
    return report.model_copy(update={"rows": rows, "summary": summarise(rows)})


def predictions_csv(reports: Mapping[str, ValidationReport]) -> str:
    """Text of ``data/predictions.csv``: one line for each measured quantity of a row.

    Parameters
    ----------
    reports : mapping of str to ValidationReport
        By key of ``accuracy.ALL_TABLES``.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(
        (table, row.id, row.quantity, row.regime, row.group, *(_digits(row, b) for b in BOUNDS))
        for table, report in reports.items()
        for row in report.rows
    )
    return text.getvalue()


def _digits(row: ValidationRow, name: str) -> str:
    # Accounting of tensors is right to a millionth.
    return f"{getattr(row, name):{'.0f' if row.quantity in IN_BYTES else '.4g'}}"


@cache
def _stored() -> dict[str, list[dict[str, str]]]:
    tables: dict[str, list[dict[str, str]]] = defaultdict(list)
    with data_path(PREDICTIONS).open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            tables[line["table"]].append(line)
    return tables


def stored_predictions(table: str, measured: Mapping[str, Row]) -> list[ValidationRow]:
    """Return the predictions of a table beside its measurements.

    Parameters
    ----------
    table : str
        Key of ``accuracy.ALL_TABLES``.
    measured : mapping of str to Row
        The table's rows by id.

    Raises
    ------
    CatalogError
        If a prediction has no measurement: the file is older than the table.
    """
    return [_joined(line, measured) for line in _stored()[table]]


def _joined(line: dict[str, str], measured: Mapping[str, Row]) -> ValidationRow:
    name, quantity = line["id"], line["quantity"]
    row = measured.get(name, {})
    if not row.get(quantity):
        raise CatalogError(file=PREDICTIONS, entry=name, field=quantity, value=None, remedy=REMEDY)
    return ValidationRow(
        id=name,
        quantity=quantity,
        regime=line["regime"],
        group=line["group"],
        source=(row.get("source") or "").strip(),
        measured=float(row[quantity]),
        low=float(line["low"]),
        expected=float(line["expected"]),
        high=float(line["high"]),
    )
