"""Reads the project's own data files. A broken file raises ``CatalogError``."""

import pickle
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final, NoReturn

from advisor.errors import CatalogError, TransferError
from advisor.foundation import structured
from advisor.foundation.resources import data_path
from advisor.foundation.writing import rewritten

_READERS: Final = tuple(
    Path(__file__).with_name(f"{name}.py") for name in ("data_files", "structured", "yaml_values")
)
"""Code whose change makes kept values old."""


def read_text(path: Path) -> str:
    """Return the text of a data file, without a byte order mark.

    Raises CatalogError if the file cannot be read, is not UTF-8, has NUL bytes, or does not end
    with a newline.
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

    Raises CatalogError if it cannot be read, is not YAML, gives a key twice, or uses anchors or
    tags; the message names the line.

    Notes
    -----
    Reading the shipped files takes a tenth of a short command. Their values are therefore kept as
    Python keeps a compiled module: in the same folder, under the same rules for writing there,
    and only while the file has the size and the time of its last change. A user's file is read.
    """
    kept = _kept_at(path)
    if kept is None:
        return _parsed(path)
    stamp = [(file.stat().st_mtime_ns, file.stat().st_size) for file in (path, *_READERS)]
    # A file that is missing, of another Python or cut off: the text is read.
    with suppress(Exception), kept.open("rb") as file:
        stamped, values = pickle.load(file)
        if stamped == stamp:
            return values
    values = _parsed(path)
    if not sys.dont_write_bytecode:
        with suppress(OSError, TransferError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with rewritten(kept) as fresh:
                pickle.dump((stamp, values), fresh)
    return values


def _kept_at(path: Path) -> Path | None:
    """Return where the values of a shipped file are kept; None for a user's file."""
    shipped = path.is_file() and path.parent == data_path("")
    return Path(cache_from_source(str(path))) if shipped else None


def _parsed(path: Path) -> object:
    try:
        return structured.read_yaml(read_text(path))
    except structured.NotPlainError as error:
        _broken(path, error.what, error.remedy, entry=error.place, field=error.field)


def _broken(
    path: Path, value: object, remedy: str, *, entry: str = "", field: str = ""
) -> NoReturn:
    raise CatalogError(
        file=path.name, entry=entry, field=field, value=value, remedy=remedy
    ) from None
