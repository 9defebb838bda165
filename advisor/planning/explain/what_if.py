"""What other hardware would buy: one change at a time, with the best layout of each."""

from collections.abc import Iterator

from advisor.catalog import Catalog
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range
from advisor.nouns.case import Case, Hardware
from advisor.nouns.hardware import Accelerator
from advisor.planning.prepared import PricedCase
from advisor.planning.stated import best_placement


class WhatIf(Noun):
    """A configuration with one change, or the configuration as it is."""

    change: str
    """The change; empty for the configuration as it is."""
    fits: bool
    hours: Range | None
    """Of the run (training). [h]"""
    tpot_ms: Range | None
    """Time per token, or of a batch (serving). [ms]"""
    usd: Range | None
    """Of the run, or of a month of serving; None without a price. [USD]"""
    bound_by: str
    """Largest share of the step, named as in an estimate."""


def what_ifs(asked: PricedCase) -> tuple[WhatIf, ...]:
    """Return the configuration of a case, then what each change makes of it.

    First the configuration as it is. A change that the software cannot run is left out. Raises
    InputError if the hardware is unknown or lacks the precision.

    ``asked``: with hardware. A stated layout is left out: each change has its own best one.

    A changed card keeps the measured constants of the card, so twice a peak is twice the rate of
    every kernel that the peak limits.
    """
    hardware, catalog, calibration = asked.case.hardware, asked.catalog, asked.calibration
    if hardware is None:
        raise ValueError("the case has no hardware")
    case = asked.case.changed(layout=None)
    card = catalog.accelerator(hardware.accelerator)
    # The constants of the card as it is: a changed one must not look like another generation.
    kernels, _ = calibration.kernels_for(card)
    calibration = calibration.changed(machines={card.key: kernels} | calibration.machines)

    def answered(changed: Case, having: Catalog) -> Estimate:
        case = PricedCase(changed, asked.architecture, calibration, having)
        return estimate_configuration(case, best_placement(case))

    now = answered(case, catalog)
    found = [_what_if("", now)]
    half = None if now.cost.rent_usd is None else now.cost.rent_usd.scaled(0.5)
    for title, changed, having in _changes(case, catalog, hardware):
        try:
            found.append(_what_if(title, answered(changed, having)))
        except InputError:
            continue
    if half is not None:
        found.append(found[0].changed(change="half the price", usd=half))
    return tuple(found)


def _changes(
    case: Case, catalog: Catalog, hardware: Hardware
) -> Iterator[tuple[str, Case, Catalog]]:
    """Yield each change with the case and the catalog that have it."""
    more = {"one more card": hardware.count + 1, "twice the cards": 2 * hardware.count}
    for title, count in more.items():
        if count > 2 or title == "twice the cards":  # of one card, both are two
            yield title, case.changed(hardware=hardware.changed(count=count)), catalog
    card = catalog.accelerator(hardware.accelerator)
    doubled: dict[str, dict[str, object]] = {
        "twice the arithmetic": {
            "peak_flops_per_s": {name: 2 * rate for name, rate in card.peak_flops_per_s.items()}
        },
        "twice the memory bandwidth": {
            "memory_bandwidth_bytes_per_s": 2 * card.memory_bandwidth_bytes_per_s
        },
        "twice the memory": {
            "memory_marketed_bytes": 2 * card.memory_marketed_bytes,
            "memory_reported_bytes": 2 * card.memory_reported_bytes,
        },
    }
    for title, fields in doubled.items():
        yield title, case, _with(catalog, card, **fields)
    if hardware.count > 1:
        yield "links and network twice as fast", case, _linked(catalog, card)


def _with(catalog: Catalog, card: Accelerator, **changed: object) -> Catalog:
    """Return the catalog with one card changed."""
    other = card.changed(**changed)
    cards = tuple(other if item.key == card.key else item for item in catalog.accelerators)
    return catalog.changed(accelerators=cards)


def _linked(catalog: Catalog, card: Accelerator) -> Catalog:
    """Return the catalog with links of a card and networks of its machines twice as fast."""
    link = card.interconnect
    if link is not None:
        link = link.changed(bytes_per_s=2 * link.bytes_per_s)
    offers = tuple(
        offer.changed(inter_node_bytes_per_s=2 * offer.inter_node_bytes_per_s)
        if offer.accelerator == card.key and offer.inter_node_bytes_per_s
        else offer
        for offer in catalog.offers
    )
    return _with(catalog, card, interconnect=link).changed(offers=offers)


def _what_if(change: str, estimate: Estimate) -> WhatIf:
    time, serving = estimate.time, estimate.serving
    tpot = None
    if serving is not None:
        tpot = serving.tpot_ms if serving.streams else serving.ttft_ms
    return WhatIf(
        change=change,
        fits=estimate.memory.fits,
        hours=None if time is None else time.run_hours,
        tpot_ms=tpot,
        usd=estimate.cost.rent_usd,
        bound_by=time.bound_by if time else serving.bound_by if serving else "",
    )
