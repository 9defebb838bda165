"""The base class of every noun, and nouns read from data files: checked, or ``CatalogError``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import log10
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from advisor.errors import CatalogError
from advisor.foundation.data_files import kept, read_text, read_yaml
from advisor.foundation.resources import data_path


class Noun(BaseModel):
    """A frozen value that refuses unknown fields.

    Its validator is built on first use, because a short command needs only a few.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    def changed(self, **fields: Any) -> Self:
        """Return a copy with other values in some fields, which are not validated again."""
        return self.model_copy(update=fields)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the value as JSON text."""
        return self.model_dump_json(indent=indent)


def annotated(field: FieldInfo) -> Iterator[object]:
    """Yield every type in the annotation of a field, and every check beside one."""
    yield from _flat(field.annotation)
    yield from field.metadata


def _flat(annotation: Any) -> Iterator[object]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *checks = get_args(annotation)
        yield from _flat(inner)
        for check in checks:
            yield from check.metadata if isinstance(check, FieldInfo) else (check,)
    elif origin is None or origin is Literal:
        yield annotation
    else:
        yield origin
        for part in get_args(annotation):
            yield from _flat(part)


T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)

Cells = dict[str, str]

LARGEST: Final = 1e18
"""Largest number in the data files: no quantity of a model or machine exceeds it."""
RESTORE: Final = "Correct it there, or restore the file from git."

_REMEDIES: Mapping[str, str] = {
    "missing": "Add the field.",
    "extra_forbidden": "Unknown field: correct its name or remove it.",
    "model_type": "It must be a mapping of fields.",
    "dict_type": "It must be a mapping of fields.",
}


def refuse(file: str, value: object, remedy: str, *, entry: str = "", field: str = "") -> NoReturn:
    """Raise the error of a broken data file."""
    raise CatalogError(file=file, entry=entry, field=field, value=value, remedy=remedy) from None


def read_record(path: Path, record: type[R], *, under: str = "") -> R:
    """Read a YAML or JSON file that holds one record, or its only field ``under``."""

    def read() -> R:
        content = read_json(path) if path.suffix == ".json" else read_yaml(path)
        whole = {under: content} if under else content
        return checked(record.model_validate, whole, file=path.name)

    return kept(f"{path.stem}_{record.__name__}", read, path)


def shipped(name: str, record: type[R]) -> Callable[[], R]:
    """Return the function that reads a file of the data folder as one record, once.

    It raises `CatalogError` if the file is damaged.
    """
    return cache(lambda: read_record(data_path(name), record))


def read_mapping(file: str, kind: type[T]) -> T:
    """Read a YAML file of the data folder that holds a mapping of this type."""
    return checked(TypeAdapter(kind).validate_python, read_yaml(data_path(file)), file=file)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        refuse(path.name, error.msg, f"Correct the JSON there. {RESTORE}", entry=place)
    except (ValueError, RecursionError) as error:
        # More than 4,300 digits, or too deep nesting.
        refuse(path.name, str(error), f"Correct the JSON. {RESTORE}")


def read_cells(
    path: Path, columns: Sequence[str] | None = None, *, key: Sequence[str] = ()
) -> list[Cells]:
    """Read a table as text: one dict for each line, in file order.

    ``columns`` is the required header, by default any with unique names. Values of ``key`` together
    must be unique. Raises CatalogError if the file cannot be read, its header is wrong, it has no
    rows, a line has too many or too few cells, or two lines share a key.
    """
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    try:
        header = tuple(reader.fieldnames or ())
        right = tuple(columns or dict.fromkeys(header))
        if header != right or not {*key} <= {*header} or not header:
            wanted = ",".join(columns or ("names, each once", *key))
            value = shown(",".join(map(str, header)))
            refuse(path.name, value, f"The header must be {wanted}", entry="line 1")
        rows = list(_whole_rows(reader, path.name, len(header)))
    except csv.Error as error:
        place = f"line {reader.line_num}"
        refuse(path.name, str(error), f"Correct the quotes there. {RESTORE}", entry=place)
    if not rows:
        refuse(path.name, "no rows", "Restore the file from git.", entry="line 2")
    _check_unique(rows, key, file=path.name)
    return rows


def _whole_rows(reader: csv.DictReader[str], file: str, width: int) -> Iterable[Cells]:
    for row in reader:
        if None in row or None in row.values():
            value = shown(",".join(str(value) for value in row.values()))
            place = f"line {reader.line_num}"
            refuse(file, value, f"Give {width} columns; quote text with commas.", entry=place)
        yield row


def _check_unique(rows: Sequence[Cells], key: Sequence[str], *, file: str) -> None:
    seen: dict[tuple[str, ...], int] = {}
    for line, row in enumerate(rows, start=2):
        values = tuple(row[name] for name in key)
        if key and values in seen:
            refuse(
                file,
                " / ".join(values),
                f"Line {seen[values]} has the same key: remove one of the two.",
                entry=f"line {line}",
                field=", ".join(key),
            )
        seen[values] = line


def read_table(path: Path, record: type[R], *, key: Sequence[str] = ()) -> list[R]:
    """Read a CSV file of records of one kind; an empty cell leaves the field at its default.

    ``key`` is as in :func:`read_cells`.
    """

    def read() -> list[R]:
        rows = [
            {name: value for name, value in row.items() if value}
            for row in read_cells(path, tuple(record.model_fields), key=key)
        ]
        validate = TypeAdapter(list[record]).validate_python  # type: ignore[valid-type]
        return checked(validate, rows, file=path.name, rows=rows)

    return kept(f"{path.stem}_{record.__name__}", read, path)


def checked(
    validate: Callable[[object], T],
    content: object,
    *,
    file: str,
    entry: str = "",
    rows: Sequence[Cells] | None = None,
) -> T:
    """Return the result of ``validate``; its first error becomes a ``CatalogError`` with the place.

    ``entry`` holds the content, by default the first part of the error's own place; ``rows`` are
    the lines of a table.
    """
    try:
        return validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        entry, field = _place(("", entry, *first["loc"]) if entry else first["loc"], rows)
        kind = first["type"]
        refuse(
            file,
            # For these errors, pydantic's input is the whole entry.
            None if kind in {"missing", "value_error"} else shown(first["input"]),
            _REMEDIES.get(kind, first["msg"].removeprefix("Value error, ") + "."),
            entry=entry,
            field=field,
        )


def check_numbers(content: object, *, file: str, place: tuple[str, ...] = ()) -> None:
    """Refuse impossible numbers in content that no record describes.

    ``place`` holds the keys that lead to the content in the file.
    """
    if isinstance(content, dict):
        for name, value in content.items():
            check_numbers(value, file=file, place=(*place, str(name)))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            check_numbers(value, file=file, place=(*place, str(index)))
    elif isinstance(content, int | float) and not abs(content) <= LARGEST:
        entry, field = _place(place, None)
        remedy = f"Give a finite number up to {LARGEST:.0e}."
        refuse(file, shown(content), remedy, entry=entry, field=field)


def shown(value: object) -> object:
    """Return a value as a message shows it: a mapping by its kind, a long value by its start."""
    if isinstance(value, dict | list):
        return type(value).__name__
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number of {round(value.bit_length() * log10(2)):,} digits"
    return f"{value[:60]}..." if isinstance(value, str) and len(value) > 64 else value


def _place(loc: tuple[int | str, ...], rows: Sequence[Cells] | None) -> tuple[str, str]:
    """Return the name of the entry and the dotted path of the field in it."""
    if not loc:
        return "", ""
    if rows is not None:
        row = int(loc[0])
        name = rows[row].get("instance_type") or next(iter(rows[row].values()), "")
        return f"line {row + 2} ({name})", ".".join(str(part) for part in loc[1:])
    parts = [str(part) for part in loc if part != "[key]"]
    return (parts[1], ".".join(parts[2:])) if len(parts) > 1 else ("", parts[0])
