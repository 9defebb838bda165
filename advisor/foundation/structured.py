"""Reads YAML and JSON that hold only plain values, within bounds.

Anchors, aliases, tags outside YAML's core schema, duplicate keys, huge numbers and deep nesting
raise a `NotPlainError` that names the problem. Callers turn it into their own error.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

import yaml

from advisor.errors import InputError

if TYPE_CHECKING:
    from yaml import SafeLoader as FastLoader
else:
    # libyaml is ten times faster; PyYAML without it reads the same.
    FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_DEPTH: Final = 60
"""Most levels of nesting."""
MAX_VALUES: Final = 200_000
"""Most keys and values; lists and mappings count as values."""
MAX_DIGITS: Final = 30
"""Most digits of a whole number."""
MAX_NUMBER: Final = 100
"""Longest number with a decimal point. [characters]"""
KEPT_WORD: Final = 40
"""Longest word whose meaning is cached. [characters]"""

_RULES = yaml.SafeLoader("")
"""YAML's rules for the meaning of a plain word: number, truth value, null or text."""
_TAG: Final = "tag:yaml.org,2002:"
_CORE: Final = frozenset({"bool", "float", "int", "null", "str"})
_SPELLED: Final = {"int": "whole number", "float": "number", "bool": "truth value",
                   "timestamp": "date"}  # fmt: skip
_TWICE: Final = "given twice"
_WITHOUT: Final = "Write it without: this reader does not support it."


class NotPlainError(Exception):
    """A text is not YAML or JSON, or it holds more than plain values within the bounds.

    It says ``what`` is wrong (``an anchor or alias``), the next step as an instruction, its place
    counted from 1, and the key that causes it.
    """

    def __init__(
        self,
        what: str,
        remedy: str,
        *,
        line: int | None = None,
        column: int | None = None,
        field: str = "",
    ) -> None:
        self.what, self.remedy, self.field = what, remedy, field
        self.line, self.column = line, column
        super().__init__(what)

    @property
    def place(self) -> str:
        """Return the line, with the column if known; empty if neither is known."""
        column = f", column {self.column}" if self.column else ""
        return f"line {self.line}{column}" if self.line else ""

    def as_input_error(
        self, name: str, *, form: str, value: object, allowed: str, field: str = ""
    ) -> InputError:
        """Return an ``InputError`` for a text called ``name`` that should hold ``form``."""
        place = f" at {self.place}" if self.line else ""
        if isinstance(self, MalformedError):
            what = f"{name} is not valid {form}{place} ({self.what})"
        elif self.what == _TWICE:
            what = f"{name} has the key {self.field!r} twice{place}"
        else:
            what = f"{name} holds {self.what}{place}"
        return InputError(what, value=value, allowed=allowed, remedy=self.remedy, field=field)


class MalformedError(NotPlainError):
    """A text is not YAML or JSON at all."""


def read_yaml(text: str) -> object:
    """Return the content of a YAML text, dates among its values; None if it is empty.

    Raises
    ------
    NotPlainError
        If the text is not YAML, or holds more than plain values within the bounds.

    Notes
    -----
    The values are built from the parser's events. PyYAML's own nodes would take three times as
    long as the parsing.

    Examples
    --------
    >>> read_yaml("a: [1, two]")
    {'a': [1, 'two']}
    """
    try:
        text.encode()
        return _Builder(text).document()
    except UnicodeEncodeError:
        _no_surrogates()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise MalformedError(
            str(error.problem),
            "Correct the YAML there.",
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from None
    except yaml.YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise MalformedError(reason, "Correct the YAML.") from None


class _Builder:
    """Builds values from the parser's events of one text."""

    def __init__(self, text: str) -> None:
        self._next: Callable[[], yaml.Event] = yaml.parse(text, Loader=FastLoader).__next__
        self._values = 0

    def document(self) -> object:
        self._next()  # the stream starts
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        result = self._value(self._next(), 0)
        self._next()  # the document ends
        event = self._next()
        return (
            result
            if isinstance(event, yaml.StreamEndEvent)
            else _refuse(event, "a second document")
        )

    def _value(self, event: yaml.Event, depth: int) -> object:
        """Return the value that starts at ``event``, and read all events up to its end."""
        self._values += 1
        if self._values > MAX_VALUES:
            _refuse(event, f"more than {MAX_VALUES:,} values", "Give a shorter text.")
        if isinstance(event, yaml.ScalarEvent) and event.anchor is None:
            return _scalar(event)
        if isinstance(event, yaml.AliasEvent):
            _refuse(event, f"the alias *{str(event.anchor)[:40]}")
        if getattr(event, "anchor", None) is not None:
            _refuse(event, f"the anchor &{str(getattr(event, 'anchor', ''))[:40]}")
        assert isinstance(event, yaml.CollectionStartEvent)
        if depth == MAX_DEPTH:
            _refuse(event, f"more than {MAX_DEPTH} levels of nesting", "Nest it less deeply.")
        following = self._next
        if isinstance(event, yaml.SequenceStartEvent):
            _expect(event, "seq")
            items: list[object] = []
            while type(item := following()) is not yaml.SequenceEndEvent:
                items.append(self._value(item, depth + 1))
            return items
        _expect(event, "map")
        result: dict[object, object] = {}
        while type(name := following()) is not yaml.MappingEndEvent:
            if type(name) is not yaml.ScalarEvent:
                _refuse(name, "a key that is no plain value")
            key = self._value(name, depth + 1)
            if key in result:
                _refuse(name, _TWICE, "Remove one of the two.", field=str(key)[:60])
            try:
                result[key] = self._value(following(), depth + 1)
            except NotPlainError as error:
                error.field = error.field or str(key)[:60]
                raise
        return result


def _scalar(event: yaml.ScalarEvent) -> object:
    """Return the meaning of a word, quoted or not, or with a tag of the core schema."""
    word: str = event.value
    plain, quoted = event.implicit
    tag = None
    if not plain:
        tag = "str" if quoted else _short(event.tag)
        if tag not in _CORE:
            _refuse(event, f"the tag {tag[:40]}")
    try:
        if tag is None and len(word) <= KEPT_WORD:
            return _meaning(word)
        return _meant(word, tag)
    except NotPlainError as error:
        _refuse(event, error.what, error.remedy)
    except (yaml.YAMLError, AttributeError, ArithmeticError, LookupError, ValueError):
        # An impossible date, 0x without digits, !!int of a word.
        kind = tag or _resolved(word)
        what = f"{word[:40]!r}, which is no {_SPELLED.get(kind, 'value')}"
        _refuse(event, what, "Correct it, or put it in quotes.")


def _meant(word: str, tag: str | None) -> object:
    kind = tag or _resolved(word)
    if kind == "str":
        _usable(word)
        return word
    digits = sum(character.isalnum() for character in word)
    if kind == "int" and digits > MAX_DIGITS:
        _many_digits()
    if kind == "float" and len(word) > MAX_NUMBER:
        raise NotPlainError(f"a number of more than {MAX_NUMBER} characters", "Round it.")
    if kind == "merge":
        raise NotPlainError("a merge key (<<)", _WITHOUT)
    return _RULES.construct_object(yaml.ScalarNode(_TAG + kind, word))


# Bounded, so that users' words do not stay in memory.
_meaning = lru_cache(maxsize=8192)(lambda word: _meant(word, None))


def _resolved(word: str) -> str:
    tag: str = _RULES.resolve(yaml.ScalarNode, word, (True, False))  # type: ignore[no-untyped-call]
    return tag.removeprefix(_TAG)


def _short(tag: str | None) -> str:
    return "!" if tag is None else tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _expect(event: yaml.CollectionStartEvent, kind: str) -> None:
    if event.tag is not None and _short(event.tag) != kind:
        _refuse(event, f"the tag {_short(event.tag)[:40]}")


def _usable(word: str) -> None:
    """Refuse text that a file, a terminal or an address cannot hold."""
    if word.isprintable():
        return
    if "\0" in word:
        raise NotPlainError("a NUL character in text", "Remove it.")
    try:
        word.encode()
    except UnicodeEncodeError:
        _no_surrogates()


def _no_surrogates() -> NoReturn:
    raise NotPlainError("half a surrogate pair in text", "Remove it.") from None


def _many_digits() -> NoReturn:
    raise NotPlainError(f"a whole number of more than {MAX_DIGITS} digits", "Round it.")


def _refuse(event: yaml.Event, what: str, remedy: str = _WITHOUT, *, field: str = "") -> NoReturn:
    mark = event.start_mark
    raise NotPlainError(what, remedy, line=mark.line + 1 if mark else None, field=field) from None


def read_json(text: str, *, deepest: int = MAX_DEPTH, most: int = MAX_VALUES) -> object:
    """Return the content of a JSON text with at most so many levels, keys and values.

    Raises
    ------
    NotPlainError
        If the text is not JSON, or exceeds the bounds.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    # Checked before parsing, so that a huge text cannot fill the memory. Few brackets and commas
    # are inside strings.
    if text.count("[") + text.count("{") > most or text.count(",") > most:
        _many(most)
    try:
        parsed: object = json.loads(
            text, object_pairs_hook=_unique, parse_int=_whole, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise MalformedError(
            error.msg, "Correct the JSON there.", line=error.lineno, column=error.colno
        ) from None
    except RecursionError:
        _deep(deepest)
    _measure(parsed, deepest, most)
    return parsed


def _constant(literal: str) -> float:
    """Accept infinities: published configurations have them in fields that no size depends on."""
    if literal == "NaN":
        raise NotPlainError("NaN", "Write a number.")
    return float(literal)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise NotPlainError(_TWICE, "Remove one of the two.", field=twice[:60])
    return found


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        _many_digits()
    return int(digits)


def _deep(deepest: int) -> NoReturn:
    what = f"more than {deepest} levels of nesting"
    raise NotPlainError(what, "Nest it less deeply.") from None


def _many(most: int) -> NoReturn:
    raise NotPlainError(f"more than {most:,} values", "Give a shorter text.") from None


def _measure(value: object, deepest: int, most: int) -> None:
    """Refuse content that is too deep or too large (without recursion), and broken text."""
    depth, count, level = 0, 0, [value]
    while level:
        depth += 1
        below: list[object] = []
        count += len(level)
        for item in level:
            if isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                _usable(item)
        if depth > deepest:
            _deep(deepest)
        if count > most:
            _many(most)
        level = below
