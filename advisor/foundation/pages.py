"""Fills the pages of docs/ that are written from data: their texts stand in data/pages."""

from collections.abc import Iterable, Sequence

from advisor.foundation.data_files import read_text
from advisor.foundation.resources import data_path


def page(name: str, **parts: object) -> str:
    """Return a page with its named parts."""
    return read_text(data_path("pages") / f"{name}.md").format(**parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; a column of numbers has a head that ends with a colon.

    >>> print(table(("card", "GB:"), [("h100", 80)]))
    | card | GB |
    | --- | --: |
    | h100 | 80 |
    """
    names = [head.removesuffix(":") for head in heads]
    rules = ["--:" if head.endswith(":") else "---" for head in heads]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (names, rules, *rows))


def items(lines: Iterable[str]) -> str:
    """Return a list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)
