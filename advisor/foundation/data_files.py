"""Reads the project's own data files. A broken file raises ``CatalogError``."""

from pathlib import Path
from typing import NoReturn

from advisor.errors import CatalogError


def read_text(path: Path) -> str:
    """Return the text of a data file, without a byte order mark.

    Raises
    ------
    CatalogError
        If the file cannot be read, is not UTF-8, has NUL bytes, or does not end with a newline.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        _broken(path, str(error), "The file must exist and hold UTF-8 text; restore it from git.")
    if "\0" in text:
        place = f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}"
        _broken(path, "a NUL byte", "Restore the file from git.", entry=place)
    if text and not text.endswith("\n"):
        remedy = "The last line is not ended, so it may be cut off: restore the file, or end it."
        place = f"line {text.count(chr(10)) + 1}"
        _broken(path, text.rpartition("\n")[2][-40:], remedy, entry=place)
    return text


def read_yaml(path: Path) -> object:
    """Return the content of a YAML file; None if it is empty.

    Raises
    ------
    CatalogError
        If it cannot be read, is not YAML, gives a key twice, or uses anchors or tags; the message
        names the line.
    """
    from advisor.foundation.structured import NotPlainError  # PyYAML, which JSON does not need
    from advisor.foundation.structured import read_yaml as parsed

    try:
        return parsed(read_text(path))
    except NotPlainError as error:
        _broken(path, error.what, error.remedy, entry=error.place, field=error.field)


def _broken(
    path: Path, value: object, remedy: str, *, entry: str = "", field: str = ""
) -> NoReturn:
    raise CatalogError(
        file=path.name, entry=entry, field=field, value=value, remedy=remedy
    ) from None
