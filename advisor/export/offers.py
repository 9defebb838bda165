"""Offers as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io

from advisor.catalog.offer_list import OfferLine, OfferList
from advisor.export.quoting import csv_cell


def offers_csv(found: OfferList) -> str:
    """Return a table with a row for each offer; SI units, as the column names say."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = tuple(OfferLine.model_fields)
    writer.writerow(columns)
    for line in found.lines:
        writer.writerow(csv_cell(_cell(getattr(line, column))) for column in columns)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a cell; several figures in one are parted by blanks."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
