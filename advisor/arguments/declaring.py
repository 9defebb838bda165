"""How the table of commands declares what a command takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Adds = Callable[[Any], object]
"""Adds arguments to a parser or a group of one; called when the command is chosen."""


@dataclass(frozen=True)
class Command:
    """One command of ``gpu-advisor``."""

    summary: str
    takes: tuple[Adds, ...]
    usage: str = ""
    """What follows the command's name; empty leaves it to argparse."""
    examples: tuple[str, ...] = ()


def takes(spelled: str, about: str, **more: Any) -> Adds:
    """Return what adds one argument.

    Parameters
    ----------
    spelled : str
        Names, and what stands for the value in the help: ``--top N``. An option with neither
        that nor ``choices`` is a switch.
    about : str
        The help.
    **more
        Further keywords of argparse.
    """
    names = [word for word in spelled.split() if word.startswith("--")] or spelled.split()[:1]
    value = spelled.split()[len(names) :]
    how: dict[str, Any] = {"metavar": value[0]} if value else {}
    if not value and "choices" not in more:
        how["action"] = "store_true"
    return lambda parser: parser.add_argument(*names, help=about, **how, **more)


def group(title: str, *adds: Adds) -> Adds:
    """Return what adds arguments under a title of their own."""

    def add(parser: argparse.ArgumentParser) -> None:
        titled = parser.add_argument_group(title)
        for one in adds:
            one(titled)

    return add


def fields(command: str) -> Adds:
    """Return what adds the options that the nouns of a case declare."""

    def add(parser: argparse.ArgumentParser) -> None:
        from advisor.arguments.options import add_options, groups

        for title, items in groups(command).items():
            add_options(parser.add_argument_group(title), items)

    return add


def task(parser: argparse._ActionsContainer) -> None:
    """Add the option that names the work."""
    from advisor.arguments.options import TASKS

    parser.add_argument("--task", choices=tuple(TASKS), help="what to do with the model")
