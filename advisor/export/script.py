"""Launches as lists of words, and the shell commands that start them.

A word is a plain text or the name of a variable. Only `command` and `preparation` turn words into
shell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor.export.quoting import here_document, shell_word
from advisor.foundation.names import visible

START: Final = ("#!/usr/bin/env bash",)
STRICT: Final = "set -euo pipefail"
MASTER_PORT: Final = 29_500
"""PyTorch's default port."""
PLACE: Final = {
    "NODE_RANK": "${NODE_RANK:?number of this machine, from 0}",
    "MASTER_ADDR": "${MASTER_ADDR:?name of the first machine}",
}
"""Place of a machine among several; a shell stops where it is not set."""


@dataclass(frozen=True)
class Variable:
    """A word that is a shell variable, perhaps after a text."""

    name: str
    after: str = ""
    optional: bool = False
    """Whether its option is left out while the variable is empty."""


Word = str | Variable
Options = tuple[tuple[Word, ...], ...]
"""Each option with its values."""


@dataclass(frozen=True)
class Launch:
    """A program to start on each machine."""

    program: tuple[str, ...]
    """The program, or what ``starter`` starts."""
    options: Options
    install: tuple[tuple[str, ...], ...]
    """Commands that install the needed packages."""
    image: str
    """Container image that already holds most of them; empty if there is none."""
    image_extra: tuple[tuple[str, ...], ...] = ()
    """Commands that install what the image lacks."""
    once: tuple[str, ...] = ()
    """Shell lines that make what all commands of a machine read."""
    before: tuple[str, ...] = ()
    """Shell lines before the command."""
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Shell variables that the user may set: default value and meaning."""
    newest: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Shell variables that hold the newest folder with a file: its pattern and the meaning."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the program."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Content of the files that the options name."""
    notes: tuple[str, ...] = ()
    """Differences from the plan, for the head of the file."""
    starter: tuple[str, ...] = ("torchrun",)
    """Starts one process for each accelerator, with the options of ``torchrun``; empty if the
    program needs none."""
    ranks: int = 1
    """Processes for each accelerator."""
    config: str | None = None
    """Name of the file that holds the whole configuration, if the program reads one."""


def text_of(*parts: Iterable[str]) -> str:
    """Return lines as one text."""
    return "\n".join(line for part in parts for line in part) + "\n"


def preparation(launch: Launch) -> list[str]:
    """Return the shell lines that set variables and write files."""
    lines = [
        f"export {name}=${{{name}:-{shell_word(default)}}}  # {visible(meaning)}"
        for name, (default, meaning) in launch.variables.items()
    ]
    lines += [
        f'export {name}="$({_newest(pattern)})"  # {visible(meaning)}'
        for name, (pattern, meaning) in launch.newest.items()
    ]
    lines += [f"export {name}={shell_word(value)}" for name, value in launch.environment.items()]
    for name, content in launch.files.items():
        lines += written_file(name, content)
    return [*lines, *launch.once]


def _newest(pattern: str) -> str:
    """Return the shell command that prints the folder of the newest file, or nothing."""
    found = f"find \"$OUTPUT\" -path {shell_word(pattern)} -printf '%h\\n' 2>/dev/null"
    return f"{found} | sort -V | tail -n 1"


def written_file(name: str, content: str) -> list[str]:
    """Return the shell lines that write a file."""
    first, *others = here_document(content)
    return [f"cat > {shell_word(name)} {first}", *others]


def place_lines(machines: int) -> list[str]:
    """Return the shell lines that ask for this machine's place among several."""
    return [f': "{value}"' for value in PLACE.values()] if machines > 1 else []


def needs(launch: Launch) -> tuple[str, ...]:
    """Return the line of a file's head that says what to install, if anything."""
    lines = "; ".join(" ".join(map(_spelled, words)) for words in launch.install)
    return (f"Needs: {lines}",) if lines else ()


def installation(launch: Launch, *, shared: bool = False) -> list[str]:
    """Return the shell lines that install the needed packages.

    A repository stays where it is: files start again. One machine fetches it to a folder that
    is ``shared``.
    """
    lines = []
    for words in launch.install:
        line = " ".join(map(_spelled, words))
        if words[0] == "git":
            line = f"[ -d {words[-1].rpartition('/')[2]} ] || {line}"
            line = f"flock install.lock -c {shell_word(line)}" if shared else line
        lines.append(line)
    return lines


def command(program: Iterable[Word], options: Options) -> list[str]:
    """Return a command with one option on each line."""
    first, *others = [_line(part) for part in (tuple(program), *options)]
    return " \\\n  ".join([first, *others]).split("\n")


def _line(words: tuple[Word, ...]) -> str:
    """Return an option with its values; the shell leaves it out if the last is empty."""
    line, last = " ".join(map(_spelled, words)), words[-1]
    if isinstance(last, Variable) and last.optional:
        return f"${{{last.name}:+{line}}}"
    return line


def _spelled(word: Word) -> str:
    if not isinstance(word, Variable):
        return shell_word(word)
    return (shell_word(word.after) if word.after else "") + f'"${word.name}"'


def started(
    launch: Launch, *, machines: int, per_machine: int, rank: Word, host: Word
) -> list[str]:
    """Return the command that starts the program on one machine.

    ``rank`` is this machine's number, from 0, and ``host`` the first machine's name.
    """
    if not launch.starter:
        return command(launch.program, launch.options)
    where: Options = (("--standalone",),)
    if machines > 1:
        where = (
            ("--node-rank", rank),
            ("--master-addr", host),
            ("--master-port", str(MASTER_PORT)),
        )
    starter: Options = (
        ("--nnodes", str(machines)),
        ("--nproc-per-node", str(per_machine * launch.ranks)),
        *where,
        launch.program,
    )
    return command(launch.starter, starter + launch.options)
