"""Checks of names and texts from users, files and price feeds.

A name that passes cannot control a terminal, become a spreadsheet formula or act as an option of
a program. The nouns use these checks as types, so that every field has them. A check returns the
text unchanged, or raises ``InputError``, whose message calls it ``field``.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, ValidationInfo

from advisor.errors import refusal

MAX_NAME: Final = 200
"""Longest name. [characters]"""
MAX_PATH: Final = 1_024
"""Longest path: the limit of macOS; Linux allows four times as much. [characters]"""
MAX_TEXT: Final = 10_000
"""Longest sentence or note. [characters]"""
FORMULA: Final = "=+-@\uff1d\uff0b\uff0d\uff20"
"""First characters that turn a spreadsheet cell into a formula, full-width forms included; ``-``
also starts an option."""
_FORMULA_SIGNS: Final = tuple(FORMULA)
_PART: Final = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.-]{0,94}[0-9A-Za-z_])?", re.ASCII)


def printable(text: str, *, field: str, limit: int = MAX_TEXT) -> str:
    """Check that a text has at most ``limit`` characters and that all of them can be printed.

    Control characters, line breaks of any alphabet, marks that change the direction of writing,
    lone surrogates and unassigned characters cannot.

    >>> printable("Llama 3.1 8B", field="name")
    'Llama 3.1 8B'
    """
    if len(text) > limit:
        raise refusal("name_too_long", value=text, name=field, limit=limit)
    bad = None if text.isprintable() else _unprintable(text)
    if bad is not None:
        raise refusal("name_unprintable", value=text, name=field, code=ord(bad))
    return text


def display_name(text: str, *, field: str) -> str:
    """Check that a name is safe in a table, a sentence, a comment or a script.

    It is `printable`, has at most 200 characters, and does not start like an option or a formula.

    >>> display_name("Qwen3 (30B)", field="name")
    'Qwen3 (30B)'
    """
    printable(text, field=field, limit=MAX_NAME)
    if text.lstrip().startswith(_FORMULA_SIGNS):
        raise refusal("name_like_option", value=text, name=field)
    return text


def path_name(text: str, *, field: str) -> str:
    """Check that a path is safe to pass to a program.

    It is not empty, `printable`, at most 1,024 characters long, and does not start like an option.

    >>> path_name("models/config.json", field="model.config")
    'models/config.json'
    """
    printable(text, field=field, limit=MAX_PATH)
    if not text.strip() or text.startswith("-"):
        raise refusal("no_path", value=text, name=field)
    return text


def is_hub_id(text: str) -> bool:
    """Return whether a text is ``organisation/name`` or a plain name by the hub's own rules.

    Letters, digits and ``- _ .``, at most 96 in each part, no sign at either end of one, neither
    ``--`` nor ``..``, and no ``.git`` at the end (``huggingface_hub``, ``validate_repo_id``, read
    2026-11-22).

    >>> [is_hub_id(text) for text in ("Qwen/Qwen3-8B", "gpt2", "-x/y", "a/b/c", "a/b--c")]
    [True, True, False, False, False]
    """
    parts = text.split("/")
    ends = text.endswith(".git") or "--" in text or ".." in text
    return not ends and len(parts) <= 2 and all(_PART.fullmatch(part) for part in parts)


def hub_id(text: str, *, field: str) -> str:
    """Check that a hub id is ``organisation/name``."""
    if "/" not in text or not is_hub_id(text):
        raise refusal("no_hub_id", value=text, name=field)
    return text


def weights_name(text: str, *, field: str) -> str:
    """Check a hub id or a path; launched programs accept both."""
    return text if is_hub_id(text) else path_name(text, field=field)


def visible(text: str) -> str:
    r"""Return a text on one line, with unprintable characters written as escapes.

    >>> visible("one\ntwo")
    'one\\x0atwo'
    """
    if text.isprintable():
        return text
    return "".join(
        _spelled(character) if _unprintable(character) else character for character in text
    )


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _unprintable(text: str) -> str | None:
    """Return the first unprintable character; blanks of every width count as printable."""
    others = (one for one in text if not one.isprintable() and unicodedata.category(one) != "Zs")
    return next(others, None)


def _checked_by(check: Callable[..., str]) -> AfterValidator:
    """Return a check as a type's, which knows the name of its field."""

    def named(text: str, info: ValidationInfo) -> str:
        return check(text, field=info.field_name or "the text")

    return AfterValidator(named)


Text = Annotated[str, _checked_by(printable)]
"""A sentence or a note; may be empty."""
Name = Annotated[str, _checked_by(display_name)]
"""A name or a key; may be empty."""


class Reaches(Enum):
    """What a field makes the machine that reads it do; `case_files` refuses these fields."""

    FILE = auto()
    """Open the file that it names."""
    FILE_UNLESS_CONTENT = auto()
    """Open a file, unless the text `holds_content`."""
    HUB = auto()
    """Download a model."""


def holds_content(text: str) -> bool:
    r"""Return whether a text is the content of a file, not its path.

    >>> [holds_content(text) for text in ('{"model_type": "llama"}', "a: 1\nb: 2", "config.json")]
    [True, True, False]
    """
    return "\n" in text or text.lstrip("\ufeff").lstrip().startswith(("{", "["))


PathName = Annotated[str, _checked_by(path_name), Reaches.FILE]
"""A path of a file or folder, checked."""
PathOrContent = Annotated[str, Reaches.FILE_UNLESS_CONTENT]
"""A path, or what the file holds."""
HubId = Annotated[str, _checked_by(hub_id), Reaches.HUB]


def check_known(name: str, known: Iterable[str], *, what: str, field: str = "") -> None:
    """Refuse a name that is none of those known; the message lists them."""
    names = [*known]
    if name not in names:
        raise refusal("unknown_name", value=name, allowed=names, field=field, what=what)


def one_of(
    what: str, known: Collection[str], spelled: Mapping[str, str] = MappingProxyType({})
) -> AfterValidator:
    """Return the check that a name is one of those known, in letters of any case.

    ``spelled``: other words for some of them.
    """

    def check(value: str) -> str:
        name = spelled.get(value.lower(), value.lower())
        if name not in known:
            raise ValueError(f"unknown {what} {value!r}; choose one of {', '.join(known)}")
        return name

    return AfterValidator(check)
