"""The fixed slice of the harness that every run of the tests takes: 1,337 of the 60,000 inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.fuzz.harness import Found, Kind, run_inputs
from tests.fuzz.kinds import KINDS, TOTAL

SLICE: Final = 1500
ANSWERED: Final = ("case", "question", "command")
"""Half of their share is taken: the engine answers them, which takes as long as all others."""
SEED: Final = 20_261_122
PART: Final = 100
"""Inputs in one test."""


def share_of(kind: Kind) -> int:
    """Inputs of a kind in the slice."""
    return SLICE * kind.share // TOTAL // (2 if kind.name in ANSWERED else 1)


def slices(names: Iterable[str]) -> Iterator[object]:
    """Yield kind, first input and number of inputs, for pytest."""
    for kind in KINDS:
        if kind.name in names:
            share = share_of(kind)
            # A short rest joins the part before it: among few inputs, all may be refused.
            firsts = range(0, max(share - PART, 0) + 1, PART)
            for first in firsts:
                count = PART if first < firsts[-1] else share - first
                yield pytest.param(kind, first, count, id=f"{kind.name}-{first}")


def check(kind: Kind, first: int, count: int) -> Found:
    """Run a part of the slice; a failure is told as ``python -m tests.fuzz`` tells it."""
    found = run_inputs(kind, seed=SEED, first=first, count=count)
    told = [
        f"{item.count} x {name}\n  {item.detail}\n  e.g. {item.example}\n"
        f"  again: python -m tests.fuzz {item.repeat}"
        for name, item in found.classes.items()
    ]
    assert not told, "\n".join(told)
    assert found.inputs == count
    return found
