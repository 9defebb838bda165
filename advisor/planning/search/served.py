"""The search for serving over tools and weight formats: for each system, the first that fits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isinf
from typing import Final, NamedTuple

import numpy as np

from advisor.estimate.hardware.card_formats import cache_format, serves_in
from advisor.estimate.refusals import check_context
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of, engine_of
from advisor.estimate.tools.serving_formats import Way
from advisor.estimate.tools.software import ToolRules
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.limits import Objective
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS, WeightFormat
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.workload import Serving
from advisor.planning.search.found import SearchResult, keep_least
from advisor.planning.search.layouts import stated_values
from advisor.planning.search.options import (
    Miss,
    Option,
    Price,
    meets_budget,
    meets_time,
    priced_options,
)
from advisor.planning.search.replicas import LAYER_DEGREES, replica_table
from advisor.planning.search.served_rows import ServedWork, Strain, layouts_of
from advisor.planning.search.serving import ServingSearch, most_replicas, search_serving
from advisor.planning.search.systems import System, by_host_memory
from advisor.planning.time_ranges import TimeSpreads

SMALLEST_FILE: Final = 0.8
"""Weights of a whole model over its parameters times the format's size, at least."""


class _Try(NamedTuple):
    """One way to serve on one of the searched systems."""

    place: int
    way: Way

    @property
    def form(self) -> WeightFormat:
        """The weight format."""
        return WEIGHT_FORMATS[self.way.weight_format]


def search_served(
    asked: ResolvedCase,
    workload: Serving,
    systems: Sequence[System],
    rules: ToolRules,
    *,
    advising: bool,
) -> tuple[list[System], SearchResult]:
    """Evaluate serving on all systems, each in the first of its ways that fits.

    Smaller weights than usual, and layers in the host's memory, become options only if nothing
    else fits on any system. Otherwise they are in ``SearchResult.smaller``.

    ``advising``: also try formats that are worth naming where a larger one fits, as
    ``alternatives``.

    The systems with their tools; one with another tool or another host is separate.
    """
    check_context(workload, asked.architecture)
    ways = [
        rules.ways(system.accelerator, many=system.counts[-1] > LAYER_DEGREES[-1])
        for system in systems
    ]
    ladders = [
        [way for way in found if serves_in(system.accelerator, way.weight_format)]
        for system, found in zip(systems, ways, strict=True)
    ]
    search = _Served(asked, workload, list(systems))
    steps = search.climb([[way for way in found if not way.hosted] for found in ladders])
    unsolved = [place for place, step in enumerate(steps) if step is None]
    found = bool(search.options or search.smaller)
    # Where a rate of requests is answered, nobody serves it from the host's memory. Where no system
    # is fast enough, a host is no help.
    short_of_memory = unsolved and not search.carried
    if (found and workload.requests_per_s is None) or short_of_memory:
        search.host(unsolved, ladders, briefly=found)
    if advising:
        search.beside(ladders, steps)
    return search.systems, search.result(ladders)


@dataclass
class _Served:
    """Collects what the ways of the systems of a case give."""

    asked: ResolvedCase
    workload: Serving
    systems: list[System]
    options: list[Option] = field(default_factory=list)
    smaller: list[Option] = field(default_factory=list)
    alternatives: list[Option] = field(default_factory=list)
    misses: dict[str, Miss] = field(default_factory=dict)
    carried: dict[str, float] = field(default_factory=dict)
    searched: int = 0
    _variants: dict[tuple[int, str, str | None], int] = field(default_factory=dict)
    _prices: dict[int, Price] = field(default_factory=dict)

    @cached_property
    def _spreads(self) -> TimeSpreads:
        return TimeSpreads(self.asked.architecture, self.asked.calibration, self.workload)

    @cached_property
    def _duty(self) -> Duty:
        return duty_of(self.workload, self.asked.architecture)

    @cached_property
    def _parameters(self) -> int:
        return self.asked.architecture.total_parameters

    def climb(self, ladders: Sequence[Sequence[Way]]) -> list[int | None]:
        """Try each system's ways in order until one fits; return its place in the ladder.

        Systems whose next way has smaller weights wait for the others, to be searched with them.
        """
        solved: list[int | None] = [None] * len(ladders)
        ahead = [self._worth_trying(place, ladder) for place, ladder in enumerate(ladders)]
        while waiting := [place for place, steps in enumerate(ahead) if steps]:
            tries = [_Try(place, ladders[place][ahead[place][0]]) for place in waiting]
            largest = max(item.form.bytes_per_parameter for item in tries)
            tries = [item for item in tries if item.form.bytes_per_parameter == largest]
            fitting = dict(self._evaluated(tries))
            for item in tries:
                place, way = item.place, item.way
                step = ahead[place].pop(0)
                if place not in fitting:
                    continue
                solved[place], ahead[place] = step, []
                (self.options if way.usual else self.smaller).extend(fitting[place])
                if way.beside and not way.usual:
                    self.alternatives.extend(fitting[place])
        return solved

    def _worth_trying(self, place: int, ladder: Sequence[Way]) -> list[int]:
        """Return the ways whose weights alone could fit all cards; the last is always tried."""
        return [
            step
            for step, way in enumerate(ladder)
            if step + 1 == len(ladder) or way.hosted or self._may_hold(self.systems[place], way)
        ]

    def _may_hold(self, system: System, way: Way) -> bool:
        """Whether the weights could fit all cards, with the host's memory if they may be there."""
        # Of a mixture's experts in MXFP4, the format's own size is that of a dense model.
        form = WEIGHT_FORMATS[way.weight_format.removesuffix("_moe")]
        least = SMALLEST_FILE * form.bytes_per_parameter * self._parameters
        cards = system.accelerator.memory_raised_bytes * system.counts[-1]
        machines = -(-system.counts[-1] // system.node.accelerators)
        host = system.node.host_memory_bytes or inf
        return least <= cards + (machines * host if way.hosted else 0.0)

    def beside(self, ladders: Sequence[Sequence[Way]], steps: Sequence[int | None]) -> None:
        """Evaluate the formats that are worth naming where a larger one fits.

        If the cheapest is asked, only a smaller bill is worth naming.
        """
        most = self._least_usd()
        tries = [
            _Try(place, way)
            for place, (ladder, step) in enumerate(zip(ladders, steps, strict=True))
            if step is not None and self._affordable(place, most)
            for way in ladder[step + 1 :]
            if way.beside
        ]
        names = dict.fromkeys(item.way.weight_format for item in tries)
        for name in names:
            alike = [item for item in tries if item.way.weight_format == name]
            for _, found in self._evaluated(alike, missing=False, most_usd=most):
                self.alternatives.extend(found)

    def _least_usd(self) -> float:
        """Return the least bill of what meets the limits; infinite where bills do not decide."""
        limits = self.asked.case.limits
        if self.asked.case.objective is not Objective.CHEAPEST:
            return inf
        met = [item for item in self.options if meets_time(item, limits)]
        least = min((one.cost_high_usd for one in met if meets_budget(one, limits)), default=inf)
        return least or inf  # owned cards: their time decides

    def _affordable(self, place: int, most_usd: float) -> int:
        """Return how many of a system's numbers of accelerators cost less than a monthly bill."""
        system = self.systems[place]
        price = self._price(place)
        month = price.usd_per_hour * price.factor * HOURS_PER_MONTH
        machines = (-(-count // price.accelerators) for count in system.counts)
        return sum(number * month < most_usd for number in machines)

    def host(
        self, places: Sequence[int], ladders: Sequence[Sequence[Way]], *, briefly: bool
    ) -> None:
        """Search with layers or experts in the hosts' memory.

        ``briefly``: only whether each accelerator can: its first machine, with the fewest
        accelerators.
        """
        parted: list[System] = []
        hosted: list[list[Way]] = []
        seen: set[str] = set()
        for place in places:
            ways = [way for way in ladders[place] if way.hosted]
            system = self.systems[place]
            if not ways or (briefly and system.accelerator.key in seen):
                continue
            seen.add(system.accelerator.key)
            if briefly:
                system = replace(system, counts=system.counts[:1])
            for machine in by_host_memory([system], self.asked.case.host, serving=True):
                able = [way for way in ways if self._may_hold(machine, way)]
                if able:
                    parted.append(machine)
                    hosted.append(able)
        first = len(self.systems)
        self.systems.extend(parted)
        empty: list[list[Way]] = [[] for _ in range(first)]
        self.climb([*empty, *hosted])

    def result(self, ladders: Sequence[Sequence[Way]]) -> SearchResult:
        """Return the result of the search."""
        able = (self.systems[place] for place, ladder in enumerate(ladders) if ladder)
        formats = (WEIGHT_FORMATS[way.weight_format].compute for one in ladders for way in one[:1])
        return SearchResult(
            options=tuple(self.options or self.smaller),
            alternatives=tuple(self.alternatives),
            searched=self.searched,
            misses=self.misses,
            with_format=frozenset(system.accelerator.key for system in able),
            formats=tuple(dict.fromkeys(formats)),
            spreads=self._spreads,
            smaller=tuple(self.smaller if self.options else ()),
            carried=self.carried,
            lowered=bool(self.smaller and not self.options),
        )

    def _evaluated(
        self, tries: Sequence[_Try], *, missing: bool = True, most_usd: float = inf
    ) -> Iterator[tuple[int, list[Option]]]:
        """Yield the systems on which their way fits, with its priced options.

        ``most_usd``: dearer numbers of accelerators are left out, but for the next one, below which
        the fewest that suffice may be. [USD/month]
        """
        for alike in self._alike(tries):
            places = [self._variant(item) for item in alike]
            members = [self._within(place, most_usd) for place in places]
            prices = [self._price(place) for place in places]
            strain = self._strain(alike, members)
            found = self._searched(alike[0], members, prices, strain)
            self.searched += found.searched
            if missing and not alike[0].way.hosted:
                keep_least(self.misses, found.misses, members)
                for at, carried in found.carried.items():
                    key = members[at].accelerator.key
                    self.carried[key] = max(self.carried.get(key, 0.0), carried)
            groups: dict[int, list[Option]] = {}
            options = list(self._options(found, alike, members, strain))
            for option in priced_options(options, prices, self.workload):
                at, option.system = option.system, places[option.system]
                groups.setdefault(alike[at].place, []).append(option)
            yield from groups.items()

    def _price(self, place: int) -> Price:
        if place not in self._prices:
            kind = self.asked.case.limits.price_kind
            self._prices[place] = Price.of(self.systems[place], kind)
        return self._prices[place]

    def _within(self, place: int, most_usd: float) -> System:
        system = self.systems[place]
        if isinf(most_usd):
            return system
        return replace(system, counts=system.counts[: self._affordable(place, most_usd) + 1])

    def _alike(self, tries: Iterable[_Try]) -> Iterable[list[_Try]]:
        """Group tries that share a search: formats of equal size under one engine."""
        groups: dict[tuple[object, ...], list[_Try]] = {}
        for item in tries:
            card, form = self.systems[item.place].accelerator, item.form
            cache = KV_CACHE_FORMATS[item.way.cache or cache_format(self.workload, card)]
            tool = item.way.tool
            engine = engine_of(tool, card, self.asked.calibration), tool.at_once(self._duty)
            kind = form.bytes_per_parameter, form.engine, cache, engine, item.way.hosted
            groups.setdefault(kind, []).append(item)
        return groups.values()

    def _variant(self, item: _Try) -> int:
        """Return the index of the try's system with its tool and cache; others are a new system."""
        system, (tool, cache) = self.systems[item.place], (item.way.tool, item.way.cache)
        key = item.place, tool.name, cache
        if system.tool is None:
            self.systems[item.place] = replace(system, tool=tool, cache=cache)
            self._variants[key] = item.place
        elif system.tool is tool and system.cache == cache:
            return item.place
        elif key not in self._variants:
            self._variants[key] = len(self.systems)
            self.systems.append(replace(system, tool=tool, cache=cache))
        return self._variants[key]

    def _strain(self, alike: Sequence[_Try], members: Sequence[System]) -> Strain:
        """Return at which point of their ranges the limits judge the latencies."""
        limits, spreads = self.asked.case.limits, self._spreads
        pairs = [
            (one.accelerator, item.form.name) for one, item in zip(members, alike, strict=True)
        ]
        later = (spreads.of(card, precision=name, count=1) for card, name in pairs)
        first = (spreads.first(card, precision=name, at=limits.at) for card, name in pairs)
        share = 1.0 - limits.risk
        return Strain(*(np.array([item.at(share) for item in each]) for each in (later, first)))

    def _searched(
        self, one: _Try, members: Sequence[System], prices: Sequence[Price], strain: Strain
    ) -> ServingSearch:
        """Search the systems of tries that are like one."""
        way, form, card = one.way, one.form, members[0].accelerator
        constants = constants_of(self.asked.calibration, way.tool, card, self._duty)
        layout = self.asked.case.layout
        table = replica_table(
            self.asked.architecture,
            members,
            most_replicas(self.workload),
            stated_values(layout),
            by_layers=constants.engine_for(form).divides_layers,
            hosted=way.hosted,
            spares=self.workload.spare_replicas,
        )
        workload = self.workload
        if way.cache:
            workload = workload.changed(kv_cache_format=way.cache)
        work = ServedWork(
            self.asked.architecture,
            workload,
            form,
            card,
            self.asked.case.limits,
            constants,
            strain,
        )
        free = not (layout and layout.states("data"))
        return search_serving(work, members, table, prices, free=free)

    def _options(
        self,
        result: ServingSearch,
        alike: Sequence[_Try],
        members: Sequence[System],
        strain: Strain,
    ) -> Iterator[Option]:
        """Yield what a search found, with the range of each time."""
        later, first = strain.later.tolist(), strain.first.tolist()
        layouts, figures = layouts_of(result.table), result.figures
        columns = (figures.tpot, figures.ttft, figures.throughput)
        times = zip(*(column.tolist() for column in columns), strict=True)
        known: dict[int, tuple[float, bool]] = {}
        for row, (at, count) in enumerate(result.table[:, :2].tolist()):
            name = alike[at].form.name
            if at not in known:
                card = members[at].accelerator
                high = self._spreads.of(card, precision=name, count=count).high
                known[at] = high, self._spreads.proven(card, name)
            (high, proven), (tpot_s, ttft_s, tokens_per_s) = known[at], next(times)
            yield Option(
                at,
                count,
                name,
                layouts,
                row,
                tpot_s,
                tpot_s * high,
                ttft_s,
                tokens_per_s,
                judged=(tpot_s * later[at], ttft_s * first[at]),
                proven=proven,
            )
