"""Many cases at once: the figures of each, without the explanation that one answer has.

Cases that differ only in hardware, count, deadline, budget or objective share one search, in the
arrays that a search uses anyway. Every figure equals that of `estimate` or `recommend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.estimate.training.loading import decodes_images
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.limits import Objective
from advisor.nouns.workload import Serving
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.measured import with_measured
from advisor.planning.prepared import fed, placed, prepared, priced, resolved
from advisor.planning.recommend import placement
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import Option, best_option, meets_budget, meets_time
from advisor.planning.search.precisions import search_and_host
from advisor.planning.search.systems import System, check_names, check_owned, find_systems
from advisor.planning.stated import best_placement, hardware_systems

Figures = Estimate | InputError | None
"""An estimate, the caller's mistake, or None where nothing meets the limits."""
Searched = tuple[Sequence[System], SearchResult]

ANY_MONEY: Final = {"deadline_hours": None, "budget_usd": None}
"""Limits that choose among what a search found; the search itself does not depend on them."""


def estimate_many(cases: Sequence[Case], catalog: Catalog | None = None) -> list[Figures]:
    """Estimate many cases, each on its hardware or, without any, with the best plan.

    Parameters
    ----------
    cases : sequence of Case
        Those that differ in numbers only are answered together.
    catalog : Catalog, optional
        Default: the shipped catalog.

    Returns
    -------
    list
        One entry for each case, in order: its `Estimate`, without neighbours, curves and ways out;
        the `InputError` that `estimate` or `recommend` would raise; or None if nothing meets the
        limits.
    """
    groups: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        groups.setdefault(_alike(case), []).append(index)
    found: list[Figures] = [None] * len(cases)
    for indices in groups.values():
        members = [cases[index] for index in indices]
        answer = _searched_group if members[0].hardware is None else _placed_group
        for index, figures in zip(indices, answer(members, catalog), strict=True):
            found[index] = figures
    return found


def _alike(case: Case) -> str:
    """Return what cases share that share a search, as text."""
    fixed = case.limits.model_copy(update=ANY_MONEY)
    free: dict[str, object] = {"limits": fixed, "objective": Objective.CHEAPEST}
    kind = "placed" if case.hardware else "searched"
    if case.hardware is not None and not case.limits.owned:
        free["hardware"] = None
    return kind + case.model_copy(update=free).model_dump_json()


def _each(members: Sequence[Case], answer: Callable[[Case], Estimate | None]) -> Iterable[Figures]:
    """Yield the answer to each case, or the mistake in it."""
    for case in members:
        try:
            yield answer(case)
        except InputError as error:
            yield error


def _searched_group(members: Sequence[Case], catalog: Catalog | None) -> Iterable[Figures]:
    """Answer cases without hardware: one search, then the best plan within each one's limits."""
    try:
        first, architecture = resolved(members[0])
        catalog, calibration = with_measured(
            priced(first, catalog), load_calibration(), first.limits
        )
        check_names(first.limits, catalog)
        check_owned(first.limits)
        offered = find_systems(
            catalog,
            first.limits,
            training=not isinstance(first.workload, Serving),
            decoding=decodes_images(first.workload, architecture),
        )
        wide = first if len(members) == 1 else _unlimited(first)
        found = search_and_host(wide, architecture, offered, calibration)
    except InputError as error:
        return [error] * len(members)
    return _each(
        [case.model_copy(update={"workload": first.workload}) for case in members],
        partial(_best, found=found, architecture=architecture, calibration=calibration),
    )


def _best(
    case: Case, found: Searched, architecture: ModelArchitecture, calibration: Calibration
) -> Estimate | None:
    systems, result = found
    best = best_option(_within(result.options, case), case.objective)
    if best is None:
        return None
    return estimate_configuration(
        case,
        placement(best, systems[best.system]),
        architecture=architecture,
        calibration=calibration,
        run=best.run,
    )


def _within(options: Iterable[Option], case: Case) -> list[Option]:
    limits = case.limits
    return [one for one in options if meets_time(one, limits) and meets_budget(one, limits)]


def _unlimited(case: Case) -> Case:
    return case.model_copy(update={"limits": case.limits.model_copy(update=ANY_MONEY)})


def _placed_group(members: Sequence[Case], catalog: Catalog | None) -> Iterable[Figures]:
    """Answer cases with hardware: one search over the hardware of all."""
    if len(members) == 1:
        return _each(members, partial(_alone, catalog=catalog))
    try:
        first, catalog, calibration, architecture = prepared(members[0], catalog)
    except InputError:
        return _each(members, partial(_alone, catalog=catalog))
    cases = [
        fed(case.model_copy(update={"workload": first.workload}), architecture) for case in members
    ]
    batches: dict[str, list[Case]] = {}
    for case in cases:  # an open batch grows with the count
        batches.setdefault(case.workload.model_dump_json(), []).append(case)
    search = {
        key: _joint_search(alike, architecture, catalog, calibration)
        for key, alike in batches.items()
    }

    def answer(case: Case) -> Estimate:
        place = best_placement(
            case,
            architecture=architecture,
            catalog=catalog,
            calibration=calibration,
            search=search[case.workload.model_dump_json()],
        )
        return _described(
            case,
            estimate_configuration(case, place, architecture=architecture, calibration=calibration),
        )

    return _each(cases, answer)


def _alone(case: Case, catalog: Catalog | None) -> Estimate:
    case, _, calibration, architecture, place = placed(case, catalog)
    return _described(
        case,
        estimate_configuration(case, place, architecture=architecture, calibration=calibration),
    )


def _described(case: Case, estimate: Estimate) -> Estimate:
    return estimate.model_copy(update={"missed_limits": missed_limits(estimate, case.limits)})


def _joint_search(
    cases: Sequence[Case],
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
) -> Callable[[Case, ModelArchitecture, Sequence[System], Calibration], Searched]:
    """Search the hardware of all cases at once.

    Returns
    -------
    callable
        As `search_and_host`; what the joint search did not find is searched alone, because only
        then may a layout use the host's memory.
    """
    decoding = decodes_images(cases[0].workload, architecture)
    asked: dict[tuple[str, int], list[System]] = {}
    for case in cases:
        assert case.hardware is not None
        try:
            card = catalog.accelerator(case.hardware.accelerator)
            if (card.key, case.hardware.count) not in asked:
                asked[card.key, case.hardware.count] = hardware_systems(
                    card, case.hardware.count, catalog, case, decoding=decoding
                )
        except InputError:
            continue  # told where the case is answered
    try:
        systems, result = search_and_host(
            _unlimited(cases[0]),
            architecture,
            [one for many in asked.values() for one in many],
            calibration,
        )
    except InputError:
        return search_and_host
    of: dict[tuple[str, int], list[Option]] = {}
    for option in result.options:
        system = systems[option.system]
        of.setdefault((system.accelerator.key, system.counts[0]), []).append(option)

    def search(
        case: Case,
        architecture: ModelArchitecture,
        wanted: Sequence[System],
        calibration: Calibration,
    ) -> Searched:
        own = of.get((wanted[0].accelerator.key, wanted[0].counts[0]), [])
        if not own:
            return search_and_host(case, architecture, wanted, calibration)
        return systems, replace(result, options=tuple(own))

    return search
