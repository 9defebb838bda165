"""Devices that nobody rents, but that a person can buy: what each one does with the work."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.catalog import Catalog
from advisor.foundation.formatting import milliseconds, money
from advisor.foundation.units import trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, PriceKind, Segment
from advisor.nouns.limits import OwnedHardware
from advisor.nouns.serving_defaults import for_few
from advisor.nouns.workload import Serving
from advisor.planning.prepared import PricedCase
from advisor.planning.results import Advice
from advisor.planning.search.options import Option, meets_time
from advisor.planning.search.software import search_and_host
from advisor.planning.search.systems import owned_system

LISTED = 3
"""Devices that the advice names."""


def devices_to_buy(asked: PricedCase) -> dict[str, Option]:
    """Return what one of each purchasable device that nobody rents does with the work.

    Processors are left out: most of what they need for a model is memory, which they do not hold.

    The fastest way by catalog key, for those that hold the model. Empty unless few users of text
    are served, which is what people buy a device for.
    """
    workload, limits, catalog = asked.case.workload, asked.case.limits, asked.catalog
    few = isinstance(workload, Serving) and asked.architecture.generates and for_few(workload)
    if not few or limits.owned or limits.providers or limits.regions:
        return {}
    allowed = {catalog.accelerator(key).key for key in limits.accelerators}
    devices = [
        replace(owned_system(card, 1), counts=(1,))
        for card in catalog.accelerators
        if card.purchase_usd is not None
        and card.segment is not Segment.CPU
        and not catalog.offers_for(card.key)
        and (not allowed or card.key in allowed)
        and (not limits.vendors or card.vendor in limits.vendors)
    ]
    if not devices:
        return {}
    systems, result = search_and_host(asked, devices, advising=False)
    slowest_first = sorted((*result.options, *result.smaller), key=lambda option: -option.time)
    return {systems[option.system].accelerator.key: option for option in slowest_first}


def as_your_own(asked: PricedCase) -> PricedCase | None:
    """Return the case with one of each named card as owned, if nobody rents any of them."""
    limits, catalog = asked.case.limits, asked.catalog
    cards = [catalog.accelerator(key) for key in limits.accelerators]
    renting = limits.providers or limits.regions or limits.price_kind is PriceKind.SPOT
    if not cards or limits.owned or renting or any(catalog.offers_for(card.key) for card in cards):
        return None
    owned = tuple(OwnedHardware(accelerator=card.key) for card in cards)
    return asked.of(asked.case.changed(limits=limits.changed(accelerators=(), owned=owned)))


def unrented(cards: Sequence[Accelerator]) -> str:
    """Return that nobody rents these cards, and what they sell for."""
    names = [
        card.name + (f", sold for about {money(card.purchase_usd)}" if card.purchase_usd else "")
        for card in cards
    ]
    return f"No provider in the catalog rents {' or '.join(names)}. With one of your own: "


def buying_advice(
    found: Mapping[str, Option], case: Case, catalog: Catalog, rent_usd: float | None
) -> Sequence[Advice]:
    """Return which devices to buy instead of renting, cheapest first; empty if none is known.

    ``rent_usd``: of the best plan. [USD/month]
    """
    quick = [
        (catalog.accelerator(key), option)
        for key, option in found.items()
        if meets_time(option, case.limits) and not option.layouts.on_host(option.row)
    ]
    priced = [(card.purchase_usd, card, option) for card, option in quick if card.purchase_usd]
    # A dearer device has to be faster than every cheaper one.
    kept: list[tuple[float, Accelerator, Option]] = []
    for item in sorted(priced, key=lambda item: (item[0], item[1].key)):
        if not kept or item[2].time < kept[-1][2].time:
            kept.append(item)
    if not kept:
        return ()
    texts = [
        f"{card.name} for {money(usd)} ({option.precision}, {milliseconds(option.time)} per token)"
        for usd, card, option in kept[:LISTED]
    ]
    after = ""
    if rent_usd:
        months = trimmed(kept[0][0] / rent_usd, 2)
        after = f" The first one costs as much as {months} months of the rent."
    message = f"To buy instead, without the computer around a card: {'; '.join(texts)}.{after}"
    return (Advice(code="device-to-buy", severity="info", message=message),)


def bought_remedy(accelerator: Accelerator, option: Option | None, *, tried: bool) -> str:
    """Return what a device that nobody rents costs and does.

    ``option``: how it does the work; None if it does not, or was not tried. ``tried``: whether
    devices were tried.
    """
    price = accelerator.purchase_usd
    text = f" It sells for about {money(price)}" if price else ""
    if option is not None:
        held = option.layout.host_options
        host = f" and layers in the host's memory ({held})" if held else ""
        text += (
            f"{' and' if price else ' It'} serves this with {option.precision} weights{host}: "
            f"{milliseconds(option.time)} per token"
        )
    elif tried and price:
        text += " and does not hold the model"
    own = f"If you have it, enter it as owned hardware (--owned {accelerator.key})."
    return f"{own}{text}{'.' if text else ''}"
