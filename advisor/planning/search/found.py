"""What a search returns: priced options, lower precisions, and the nearest misses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.planning.search.options import Configuration, Miss, Option, Price, priced_options
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
    runs: tuple[TrainingRun, ...]
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


@dataclass(slots=True)
class Findings:
    """Collects the results of the searches of a case."""

    systems: Sequence[System]
    prices: Sequence[Price]
    options: list[Option] = field(default_factory=list)
    alternatives: list[Option] = field(default_factory=list)
    misses: dict[str, Miss] = field(default_factory=dict)
    searched: int = 0

    def price(self, configurations: Iterable[Configuration], *, advised: bool) -> None:
        """Add priced configurations; those that are only advice go to the alternatives."""
        target = self.alternatives if advised else self.options
        target += priced_options(list(configurations), self.prices)

    def miss(self, misses: Mapping[int, Miss]) -> None:
        """Add the smallest need of each system on which nothing fits."""
        for index, miss in misses.items():
            key = self.systems[index].accelerator.key
            self.misses[key] = min(self.misses.get(key, miss), miss)

    def result(
        self,
        able: Iterable[int],
        formats: Iterable[str],
        spreads: TimeSpreads,
        runs: Iterable[TrainingRun] = (),
    ) -> SearchResult:
        """Return the result; ``able`` are the systems that have one of the asked formats."""
        return SearchResult(
            options=tuple(self.options),
            alternatives=tuple(self.alternatives),
            searched=self.searched,
            misses=self.misses,
            with_format=frozenset(self.systems[index].accelerator.key for index in able),
            formats=tuple(dict.fromkeys(formats)),
            spreads=spreads,
            runs=tuple(runs),
            prices=self.prices,
        )
