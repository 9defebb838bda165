"""Reads the project's own data files: text, and YAML four times as fast as PyYAML builds it.

The subset without anchors and tags: what a person writes by hand. Whatever is broken becomes a
``CatalogError``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import yaml

from advisor.errors import CatalogError

if TYPE_CHECKING:
    from yaml import SafeLoader as FastLoader
else:
    # libyaml is ten times faster; PyYAML without it reads the same.
    FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_RULES = yaml.SafeLoader("")
"""What a plain word means: a number, a truth value, nothing, or text."""


class _UnwantedError(Exception):
    """What is valid YAML and yet wrong in a data file."""

    def __init__(self, event: yaml.Event, value: str, remedy: str, field: str = "") -> None:
        self.value, self.remedy, self.field = value, remedy, field
        self.mark = event.start_mark
        super().__init__(value)


def read_text(path: Path) -> str:
    """Return the text of a data file, without the mark that editors put before UTF-8.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str

    Raises
    ------
    CatalogError
        If it cannot be read, is no UTF-8, has NUL bytes, or ends within a line.
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
        remedy = "It was cut off within its last line: restore it from git, or end that line."
        place = f"line {text.count(chr(10)) + 1}"
        _broken(path, text.rpartition("\n")[2][-40:], remedy, entry=place)
    return text


def read_yaml(path: Path) -> object:
    """Return what a YAML file holds; None where it is empty.

    Parameters
    ----------
    path : Path

    Returns
    -------
    object
        Mappings, lists and plain values.

    Raises
    ------
    CatalogError
        If it cannot be read, is not YAML, gives a key twice, or uses anchors or tags; the message
        names the line.

    Notes
    -----
    Built from the parser's events: PyYAML's own way over nodes takes three times as long as
    parsing does.
    """
    text = read_text(path)
    try:
        return _document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        _broken(path, error.problem, "Correct the YAML there.", entry=place)
    except yaml.YAMLError as error:
        _broken(path, str(error), "Correct the YAML.")
    except RecursionError:
        _broken(path, "brackets within brackets", "Correct the YAML.")
    except _UnwantedError as error:
        place = f"line {error.mark.line + 1}" if error.mark else ""
        _broken(path, error.value, error.remedy, entry=place, field=error.field)


def _broken(
    path: Path, value: object, remedy: str, *, entry: str = "", field: str = ""
) -> NoReturn:
    raise CatalogError(
        file=path.name, entry=entry, field=field, value=value, remedy=remedy
    ) from None


def _document(text: str) -> object:
    following = yaml.parse(text, Loader=FastLoader).__next__
    following()  # the stream starts
    if isinstance(following(), yaml.StreamEndEvent):
        return None
    result = _value(following(), following)
    following()  # the document ends
    event = following()
    return result if isinstance(event, yaml.StreamEndEvent) else _refuse(event, "a second document")


def _value(event: yaml.Event, following: Callable[[], yaml.Event]) -> object:
    """Return the value that starts at ``event``, having read the events up to its end."""
    if isinstance(event, yaml.ScalarEvent) and event.anchor is None:
        plain, quoted = event.implicit
        if plain:
            try:
                return _meaning(event.value)
            except (ValueError, OverflowError):
                value, remedy = event.value[:40], "No such date or number: correct it, or quote it."
                raise _UnwantedError(event, value, remedy) from None
        return event.value if quoted else _refuse(event, "a tag")
    if not isinstance(event, yaml.CollectionStartEvent) or event.anchor is not None:
        _refuse(event, "an anchor or alias")
    if event.tag is not None:
        _refuse(event, "a tag")
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[object] = []
        while not isinstance(item := following(), yaml.SequenceEndEvent):
            items.append(_value(item, following))
        return items
    result: dict[object, object] = {}
    while not isinstance(name := following(), yaml.MappingEndEvent):
        if not isinstance(name, yaml.ScalarEvent):
            _refuse(name, "a key that is no plain value")
        key = _value(name, following)
        if key in result:
            raise _UnwantedError(name, "given twice", "Remove one of the two.", str(key))
        try:
            result[key] = _value(following(), following)
        except _UnwantedError as error:
            error.field = error.field or str(key)
            raise
    return result


@cache
def _meaning(word: str) -> object:
    tag = _RULES.resolve(yaml.ScalarNode, word, (True, False))  # type: ignore[no-untyped-call]
    return _RULES.construct_object(yaml.ScalarNode(tag, word))


def _refuse(event: yaml.Event, what: str) -> NoReturn:
    raise _UnwantedError(event, what, "Write it without: this reader knows no such thing.")
