"""The search for serving over tools and weight formats: for each system, the first that fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import inf, isinf

import numpy as np

from advisor.estimate.refusals import check_context
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.serving.demand import ServedModel
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of, engine_of
from advisor.estimate.tools.serving_formats import Way
from advisor.estimate.tools.software import ToolRules
from advisor.foundation.dates import current_day
from advisor.foundation.units import MILLISECOND
from advisor.nouns.limits import Objective
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.software.quality import loses_little
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.workload import Serving
from advisor.planning.search.found import SearchResult, keep_least
from advisor.planning.search.layouts import stated_values
from advisor.planning.search.options import Miss, Option, Price, priced_options, within_limits
from advisor.planning.search.replicas import replica_table
from advisor.planning.search.served_rows import ServedWork, Strain
from advisor.planning.search.serving import ServingSearch, most_replicas, search_serving
from advisor.planning.search.systems import System, by_host_memory
from advisor.planning.search.tries import Found, Tried, Try, ladders_of, may_hold
from advisor.planning.time_ranges import TimeSpreads


def search_served(
    asked: ResolvedCase,
    workload: Serving,
    systems: Sequence[System],
    rules: ToolRules,
    *,
    advising: bool,
    tried: Tried | None = None,
) -> tuple[list[System], SearchResult]:
    """Evaluate serving on all systems, each in the first of its ways that fits.

    Smaller weights than usual, and layers in the host's memory, become options only if nothing
    else fits on any system: first those that lose next to nothing. Others are in
    ``SearchResult.smaller``.

    ``advising``: also try formats that are worth naming where a larger one fits, as
    ``alternatives``. ``tried``: what other searches found that differ in their rules only.

    The systems with their tools; one with another tool or another host is separate.
    """
    check_context(workload, asked.architecture)
    ladders = ladders_of(rules, systems)
    search = _Served(asked, workload, list(systems), tried=tried)
    if tried is not None and not tried.found:
        search.try_first([ladders, *(ladders_of(one, systems) for one in tried.also)])
    steps = search.climb([[way for way in found if not way.hosted] for found in ladders])
    unsolved = [place for place, step in enumerate(steps) if step is None]
    found = bool(search.options or search.smaller)
    # Where a rate of requests is answered, nobody serves it from the host's memory. Where no system
    # is fast enough, a host is no help.
    if workload.requests_per_s is None if found else not search.carried:
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
    tried: Tried | None = None
    _variants: dict[tuple[int, str, str | None], int] = field(default_factory=dict)
    _prices: dict[int, Price] = field(default_factory=dict)
    _tried: dict[tuple[int, str, str | None], System] = field(default_factory=dict)

    @cached_property
    def _spreads(self) -> TimeSpreads:
        return TimeSpreads(self.asked.architecture, self.asked.calibration, self.workload)

    @cached_property
    def _today(self) -> date:
        return current_day()

    @cached_property
    def _duty(self) -> Duty:
        return duty_of(self.workload, self.asked.architecture)

    def try_first(self, ladders: Iterable[Sequence[Sequence[Way]]]) -> None:
        """Evaluate the first way of each system on each of several ladders, for ``tried``."""
        first = [
            (place, way) for each in ladders for place, one in enumerate(each) for way in one[:1]
        ]
        tries = [Try(place, way) for place, way in first if not way.hosted]
        self._evaluated([*{item.key: item for item in tries}.values()])

    def climb(self, ladders: Sequence[Sequence[Way]]) -> list[int | None]:
        """Find each system's first way that fits; return its place in the ladder.

        A first way mostly fits; after it, all others of a tool are evaluated together. Options with
        the largest weights come first. Who would wait for each word takes the next of the usual
        formats; at last the largest that one can read along with, or the smallest.
        """
        solved: list[int | None] = [None] * len(ladders)
        ahead = [self._worth_trying(place, ladder) for place, ladder in enumerate(ladders)]
        fitting: list[tuple[float, int, Way, list[Option]]] = []
        read: dict[int, tuple[float, int, Way, list[Option]]] = {}
        most = 1
        while any(ahead):
            tries = [
                (place, step)
                for place, steps in enumerate(ahead)
                for step in steps[:most]
                if ladders[place][step].tool is ladders[place][steps[0]].tool
            ]
            found = self._evaluated([Try(place, ladders[place][step]) for place, step in tries])
            for (place, step), one in zip(tries, found, strict=True):
                if step not in ahead[place]:
                    continue
                ahead[place].remove(step)
                if options := self._taken(one):
                    way, left = one.item.way, ahead[place]
                    taken = one.item.form.bytes_per_parameter, step, way, options
                    if self._slower_than(self._borne_ms, options):
                        if not self._slower_than(self._read_ms, options):
                            read.setdefault(place, taken)
                        if lighter := self._lighter(ladders[place], left, way):
                            ahead[place] = lighter
                            continue
                        taken = read.get(place, taken)
                    size, solved[place], way, options = taken
                    ahead[place] = []
                    fitting.append((-size, place, way, options))
            most = max(map(len, ladders))
        for _, _, way, options in sorted(fitting, key=lambda item: item[:2]):
            (self.options if way.usual else self.smaller).extend(options)
            if way.beside and not way.usual:
                self.alternatives.extend(options)
        return solved

    @cached_property
    def _borne_ms(self) -> float:
        """Time of a token that who asks bears. [ms]"""
        case = self.asked.case
        usual_ms = serving_defaults().patience.between_tokens_ms(case.workload)
        return case.limits.max_tpot_ms or usual_ms

    @cached_property
    def _read_ms(self) -> float:
        """The same where nothing is as fast: at reading speed, unless a limit is stated. [ms]"""
        return self.asked.case.limits.max_tpot_ms or serving_defaults().patience.reader_token_ms

    @staticmethod
    def _slower_than(most_ms: float, options: Sequence[Option]) -> bool:
        return all(one.later_s > most_ms * MILLISECOND for one in options)

    @staticmethod
    def _lighter(ladder: Sequence[Way], ahead: Sequence[int], taken: Way) -> list[int]:
        """Return the usual formats ahead of the same tool and cache."""
        kin = (taken.tool, True, taken.cache)
        ways = [(one, ladder[one]) for one in ahead]
        return [one for one, way in ways if (way.tool, way.usual, way.cache) == kin]

    def _worth_trying(self, place: int, ladder: Sequence[Way]) -> list[int]:
        """Return the ways whose weights alone could fit all cards; the last is always tried."""
        fits = may_hold(self.systems[place], ladder, self.asked.architecture)
        return [
            step
            for step, way in enumerate(ladder)
            if fits[step] or way.hosted or step + 1 == len(ladder)
        ]

    def beside(self, ladders: Sequence[Sequence[Way]], steps: Sequence[int | None]) -> None:
        """Evaluate the formats that are worth naming where a larger one fits.

        If the cheapest is asked, only a smaller bill is worth naming.
        """
        most = self._least_usd()
        tries = [
            Try(place, way)
            for place, (ladder, step) in enumerate(zip(ladders, steps, strict=True))
            if step is not None and self._price(place).affordable(self.systems[place].counts, most)
            for way in ladder[step + 1 :]
            if way.beside
        ]
        names = list(dict.fromkeys(item.way.weight_format for item in tries))
        tries.sort(key=lambda item: names.index(item.way.weight_format))
        for found in self._evaluated(tries, most_usd=most):
            self.alternatives.extend(self._taken(found, missing=False))

    def _least_usd(self) -> float:
        """Return the least bill of what meets the limits; infinite where bills do not decide."""
        limits = self.asked.case.limits
        if self.asked.case.objective is not Objective.CHEAPEST:
            return inf
        able = within_limits(self.options, limits)
        least = min((one.cost_high_usd for one in able), default=inf)
        return least or inf  # owned cards: their time decides

    def host(
        self, places: Sequence[int], ladders: Sequence[Sequence[Way]], *, briefly: bool
    ) -> None:
        """Search with layers or experts in the hosts' memory.

        ``briefly``: only whether an accelerator without options can: its first machine, with the
        fewest accelerators.
        """
        parted: list[System] = []
        hosted: list[list[Way]] = []
        seen = {self.systems[one.system].accelerator.key for one in self.options}
        for place in places:
            ways = [way for way in ladders[place] if way.hosted]
            system = self.systems[place]
            if not ways or (briefly and system.accelerator.key in seen):
                continue
            seen.add(system.accelerator.key)
            if briefly:
                system = replace(system, counts=system.counts[:1])
            for machine in by_host_memory([system], self.asked.case.host, serving=True):
                fits = may_hold(machine, ways, self.asked.architecture)
                if able := [way for way, fit in zip(ways, fits, strict=True) if fit]:
                    parted.append(machine)
                    hosted.append(able)
        first = len(self.systems)
        self.systems.extend(parted)
        empty: list[list[Way]] = [[] for _ in range(first)]
        self.climb([*empty, *hosted])

    def result(self, ladders: Sequence[Sequence[Way]]) -> SearchResult:
        """Return the result of the search."""
        like, other = list[Option](), list[Option]()
        for one in self.smaller:
            little = loses_little(one.precision) and not one.layouts.on_host(one.row)
            (like if little else other).append(one)
        best, *rest = [tier for tier in (self.options, like, other) if tier] or [[]]
        able = (self.systems[place] for place, ladder in enumerate(ladders) if ladder)
        formats = (WEIGHT_FORMATS[way.weight_format].compute for one in ladders for way in one[:1])
        return SearchResult(
            options=tuple(best),
            alternatives=tuple(self.alternatives),
            searched=self.searched,
            misses=self.misses,
            with_format=frozenset(system.accelerator.key for system in able),
            formats=tuple(dict.fromkeys(formats)),
            spreads=self._spreads,
            smaller=tuple(one for tier in rest for one in tier),
            carried=self.carried,
            lowered=bool(self.smaller and not self.options),
        )

    def _evaluated(self, tries: Sequence[Try], *, most_usd: float = inf) -> list[Found]:
        """Search the systems of tries, those that share a search together.

        ``most_usd``: dearer numbers of accelerators are left out, but for the next one, below which
        the fewest that suffice may be. [USD/month]
        """
        known = self.tried.found if self.tried is not None and isinf(most_usd) else {}
        found: dict[int, Found] = {}
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, item in enumerate(tries):
            if item.key in known and not item.way.hosted:
                found[number] = known[item.key]._replace(item=item)
            else:
                groups.setdefault(self._kind(item), []).append(number)
        for numbers in groups.values():
            search = self._searched([tries[number] for number in numbers], most_usd)
            found |= {one: Found(tries[one], search, at) for at, one in enumerate(numbers)}
        # The places of hosts' systems differ between searches.
        known |= {one.item.key: one for one in found.values() if not one.item.way.hosted}
        return [found[number] for number in range(len(tries))]

    def _kind(self, item: Try) -> tuple[object, ...]:
        """Return what tries have in common that share a search: kind of format, and engine."""
        tool, card = item.way.tool, self.systems[item.place].accelerator
        constants = self.asked.calibration
        engine, most = engine_of(tool, card, constants), tool.at_once(self._duty)
        if not self.asked.architecture.generates or most:
            return item.form.name, engine, most, item.way.hosted
        served = ServedModel.of(self.asked.architecture, weight_format=item.form, cache_bytes=0.0)
        return *served.kind, id(constants.under(engine).engine_for(item.form)), item.way.hosted

    def _taken(self, found: Found, *, missing: bool = True) -> list[Option]:
        """Return the priced options of a try.

        ``missing``: also note what its system lacks.
        """
        search, at, name = found.search, found.at, found.item.form.name
        place, self.searched = self._variant(found.item), self.searched + search.searched[at]
        card = self.systems[place].accelerator
        if missing and not found.item.way.hosted:
            if at in search.misses:
                keep_least(self.misses, {place: search.misses[at]}, self.systems)
            if carried := search.carried.get(at, 0.0):
                self.carried[card.key] = max(self.carried.get(card.key, 0.0), carried)
        begin, end = search.ends[at : at + 2]
        if begin == end:
            return []
        proven, layouts = self._spreads.proven(card, name), search.layouts
        options = [
            Option(place, count, name, layouts, row, *times, proven=proven)
            for row, (count, times) in enumerate(search.rows[begin:end], begin)
        ]
        return priced_options(options, {place: self._price(found.item.place)}, self.workload)

    def _price(self, place: int) -> Price:
        if place not in self._prices:
            kind = self.asked.case.limits.price_kind
            self._prices[place] = Price.of(self.systems[place], kind, today=self._today)
        return self._prices[place]

    def _variant(self, item: Try) -> int:
        """Return the index of the try's system with its tool and cache; others are a new system."""
        system, way = self.systems[item.place], item.way
        key = item.place, way.tool.name, way.cache
        if system.tool is None:
            self.systems[item.place] = self._under(item)
            self._variants[key] = item.place
        elif system.tool is way.tool and system.cache == way.cache:
            return item.place
        elif key not in self._variants:
            self._variants[key] = len(self.systems)
            self.systems.append(self._under(item))
        return self._variants[key]

    def _under(self, item: Try) -> System:
        """Return the system of a try with its tool and cache."""
        tool, cache = item.way.tool, item.way.cache
        key = item.place, tool.name, cache
        if key not in self._tried:
            self._tried[key] = replace(self.systems[item.place], tool=tool, cache=cache)
        return self._tried[key]

    def _searched(self, alike: Sequence[Try], most_usd: float) -> ServingSearch:
        """Search the systems of tries that share a search."""
        asked, way, forms = self.asked, alike[0].way, [item.form for item in alike]
        members = []
        for item in alike:
            member = self._under(item)
            if not isinf(most_usd):
                most = self._price(item.place).affordable(member.counts, most_usd) + 1
                member = replace(member, counts=member.counts[:most])
            members.append(member)
        cards = [one.accelerator for one in members]
        constants = constants_of(asked.calibration, way.tool, cards[0], self._duty)
        layout = asked.case.layout
        table = replica_table(
            asked.architecture,
            members,
            most_replicas(self.workload),
            stated_values(layout),
            by_layers=constants.engine_for(forms[0]).divides_layers,
            hosted=way.hosted,
            spares=self.workload.spare_replicas,
        )
        spreads, at = self._spreads, asked.case.limits.at
        hosted = way.hosted or bool(layout and layout.host_options)
        highs = [
            (
                spreads.of(card, precision=form.name, count=1, hosted=hosted).high,
                spreads.first(card, precision=form.name, at=at, hosted=hosted).high,
            )
            for card, form in zip(cards, forms, strict=True)
        ]
        work = ServedWork(
            asked.architecture,
            self.workload,
            members,
            forms,
            asked.case.limits,
            constants,
            Strain(*np.array(highs).T),
        )
        prices = [self._price(item.place) for item in alike]
        free = not (layout and layout.states("data"))
        return search_serving(work, table, prices, free=free)
