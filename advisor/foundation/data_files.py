"""Reads the project's own data files, or raises ``CatalogError``; fills the pages of docs/."""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from advisor.errors import CatalogError, TransferError
from advisor.foundation.files import structured
from advisor.foundation.files.writing import rewritten
from advisor.foundation.resources import data_path

T = TypeVar("T")


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

    The values of a shipped file are `kept`; a user's file is read.
    """
    return kept(path.stem, partial(_parsed, path), path)


def kept(name: str, read: Callable[[], T], *files: Path) -> T:
    """Return what ``read`` makes of files, for shipped ones as it was kept, or kept from now on.

    ``files``: all that ``read`` uses; any of the data folder by default. Raises what ``read``
    raises.

    Reading and checking the shipped files takes a quarter of a short command. What they hold is
    therefore kept as Python keeps a compiled module: in the same folder, under the same rules for
    writing there, and only while files and code have the size and the time of their last change.
    """
    folder = data_path("")
    if any(file.parent != folder or not file.is_file() for file in files):
        return read()
    place = Path(cache_from_source(f"{folder / name}."))
    stamp = _code(), _stamp(files or os.scandir(folder))
    # A file that is missing, of another Python or cut off: the shipped files are read.
    with suppress(Exception), place.open("rb") as file:
        if pickle.load(file) == stamp:
            found: T = pickle.load(file)
            return found
    values = read()
    if not sys.dont_write_bytecode:
        with suppress(OSError, TransferError):
            place.parent.mkdir(parents=True, exist_ok=True)
            with rewritten(place) as fresh:
                pickle.dump(stamp, fresh)
                pickle.dump(values, fresh)
    return values


@cache
def _code() -> str:
    """Return what changes with the code, which reads and checks the shipped files."""
    from pydantic import VERSION

    folders = (folder for folder, _, _ in os.walk(Path(__file__).parent.parent))
    sources = sorted(folder for folder in folders if not folder.endswith("__pycache__"))
    return VERSION + "".join(_stamp(os.scandir(folder)) for folder in sources)


def _stamp(files: Iterable[Any]) -> str:
    """Return names, times of the last change and sizes of files."""
    stats = ((file.name, file.stat()) for file in files if file.is_file())
    return str(sorted((name, status.st_mtime_ns, status.st_size) for name, status in stats))


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


def page(name: str, **parts: object) -> str:
    """Return a page with its named parts."""
    return read_text(data_path("pages") / f"{name}.md").format(**parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; a column of numbers has a head that ends with a colon.

    >>> print(table(("card", "GB:"), [("h100", 80)]))
    | card | GB |
    | --- | --: |
    | h100 | 80 |
    """
    names = [head.removesuffix(":") for head in heads]
    rules = ["--:" if head.endswith(":") else "---" for head in heads]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (names, rules, *rows))


def items(lines: Iterable[str]) -> str:
    """Return a list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)
