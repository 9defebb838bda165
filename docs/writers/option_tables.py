"""The tables of options in docs/cli.md."""

import re
from collections.abc import Iterable
from typing import Final

from advisor.arguments.options import TASKS, declared_options, described
from advisor.foundation.data_files import table
from advisor.nouns.inputs import SERVING, TRAINING, Declared
from advisor.nouns.inputs import TASKS as ALL_TASKS

TABLE: Final = re.compile(r"(<!-- options: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
"""A table in a page, below a comment that names sections of the case."""


def with_tables(page: str) -> str:
    """Return a page in Markdown with its tables of options as the nouns declare them now."""
    return TABLE.sub(
        lambda found: f"{found[1]}\n{option_table(found[2].split())}\n\n{found[3]}", page
    )


def option_table(sections: Iterable[str]) -> str:
    """Return the options of some sections of the case as a table in Markdown."""
    rows = (
        (f"`{item.told.flag}`", f"`{item.path}`", _meaning(item), _bounds(item))
        for item in declared_options(sections)
    )
    return table(("option", "field of the case", "meaning", "bounds"), rows)


def _meaning(item: Declared) -> str:
    kinds = {ALL_TASKS: "", TRAINING: " (training)", SERVING: " (serving)"}
    names = ", ".join(word for word, task in TASKS.items() if task in item.tasks)
    return described(item).replace("|", "\\|") + kinds.get(item.tasks, f" ({names})")


def _bounds(item: Declared) -> str:
    if item.low is None or item.high is None:
        return ""
    low, high = (f"{bound:,.10g}".replace("e+", "e") for bound in (item.low, item.high))
    unit = "" if item.unit.startswith("%") else f" {item.unit}"
    return (f"above {low}, to {high}" if item.above else f"{low} to {high}") + unit.rstrip()
