"""The shareable link: every input in the address, and a check of every value that comes back."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final
from urllib.parse import urlencode

from advisor.ui.inputs import DEFAULTS, Inputs, Task
from advisor.ui.reading import complaint, problem_of, shown, value_title
from advisor.ui.rules import RULES, Kind

SCHEMA_VERSION: Final = "1"
LIST_SEPARATOR: Final = "~"
"""Joins chosen providers or accelerators; occurs in no name and needs no escape in a link."""
LONGEST_CONFIG: Final = 6_000
"""Characters that a packed config.json may take in a link."""
LARGEST_CONFIG_BYTES: Final = 200_000
"""Size to which a config.json in a link may unpack. [bytes]"""
DEAREST_USD: Final = 1e13
"""A price in a link beyond this is no price. [USD]"""
ANSWER: Final = ("engine", "catalog", "usd")
"""What the sender saw, beside the inputs."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sender of a link saw."""

    engine: str
    catalog: str
    usd: float


@dataclass(frozen=True, slots=True)
class Opened:
    """A link, read: the inputs to use, what had to be corrected, and what the sender saw."""

    inputs: Inputs
    corrections: tuple[str, ...]
    seen: Seen | None


def encode(inputs: Inputs, *, engine: str, catalog: str, usd: float | None) -> dict[str, str]:
    """Return the parameters of a link: schema version, every input, and the answer now.

    A ``config.json`` that is too long for an address is left out; see `config_fits`.
    """
    parameters = {"v": SCHEMA_VERSION}
    for name, value in asdict(inputs).items():
        if name == "config":
            if value and config_fits(inputs):
                parameters[name] = _pack(value)
        else:
            parameters[name] = value if isinstance(value, str) else LIST_SEPARATOR.join(value)
    parameters |= {"engine": engine, "catalog": catalog}
    if usd is not None:
        parameters["usd"] = f"{usd:.2f}"
    return parameters


def address(base: str, parameters: Mapping[str, str]) -> str:
    """Return the whole link."""
    return f"{base.partition('?')[0]}?{urlencode(parameters)}"


def config_fits(inputs: Inputs) -> bool:
    """Return whether the pasted ``config.json`` is short enough for a link."""
    return len(_pack(inputs.config)) <= LONGEST_CONFIG


def decode(
    parameters: Mapping[str, str],
    *,
    providers: Callable[[], Collection[str]],
    accelerators: Callable[[], Collection[str]],
) -> Opened:
    """Read the parameters of a link; every one that cannot be used is named.

    Parameters
    ----------
    parameters : mapping
        As in the address.
    providers, accelerators : callable
        Return what can be chosen; called only where the link names some.

    Returns
    -------
    Opened
        Inputs that pass every check; a wrong value has become its default.
    """
    corrections: list[str] = []
    if parameters.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        corrections.append(
            f"The link was made for version {parameters['v'][:20]} of this page; this is version "
            f"{SCHEMA_VERSION}. Inputs that it does not know keep their defaults."
        )
    inputs = _with_task(parameters, corrections)
    for name, text in parameters.items():
        if name in ("v", "task", *ANSWER):
            continue
        if name not in RULES:
            corrections.append(f"{shown(name)} is no input of this page; it is ignored.")
            continue
        value, problem = _value(name, text, providers=providers, accelerators=accelerators)
        candidate = replace(inputs, **{name: value})  # type: ignore[arg-type]
        problem = problem or problem_of(candidate, name)
        if problem:
            default = value_title(name, getattr(DEFAULTS, name))
            corrections.append(f"{complaint(name, problem)} Now: {default}.")
        else:
            inputs = candidate
    return Opened(inputs, tuple(corrections), _seen(parameters))


def _with_task(parameters: Mapping[str, str], corrections: list[str]) -> Inputs:
    """The task comes first: what else is allowed depends on it."""
    task = parameters.get("task", DEFAULTS.task)
    if task in list(Task):
        return replace(DEFAULTS, task=task)
    options = RULES["task"].options
    corrections.append(f"Task: {shown(task)} is unknown. Now: {options[DEFAULTS.task]}.")
    return DEFAULTS


def _value(
    name: str,
    text: str,
    *,
    providers: Callable[[], Collection[str]],
    accelerators: Callable[[], Collection[str]],
) -> tuple[str | tuple[str, ...], str | None]:
    """Return the value of one parameter, or what is wrong with it."""
    if name == "config":
        config = _unpack(text)
        return config or "", None if config else "is damaged in the link."
    if name == "own_accelerator":
        known = text in accelerators()
        return text, None if known else f"must be in the catalog, not {shown(text)}."
    if RULES[name].kind is Kind.CHOICES:
        chosen = tuple(filter(None, text.split(LIST_SEPARATOR)))
        if not chosen:
            return (), None
        known_names = (providers if name == "providers" else accelerators)()
        unknown = [item for item in chosen if item not in known_names]
        if unknown:
            return (), f"must be in the catalog, not {', '.join(map(shown, unknown[:5]))}."
        return chosen, None
    return text, None


def _seen(parameters: Mapping[str, str]) -> Seen | None:
    if not all(name in parameters for name in ANSWER):
        return None
    try:
        usd = float(parameters["usd"])
    except ValueError:
        return None
    if not 0 <= usd < DEAREST_USD:
        return None
    return Seen(parameters["engine"][:20], parameters["catalog"][:20], usd)


def _pack(config: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(config.encode(), 9)).decode().rstrip("=")


def _unpack(text: str) -> str | None:
    """Undo `_pack` without trusting the sender: bounded in size, None where it is damaged."""
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, LARGEST_CONFIG_BYTES)
        return None if unpacker.unconsumed_tail else data.decode()
    except (binascii.Error, zlib.error, ValueError):
        return None
