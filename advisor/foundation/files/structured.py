"""Reads YAML and JSON that hold only plain values, within bounds.

Anchors, aliases, tags outside YAML's core schema, duplicate keys, huge numbers and deep nesting
raise a `NotPlainError` that names the problem. Callers turn it into their own error.
"""

import json
from typing import Final, NoReturn

from advisor.errors import InputError

MAX_DEPTH: Final = 60
"""Most levels of nesting."""
MAX_VALUES: Final = 200_000
"""Most keys and values; lists and mappings count as values."""
MAX_DIGITS: Final = 30
"""Most digits of a whole number."""
TWICE: Final = "given twice"


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
        elif self.what == TWICE:
            what = f"{name} has the key {self.field!r} twice{place}"
        else:
            what = f"{name} holds {self.what}{place}"
        return InputError(what, value=value, allowed=allowed, remedy=self.remedy, field=field)


class MalformedError(NotPlainError):
    """A text is not YAML or JSON at all."""


def read_yaml(text: str) -> object:
    """Return the content of a YAML text, dates among its values; None if it is empty.

    Raises NotPlainError if the text is not YAML, or holds more than plain values within the bounds.

    >>> read_yaml("a: [1, two]")
    {'a': [1, 'two']}
    """
    from advisor.foundation.files.yaml_values import parsed  # PyYAML: a fiftieth of a short command

    return parsed(text)


def usable(word: str) -> None:
    """Refuse text that a file, a terminal or an address cannot hold."""
    if word.isprintable():
        return
    if "\0" in word:
        raise NotPlainError("a NUL character in text", "Remove it.")
    try:
        word.encode()
    except UnicodeEncodeError:
        no_surrogates()


def no_surrogates() -> NoReturn:
    """Refuse half a surrogate pair."""
    raise NotPlainError("half a surrogate pair in text", "Remove it.") from None


def many_digits() -> NoReturn:
    """Refuse a whole number of more than ``MAX_DIGITS`` digits."""
    raise NotPlainError(f"a whole number of more than {MAX_DIGITS} digits", "Round it.")


def read_json(text: str, *, deepest: int = MAX_DEPTH, most: int = MAX_VALUES) -> object:
    """Return the content of a JSON text with at most so many levels, keys and values.

    Raises NotPlainError if the text is not JSON, or exceeds the bounds.

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
        raise NotPlainError(TWICE, "Remove one of the two.", field=twice[:60])
    return found


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        many_digits()
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
                usable(item)
        if depth > deepest:
            _deep(deepest)
        if count > most:
            _many(most)
        level = below
