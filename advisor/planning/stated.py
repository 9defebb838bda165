"""The configuration of ``estimate``: the asked one, or the best on that hardware."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.catalog import Catalog
from advisor.errors import InputError
from advisor.estimate.batch.forward import generates
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays, matmul_peak
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.software import Lack, ToolRules, served_format
from advisor.estimate.training.loading import decodes_images
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import recipe_named, resolve_training
from advisor.foundation import cents
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.tool_offers import ServingOffer, TrainingOffer
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.explain.tuning import improvements
from advisor.planning.placed import estimate_placed
from advisor.planning.price_age import upper_factor
from advisor.planning.search.found import SearchResult
from advisor.planning.search.neighbours import neighbours
from advisor.planning.search.options import (
    Configuration,
    Option,
    Price,
    best_option,
    cheapest_offer,
    meets_budget,
    meets_time,
    priced_options,
)
from advisor.planning.search.precisions import proven_recipes, search_and_host
from advisor.planning.search.replicas import LAYER_DEGREES, PIPELINE_DEGREES
from advisor.planning.search.systems import (
    System,
    check_names,
    find_systems,
    owned_system,
    with_host,
)
from advisor.planning.spot import interruptions_of
from advisor.planning.time_ranges import TimeSpreads

Search = Callable[
    [Case, ModelArchitecture, Sequence[System], Calibration], tuple[Sequence[System], SearchResult]
]
"""As `search_and_host`."""

_SEARCH: Search = partial(search_and_host, advising=False)
Arranged = tuple[Tool, str, ParallelLayout]
"""Tool, precision and layout of a placement."""


def hardware_systems(
    accelerator: Accelerator,
    count: int,
    catalog: Catalog,
    case: Case,
    *,
    together: int | None = None,
    decoding: bool = False,
) -> list[System]:
    """Return the systems that can hold ``count`` accelerators.

    The user's own machine; otherwise every kind of machine that the limits allow to rent;
    otherwise a standard machine without a price.

    Parameters
    ----------
    together : int, optional
        Accelerators that links have to join: those of one replica. All by default.

    Raises
    ------
    InputError
        If the user owns fewer accelerators.
    """
    owned = [
        item.count
        for item in case.limits.owned
        if catalog.accelerator(item.accelerator).key == accelerator.key
    ]
    if owned and count > max(owned):
        raise InputError(
            f"the case asks for more {accelerator.name} than you own",
            value=count,
            allowed=f"up to {max(owned)}",
            remedy="Lower hardware.count, raise limits.owned, or leave limits.owned out to rent.",
            field="hardware.count",
        )
    if owned:
        return [replace(owned_system(accelerator, count), counts=(count,))]
    limits = case.limits.model_copy(
        update={"accelerators": (accelerator.key,), "owned": (), "max_accelerators": 16384}
    )
    joined = count if together is None else together
    rented = [
        replace(system, counts=(count,))
        for system in find_systems(catalog, limits, training=False, decoding=decoding)
        if max(system.node.accelerators, system.node.intra_domain) >= joined
        or system.node.inter_bytes_per_s is not None
    ]
    return rented or [replace(owned_system(accelerator, count), counts=(count,))]


def machines_of(case: Case, architecture: ModelArchitecture, catalog: Catalog) -> list[System]:
    """Return the systems that a case with hardware is searched on."""
    assert case.hardware is not None
    return hardware_systems(
        catalog.accelerator(case.hardware.accelerator),
        case.hardware.count,
        catalog,
        case,
        together=1 if isinstance(case.workload, Serving) else None,
        decoding=decodes_images(case.workload, architecture),
    )


def hardware_system(
    accelerator: Accelerator,
    count: int,
    catalog: Catalog,
    case: Case,
    *,
    together: int | None = None,
) -> System:
    """Return the cheapest of the machines that can hold ``count`` accelerators."""
    kind = case.limits.price_kind

    def price(system: System) -> float:
        offer, per_hour = cheapest_offer(system, kind)
        factor = upper_factor(offer, kind) if offer else 1.0
        return per_hour * factor * -(-count // system.node.accelerators)

    return min(hardware_systems(accelerator, count, catalog, case, together=together), key=price)


def supported_precision(
    case: Case, accelerator: Accelerator, architecture: ModelArchitecture
) -> str:
    """Return the recipe to train in: the asked one, or the first proven one on the card."""
    if isinstance(case.workload, Serving):
        msg = "a serving workload has a weight format, not a recipe"
        raise TypeError(msg)
    if case.workload.precision:
        return case.workload.precision
    for name in proven_recipes(architecture):
        if matmul_peak(accelerator, recipe_named(name).compute) is not None:
            return name
    raise InputError(
        f"{accelerator.name} has no rate in any training format",
        value=", ".join(accelerator.peak_flops_per_s) or "none",
        allowed="bf16, fp16 or fp32",
        remedy="Choose another accelerator.",
        field="hardware.accelerator",
    )


def best_placement(
    case: Case,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    search: Search = _SEARCH,
    machines: Sequence[System] | None = None,
) -> Placement:
    """Return the placement of a case on its hardware.

    Parameters
    ----------
    case : Case
        With ``hardware``.
    search : callable, optional
        What searches its systems; many cases share one search.
    machines : sequence of System, optional
        Its :func:`hardware_systems`, if the caller has them already.

    Returns
    -------
    Placement
        In the fastest layout that fits and has the stated fields, with host memory only if
        nothing fits without it; otherwise in the smallest, so the estimate shows how much memory is
        missing.

    Raises
    ------
    InputError
        If the hardware is missing or unknown, or lacks the precision.
    """
    if case.hardware is None:
        raise InputError(
            "hardware is missing",
            value=None,
            allowed="an accelerator and a count",
            remedy="Add 'hardware: {accelerator: h100-sxm, count: 8}', or use recommend.",
            field="hardware",
        )
    accelerator = catalog.accelerator(case.hardware.accelerator)
    check_names(case.limits, catalog)
    count = case.hardware.count
    systems: Sequence[System] = machines or machines_of(case, architecture, catalog)
    tool = stated_tool(case, architecture, accelerator)
    precision = (
        served_format(case.workload, architecture, accelerator, tool)
        if isinstance(case.workload, Serving)
        else supported_precision(case, accelerator, architecture)
    )
    found_in, result = search(case, architecture, systems, calibration)
    if isinstance(case.workload, Serving) and (result.lowered or not result.options):
        found_in, result = _joined(
            case, architecture, systems, calibration, search, (found_in, result)
        )
    least = _leanest(architecture, count, case, tool)
    options: Sequence[Option] = result.options
    if options:
        systems = found_in
    elif case.layout is not None:
        options = _arranged(case, least, precision, architecture, systems, calibration)
    # If replicas can use all accelerators, none stays idle.
    options = [option for option in options if option.count == count] or options
    within = [
        option
        for option in options
        if meets_time(option, case.limits) and meets_budget(option, case.limits)
    ]
    best = best_option(within or options, case.objective)
    one = least.accelerators
    if isinstance(case.workload, Serving):
        one = one // max(1, least.replicas)
    system = (
        hardware_system(accelerator, count, catalog, case, together=one)
        if best is None
        else systems[best.system]
    )
    if best is None:
        [system] = with_host([system], case.host)
        tool, precision, layout = _unsearched(
            case,
            architecture,
            system,
            (tool, precision, least),
            calibration,
            short=accelerator.key in result.misses,
        )
    else:
        tool, precision, layout = system.tool or tool, best.precision, best.layout
    offer, per_hour = cheapest_offer(system, case.limits.price_kind)
    interruptions = interruptions_of(case, calibration)
    instances = -(-count // system.node.accelerators) if offer else 0
    return Placement(
        accelerator=accelerator,
        node=system.node,
        count=count if best is None else best.count,
        layout=layout,
        precision=precision,
        offer=offer,
        usd_per_hour=None if system.owned else cents.times(per_hour, instances),
        instances=instances,
        owned=system.owned,
        interrupted=interruptions.hours(instances) if interruptions and offer else None,
        tool=tool,
    )


def stated_tool(case: Case, architecture: ModelArchitecture, accelerator: Accelerator) -> Tool:
    """Return the tool that does a case's work on its card.

    A stated layout that no tool offers is still estimated; the estimate says so.

    Raises
    ------
    InputError
        If no known software does the work on the card.
    """
    found = ToolRules.of(case, architecture).choose(accelerator)
    if isinstance(found, Lack) and case.layout is not None:
        free = case.model_copy(update={"layout": None})
        found = ToolRules.of(free, architecture).choose(accelerator)
    if not isinstance(found, Lack):
        return found
    raise InputError(
        f"no software does this on {accelerator.name}: {found.reason}",
        value=accelerator.key,
        allowed="an accelerator with software for the work",
        remedy=found.remedy,
        field="hardware.accelerator",
    )


def _joined(
    case: Case,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
    search: Search,
    rented: tuple[Sequence[System], SearchResult],
) -> tuple[Sequence[System], SearchResult]:
    """Return the result on one standard machine, if none to rent joins all cards and it does more.

    Parameters
    ----------
    systems : sequence of System
        The machines to rent.
    rented
        What the search found on them.
    """
    found_in, result = rented
    card, [count] = systems[0].accelerator, systems[0].counts
    joined = any(
        system.node.accelerators >= count or system.node.inter_bytes_per_s for system in systems
    )
    if joined:
        return found_in, result
    standard = replace(owned_system(card, count), counts=(count,))
    others, found = search(case, architecture, [standard], calibration)
    if found.options and (not found.lowered or not result.options):
        return others, found
    return found_in, result


def _unsearched(
    case: Case,
    architecture: ModelArchitecture,
    system: System,
    usual: Arranged,
    calibration: Calibration,
    *,
    short: bool,
) -> Arranged:
    """Return tool, format and layout where the search has no layout for all accelerators.

    Serving takes the largest weight format that fits in the leanest layout, or else the narrowest.

    Parameters
    ----------
    usual : tuple
        Tool, format and layout of training.
    short : bool
        The search has layouts, and none of them fits.
    """
    if not isinstance(case.workload, Serving):
        return usual
    [count] = system.counts
    many = count > LAYER_DEGREES[-1]
    rules = ToolRules.of(case, architecture)
    ways = [way for way in rules.ways(system.accelerator, many=many) if not way.hosted]
    if not generates(architecture):
        ways = ways[:1]
    # Only a tool that divides layers' matrices puts many cards to use.
    dividing = [way for way in ways if way.tool.serving and "tensor" in way.tool.serving.divides]
    arranged = [
        (way.tool, way.weight_format, _leanest(architecture, count, case, way.tool))
        for way in (dividing if many else ()) or ways
    ]
    for tool, precision, layout in () if short else arranged:
        place = Placement(
            system.accelerator, system.node, layout.accelerators, layout, precision, tool=tool
        )
        try:
            found = estimate_configuration(
                case, place, architecture=architecture, calibration=calibration
            )
        except InputError:
            continue  # the network does not run in this layout
        if found.memory.fits:
            return tool, precision, layout
    if not arranged:
        return usual
    return min(arranged, key=lambda item: WEIGHT_FORMATS[item[1]].bytes_per_parameter)


def _arranged(
    case: Case,
    layout: ParallelLayout,
    precision: str,
    architecture: ModelArchitecture,
    systems: Sequence[System],
    calibration: Calibration,
) -> list[Option]:
    """Return the asked layout on each system, to compare their training times.

    Empty for serving, where the price decides, and if the layout has another count.
    """
    count = systems[0].counts[0]
    if isinstance(case.workload, Serving) or layout.accelerators != count:
        return []
    recipe = recipe_named(precision)
    if matmul_peak(systems[0].accelerator, recipe.compute) is None:
        return []
    tool = stated_tool(case, architecture, systems[0].accelerator)
    run = resolve_training(case.workload, architecture, recipe, tool)
    kernels, _ = calibration.kernels_for(systems[0].accelerator)
    layouts = LayoutArrays.of(layout)
    candidates = Candidates(
        layout=layouts.take(np.zeros(len(systems), dtype=np.intp)),
        hardware=HardwareArrays.stack(
            [(system.accelerator, system.node, kernels, recipe.compute) for system in systems]
        ),
    )
    hours, _ = evaluate_run_hours(architecture, run, candidates, calibration)
    spreads = TimeSpreads(
        architecture, calibration, serving=False, frozen=run.frozen, operator=run.operator
    )
    highs = [
        spreads.of(each.accelerator, each.node, precision=precision, count=count).high
        for each in systems
    ]
    interruptions = interruptions_of(case, calibration)
    return priced_options(
        [
            Configuration(index, count, precision, layouts, 0, time, time * highs[index], run=run)
            for index, time in enumerate(hours.tolist())
            if np.isfinite(time)
        ],
        [Price.of(system, case.limits.price_kind, interruptions) for system in systems],
    )


def _leanest(architecture: ModelArchitecture, count: int, case: Case, tool: Tool) -> ParallelLayout:
    """Return the stated fields with the least memory in all others that the tool offers."""
    stated = {} if case.layout is None else case.layout.model_dump(exclude_unset=True)
    workload = case.workload
    others = math.prod(stated.get(name, 1) for name in ("pipeline", "context"))
    samples = architecture.unit is not Unit.TOKEN
    offer = tool.serving if isinstance(workload, Serving) else tool.training
    splits = not samples and (offer is None or "tensor" in offer.divides)
    # A stated degree of data parallelism leaves the others to the rest of the accelerators.
    free = splits and not stated.keys() & {"tensor", "data"}
    tensor = stated.get("tensor") or max(
        degree
        for degree in ((1, 2, 4, 8) if free else (1,))
        if count % (degree * others) == 0 and architecture.num_attention_heads % degree == 0
    )
    least: dict[str, object] = {"tensor": tensor}
    if isinstance(offer, ServingOffer) and "pipeline" in offer.divides and not stated:
        degrees = PIPELINE_DEGREES if splits else LAYER_DEGREES
        stages = (degree for degree in degrees if count // tensor % degree == 0)
        others = max(min(degree, architecture.num_hidden_layers) for degree in stages)
        least["pipeline"] = others
    data = stated.get("data") or max(1, count // (tensor * others))
    least["data"] = data
    if isinstance(offer, TrainingOffer):
        blocks = not samples or any(op.segment for op in architecture.operators)
        four_bit = isinstance(workload, FineTuning) and workload.four_bit
        least["sharding"] = offer.shardings(four_bit=four_bit)[-1] if data > 1 else Sharding.DDP
        least["recompute"] = offer.recompute[-1] if blocks else Recompute.NONE
    # Contradictions are refused where the layout is estimated.
    return ParallelLayout().model_copy(update=least | stated)


def _at_once(case: Case, result: Estimate) -> Case:
    """Return a case with the requests in flight that its arrivals lead to, in their place."""
    workload = case.workload
    if result.serving is None or result.serving.arrivals is None:
        return case
    update = {
        "requests_per_s": None,
        "concurrency": max(1, round(result.serving.arrivals.in_flight)),
    }
    return case.model_copy(update={"workload": workload.model_copy(update=update)})


def explained(
    case: Case,
    placement: Placement,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    curves: bool,
) -> Estimate:
    """Estimate a configuration with its neighbours, the limits it misses and the ways out.

    Parameters
    ----------
    case : Case
        With open lengths filled in.
    placement : Placement
        The configuration.
    architecture : ModelArchitecture
        The case's model.
    catalog : Catalog
        Where ways out look for other accelerators.
    calibration : Calibration
        Fitted constants.
    curves : bool
        Also compute how batch and length change memory and speed.
    """
    result = estimate_placed(case, placement, architecture=architecture, calibration=calibration)
    around = neighbours(case, placement, architecture=architecture, calibration=calibration)
    missed = missed_limits(result, case.limits)
    result = result.model_copy(update={"neighbours": around, "missed_limits": missed})
    if not isinstance(case.workload, Serving):
        better = improvements(
            placement.training(case, architecture),
            placement,
            architecture=architecture,
            calibration=calibration,
        )
        result = result.model_copy(update={"improvements": better})
    case = _at_once(case, result)
    if curves:
        from advisor.planning.explain.curves import memory_curves

        found = memory_curves(case, placement, architecture=architecture, calibration=calibration)
        result = result.model_copy(update={"curves": found})
    if result.memory.fits:
        return result
    from advisor.planning.explain.ways_out import ways_out

    ways = ways_out(
        case,
        placement,
        result,
        architecture=architecture,
        catalog=catalog,
        calibration=calibration,
    )
    return result.model_copy(update={"ways_out": ways})
