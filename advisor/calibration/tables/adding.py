"""Add measurements to a table that ships, column by column."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

from advisor.calibration.tables.reading import MEASUREMENTS, read_table
from advisor.errors import InputError
from advisor.foundation.names import check_known
from advisor.foundation.resources import data_path
from advisor.foundation.writing import write_whole


def add_rows(source: Path, table: str) -> int:
    """Append the rows of a CSV file to a table of ``data/measurements``.

    Parameters
    ----------
    source : Path
        Some of the table's columns in any order, ``id`` and ``source`` among them.
    table : str
        Name of the table, without its ending.

    Returns
    -------
    int
        Rows that were added; the table's other columns stay empty.

    Raises
    ------
    InputError
        If the table is unknown, a column is none of its columns, a row has no id or source, or an
        id is taken.
    """
    tables = {path.stem: path for path in data_path(MEASUREMENTS).glob("*.csv")}
    check_known(table, sorted(tables), what="table of measurements")
    text = tables[table].read_text(encoding="utf-8")
    columns, rows = next(csv.reader(StringIO(text))), read_table(source)
    taken = {row["id"] for row in csv.DictReader(StringIO(text))}
    for row in rows:
        unknown = sorted(row.keys() - set(columns))
        if unknown:
            raise InputError(
                f"{table} has no such column",
                value=", ".join(unknown),
                allowed=", ".join(columns),
                remedy="Rename or remove it.",
            )
        name = row.get("id", "")
        if not name or name in taken or not row.get("source"):
            raise InputError(
                "a row needs an id that the table lacks, and its source",
                value=f"id {name!r}, source {row.get('source', '')!r}",
                allowed="a new id; repository, commit and file, or page and date",
                remedy="Correct the row.",
            )
        taken.add(name)
    added = StringIO()
    csv.DictWriter(added, columns, restval="", lineterminator="\n").writerows(rows)
    write_whole(tables[table], text + added.getvalue())
    return len(rows)
