"""Many cases at once: the figures of each, without the explanation that one answer has.

Cases that differ only in hardware, count, deadline, budget or objective share one search, in the
arrays that a search uses anyway. Every figure equals that of `estimate` or `recommend`.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.catalog import Catalog
from advisor.errors import InputError
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.together import side_by_side
from advisor.nouns.case import Case
from advisor.nouns.limits import Objective
from advisor.planning.explain.missed import missed_limits
from advisor.planning.machines import machines_of
from advisor.planning.placed import estimate_placed
from advisor.planning.prepared import PricedCase, fed, prepared
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import Option
from advisor.planning.search.ranking import best_option
from advisor.planning.search.systems import System
from advisor.planning.searched import Searched
from advisor.planning.stated import SEARCH, best_placement, placed

Figures = Estimate | InputError | None
"""An estimate, the caller's mistake, or None where nothing meets the limits."""
_Chosen = Figures | Callable[[], Estimate]
"""Figures, or what estimates the chosen configuration."""
Searching = tuple[Sequence[System], SearchResult]

ANY_MONEY: Final = {"deadline_hours": None, "budget_usd": None}
"""Limits that choose among what a search found; the search itself does not depend on them."""


def estimate_many(cases: Sequence[Case], catalog: Catalog | None = None) -> list[Figures]:
    """Estimate many cases, each on its hardware or, without any, with the best plan.

    For each case in order: its `Estimate`, without neighbours, curves and ways out; the
    `InputError` that `estimate` or `recommend` would raise; or None if nothing meets the limits.
    Those that differ in numbers only are answered together.
    """
    groups: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        groups.setdefault(_alike(case), []).append(index)
    chosen: list[_Chosen] = [None] * len(cases)
    tasks = []
    for indices in groups.values():
        members = [cases[index] for index in indices]
        answer = _searched_group if members[0].hardware is None else _placed_group
        tasks.append(partial(_listed, answer, members, catalog))
    for indices, answers in zip(groups.values(), side_by_side(tasks), strict=True):
        for index, one in zip(indices, answers, strict=True):
            chosen[index] = one
    return side_by_side([partial(_figures, one) for one in chosen])


def _listed(
    answer: Callable[[Sequence[Case], Catalog | None], Iterable[_Chosen]],
    members: Sequence[Case],
    catalog: Catalog | None,
) -> list[_Chosen]:
    return list(answer(members, catalog))


def _figures(chosen: _Chosen) -> Figures:
    """Return the estimate of what was chosen for a case."""
    if not callable(chosen):
        return chosen
    try:
        return chosen()
    except InputError as error:
        return error


def _alike(case: Case) -> str:
    """Return what cases share that share a search, as text."""
    fixed = case.limits.changed(**ANY_MONEY)
    free: dict[str, object] = {"limits": fixed, "objective": Objective.CHEAPEST}
    kind = "placed" if case.hardware else "searched"
    quoted = case.renting.usd_per_hour is not None  # for this hardware only
    if case.hardware is not None and not case.limits.owned and not quoted:
        free["hardware"] = None
    return kind + case.changed(**free).model_dump_json()


def _each(members: Sequence[Case], answer: Callable[[Case], _Chosen]) -> Iterable[_Chosen]:
    """Yield what is chosen for each case, or the mistake in it."""
    for case in members:
        try:
            yield answer(case)
        except InputError as error:
            yield error


def _searched_group(members: Sequence[Case], catalog: Catalog | None) -> Iterable[_Chosen]:
    """Answer cases without hardware: one search, then the best plan within each one's limits."""
    try:
        first = prepared(members[0], catalog, searching=True)
        wide = first if len(members) == 1 else first.of(_unlimited(first.case))
        found = Searched.of(wide, advising=False)
    except InputError as error:
        return [error] * len(members)
    cases = [case.changed(workload=first.case.workload) for case in members]
    return _each(cases, partial(_best, found=found))


def _best(case: Case, found: Searched) -> _Chosen:
    own = found.within(case)
    if not own.feasible and found.pace:  # A budget may allow only slower plans.
        own = Searched.of(found.asked.of(case), advising=False)
    best = best_option(own.feasible, case.objective)
    return None if best is None else partial(own.estimate, best)


def _unlimited(case: Case) -> Case:
    return case.changed(limits=case.limits.changed(**ANY_MONEY))


def _placed_group(members: Sequence[Case], catalog: Catalog | None) -> Iterable[_Chosen]:
    """Answer cases with hardware: one search over the hardware of all."""
    if len(members) == 1:
        return _each(members, partial(_alone, catalog=catalog))
    try:
        first = prepared(members[0], catalog)
    except InputError:
        return _each(members, partial(_alone, catalog=catalog))
    workload = {"workload": first.case.workload}
    cases = [fed(case.changed(**workload), first.architecture) for case in members]
    batches: dict[str, list[Case]] = {}
    for case in cases:  # an open batch grows with the count
        batches.setdefault(case.workload.model_dump_json(), []).append(case)
    joint = {key: _Joint(alike, first) for key, alike in batches.items()}

    def answer(case: Case) -> _Chosen:
        search = joint[case.workload.model_dump_json()]
        asked, machines = first.of(case), search.machines.get(_hardware(case))
        return partial(_described, asked, best_placement(asked, search=search, machines=machines))

    return _each(cases, answer)


def _alone(case: Case, catalog: Catalog | None) -> _Chosen:
    return partial(_described, *placed(case, catalog))


def _described(asked: ResolvedCase, place: Placement) -> Estimate:
    found = estimate_placed(asked, place)
    return found.changed(missed_limits=missed_limits(found, asked.case.limits))


def _hardware(case: Case) -> tuple[str, int]:
    assert case.hardware is not None
    return case.hardware.accelerator, case.hardware.count


class _Joint:
    """One search over the hardware of several cases, called as `stated.SEARCH` for each.

    What it does not find is searched alone: only then may a layout use the host's memory, or
    weights be smaller than usual.
    """

    def __init__(self, cases: Sequence[Case], first: PricedCase) -> None:
        self.machines: dict[tuple[str, int], list[System]] = {}
        for case in cases:
            with suppress(InputError):  # told where the case is answered
                if _hardware(case) not in self.machines:
                    machines = machines_of(case, first.architecture, first.catalog)
                    self.machines[_hardware(case)] = machines
        self._options: dict[tuple[str, int], list[Option]] = {}
        self._found: Searching | None = None
        many = [one for systems in self.machines.values() for one in systems]
        with suppress(InputError):
            self._found = SEARCH(first.of(_unlimited(cases[0])), many)
            systems, result = self._found
            for option in result.options:
                system = systems[option.system]
                place = system.accelerator.key, system.counts[0]
                self._options.setdefault(place, []).append(option)

    def __call__(self, asked: ResolvedCase, wanted: Sequence[System]) -> Searching:
        own = self._options.get((wanted[0].accelerator.key, wanted[0].counts[0]))
        if own is None or self._found is None or wanted is not self.machines[_hardware(asked.case)]:
            return SEARCH(asked, wanted)
        systems, result = self._found
        return systems, replace(result, options=tuple(own))
