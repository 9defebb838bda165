"""Chooses, of many drawn cases, those few that together try the most pairs of settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

Case = dict[str, Any]


def settings(case: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting of a case with its place in it; a list is one setting."""
    if isinstance(case, Mapping):
        for name, value in case.items():
            yield from settings(value, f"{place}.{name}")
    else:
        yield place, repr(case)


def covering(drawn: Iterable[Case], most: int) -> list[Case]:
    """Return ``most`` cases, each the one that adds most pairs to those before it.

    >>> covering([{"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1}], 2)
    [{'a': 1, 'b': 1}, {'a': 2, 'b': 1}]
    """
    rest = [(case, set(combinations(sorted(settings(case)), 2))) for case in drawn]
    chosen: list[Case] = []
    while rest and len(chosen) < most:
        case, pairs = max(rest, key=lambda item: len(item[1]))
        chosen.append(case)
        rest = [(other, left - pairs) for other, left in rest if other is not case]
    return chosen
