"""Options of each command, built from what the nouns of a case declare."""

import argparse
import re
from collections.abc import Iterable
from typing import Final

from advisor.foundation.parsing import parse_owned
from advisor.nouns.case import case_inputs
from advisor.nouns.inputs import Declared, Reads, Task

TASKS: Final = {
    "pretrain": Task.PRETRAIN,
    "finetune": Task.FULL,
    "lora": Task.LORA,
    "qlora": Task.QLORA,
    "serve": Task.SERVE,
}
"""Words behind ``--task``."""
INTERRUPTIONS: Final = "renting.interruptions_per_hour"
QUOTE: Final = "renting.usd_per_hour"
PLACE: Final = "owning.place"
"""Whose grid makes the carbon of the energy."""
HOSTED: Final = tuple(
    f"renting.{name}"
    for name in (
        "api",
        "api_usd_per_million",
        "api_input_usd_per_million",
        "api_cached_usd_per_million",
        "api_cached_share",
    )
)
"""What a hosted model asks, beside which machines are shown."""
BUDGET: Final = "limits.budget_usd"
SEARCHED: Final = ("limits.accelerators", "limits.max_accelerators")
"""Limits that only a search among accelerators has."""

_WORK: Final = {
    "how it is done": ("model.pruning", "workload"),
    "shape of a model given by its parameter count": ("model.shape",),
}
_COMPUTER: Final = {"the computer around the cards": ("host",)}
_LAYOUT: Final = {"layout (the search chooses what you leave out)": ("layout",), **_COMPUTER}
_ASSUMED: Final = (INTERRUPTIONS, PLACE, *HOSTED)
_AIMS: Final = {"limits and aims": ("limits", "objective", *_ASSUMED)}
_SEARCH: Final = {**_WORK, **_AIMS, **_LAYOUT}
_SECTIONS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "recommend": _SEARCH,
    "learn": _SEARCH,
    "estimate": {
        **_WORK,
        "price and limits": ("limits", QUOTE, *_ASSUMED),
        "the configuration (what you own if you name none)": ("hardware",),
        **_LAYOUT,
    },
    "export": {
        **_WORK,
        **_AIMS,
        "the configuration (the best plan where you give none)": ("hardware",),
        **_LAYOUT,
    },
    "own": {
        **_WORK,
        "price and limits": ("limits",),
        "what to buy (what costs least to own, or a budget buys)": ("hardware",),
        **_COMPUTER,
        "buying (cited defaults where you give nothing)": ("owning",),
        "renting": ("renting",),
    },
    "fits": {"the cards": ("hardware",)},
}
"""Title of each group of options: sections and fields of the case in it."""
_WITHOUT: Final = {
    "estimate": SEARCHED,
    "export": SEARCHED[:1],
    "own": (*SEARCHED, "limits.owned", "limits.commitment_months"),
}
"""Fields of these sections that a command does not take."""


def task_word(text: str) -> str:
    """Return the word of a task for any of its spellings; another text unchanged.

    >>> task_word("Fine-tune"), task_word("Inference")
    ('finetune', 'Inference')
    """
    word = re.sub("[-_ ]", "", text.lower())
    return word if word in TASKS else text


def groups(command: str) -> dict[str, list[Declared]]:
    """Return the options of a command, by the title of their group."""
    without = _WITHOUT.get(command, ())
    return {
        title: [item for item in declared_options(sections) if item.path not in without]
        for title, sections in _SECTIONS[command].items()
    }


def declared_options(sections: Iterable[str]) -> list[Declared]:
    """Return the fields in these sections of the case that have an option, the usual ones first."""
    starts = tuple(f"{section}." for section in sections)
    found = [
        item
        for path, item in case_inputs().items()
        if item.input and item.input.flag and f"{path}.".startswith(starts)
    ]
    return sorted(found, key=lambda item: item.told.advanced)


def add_options(group: argparse._ActionsContainer, items: Iterable[Declared]) -> None:
    """Add the options of some fields to a parser or to a group of one."""
    for item in items:
        told, text = item.told, described(item).replace("%", "%%")
        if told.sets:
            group.add_argument(
                told.flag, dest=item.dest, help=text, action="store_const", const=told.sets
            )
        else:
            action = "append" if item.repeat else "store"
            group.add_argument(
                told.flag, dest=item.dest, metavar=item.metavar, help=text, action=action
            )


def described(item: Declared) -> str:
    """Return what the help says of an option: its meaning, names and default."""
    told = item.told
    if told.sets:
        return told.help
    more = "; repeatable" if item.repeat else ""
    if told.many:
        return told.help + more
    names = [f"{name} (default)" if name == item.default else name for name in item.choices]
    if all(re.search(rf"\b{name}\b", told.help) for name in item.choices):
        return told.help + more
    return f"{told.help}: {', '.join(names[:-1])} or {names[-1]}{more}"


def read_option(item: Declared, text: str) -> object:
    """Return the value that a text stands for; the case itself checks names and bounds."""
    flag, reads = item.told.flag, item.reads
    if reads.parse is not None:
        return reads.parse(text, field=flag)
    if reads is Reads.CARDS:
        return _cards(text, field=flag)
    if reads is Reads.YES:
        return {"yes": True, "no": False}.get(text.lower(), text)
    return text.replace("-", "_") if reads is Reads.CHOICE else text  # as people type names


def _cards(text: str, *, field: str) -> dict[str, object]:
    if text.endswith(".json"):
        return {"report": text}  # read by the command, once the engine is there
    key, count = parse_owned(text, field=field)
    return {"accelerator": key, "count": count}
