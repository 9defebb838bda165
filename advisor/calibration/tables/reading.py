"""Reads tables of measurements: files to rows, cells to typed values and fields of a case."""

import csv
import math
import re
from collections.abc import Collection, Mapping
from io import StringIO
from pathlib import Path
from typing import TypeVar, get_origin

from pydantic import ValidationError

from advisor.errors import InputError, refusal
from advisor.foundation.files.reading import read_file
from advisor.foundation.names import visible
from advisor.foundation.noun import LARGEST, Noun, read_cells, shipped
from advisor.foundation.resources import data_path

MEASUREMENTS = "measurements"
MAX_TABLE_BYTES = 5_000_000
MAX_COLUMNS = 500
MAX_CELLS = 500_000
Release = tuple[int, int]
"""Of a program: 0.41 is (0, 41)."""


Choice = TypeVar("Choice")


class Row(dict[str, str]):
    """One row of a table: its cells by column."""

    def __or__(self, cells: Mapping[str, str]) -> "Row":  # type: ignore[override]
        """Return the row with other cells."""
        return Row({**self, **cells})

    def cell(self, column: str) -> str:
        """Return a cell's text, printable, without spaces around it; empty without the column."""
        return visible((self.get(column) or "").strip())

    def number(self, column: str) -> float | None:
        """Return a cell as a number, or None if it is empty or missing.

        Raises InputError if the cell holds anything but a finite number.
        """
        text = self.cell(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.inf
        if not math.isfinite(value) or abs(value) > LARGEST:
            allowed = f"a finite number up to {LARGEST:.0e}, or nothing"
            raise self.unusable(f"{column} is no usable number", column, allowed)
        return value

    def positive(self, column: str) -> float | None:
        """Return :func:`number` above zero, otherwise None."""
        value = self.number(column)
        return value if value is not None and value > 0 else None

    def unusable(
        self, what: str, column: str, allowed: str, remedy: str = "Correct the cell."
    ) -> InputError:
        """Return the error of a row's cell."""
        text = self.cell(column) or None
        return InputError(what, value=text, allowed=allowed, remedy=remedy, field=column)

    def unpredicted(self, quantities: Collection[str]) -> InputError:
        """Return the error of a row that measured none of the predicted quantities."""
        what = "the row has no measured quantity that the engine predicts"
        return self.unusable(what, "primary_quantity", ", ".join(quantities), "Leave the row out.")

    def integer(self, column: str, default: int) -> int:
        """Return a cell as a whole number of at least one, or ``default`` if it is empty.

        Raises InputError if the cell holds anything else.
        """
        value = self.number(column)
        if value is None:
            return default
        if value < 1 or value != int(value):
            allowed = "a whole number of 1 or more, or nothing"
            raise self.unusable(f"{column} is no count", column, allowed)
        return int(value)

    def needed(self, column: str) -> int:
        """Return a whole number that the row must have.

        Raises InputError if the cell is empty or not a count.
        """
        value = self.integer(column, 0)
        if not value:
            allowed = "a whole number of 1 or more"
            raise self.unusable(f"the row has no {column}", column, allowed, "Fill the cell.")
        return value

    def flag(self, column: str) -> bool:
        """Return whether a cell holds 1."""
        return self.number(column) == 1.0

    def release(self, column: str, default: Release) -> Release:
        """Return the release of a program, e.g. 0.41; ``default`` if the cell is empty.

        Raises InputError if the cell does not begin with two numbers and a point between them.
        """
        text = self.cell(column)
        found = re.match(r"(\d{1,6})\.(\d{1,6})", text)
        if text and not found:
            allowed = "a release such as 0.41, or nothing"
            raise self.unusable(f"{column} is no release", column, allowed)
        return (int(found[1]), int(found[2])) if found else default

    def choice(self, column: str, options: Mapping[str, Choice]) -> Choice:
        """Return the meaning of a cell's word.

        Raises InputError if the word is not among ``options``.
        """
        text = self.cell(column).lower()
        if text not in options:
            allowed = ", ".join(name or "nothing" for name in options)
            remedy = "Use one of the allowed words."
            raise self.unusable(f"unknown {column}", column, allowed, remedy)
        return options[text]

    def stated(self, noun: type[Noun], *, leave: Collection[str] = ()) -> dict[str, object]:
        """Return the fields of a noun that the row states in columns of their names.

        ``noun``: e.g. ``Pretraining`` or ``ParallelLayout``. ``leave``: fields that the table
        states in another way.
        """
        found: dict[str, object] = {}
        for name, field in noun.model_fields.items():
            # The `kind` of a table has another meaning.
            if (text := self.cell(name).lower()) and name != "kind" and name not in leave:
                listed = get_origin(field.annotation) is tuple
                found[name] = re.split(r"[,;\s]+", text) if listed else text
        return found


def read_table(path: Path) -> list[Row]:
    """Read a CSV file of measurements.

    Raises InputError if the file is missing, too large, not UTF-8, or has no header.
    """
    remedy = "Give a CSV file with the columns of docs/accuracy.md."
    content = read_file(
        path,
        most=MAX_TABLE_BYTES,
        name="the table",
        allowed="a readable UTF-8 CSV file",
        remedy=remedy,
    )
    try:
        rows = _rows(content.decode("utf-8-sig"), remedy)
    except (UnicodeDecodeError, csv.Error) as error:
        reason = error.__class__.__name__
        raise refusal("table_unreadable", value=str(path), reason=reason, remedy=remedy) from None
    if not rows:
        raise refusal("table_without_rows", value=str(path), remedy=remedy)
    return rows


class MeasurementTables(Noun):
    """What people read about the tables of ``data/measurements``, by file or word."""

    tables: dict[str, str]
    unseen: dict[str, str]
    tasks: dict[str, str]
    work: dict[str, str]
    regimes: dict[str, str]
    hidden: frozenset[str]
    speeds: frozenset[str]


measurement_tables = shipped("measurement_tables.yaml", MeasurementTables)
"""Returns the headings of the shipped tables, and their kinds of work in words."""


def shipped_rows(name: str) -> list[Row]:
    """Read a table of measurements that ships.

    ``name``: file name in ``data/measurements``, with or without its ending. Raises CatalogError
    if the table is broken or two rows have one id, ResourceError if the folder is missing.
    """
    path = data_path(MEASUREMENTS) / f"{name.removesuffix('.csv')}.csv"
    return [Row(row) for row in read_cells(path, key=("id",))]


def _rows(text: str, remedy: str) -> list[Row]:
    """Return the rows of a table; refuse too many cells before they fill the memory."""
    reader = csv.DictReader(StringIO(text, newline=""))
    columns = len(reader.fieldnames or ())
    if columns > MAX_COLUMNS:
        raise refusal("table_too_wide", value=columns, most=MAX_COLUMNS, remedy=remedy)
    # Few commas are inside quotes; without quotes, a line is a row.
    lines = 0 if '"' in text else text.count("\n")
    cells = max(text.count(","), lines * columns)
    rows: list[Row] = []
    while cells <= MAX_CELLS:
        row = next(reader, None)
        if row is None:
            return rows
        rows.append(Row(row))
        cells = max(cells, len(rows) * columns)
    raise refusal(
        "table_too_large", value=f"more than {MAX_CELLS:,}", most=MAX_CELLS, remedy=remedy
    )


Built = TypeVar("Built", bound=Noun)


def built(noun: type[Built], fields: Mapping[str, object]) -> Built:
    """Return a noun built from a row's fields.

    Raises InputError if the noun refuses a cell; the message names the column and what is allowed.
    """
    try:
        return noun.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = str(first["loc"][0]) if first["loc"] else "row"
        raise refusal(
            "row_not_usable",
            place=place,
            value=fields.get(place, first["input"]),
            allowed=first.get("ctx", {}).get("expected")
            or first["msg"].removeprefix("Value error, "),
            field=place,
        ) from None
