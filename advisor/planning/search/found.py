"""What a search returns: priced options, lower precisions, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.planning.search.options import Miss, Option, Price
from advisor.planning.search.systems import System
from advisor.planning.time_ranges import TimeSpreads


@record
class SearchResult:
    """Options in proven precisions, options in lower ones, and the nearest misses."""

    options: tuple[Option, ...]
    alternatives: tuple[Option, ...]
    searched: int
    misses: dict[str, Miss]
    """Smallest need by accelerator, for those on which nothing fits."""
    with_format: frozenset[str]
    """Accelerators that have one of the asked number formats."""
    formats: tuple[str, ...]
    spreads: TimeSpreads
    """Ranges of the times of the options."""
    runs: tuple[TrainingRun, ...] = ()
    """Resolved training workloads, the usual first; empty for serving."""
    smaller: tuple[Option, ...] = ()
    """Served with smaller weights or with the host's memory, on accelerators on which nothing else
    fits, where other accelerators need neither."""
    carried: Mapping[str, float] = field(default_factory=dict)
    """Most of a stated rate by accelerator, for those that carry less. [requests/s]"""
    prices: Sequence[Price] = ()
    """Of each system; empty for serving."""
    lowered: bool = False
    """All options need smaller weights or the host's memory."""

    def followed(self, options: Iterable[Option], other: SearchResult, before: int) -> SearchResult:
        """Return this result with options of another, whose systems stand behind its own.

        ``before``: how many systems this result has.
        """
        behind = tuple(replace(each, system=each.system + before) for each in options)
        return replace(
            self,
            options=self.options + behind,
            searched=self.searched + other.searched,
            with_format=self.with_format | other.with_format,
            runs=self.runs + other.runs if behind else self.runs,
            prices=[*self.prices, *other.prices],
        )


def keep_least(
    known: dict[str, Miss], misses: Mapping[int, Miss], systems: Sequence[System]
) -> None:
    """Add the smallest need of systems on which nothing fits, by accelerator."""
    for index, miss in misses.items():
        key = systems[index].accelerator.key
        known[key] = min(known.get(key, miss), miss)
