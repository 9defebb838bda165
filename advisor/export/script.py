"""Shell text: programs with their options, files written on the way, quoting."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MASTER_PORT: Final = 29_500
"""PyTorch's own default."""
Options = tuple[tuple[str, ...], ...]
"""Each option with its values; a value that starts with ``$`` is a shell variable."""


@dataclass(frozen=True)
class Launch:
    """A program to start on each machine."""

    program: tuple[str, ...]
    """Program, or what ``torchrun`` starts."""
    options: Options
    install: tuple[str, ...]
    """Shell lines that install what is needed."""
    image: str
    """Container image that has the most of it."""
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Shell variables that the user may set: default and what it is."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the program."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the options name: content."""
    notes: tuple[str, ...] = ()
    """What differs from the plan, for the head of the file."""


def commented(lines: Iterable[str]) -> list[str]:
    """Return lines as comments of a shell script or of YAML."""
    return [f"# {line}" for line in lines]


def preparation(launch: Launch) -> list[str]:
    """Return the shell lines that set variables and write files."""
    lines = [
        f': "${{{name}:={default}}}"  # {meaning}'
        for name, (default, meaning) in launch.variables.items()
    ]
    lines += [f"export {name}={value}" for name, value in launch.environment.items()]
    for name, content in launch.files.items():
        lines += [f"cat > {name} <<'END'", *content.splitlines(), "END"]
    return lines


def command(program: Iterable[str], options: Options) -> list[str]:
    """Return a command, one option on each line."""
    words = [" ".join(_quoted(word) for word in program)]
    words += [" ".join((name, *map(_quoted, values))) for name, *values in options]
    return [f"{'  ' if index else ''}{word}" + " \\" for index, word in enumerate(words[:-1])] + [
        f"  {words[-1]}"
    ]


def _quoted(word: str) -> str:
    return f'"{word}"' if word.startswith("$") else shlex.quote(word)


def torchrun(launch: Launch, *, machines: int, per_machine: int, rank: str, host: str) -> list[str]:
    """Return the command that starts one process for each accelerator of a machine.

    Parameters
    ----------
    launch : Launch
    machines, per_machine : int
    rank : str
        Shell expression of this machine's number, from 0.
    host : str
        Shell expression of the first machine's name.
    """
    where: Options = (("--standalone",),)
    if machines > 1:
        where = (
            ("--node-rank", rank),
            ("--master-addr", host),
            ("--master-port", str(MASTER_PORT)),
        )
    starter: Options = (
        ("--nnodes", str(machines)),
        ("--nproc-per-node", str(per_machine)),
        *where,
        launch.program,
    )
    return command(("torchrun",), starter + launch.options)
