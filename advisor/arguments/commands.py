"""Every command: what it answers, what it takes, and examples, from ``data/commands.json``.

An entry of what a command takes is the name of a shared set of entries, an argument of argparse, or
a group, the fields of a case or inner commands. JSON, because help is printed without a YAML
reader.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from advisor.errors import CatalogError
from advisor.foundation.resources import data_path

FILE: Final = "commands.json"
Entry = str | Mapping[str, Any]


@dataclass(frozen=True)
class Command:
    """One command of ``gpu-advisor``."""

    summary: str
    takes: tuple[Entry, ...]
    usage: str = ""
    """What follows the command's name; empty leaves it to argparse."""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """The whole of ``commands.json``."""

    shared: Mapping[str, tuple[Entry, ...]]
    elsewhere: Mapping[str, str]
    """Options and words of other tools, and ours for the same thing."""
    examples: tuple[str, ...]
    """Of the help of all commands."""
    commands: Mapping[str, Command]
    """In the order of the help."""


@cache
def table() -> Table:
    """Read the commands; raise ``CatalogError`` if the file is broken."""
    path = data_path(FILE)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        commands = {name: Command(**entry) for name, entry in content.pop("commands").items()}
        return Table(**content, commands=commands)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CatalogError(
            file=FILE,
            entry="",
            field="",
            value=str(error)[:60],
            remedy="Correct the JSON there, or restore the file from git.",
        ) from None


def fill(parser: Any, entries: Iterable[Entry]) -> None:
    """Add what a command takes to its parser, or to a group of it."""
    for entry in entries:
        if entry == "task":
            from advisor.arguments.options import TASKS

            parser.add_argument("--task", choices=tuple(TASKS), help="what to do with the model")
        elif isinstance(entry, str):
            fill(parser, table().shared[entry])
        elif "group" in entry:
            fill(parser.add_argument_group(entry["group"]), entry["takes"])
        elif "fields" in entry:
            from advisor.arguments.options import add_options, groups

            for title, items in groups(entry["fields"]).items():
                add_options(parser.add_argument_group(title), items)
        elif "actions" in entry:
            actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
            for name, action in entry["actions"].items():
                fill(actions.add_parser(name, help=action["summary"]), action["takes"])
        else:
            _add_argument(parser, **entry)


def _add_argument(parser: Any, spelled: str, **more: Any) -> None:
    """Add one argument, ``spelled`` as in the help: ``--top N``.

    An option without a word for its value and without ``choices`` is a switch.
    """
    words = spelled.split()
    names = [word for word in words if word.startswith("--")] or words[:1]
    if words[len(names) :]:
        more["metavar"] = words[len(names)]
    elif "choices" not in more:
        more["action"] = "store_true"
    parser.add_argument(*names, **more)
