"""The configuration that ``estimate`` answers for: as asked, or the best of that hardware."""

from __future__ import annotations

from dataclasses import replace

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.sample import Unit
from advisor.case import Case
from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for
from advisor.efficiency import Calibration
from advisor.errors import InputError
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.configuration import Placement
from advisor.estimate.run import recipe_named
from advisor.hardware import Accelerator
from advisor.layout import ParallelLayout, Recompute, Sharding
from advisor.limits import Objective
from advisor.planning.options import cheapest_offer
from advisor.planning.search import PROVEN_RECIPES, search, served_format
from advisor.planning.systems import System, check_names, find_systems
from advisor.workload import Serving


def hardware_system(
    accelerator: Accelerator, count: int, catalog: Catalog, case: Case
) -> tuple[System, bool]:
    """Return the cheapest rentable system that holds ``count`` accelerators, or a standard node.

    The second value says whether anything rents it.
    """
    limits = case.limits.model_copy(
        update={"accelerators": (accelerator.key,), "owned": (), "max_accelerators": 16384}
    )
    systems = [
        system
        for system in find_systems(catalog, limits, training=False)
        if system.node.accelerators >= count or system.node.inter_bytes_per_s is not None
    ]
    if systems:

        def price(system: System) -> float:
            _, per_hour = cheapest_offer(system, limits.price_kind)
            return per_hour * -(-count // system.node.accelerators)

        return min(systems, key=price), True
    node = node_for(accelerator, None)
    if node.inter_bytes_per_s is None and count > node.accelerators:
        node = node.model_copy(update={"accelerators": count})
    return System(accelerator, node, (), (count,), owned=True), False


def supported_precision(case: Case, accelerator: Accelerator) -> str:
    """Return the recipe to train in: the asked one, or the first proven one the card has."""
    if isinstance(case.workload, Serving):
        msg = "a serving workload has a weight format, not a recipe"
        raise TypeError(msg)
    if case.workload.precision:
        return case.workload.precision
    for name in PROVEN_RECIPES:
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
    accelerator: Accelerator,
    catalog: Catalog,
    calibration: Calibration,
) -> Placement:
    """Return where and how the case's hardware runs it.

    Parameters
    ----------
    case : Case
        With ``hardware``.
    architecture : ModelArchitecture
    accelerator : Accelerator
    catalog : Catalog
    calibration : Calibration

    Returns
    -------
    Placement
        The asked layout; else the fastest that fits; else the leanest, so that the estimate
        shows by how much it does not fit.
    """
    if case.hardware is None:
        msg = "the case has no hardware"
        raise ValueError(msg)
    check_names(case.limits, catalog)
    count = case.hardware.count
    system, rented = hardware_system(accelerator, count, catalog, case)
    offer, per_hour = cheapest_offer(system, case.limits.price_kind)
    instances = -(-count // system.node.accelerators) if offer else 0
    serving = isinstance(case.workload, Serving)
    precision = (
        served_format(case.workload, architecture)
        if isinstance(case.workload, Serving)
        else supported_precision(case, accelerator)
    )
    placement = Placement(
        accelerator=accelerator,
        node=system.node,
        count=count,
        layout=ParallelLayout(data=count),
        precision=precision,
        offer=offer,
        usd_per_hour=instances * per_hour if rented else None,
        instances=instances,
        owned=not rented,
    )
    if case.layout is not None:
        return replace(placement, layout=case.layout)
    fixed = replace(system, counts=(count,))
    found = search(case, architecture, [fixed], calibration).options
    if found:
        best = min(found, key=lambda option: option.key(Objective.FASTEST))
        return replace(placement, layout=best.layout, precision=best.precision)
    return replace(placement, layout=_leanest(architecture, count, serving=serving))


def _leanest(architecture: ModelArchitecture, count: int, *, serving: bool) -> ParallelLayout:
    """Divide the model as far as the count and its heads allow."""
    if architecture.unit is not Unit.TOKEN:
        return ParallelLayout(data=count, sharding=Sharding.ZERO3 if count > 1 else Sharding.DDP)
    tensor = max(
        degree
        for degree in (1, 2, 4, 8)
        if count % degree == 0 and architecture.num_attention_heads % degree == 0
    )
    if serving:
        return ParallelLayout(tensor=tensor, data=count // tensor)
    return ParallelLayout(
        tensor=tensor,
        data=count // tensor,
        sharding=Sharding.ZERO3 if count > tensor else Sharding.DDP,
        recompute=Recompute.FULL,
    )
