"""``python -m advisor.calibration``: fit the constants anew and write them into the checkout.

With ``accuracy``, score the engine on the shipped measurements and write docs/accuracy.md and
data/predictions.csv. With ``add``, append the rows of a CSV file to a shipped table.
"""

import argparse
import csv
import sys
from io import StringIO
from pathlib import Path

from advisor.calibration.fitting.constants import (
    calibration_yaml,
    fit_constants,
    kernel_sections,
    methodology_markdown,
)
from advisor.calibration.fitting.kernel_tables import FOLDER
from advisor.calibration.fitting.memory import memory_sections, peak_errors
from advisor.calibration.fitting.training import training_sections
from advisor.calibration.scoring.accuracy_page import UNSEEN_CURVES, accuracy_markdown, score_tables
from advisor.calibration.scoring.published import PREDICTIONS, predictions_csv, rounded
from advisor.calibration.scoring.serving_errors import serving_errors, serving_sections
from advisor.calibration.scoring.training_errors import scaling_errors, speed_errors
from advisor.calibration.tables.reading import MEASUREMENTS, read_table
from advisor.catalog import load_catalog
from advisor.catalog.constants import FITTED
from advisor.errors import InputError, refusal
from advisor.foundation.files.writing import write_whole
from advisor.foundation.names import check_known
from advisor.foundation.resources import data_path


def main(arguments: list[str] | None = None) -> int:
    """Write the fitted files; with ``--check`` only compare, and return 1 if they differ."""
    parser = argparse.ArgumentParser(prog="python -m advisor.calibration", description=__doc__)
    whats = ("constants", "accuracy", "add")
    parser.add_argument("what", nargs="?", choices=whats, default="constants")
    parser.add_argument("file", nargs="?", type=Path, help="of rows to add")
    parser.add_argument("table", nargs="?", help="of data/measurements, to add them to")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument(
        "--desktop", action="store_true", help="fit llama.cpp and MLX anew too: minutes more"
    )
    options = parser.parse_args(arguments)
    if options.what == "add":
        return _add(parser, options.file, options.table)
    docs = data_path(FITTED).parent.parent / "docs"
    if options.what == "accuracy":
        reports = {name: rounded(report) for name, report in score_tables().items()}
        texts = {
            data_path(FITTED).parent / PREDICTIONS: predictions_csv(reports),
            docs / "accuracy.md": accuracy_markdown(
                reports,
                speed_errors(),
                peak_errors(),
                serving_errors(),
                scaling_errors(UNSEEN_CURVES),
            ),
        }
        return _write(texts, command="make accuracy", check=options.check)
    catalog = load_catalog()
    fitted = fit_constants(data_path(FOLDER), {card.key: card for card in catalog.accelerators})
    sections = kernel_sections(fitted)
    sections |= serving_sections(sections, catalog, called=options.desktop)
    sections |= memory_sections(sections, catalog)
    texts = {
        data_path(FITTED): calibration_yaml(sections, training_sections(sections, catalog)),
        docs / "methodology-kernels.md": methodology_markdown(fitted),
    }
    return _write(texts, command="make calibrate", check=options.check)


def _add(parser: argparse.ArgumentParser, file: Path | None, table: str | None) -> int:
    if file is None or table is None:
        parser.error("add needs a file and a table")
    try:
        added = add_rows(file, table)
    except InputError as error:
        parser.error(str(error))
    sys.stdout.write(f"added {added} rows to {table}.csv\n")
    return 0


def _write(texts: dict[Path, str], *, command: str, check: bool) -> int:
    """Write the files that differ, or with ``check`` only name them; return 1 if any differs."""
    stale = [path for path, text in texts.items() if _stored(path) != text]
    for path in stale:
        if check:
            sys.stderr.write(f"{path.name} differs; run '{command}'\n")
        else:
            write_whole(path, texts[path])
            sys.stdout.write(f"wrote {path.name}\n")
    return int(check and bool(stale))


def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def add_rows(source: Path, table: str) -> int:
    """Append the rows of a CSV file to a table of ``data/measurements``.

    Rows that were added; the table's other columns stay empty. Raises InputError if the table is
    unknown, a column is none of its columns, a row has no id or source, or an id is taken.

    ``source``: some of the table's columns in any order, ``id`` and ``source`` among them.
    """
    tables = {path.stem: path for path in data_path(MEASUREMENTS).glob("*.csv")}
    check_known(table, sorted(tables), what="table of measurements")
    text = tables[table].read_text(encoding="utf-8")
    columns, rows = next(csv.reader(StringIO(text))), read_table(source)
    taken = {row["id"] for row in csv.DictReader(StringIO(text))}
    for row in rows:
        unknown = sorted(row.keys() - set(columns))
        if unknown:
            raise refusal("unknown_columns", table=table, value=", ".join(unknown), allowed=columns)
        name = row.get("id", "")
        if not name or name in taken or not row.get("source"):
            raise refusal("row_without_id", value=f"id {name!r}, source {row.get('source', '')!r}")
        taken.add(name)
    added = StringIO()
    csv.DictWriter(added, columns, restval="", lineterminator="\n").writerows(rows)
    write_whole(tables[table], text + added.getvalue())
    return len(rows)


if __name__ == "__main__":
    sys.exit(main())
