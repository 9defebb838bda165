"""Cards as a list shows them: the name that people use, and the memory on it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Segment

SAID_BY_ALL: Final = re.compile(r"^NVIDIA (?:GeForce )?")
"""What people leave out of the name of a card."""
MEMORY: Final = re.compile(r" (\d+) ?GB\b")
DIGITS: Final = re.compile(r"(\d+)")


def card_title(card: Accelerator) -> str:
    """Return the name of a card with its memory, e.g. ``RTX 3060 · 12 GB``."""
    memory = f"{card.memory_marketed_bytes / GB:.0f}"
    name = SAID_BY_ALL.sub("", card.name)
    if card.segment is Segment.CPU:
        return name
    said = MEMORY.search(name)
    if said and said[1] == memory:
        name = name.replace(said[0], "")
    return f"{name} · {memory} GB"


def card_titles(cards: Iterable[Accelerator]) -> dict[str, str]:
    """Return the titles of cards by catalog key, sorted as people count: 900 before 1080."""
    titles = {card.key: card_title(card) for card in cards}
    return dict(sorted(titles.items(), key=lambda item: _counted(item[1])))


def _counted(title: str) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Return a sort key: numbers as numbers, the bare name before the longer one."""
    return tuple(
        tuple((int(part), "") if part.isdigit() else (-1, part) for part in DIGITS.split(text))
        for text in title.casefold().split(" · ")
    )
