"""Builds plain values from a YAML parser's events; `structured` says what is plain.

PyYAML's own nodes would take three times as long as the parsing.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

import yaml

from advisor.foundation.files.structured import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    TWICE,
    MalformedError,
    NotPlainError,
    many_digits,
    no_surrogates,
    usable,
)

if TYPE_CHECKING:
    from yaml import SafeLoader as FastLoader
else:
    # libyaml is ten times faster; PyYAML without it reads the same.
    FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

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
_WITHOUT: Final = "Write it without: this reader does not support it."


def parsed(text: str) -> object:
    """Return the content of a YAML text; None if it is empty.

    Raises NotPlainError if the text is not YAML, or holds more than plain values within the bounds.
    """
    try:
        text.encode()
        return _Builder(text).document()
    except UnicodeEncodeError:
        no_surrogates()
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
                _refuse(name, TWICE, "Remove one of the two.", field=str(key)[:60])
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
        usable(word)
        return word
    digits = sum(character.isalnum() for character in word)
    if kind == "int" and digits > MAX_DIGITS:
        many_digits()
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


def _refuse(event: yaml.Event, what: str, remedy: str = _WITHOUT, *, field: str = "") -> NoReturn:
    mark = event.start_mark
    raise NotPlainError(what, remedy, line=mark.line + 1 if mark else None, field=field) from None
