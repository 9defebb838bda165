"""The question that every page asks about, as it stands in their addresses."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.forms.reading import problem_of, shown, value_title
from advisor.ui.forms.rules import RULES
from advisor.ui.session.links import (
    FIRST_PAGE,
    LIST_SEPARATOR,
    Field,
    Page,
    Read,
    choice,
    packed,
    unpack,
)

KEY: Final = "in_"
"""Prefix of the widget keys."""
SAVED: Final = f"{KEY}saved"
"""Session's key of the saved questions."""
MOST_SAVED: Final = 4

Names = Callable[[], Mapping[str, str] | Collection[str]]


ALIASES: Final = {
    "own_accelerator": ("card", "own_card"),
    "own_count": ("count",),
    "users": ("requests", "fits_requests"),
    "task": ("work", "own_work"),
    "model": ("own_model",),
    "usd_per_eur": ("own_usd_per_eur",),
}
"""What other pages and older links call an input."""


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
    others = {
        "why": choice("why_not", "Why not", None, names["why"]),
        "saved": Field(
            SAVED, "Saved questions", (), _unpack_saved, lambda held: packed(json.dumps(held))
        ),
    }
    return Page(FIRST_PAGE, fields | others)


def _unpack_saved(given: str) -> Read:
    try:
        found = json.loads(unpack(given) or "")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return (), "are damaged in the link."
    return tuple(found[:MOST_SAVED]), None


def _field(name: str, known: Names | None) -> Field:
    default = getattr(DEFAULTS, name)

    def read(given: str) -> Read:
        if name == "config":
            config = unpack(given)
            problem = None if config else "is damaged in the link."
            return config, problem or problem_of(replace(DEFAULTS, config=config or ""), name)
        if not RULES[name].several:  # older links say some choices by their titles
            offered = known() if known else RULES[name].options
            titles = dict(offered) if isinstance(offered, Mapping) else {}
            given = next((value for value, title in titles.items() if given == title), given)
        if known is None:
            return given, problem_of(replace(DEFAULTS, **{name: given}), name)
        separator = "+" if name == "own_accelerator" else LIST_SEPARATOR
        chosen = tuple(filter(None, given.split(separator)))
        unknown = [item for item in chosen if item not in known()]
        if unknown or (not chosen and default and not RULES[name].several):
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
        keeps_wrong=RULES[name].kind.parse is not None,
        aliases=ALIASES.get(name, ()),
    )
