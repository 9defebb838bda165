"""The machines that can hold the hardware of a case."""

from dataclasses import replace

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.errors import refusal
from advisor.estimate.training.loading import decodes_images
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.workload import Serving
from advisor.planning.search.options import Price
from advisor.planning.search.systems import System, find_systems, owned_system


def hardware_systems(
    accelerator: Accelerator,
    count: int,
    catalog: Catalog,
    case: Case,
    *,
    together: int,
    decoding: bool = False,
) -> list[System]:
    """Return the systems that can hold ``count`` accelerators.

    The user's own machine; otherwise every kind of machine that the limits allow to rent; otherwise
    a standard machine without a price. Raises InputError if the user owns fewer accelerators.

    ``together``: accelerators that links have to join: those of one replica.
    """
    owned = [
        item.count
        for item in case.limits.owned
        if catalog.accelerator(item.accelerator).key == accelerator.key
    ]
    if owned and count > max(owned):
        raise refusal("more_than_owned", value=count, card=accelerator, most=max(owned))
    if owned:
        return [replace(owned_system(accelerator, count), counts=(count,))]
    limits = case.limits.changed(accelerators=(accelerator.key,), owned=(), max_accelerators=16384)
    rented = [
        replace(system, counts=(count,))
        for system in find_systems(catalog, limits, training=False, decoding=decoding)
        if max(system.node.accelerators, system.node.intra_domain) >= together
        or system.node.inter_bytes_per_s is not None
    ]
    if count == 1:  # nobody rents eight cards for one
        rented = [system for system in rented if system.node.accelerators == 1] or rented
    joined = 1 if accelerator.stands_alone else count
    return rented or [replace(owned_system(accelerator, joined), counts=(count,))]


def machines_of(case: Case, architecture: ModelArchitecture, catalog: Catalog) -> list[System]:
    """Return the systems that a case with hardware is searched on."""
    assert case.hardware is not None
    return hardware_systems(
        catalog.accelerator(case.hardware.accelerator),
        case.hardware.count,
        catalog,
        case,
        together=1 if isinstance(case.workload, Serving) else case.hardware.count,
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
        one = Price.of(system, kind)
        return one.usd_per_hour * one.factor * -(-count // one.accelerators)

    found = hardware_systems(accelerator, count, catalog, case, together=together or count)
    return min(found, key=price)
