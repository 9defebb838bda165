"""Sources of formulas and constants, cited by key: ``data/references.csv``."""

from collections.abc import Mapping
from functools import cache

from advisor.foundation.noun import Noun, read_table
from advisor.foundation.resources import data_path


class Reference(Noun):
    """A published source of a formula, a constant or a fact."""

    key: str
    title: str
    authors: str
    year: int
    locator: str
    """ArXiv number, DOI or address, with section, equation or table if needed."""


@cache
def references() -> Mapping[str, Reference]:
    """Return all references by key."""
    rows = read_table(data_path("references.csv"), Reference, key=("key",))
    return {row.key: row for row in rows}


def citation(key: str | None) -> str:
    """Return the full reference of a key; empty for a definition, which needs none.

    >>> citation("kaplan2020")
    'J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, arXiv:2001.08361, ...'
    """
    if key is None:
        return ""
    source = references()[key]
    return f"{source.authors}, {source.title}, {source.year}, {source.locator}"
