"""Reads data files into checked records; whatever is broken in them becomes a ``CatalogError``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from advisor.catalog.records import CatalogFile
from advisor.errors import CatalogError
from advisor.foundation.data_files import read_text, read_yaml

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)


_REMEDIES: Mapping[str, str] = {
    "missing": "Add the field.",
    "extra_forbidden": "Unknown field: correct its name or remove it.",
    "model_type": "It must be a mapping of fields.",
}


def read_catalog_file(path: Path) -> CatalogFile:
    """Read ``gpu_catalog.yaml``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    CatalogFile

    Raises
    ------
    CatalogError
        If the file cannot be read, is not YAML, gives a key twice, or has a wrong field.
    """
    return _checked(CatalogFile.model_validate, read_yaml(path), file=path.name)


def read_table(path: Path, record: type[R]) -> list[R]:
    """Read a table of records of one kind.

    Parameters
    ----------
    path : Path
        A CSV file; an empty cell leaves the field at its default.
    record : type
        Names and checks the columns.

    Returns
    -------
    list of record
        In the order of the file.

    Raises
    ------
    CatalogError
        If the file cannot be read, its header is wrong, or a line has a wrong value.
    """
    rows = list(_csv_rows(path, tuple(record.model_fields)))
    return _checked(TypeAdapter(list[record]).validate_python, rows, file=path.name, rows=rows)  # type: ignore[valid-type]


def _csv_rows(path: Path, expected: Sequence[str]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(read_text(path).splitlines())
    header = tuple(reader.fieldnames or ())
    if header != expected:
        raise CatalogError(
            file=path.name,
            entry="line 1",
            field="",
            value=",".join(header),
            remedy=f"The header must be {','.join(expected)}",
        )
    for row in reader:
        if None in row or None in row.values():
            raise CatalogError(
                file=path.name,
                entry=f"line {reader.line_num}",
                field="",
                value=",".join(str(value) for value in row.values()),
                remedy=f"Give {len(expected)} columns; quote text with commas.",
            )
        yield {name: value for name, value in row.items() if value}


def _checked(
    validate: Callable[[object], T],
    content: object,
    *,
    file: str,
    rows: Sequence[Mapping[str, str]] | None = None,
) -> T:
    try:
        return validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        entry, field = _place(first["loc"], rows)
        kind = first["type"]
        raise CatalogError(
            file=file,
            entry=entry,
            field=field,
            # The input of these is the whole entry.
            value=None if kind in {"missing", "value_error"} else _shown(first["input"]),
            remedy=_REMEDIES.get(kind, first["msg"].removeprefix("Value error, ") + "."),
        ) from None


def _shown(value: object) -> object:
    return type(value).__name__ if isinstance(value, dict | list) else value


def _place(loc: tuple[int | str, ...], rows: Sequence[Mapping[str, str]] | None) -> tuple[str, str]:
    """Name of the entry, and dotted path of the field in it."""
    if not loc:
        return "", ""
    if rows is not None:
        row = int(loc[0])
        name = rows[row].get("instance_type") or next(iter(rows[row].values()), "")
        return f"line {row + 2} ({name})", ".".join(str(part) for part in loc[1:])
    parts = [str(part) for part in loc if part != "[key]"]
    return (parts[1], ".".join(parts[2:])) if len(parts) > 1 else ("", parts[0])
