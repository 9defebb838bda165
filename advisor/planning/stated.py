"""The configuration of ``estimate``: the asked one, or the best on that hardware."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.errors import refusal
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.serving_formats import served_format
from advisor.estimate.tools.software import Lack, ToolRules
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import resolve_training
from advisor.foundation import cents
from advisor.nouns.case import Case
from advisor.nouns.hardware import TOGETHER, Accelerator
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import Serving
from advisor.planning.machines import hardware_system, machines_of
from advisor.planning.placed import placement
from advisor.planning.prepared import PricedCase, as_case, fed, on_owned, prepared
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import (
    Option,
    Price,
    latency_risk,
    priced_options,
    within_limits,
)
from advisor.planning.search.precisions import proven_recipes
from advisor.planning.search.ranking import best_option
from advisor.planning.search.replicas import LAYER_DEGREES
from advisor.planning.search.software import search_and_host
from advisor.planning.search.systems import System, check_names, owned_system, with_host
from advisor.planning.search.training import with_range
from advisor.planning.spanning import spanning
from advisor.planning.spot import interruptions_of
from advisor.planning.time_ranges import TimeSpreads
from advisor.planning.unsearched import Arranged, Asked, leanest, unsearched

Found = tuple[Sequence[System], SearchResult]
Search = Callable[[ResolvedCase, Sequence[System]], Found]
"""As `search_and_host`."""

SEARCH: Search = partial(search_and_host, advising=False)


def placed(case: Case | Mapping[str, Any], catalog: Catalog | None) -> tuple[PricedCase, Placement]:
    """Resolve a case with hardware: its model and its placement."""
    asked = prepared(on_owned(as_case(case)), catalog)
    asked = asked.of(fed(asked.case, asked.architecture))
    return asked, best_placement(asked)


def best_placement(
    asked: PricedCase, *, search: Search = SEARCH, machines: Sequence[System] | None = None
) -> Placement:
    """Return the placement of a case on its hardware.

    In the fastest layout that fits and has the stated fields, with host memory only if nothing fits
    without it; otherwise in the smallest, so the estimate shows how much memory is missing. Raises
    InputError if the hardware is missing or unknown, or lacks the precision.

    ``asked``: with ``hardware``. ``search``: what searches its systems; many cases share one
    search. ``machines``: its :func:`machines_of`, if the caller has them already.
    """
    case, asked = asked.case, _asked(asked, machines)
    systems, result = _searched(asked, search)
    options: Sequence[Option] = spanning(asked, systems, result.options, fewer=False)
    if not options and case.layout is not None:
        asked = replace(asked, systems=with_host(asked.systems, case.host))
        systems, options = asked.systems, _timed(asked)
    inside = [option for option in options if _inside(option, systems[option.system])] or options
    if asked.serving and inside:
        places = _places(asked, systems, inside)
        inside = [one for one, place in zip(inside, places, strict=True) if place == min(places)]
    best = _best(asked, inside)
    if best is not None:
        system = systems[best.system]
        if best.offer and TOGETHER in best.offer.key and best.cards == asked.count:
            return placement(best, system)
        tool = system.tool or asked.usual.tool
        how = Arranged(tool, best.precision, best.layout, system.cache)
        return _placed(asked, system, best.count, how)
    least = asked.usual.layout
    together = least.accelerators // (max(1, least.replicas) if asked.serving else 1)
    cheapest = hardware_system(asked.card, asked.count, asked.catalog, case, together=together)
    [system] = with_host([cheapest], case.host)
    how = unsearched(asked, system, short=asked.card.key in result.misses)
    return _placed(asked, system, asked.count, how)


def _asked(given: PricedCase, machines: Sequence[System] | None) -> Asked:
    """Return a case with its hardware, machines and usual tool; refuse it without hardware."""
    case, architecture, catalog = given.case, given.architecture, given.catalog
    if case.hardware is None:
        raise refusal("hardware_missing")
    card, count = catalog.accelerator(case.hardware.accelerator), case.hardware.count
    check_names(case.limits, catalog)
    systems = machines or machines_of(case, architecture, catalog)
    tool = stated_tool(case, architecture, card)
    precision = (
        served_format(case.workload, architecture, card, tool)
        if isinstance(case.workload, Serving)
        else supported_precision(case, card, architecture, tool)
    )
    usual = Arranged(tool, precision, leanest(architecture, count, case, tool, card))
    return Asked(case, architecture, given.calibration, catalog, card, count, systems, usual)


def _inside(option: Option, system: System) -> bool:
    """Whether tensor groups stay inside a machine or its link domain, as people run them."""
    return option.layout.tensor <= max(system.node.accelerators, system.node.intra_domain)


def _best(asked: Asked, options: Sequence[Option]) -> Option | None:
    """Return the best option, within the limits if one is."""
    limits = asked.case.limits
    # If replicas can use all accelerators, none stays idle.
    options = [option for option in options if option.cards == asked.count] or options
    able = within_limits(options, limits)
    if not able and asked.serving:
        risks = [latency_risk(option, limits) for option in options]
        options = [one for one, risk in zip(options, risks, strict=True) if risk == min(risks)]
    return best_option(able or options, asked.case.objective)


def _placed(asked: Asked, system: System, count: int, how: Arranged) -> Placement:
    """Return the placement on a system at its cheapest offer.

    Raises InputError if the accelerators hold no spare replica beside those of the layout.
    """
    spares = getattr(asked.case.workload, "spare_replicas", 0)
    together = count + spares * how.layout.replica_cards if spares else 0
    if together > asked.count:
        raise refusal("no_spare_replica", value=asked.count, together=together, how=how)
    price = Price.of(system, asked.case.limits.price_kind)
    interruptions = interruptions_of(asked.case, asked.calibration)
    instances = -(-asked.count // price.accelerators) if price.offer else 0
    return Placement(
        accelerator=asked.card,
        node=system.node,
        count=count,
        layout=how.layout,
        precision=how.precision,
        offer=price.offer,
        usd_per_hour=None if system.owned else cents.times(price.usd_per_hour, instances),
        instances=instances,
        owned=system.owned,
        interrupted=interruptions.hours(instances) if interruptions and price.offer else None,
        tool=how.tool,
        cache=how.cache,
    )


def supported_precision(
    case: Case, accelerator: Accelerator, architecture: ModelArchitecture, tool: Tool | None
) -> str:
    """Return the recipe to train in: the asked one, or the first proven one on the card."""
    if isinstance(case.workload, Serving):
        msg = "a serving workload has a weight format, not a recipe"
        raise TypeError(msg)
    for name in proven_recipes(case.workload, architecture, tool, case.layout):
        able = recipe_named(name).compute in accelerator.peak_flops_per_s
        if able or case.workload.precision:
            return name
    rates = ", ".join(accelerator.peak_flops_per_s) or "none"
    raise refusal("no_training_rate", value=rates, card=accelerator)


def stated_tool(case: Case, architecture: ModelArchitecture, accelerator: Accelerator) -> Tool:
    """Return the tool that does a case's work on its card.

    A stated layout that no training tool offers is still estimated; the estimate says so. Raises
    InputError if no known software does the work on the card.
    """
    found = ToolRules.of(case, architecture).choose(accelerator)
    if isinstance(found, Lack) and case.layout and not isinstance(case.workload, Serving):
        free = case.changed(layout=None)
        found = ToolRules.of(free, architecture).choose(accelerator)
    if not isinstance(found, Lack):
        return found
    raise refusal("no_software", value=accelerator.key, card=accelerator, found=found)


def _searched(asked: Asked, search: Search) -> Found:
    """Search the machines, and a standard one if none to rent joins all cards and it does more."""

    def found(systems: Sequence[System]) -> Found:
        return search(asked, systems)

    rented = found(asked.systems)
    joined = any(
        system.node.accelerators >= asked.count or system.node.inter_bytes_per_s
        for system in asked.systems
    )
    if joined or not asked.serving or (rented[1].options and not rented[1].lowered):
        return rented
    card, [count] = asked.systems[0].accelerator, asked.systems[0].counts
    standard = found([replace(owned_system(card, count), counts=(count,))])
    places = [_places(asked, systems, result.options) for systems, result in (rented, standard)]
    ours, others = (min(place, default=math.inf) for place in places)
    return standard if others < ours else rented


def _places(asked: Asked, systems: Sequence[System], options: Sequence[Option]) -> list[int]:
    """Return the place of each served option among the ways that a plan tries one by one."""
    many = asked.count > LAYER_DEGREES[-1]
    ways = [
        (way.tool.name, way.weight_format, way.hosted)
        for way in ToolRules.of(asked.case, asked.architecture).ways(asked.card, many=many)
    ]
    taken = [
        (systems[one.system].tool_name, one.precision, one.layouts.on_host(one.row))
        for one in options
    ]
    return [ways.index(way) if way in ways else len(ways) for way in taken]


def _timed(asked: Asked) -> list[Option]:
    """Return the asked layout on each system, to compare their training times.

    Empty for serving, where the price decides, and if the layout has another count or contradicts
    itself: the estimate refuses it.
    """
    case, architecture, calibration = asked.case, asked.architecture, asked.calibration
    card, layout, precision = asked.card, asked.usual.layout, asked.usual.precision
    if isinstance(case.workload, Serving) or layout.accelerators != asked.count:
        return []
    if any(layout.contradictions()):
        return []
    recipe = recipe_named(precision)
    if recipe.compute not in card.peak_flops_per_s:
        return []
    run = resolve_training(case.workload, architecture, recipe, asked.usual.tool)
    kernels, _ = calibration.kernels_for(card)
    layouts = LayoutArrays.of(layout)
    candidates = Candidates(
        layout=layouts.take(np.zeros(len(asked.systems), dtype=np.intp)),
        hardware=HardwareArrays.stack(
            [(each.accelerator, each.node, kernels, recipe.compute) for each in asked.systems]
        ),
    )
    hours, _ = evaluate_run_hours(run, candidates, calibration)
    spreads = TimeSpreads(architecture, calibration, case.workload)
    interruptions = interruptions_of(case, calibration)
    found = []
    for index, (system, time) in enumerate(zip(asked.systems, hours.tolist(), strict=True)):
        if np.isfinite(time):
            one = Option(index, asked.count, precision, layouts, 0, time, time)
            found.append(with_range(one, index, system, run, spreads, proven=True))
    return priced_options(
        found,
        [Price.of(system, case.limits.price_kind, interruptions) for system in asked.systems],
    )
