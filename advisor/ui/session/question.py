"""The inputs of the page *Advisor* as they stand in its address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.forms.reading import EXAMPLES, problem_of, shown, value_title
from advisor.ui.forms.rules import RULES
from advisor.ui.session.links import LIST_SEPARATOR, Field, Page, Read, choice, packed, unpack

KEY: Final = "in_"
"""Prefix of the widget keys."""

Names = Callable[[], Mapping[str, str] | Collection[str]]


def question(*, providers: Names, accelerators: Callable[[], Mapping[str, str]]) -> Page:
    """Return the inputs; what can be chosen is looked up only where an address names some."""
    known: dict[str, Names] = {
        "providers": providers,
        "accelerators": accelerators,
        "own_accelerator": accelerators,
    }
    for name, rules in RULES.items():
        if rules.several and rules.options:
            known[name] = partial(dict, rules.options)
    fields = {name: _field(name, known.get(name)) for name in RULES}
    names = {"why": lambda: {name: name for name in accelerators().values()}}
    return Page("advisor", fields | {"why": choice("why_not", "Why not", None, names["why"])})


def _field(name: str, known: Names | None) -> Field:
    default = getattr(DEFAULTS, name)

    def read(given: str) -> Read:
        if name == "config":
            config = unpack(given)
            problem = None if config else "is damaged in the link."
            return config, problem or problem_of(replace(DEFAULTS, config=config or ""), name)
        if known is None:
            return given, problem_of(replace(DEFAULTS, **{name: given}), name)
        chosen = tuple(filter(None, given.split(LIST_SEPARATOR)))
        unknown = [item for item in chosen if item not in known()]
        if unknown or (not chosen and not RULES[name].several):
            names = ", ".join(map(shown, unknown[:5])) or shown(given)
            where = "one of those listed" if RULES[name].options else "in the catalog"
            return default, f"must be {where}, not {names}."
        return chosen if RULES[name].several else given, None

    def write(value: str | tuple[str, ...]) -> str | None:
        if isinstance(value, tuple):
            return LIST_SEPARATOR.join(value)
        return packed(value) if name == "config" else value

    return Field(
        KEY + name,
        RULES[name].label,
        default,
        read,
        write,
        title=lambda value: value_title(name, value),
        keeps_wrong=RULES[name].kind in EXAMPLES,
    )
