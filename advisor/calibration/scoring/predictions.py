"""The engine's predictions of the shipped measurements, kept in a file to save time.

``make accuracy`` writes it together with docs/accuracy.md, from the same rows.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from advisor.calibration.scoring.report import IN_BYTES, ValidationReport, ValidationRow, summarise
from advisor.calibration.tables.reading import Row, number
from advisor.errors import InputError
from advisor.foundation.data_records import LARGEST, read_table, refuse
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path

PREDICTIONS: Final = "predictions.csv"
Figure = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]


class Prediction(Noun):
    """A line of the file."""

    table: str
    id: str
    quantity: str
    regime: str = ""
    group: str = ""
    low: Figure
    expected: Figure
    high: Figure

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.expected <= self.high:
            order = f"{self.low}, {self.expected}, {self.high}"
            msg = f"Order the three: low, expected, high, not {order}"
            raise ValueError(msg)
        return self


COLUMNS: Final = tuple(Prediction.model_fields)
BOUNDS: Final = ("low", "expected", "high")
REMEDY: Final = "Run 'make accuracy', which writes the file anew."


def rounded(report: ValidationReport) -> ValidationReport:
    """Return a report with the digits of the file: four, and all digits of bytes."""
    rows = tuple(
        row.model_copy(update={name: float(_digits(row, name)) for name in BOUNDS})
        for row in report.rows
    )
    return report.changed(rows=rows, summary=summarise(rows))


def predictions_csv(reports: Mapping[str, ValidationReport]) -> str:
    """Text of ``data/predictions.csv``: one line for each measured quantity of a row.

    ``reports``: by key of ``accuracy.ALL_TABLES``.
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
    # The accounting of tensors is exact to a millionth.
    return f"{getattr(row, name):{'.0f' if row.quantity in IN_BYTES else '.4g'}}"


@cache
def _stored() -> dict[str, list[Prediction]]:
    tables: dict[str, list[Prediction]] = defaultdict(list)
    for line in read_table(data_path(PREDICTIONS), Prediction, key=("table", "id", "quantity")):
        tables[line.table].append(line)
    return tables


def stored_predictions(table: str, measured: Mapping[str, Row]) -> list[ValidationRow]:
    """Return the predictions of a table with its measurements.

    Raises CatalogError if a prediction has no measurement: the file is older than the table.

    ``measured``: the table's rows by id.
    """
    return [_joined(line, measured) for line in _stored()[table]]


def _joined(line: Prediction, measured: Mapping[str, Row]) -> ValidationRow:
    row = measured.get(line.id, {})
    if not row.get(line.quantity):
        refuse(PREDICTIONS, None, REMEDY, entry=line.id, field=line.quantity)
    try:
        measured_value = number(row, line.quantity) or 0.0
    except InputError as error:
        refuse(f"{line.table}.csv", error.value, error.remedy, entry=line.id, field=line.quantity)
    return ValidationRow(
        source=(row.get("source") or "").strip(),
        measured=measured_value,
        **line.model_dump(exclude={"table"}),
    )
