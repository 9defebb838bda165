"""All exceptions of the project, with the sentences of data/refusals.yaml for most of them.

An exception reports a caller's mistake: what is wrong, the value, what is allowed, and the remedy.
A configuration that does not fit or is too slow is not an exception but a ``Rejection`` value.

No message is longer than ``MAX_MESSAGE`` or contains a control character.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from itertools import islice
from math import log10
from typing import Any, Final, Literal

MAX_MESSAGE: Final = 600
"""Longest message. [characters]"""
MAX_SHOWN: Final = 80
"""Longest shown value. [characters]"""
MAX_PART: Final = 180
"""Longest description of the problem, and longest remedy. [characters]"""
MAX_FIELD: Final = 160
"""Longest path of an input. [characters]"""
OF_THE_COMMAND_LINE: Final = r" \((?:--|host\.)[^)]*\)|; 'gpu-advisor [a-z]+'[^.;]*"
_MAX_BITS: Final = 256
_MAX_ITEMS: Final = 12
_MAX_LEVELS: Final = 3


class AdvisorError(ValueError):
    """Base class of all exceptions that this project raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message, MAX_MESSAGE))


class InputError(AdvisorError):
    """A value from the user cannot be used.

    It says ``what`` is wrong (``"tokens is negative"``), the given ``value``, what is ``allowed``,
    and as a ``remedy`` the next step. ``field`` is the dotted path of the input, so that an
    interface can show the message beside it.
    """

    def __init__(
        self, what: str, *, value: object, allowed: str, remedy: str, field: str = ""
    ) -> None:
        self.what, self.remedy = shortened(what, MAX_PART), shortened(remedy, MAX_PART)
        self.value, self.field = value, shortened(field, MAX_FIELD)
        said = f"{self.what}: got {shown(value)}; allowed: . {self.remedy}"
        self.allowed = shortened(allowed, MAX_MESSAGE - len(said), items=True)
        super().__init__(said.replace("; allowed: .", f"; allowed: {self.allowed}.", 1))

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild it from its parts in another process."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UnsupportedArchitectureError(InputError):
    """A model description is valid, but the engine does not support its architecture."""


class CatalogError(AdvisorError):
    """A data file is broken. The message names file, entry, field, value and remedy."""

    def __init__(self, *, file: str, entry: str, field: str, value: object, remedy: str) -> None:
        self.file, self.entry, self.field, self.value = file, entry, field, value
        self.remedy = remedy
        named = {"entry": entry, "field": field}
        place = ", ".join(f"{what} {shown(name)}" for what, name in named.items() if name)
        where = ": ".join(filter(None, (shortened(file, MAX_SHOWN), place)))
        super().__init__(f"{where}: got {'nothing' if value == '' else shown(value)}. {remedy}")


class ResourceError(AdvisorError):
    """A file that ships with the package is missing or unreadable."""


class TransferError(AdvisorError):
    """Data cannot be written or read: the disk is full, access is denied, a stream is closed."""

    outcome = ""
    """What stays as it was, between what went wrong and the next step."""

    def __init__(self, what: str, *, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}. {self.outcome}{remedy}")


class RefreshError(TransferError):
    """Live prices were not updated; the prices in use stay unchanged."""

    outcome = "The prices in use stay as they are. "


class ProbeError(AdvisorError):
    """A measurement of this machine failed. The message says which one and why."""


def shown(value: object) -> str:
    """Return a value as a message shows it, in at most ``MAX_SHOWN`` characters.

    >>> shown("x" * 100) == "'" + "x" * 76 + "..."
    True
    >>> shown(10**5000)
    'a whole number of about 5000 digits'
    """
    text = repr(_small(value.value if isinstance(value, Enum) else value, 0))
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def shortened(text: str, most: int, *, items: bool = False) -> str:
    """Return a text of at most ``most`` characters, without control characters.

    A list of ``items`` keeps the first ones and states the number of the others.

    >>> shortened("red, green, blue, yellow, black, white", 32, items=True)
    'red, green … and 4 more'
    """
    start = text[: most + 1]
    if not start.isprintable():
        start = "".join(map(_visible, start))
    if len(text) <= most and len(start) <= most:
        return start
    kept, comma, _ = start[: most - len(" … and 9,999 more")].rpartition(", ")
    if items and comma:
        return f"{kept} … and {text.count(', ') - kept.count(', '):,} more"
    return start[: most - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character == "\u00a0":
        return character
    return character.encode("unicode_escape").decode()


def _small(value: object, level: int) -> object:
    """Return as much of a value as fits into a message: all of it could fill the memory."""
    if isinstance(value, str | bytes):
        return value[:MAX_SHOWN]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return _Words(f"a whole number of about {round(value.bit_length() * log10(2))} digits")
    if level == _MAX_LEVELS and isinstance(value, dict | list | tuple | set | frozenset):
        return _Words("...")
    if isinstance(value, dict):
        few = islice(value.items(), _MAX_ITEMS)
        return {_small(key, level + 1): _small(item, level + 1) for key, item in few}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_small(item, level + 1) for item in islice(value, _MAX_ITEMS)]
        return tuple(items) if isinstance(value, tuple) else items
    return value


class _Words(str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def without_options(text: str) -> str:
    """Return a message without the options of the command line, for the page and reports.

    >>> without_options("sequences of 4,096 tokens (--sequence)")
    'sequences of 4,096 tokens'
    """
    return re.sub(OF_THE_COMMAND_LINE, "", text)


Part = Literal["what", "value", "allowed", "remedy", "field"]
"""Of an error."""


def refusal(entry: str, /, **facts: Any) -> InputError:
    """Return the error of an entry of the file, its sentences filled with facts.

    A fact with the name of one of the error's parts is that part: mostly the ``value``, and what
    is ``allowed`` where a list of the program says it. A list is written with commas.

    >>> str(refusal("no_number", value="ten", field="share")).partition(":")[0]
    'share is not a number'
    """
    value = {"value": facts.pop("value", None)}
    words = {name: _words(fact) for name, fact in facts.items()}
    said = {part: text.format(**words) for part, text in sentences()[entry].items()}
    given = {part: words[part] for part in ("allowed", "remedy", "field") if part in words}
    return InputError(**value | given | said)


def _words(fact: Any) -> Any:
    return ", ".join(map(str, fact)) if isinstance(fact, list | tuple | dict | frozenset) else fact


@cache
def sentences() -> dict[str, dict[Part, str]]:
    """Return the entries of the file."""
    # A command without an error reads no sentence.
    from advisor.foundation.noun import read_mapping

    return read_mapping("refusals.yaml", dict[str, dict[Part, str]])
