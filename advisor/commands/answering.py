"""What commands share: the case that arguments and files spell, and how an answer is printed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import advisor
from advisor.arguments.mapping import case_mapping
from advisor.foundation.noun import Noun
from advisor.nouns.case import Case
from advisor.nouns.case_files import MAX_CASE_BYTES, case_text, parse_case, read_case
from advisor.terminal.streams import print_content, read_input


def answered(arguments: Namespace, answer: Noun, **how: object) -> None:
    """Print an answer: as JSON if that is asked for, else as its screen of the terminal."""
    if arguments.json:
        print_content(answer.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.screens import show

    if hasattr(arguments, "everything"):
        how["everything"] = arguments.everything
    show(new_console(), answer, **how)


def stated_case(arguments: Namespace) -> Case:
    """Return the case that the arguments spell, laid over that of a file."""
    mapping = case_mapping(arguments, content_of(arguments.case))
    limits = mapping.get("limits")
    owned = limits.get("owned") if isinstance(limits, dict) else None
    if isinstance(limits, dict) and isinstance(owned, list):
        machines = [machine for item in owned for machine in _machines(item)]
        mapping["limits"] = limits | {"owned": machines}
    return advisor.load_case(mapping)


def _machines(item: object) -> tuple[object, ...]:
    """Return owned cards; those of a probe's report in place of its path."""
    path = item.get("report") if isinstance(item, dict) else None
    return tuple(advisor.owned_from_report(path)) if isinstance(path, str) else (item,)


def content_of(source: str | None) -> Mapping[str, object] | None:
    """Return the content of a case file as it is; ``-`` is standard input."""
    if source is None:
        return None
    if source != "-":
        return read_case(Path(source))
    content = read_input(MAX_CASE_BYTES + 1)
    return parse_case(case_text(content, name="the case on standard input"))
