"""What a page asks, in its address: short parameters, and a check of each that comes back.

Inputs at their defaults are left out. Nothing here knows the session: `address` does.
"""

import base64
import binascii
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Final
from urllib.parse import urlencode

from advisor.foundation.record import record
from advisor.ui.forms.reading import shown

SCHEMA_VERSION: Final = "1"
FIRST_PAGE: Final = "advisor"
LIST_SEPARATOR: Final = "~"
"""Joins chosen providers or accelerators; occurs in no name and needs no escape in a link."""
LONGEST_CONFIG: Final = 6_000
"""Characters that a packed config.json may take in a link."""
LARGEST_CONFIG_BYTES: Final = 200_000
"""Size to which a config.json in a link may unpack. [bytes]"""
LONGEST_TEXT: Final = 200
"""Characters that a line of free text may have."""
MOST_PARAMETERS: Final = 200
MOST_CORRECTIONS: Final = 12
DEAREST_USD: Final = 1e13
"""A price in a link beyond this is no price. [USD]"""
ANSWER: Final = ("engine", "catalog", "usd")
"""What the sender saw, beside the inputs."""

Value = str | int | float | bool | tuple[str, ...] | None
Values = Mapping[str, Value]
Read = tuple[Value, str | None]
"""A value, and what is wrong with it: the end of a sentence that the label begins."""


@record
class Field:
    """One input of a page: the key of its widget, its default, and how the address spells it."""

    key: str
    label: str
    default: Value
    read: Callable[[str], Read]
    write: Callable[[Any], str | None] = str
    """None where the value is too long for an address."""
    title: Callable[[Any], str] = str
    """The value as the page shows it."""
    keeps_wrong: bool = False
    """Whether the box shows a wrong text again, with what is wrong about it."""
    aliases: tuple[str, ...] = ()
    """Other names in older links and on other pages."""
    options: Callable[[], Mapping[Any, str]] | None = None
    """Value to title, where it is one of some."""
    bounds: tuple[float, float | None] | None = None
    """The least and the most, where it is a number."""


@record
class Page:
    """The inputs of one page, by their names in the address."""

    name: str
    fields: Mapping[str, Field]

    @property
    def path(self) -> str:
        """Where it is, below the first page."""
        return "" if self.name == FIRST_PAGE else self.name.replace("_", "-")


@record
class Seen:
    """What the sender of a link saw."""

    engine: str
    catalog: str
    usd: float


@record
class Opened:
    """An address, read: the inputs to use, what had to be corrected, and what the sender saw."""

    values: Values
    corrections: tuple[str, ...]
    seen: Seen | None


def text(key: str, label: str) -> Field:
    """Return the field of a line of free text."""

    def read(given: str) -> Read:
        return given, None if short(given) else f"must be a short line of text, not {shown(given)}."

    return Field(key, label, "", read, title=lambda value: value or "any")


def short(value: object) -> bool:
    """Return whether a value is a line of text that an address holds and a page shows."""
    return isinstance(value, str) and len(value) <= LONGEST_TEXT and value.isprintable()


def choice(key: str, label: str, default: Value, options: Callable[[], Mapping[Any, str]]) -> Field:
    """Return the field of one of some options: value to title, either of which names it."""

    def read(given: str) -> Read:
        titles = options()
        for value in titles:
            if given in (str(value), titles[value]):
                return value, None
        return default, f"must be one that the page offers, not {shown(given)}."

    def title(value: Any) -> str:
        return options().get(value, "none")

    return Field(key, label, default, read, title=title, options=options)


def number(
    key: str, label: str, default: float | None, low: float, high: float | None = None
) -> Field:
    """Return the field of a number within bounds; whole where its default is."""
    counted = isinstance(default, int)

    def read(given: str) -> Read:
        try:
            value = float(given)
        except ValueError:
            return default, f"must be a number, not {shown(given)}."
        most = math.inf if high is None else high
        if not math.isfinite(value) or not low <= value <= most:
            bounds = f"at least {low:,g}" if high is None else f"{low:,g} to {high:,g}"
            return default, f"must be {bounds}, not {shown(given)}."
        if not counted:
            return value, None
        whole = value == int(value)
        return int(value), None if whole else f"must be a whole number, not {shown(given)}."

    return Field(
        key,
        label,
        default,
        read,
        write=lambda value: f"{value:.15g}",
        title=lambda value: "its default" if value is None else f"{value:,g}",
        bounds=(low, high),
    )


def flag(key: str, label: str) -> Field:
    """Return the field of a switch that is off by default."""
    words = {True: "yes", False: "no"}
    yes_or_no = choice(key, label, False, lambda: words)
    return replace(yes_or_no, write=words.__getitem__, options=None)


def encode(page: Page, values: Values, *, whole: bool = False) -> dict[str, str]:
    """Return the parameters of an address: the inputs that differ from their defaults.

    ``whole`` states the defaults as well, so that a link that is sent keeps its question when a
    default changes. A ``config.json`` that is too long for an address is left out; see `packed`.
    """
    held = {name: values.get(name, field.default) for name, field in page.fields.items()}
    stated = {
        name: field.write(held[name])
        for name, field in page.fields.items()
        if held[name] != field.default or (whole and held[name])
    }
    return {name: spelled for name, spelled in stated.items() if spelled is not None}


def with_answer(
    parameters: Mapping[str, str], *, engine: str, catalog: str, usd: float | None
) -> dict[str, str]:
    """Return parameters and what the sender of the link sees now."""
    seen = {"v": SCHEMA_VERSION, **parameters, "engine": engine, "catalog": catalog}
    return seen if usd is None else seen | {"usd": f"{usd:.2f}"}


def address(base: str, parameters: Mapping[str, str]) -> str:
    """Return the whole link."""
    return f"{base.partition('?')[0]}?{urlencode(parameters)}"


def decode(page: Page, parameters: Mapping[str, str]) -> Opened:
    """Read the parameters of an address; every one that cannot be used is named.

    A widget's key stands for its name: older links say it so. The inputs pass every check; a wrong
    value has become its default, or stays if its box says what is wrong about it.
    """
    corrections: list[str] = []
    if parameters.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        corrections.append(
            f"The link was made for version {shown(parameters['v'])} of this page; this is version "
            f"{SCHEMA_VERSION}. Inputs that it does not know keep their defaults."
        )
    names = {alias: name for name, field in page.fields.items() for alias in field.aliases}
    names |= {field.key: name for name, field in page.fields.items()}
    names |= {name: name for name in page.fields}
    values = {name: field.default for name, field in page.fields.items()}
    if len(parameters) > MOST_PARAMETERS:
        corrections.append(f"The link has {len(parameters):,} values; it is ignored.")
        parameters = {}
    for given, spelled in parameters.items():
        if given in ("v", *ANSWER):
            continue
        name = names.get(given)
        if name is None:
            corrections.append(f"{shown(given)} is no input of this page; it is ignored.")
            continue
        field = page.fields[name]
        value, problem = _bounded(field, spelled)
        if problem and field.keeps_wrong and short(spelled):
            values[name] = spelled
        elif problem:
            told = f"{field.label} {problem}" if problem[:1].islower() else problem
            corrections.append(f"{told} Now: {field.title(field.default)}.")
        else:
            values[name] = value
    if more := len(corrections[MOST_CORRECTIONS:]):
        corrections[MOST_CORRECTIONS:] = [f"And {more:,} more."]
    return Opened(values, tuple(corrections), _seen(parameters))


def _bounded(field: Field, spelled: str) -> Read:
    if len(spelled) > LONGEST_CONFIG:
        return field.default, f"is too long for a link: {len(spelled):,} characters."
    return field.read(spelled)


def _seen(parameters: Mapping[str, str]) -> Seen | None:
    if not all(name in parameters for name in ANSWER):
        return None
    try:
        usd = float(parameters["usd"])
        prices = date.fromisoformat(parameters["catalog"]).isoformat()
    except ValueError:
        return None
    if not 0 <= usd < DEAREST_USD:
        return None
    return Seen(parameters["engine"][:20], prices, usd)


def packed(config: str) -> str | None:
    """Return a ``config.json`` in few characters; None where an address cannot hold it."""
    data = config.encode()
    if len(data) > LARGEST_CONFIG_BYTES:
        return None
    text = base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")
    return text if len(text) <= LONGEST_CONFIG else None


def unpack(text: str) -> str | None:
    """Undo `packed` without trusting the sender: bounded in size, None where it is damaged."""
    try:
        compressed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(compressed, LARGEST_CONFIG_BYTES)
        return None if unpacker.unconsumed_tail else data.decode()
    except (binascii.Error, zlib.error, ValueError):
        return None
