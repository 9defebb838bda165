"""Words of the field, explained in one sentence each."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.noun import Noun, read_record, refuse
from advisor.foundation.resources import data_path

FILE: Final = "glossary.yaml"
MOST: Final = 4
"""Words that one text explains at most."""
Word = Annotated[str, Field(min_length=2, max_length=40)]


class Term(Noun):
    """A word: a row of ``data/glossary.yaml``."""

    means: Annotated[str, Field(min_length=10, max_length=160)]
    also: tuple[Word, ...] = ()
    """Other spellings that mean the same."""


class _Glossary(Noun):
    terms: dict[Word, Term]


@cache
def glossary() -> Mapping[str, Term]:
    """Return all words in alphabetical order."""
    found = read_record(data_path(FILE), _Glossary, under="terms").terms
    seen: set[str] = set()
    for word, term in found.items():
        for spelling in (word, *term.also):
            if spelling.casefold() in seen:
                refuse(FILE, spelling, "Explain each spelling once.", entry=word)
            seen.add(spelling.casefold())
    return dict(sorted(found.items(), key=lambda item: item[0].casefold()))


@cache
def _spellings() -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the word of each spelling, and the pattern that finds spellings, longest first."""
    words = {spelling: word for word, term in glossary().items() for spelling in (word, *term.also)}
    ordered = sorted(words, key=len, reverse=True)
    # A spelling in small letters may begin a sentence; one with capitals is a name.
    parts = (re.escape(one) if one != one.lower() else f"(?i:{re.escape(one)})" for one in ordered)
    return words, re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?!\w)")


def explained(text: str) -> Iterator[tuple[str, str]]:
    """Yield the words of the field in a text and what they mean, in the text's order.

    >>> [word for word, _ in explained("Memory on each card: KV cache, then Activations")]
    ['KV cache', 'activations']
    >>> list(explained("from zero on"))
    []
    """
    words, pattern = _spellings()
    spelt = (match.group() for match in pattern.finditer(text))
    found = dict.fromkeys(words.get(one) or words[one.lower()] for one in spelt)
    for word in list(found)[:MOST]:
        yield word, glossary()[word].means
