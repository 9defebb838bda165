"""Compares cards: facts of the catalog, each card's cheapest offer, performance per dollar."""

from collections.abc import Sequence
from typing import Final

from advisor.catalog import Catalog
from advisor.foundation.noun import Noun
from advisor.foundation.refusals import refusal
from advisor.nouns.hardware import Accelerator, Offer, PriceKind, SoftwareSupport
from advisor.planning.search.systems import implausible_offers, price_usd_per_hour
from advisor.planning.spot import upper_factor

MAX_CARDS: Final = 12
"""Most cards in one comparison: more are not readable side by side."""


class ComparedCard(Noun):
    """One card with its cheapest on-demand offer and its performance per dollar."""

    accelerator: Accelerator
    software: SoftwareSupport | None
    """Software that its compute capability needs; None for other vendors."""
    offer: Offer | None
    """Cheapest on-demand offer per card; None if no provider in the catalog has one."""
    usd_per_hour: float | None
    """Price of one card: the instance's price divided by its cards. [USD/h]"""
    bytes_per_s_per_usd_per_hour: float | None
    """Memory bandwidth for one dollar per hour of rent. [bytes/s per USD/h]"""
    flops_per_s_per_usd_per_hour: float | None
    """Dense bf16 rate for one dollar per hour of rent. [FLOPs/s per USD/h]"""
    bytes_per_s_per_usd: float | None
    """Memory bandwidth for one dollar of purchase price. [bytes/s per USD]"""
    flops_per_s_per_usd: float | None
    """Dense bf16 rate for one dollar of purchase price. [FLOPs/s per USD]"""


class Comparison(Noun):
    """The compared cards, in the requested order."""

    cards: tuple[ComparedCard, ...]
    doubtful_offers: tuple[str, ...]
    """Keys of offers of these cards left out because their price is implausibly low."""


def compare_cards(keys: Sequence[str], catalog: Catalog) -> Comparison:
    """Compare cards of the catalog, by keys or exact product names.

    Raises InputError if a card is unknown or named twice, or there are too many.
    """
    accelerators = [catalog.accelerator(key) for key in keys]
    names = [item.key for item in accelerators]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated or not 1 <= len(names) <= MAX_CARDS:
        raise refusal(
            "not_comparable",
            value=f"{repeated} twice" if repeated else f"{len(names)} cards",
            most=MAX_CARDS,
            remedy="Name each card once." if repeated else "Name fewer cards.",
        )
    return compare_all(names, catalog)


def compare_all(keys: Sequence[str], catalog: Catalog) -> Comparison:
    """Compare any number of cards of the catalog, for a list to browse."""
    doubtful = implausible_offers(catalog, PriceKind.ON_DEMAND)
    return Comparison(
        cards=tuple(_card(catalog.accelerator(key), catalog, doubtful) for key in keys),
        doubtful_offers=tuple(
            offer.key for key in keys for offer in catalog.offers_for(key) if offer.key in doubtful
        ),
    )


def _card(accelerator: Accelerator, catalog: Catalog, doubtful: frozenset[str]) -> ComparedCard:
    priced = [
        (
            price * upper_factor(offer, PriceKind.ON_DEMAND) / offer.accelerators,
            offer.key,
            price,
            offer,
        )
        for offer in catalog.offers_for(accelerator.key)
        if (price := price_usd_per_hour(offer, PriceKind.ON_DEMAND)) is not None
        and offer.key not in doubtful
    ]
    _, _, price, offer = min(priced) if priced else (None, "", None, None)
    rent = None if offer is None or price is None else price / offer.accelerators
    bandwidth = accelerator.memory_bandwidth_bytes_per_s
    bf16 = accelerator.peak_flops_per_s.get("bf16")
    return ComparedCard(
        accelerator=accelerator,
        software=catalog.software_for(accelerator),
        offer=offer,
        usd_per_hour=rent,
        bytes_per_s_per_usd_per_hour=_per(bandwidth, rent),
        flops_per_s_per_usd_per_hour=_per(bf16, rent),
        bytes_per_s_per_usd=_per(bandwidth, accelerator.purchase_usd),
        flops_per_s_per_usd=_per(bf16, accelerator.purchase_usd),
    )


def _per(amount: float | None, usd: float | None) -> float | None:
    return None if amount is None or usd is None else amount / usd
