"""Prices "from": the lowest price of a list, so a lower bound on the price of a machine."""

from collections.abc import Sequence
from statistics import median

from advisor.errors import CatalogError
from advisor.nouns.hardware import FIRM_TIER, Offer


def with_upper_ends(offers: Sequence[Offer], *, file: str) -> tuple[Offer, ...]:
    """Give each price "from" an upper end, taken from other providers' firm prices for the card.

    Its ``price_factor`` is the median of the firm list prices per card divided by this price, at
    least 1. ``CatalogError`` if no provider has a firm price for the card.
    """
    firm: dict[str, list[float]] = {}
    for offer in offers:
        if offer.tier == FIRM_TIER and offer.on_demand_usd_per_hour is not None:
            price = offer.on_demand_usd_per_hour / offer.accelerators
            firm.setdefault(offer.accelerator, []).append(price)
    return tuple(_bounded(offer, firm.get(offer.accelerator), file) for offer in offers)


def _bounded(offer: Offer, firm: list[float] | None, file: str) -> Offer:
    if not offer.is_from or offer.on_demand_usd_per_hour is None:
        return offer
    if firm is None:
        raise CatalogError(
            file=file,
            entry=offer.key,
            field="tier",
            value=offer.tier,
            remedy=f"Add a firm price ({FIRM_TIER}) for {offer.accelerator}, which bounds it.",
        )
    each = offer.on_demand_usd_per_hour / offer.accelerators
    return offer.model_copy(update={"price_factor": max(1.0, median(firm) / each)})
