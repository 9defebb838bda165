"""The parser of the command line, built from the table of commands in ``data/commands.json``.

An entry of what a command takes is the name of a shared set of entries, an argument of argparse, or
a group, the fields of a case or inner commands. JSON: help is printed without a YAML reader.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from functools import cache
from types import SimpleNamespace

from advisor.errors import AdvisorError, CatalogError, refusal
from advisor.foundation.resources import data_file

TYPE_CHECKING = False  # its module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Final, NoReturn

    from _typeshed import SupportsWrite

    Entry = str | Mapping[str, Any]

FILE: Final = "commands.json"


class Command(SimpleNamespace):
    """One command of ``gpu-advisor``."""

    def __init__(
        self, summary: str, takes: Sequence[Entry], usage: str = "", examples: Sequence[str] = ()
    ) -> None:
        self.summary, self.takes, self.examples = summary, takes, examples
        self.usage = usage
        """What follows the command's name; empty leaves it to argparse."""


class Table(SimpleNamespace):
    """The whole of ``commands.json``."""

    def __init__(
        self,
        shared: Mapping[str, Sequence[Entry]],
        elsewhere: Mapping[str, str],
        examples: Sequence[str],
        commands: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.shared = shared
        self.elsewhere = elsewhere
        """Options and words of other tools, and ours for the same thing."""
        self.examples = examples
        """Of the help of all commands."""
        self.commands = {name: Command(**entry) for name, entry in commands.items()}
        """In the order of the help."""


@cache
def table() -> Table:
    """Read the commands; raise ``CatalogError`` if the file is broken."""
    path = data_file(FILE)
    try:
        with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123
            return Table(**json.load(file))
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
            from advisor.arguments.options import TASKS, task_word

            parser.add_argument(
                "--task",
                type=task_word,
                choices=tuple(TASKS),
                help="what to do with the model",
            )
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


def _takes(command: Command, option: str) -> bool:
    parser = argparse.ArgumentParser(add_help=False)
    fill(parser, command.takes)
    return any(option in action.option_strings for action in parser._actions)


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


PROGRAM: Final = "gpu-advisor"
MAX_ARGUMENTS: Final = 5_000
"""Parsing takes the square of their number."""
LONGEST_OPTION: Final = 40
"""Characters of an unknown option that are compared with the known ones."""


def bounded(argv: Sequence[str] | None) -> Sequence[str]:
    """Return the arguments, or the process's own.

    Raises ``InputError`` if parsing them would take long.
    """
    given = sys.argv[1:] if argv is None else argv
    if len(given) > MAX_ARGUMENTS:
        raise refusal("too_many_arguments", value=f"{len(given):,}", most=MAX_ARGUMENTS)
    return given


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one sentence, without the whole usage; adds its options when used."""

    takes: Sequence[Entry] = ()

    def filled(self) -> Parser:
        """Return this parser with all its options."""
        takes, self.takes = self.takes, ()
        fill(self, takes)
        return self

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse, once the options are there; refuse one that is not."""
        found, rest = super(Parser, self.filled()).parse_known_args(args, namespace)
        unknown = next((word for word in rest if word.startswith("--")), None)
        if unknown is not None:
            self.error(f"unknown option {unknown}{self._nearest(unknown)}")
        if rest and "--accelerator" in self._option_string_actions:
            self.error(f"unknown argument {rest[0]} (perhaps --accelerator)")
        return found, rest

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is no choice; name the one that a word of other tools means."""
        meant = table().elsewhere.get(str(value).lower(), "")
        choices = action.choices or ()
        if value not in choices and meant.partition(" ")[0] in choices:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (perhaps {meant})")
        super()._check_value(action, value)

    def _nearest(self, unknown: str) -> str:
        """Name the options that somebody may have meant."""
        from difflib import get_close_matches

        ours = {flag: flag for action in self._actions for flag in action.option_strings}
        theirs = table().elsewhere
        meant = {word: our if our in ours else theirs.get(our) for word, our in theirs.items()}
        known = ours | {word: our for word, our in meant.items() if our in ours}
        word = unknown.partition("=")[0].lower().replace("_", "-")[:LONGEST_OPTION]
        begun = [name for name in known if len(word) > len("--") and name.startswith(word)]
        begun.sort(key=lambda name: (name != word, name not in ours))
        close = begun[:2] or get_close_matches(word, known, n=2)
        near = dict.fromkeys(known[name] for name in close)
        others = [name for name, command in table().commands.items() if _takes(command, word)]
        if others and word not in known:
            return f" (an option of {', '.join(others)})"
        return f" (perhaps {' or '.join(near)})" if near else ""

    def error(self, message: str) -> NoReturn:
        """Print the mistake and end with exit code 2."""
        # Bounded and without control characters, as every mistake is told.
        self.exit(2, f"{PROGRAM}: error: {AdvisorError(message)}; see '{self.prog} --help'\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write help or a mistake; argparse itself keeps silent where help finds no room."""
        if file is sys.stdout:
            file.write(message)
        else:
            with suppress(OSError):  # which argparse of Python 3.11.2 lets pass
                super()._print_message(message, file)


def build_parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of ``gpu-advisor`` with all its commands."""
    parser = Parser(
        prog=PROGRAM,
        description="Which accelerators to train, fine-tune or serve a model on: how many,\n"
        "arranged how, how long, at what cost, and how sure we are.",
        epilog=_examples(table().examples),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in table().commands.items():
        commands.add_parser(
            name,
            help=command.summary,
            usage=f"{PROGRAM} {name} {command.usage}" if command.usage else None,
            description=f"{command.summary[:1].upper()}{command.summary[1:]}.",
            epilog=_examples(command.examples),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        ).takes = command.takes
    return parser


def _examples(lines: Sequence[str]) -> str | None:
    return "\n".join(["examples:", *(f"  {PROGRAM} {line}" for line in lines)]) if lines else None
