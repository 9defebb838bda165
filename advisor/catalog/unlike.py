"""Cards of different kinds in one computer, named together: rtx-3090+rtx-3060-12gb."""

from collections.abc import Sequence
from functools import cache

from advisor.errors import InputError
from advisor.foundation.data_records import read_record
from advisor.foundation.resources import data_path
from advisor.foundation.units import GIB
from advisor.nouns.hardware import JOIN, Accelerator, Provenance, Segment, UnlikeCards, UnlikeFacts


@cache
def _facts() -> UnlikeFacts:
    return read_record(data_path("unlike_cards.yaml"), UnlikeFacts)


def unlike_cards(key: str, cards: Sequence[Accelerator]) -> UnlikeCards:
    """Return cards of one computer as one device that holds a model's layers in turn.

    ``key`` is what the user wrote, for messages. Raises InputError if the cards are of one kind,
    too many, of several vendors, or not cards for a slot.
    """
    facts = _facts()
    _check(key, cards, facts)
    parts = tuple(sorted(cards, key=lambda card: (-card.memory_bandwidth_bytes_per_s, card.key)))
    oldest = min(parts, key=lambda card: (card.year, card.compute_capability or ""))
    formats = set.intersection(*({*card.peak_flops_per_s} for card in parts))
    sizes = [card.memory_reported_bytes for card in parts]
    total = sum(sizes)

    def mean(rates: Sequence[float]) -> float:
        """Return the rate of full cards, one after the other."""
        return total / sum(size / rate for size, rate in zip(sizes, rates, strict=True))

    powers = [card.board_power_w for card in parts]
    prices = [card.purchase_usd for card in parts]
    priced = None not in prices
    home = any(card.segment is Segment.CONSUMER for card in parts)
    provenance: dict[str, Provenance] = {"default": oldest.source_of("default")}
    return UnlikeCards(
        **oldest.model_dump(
            include={"vendor", "architecture", "year", "memory_type", "compute_capability"}
        ),
        key=JOIN.join(card.key for card in parts),
        name=" + ".join(card.name for card in parts),
        segment=Segment.CONSUMER if home else oldest.segment,
        form_factor="cards of one computer",
        memory_marketed_bytes=sum(card.memory_marketed_bytes for card in parts),
        memory_reported_bytes=total - (len(parts) - 1) * facts.further_card_gib * GIB,
        memory_reported_derived=any(card.memory_reported_derived for card in parts),
        memory_bandwidth_bytes_per_s=mean([card.memory_bandwidth_bytes_per_s for card in parts]),
        peak_flops_per_s={
            name: mean([card.peak_flops_per_s[name] for card in parts])
            for name in oldest.peak_flops_per_s
            if name in formats
        },
        board_power_w=None if None in powers else sum(power or 0.0 for power in powers),
        interconnect=None,
        pcie_generation=min(card.pcie_generation or facts.pcie_generation for card in parts),
        pcie_lanes=min(card.pcie_lanes for card in parts),
        purchase_usd=sum(price or 0.0 for price in prices) if priced else None,
        purchase_date=min(card.purchase_date or "" for card in parts) if priced else None,
        purchase_kind=oldest.purchase_kind if priced else None,
        no_purchase=None if priced else "not all of these cards have a price",
        provenance=provenance,
        inference_only=True,
        parts=parts,
        usable_share=facts.usable_share,
    )


def _check(key: str, cards: Sequence[Accelerator], facts: UnlikeFacts) -> None:
    kinds = {card.key for card in cards}
    vendors = {card.vendor for card in cards}
    alone = [card.name for card in cards if not card.form_factor.startswith(facts.form_factor)]
    if len(kinds) == 1:
        what, allowed = "these cards are of one kind", "different cards"
        remedy = f"Give the number instead: {cards[0].key}:{len(cards)}, or --count {len(cards)}."
    elif len(cards) > facts.most_cards:
        what, allowed = "too many cards for one computer", f"up to {facts.most_cards}"
        remedy = "Name fewer cards."
    elif alone:
        what, allowed = f"{alone[0]} takes no other card beside it", "cards for a slot"
        remedy = "Ask for it alone."
    elif len(vendors) > 1:
        what, allowed = "these cards are of several vendors", "cards of one vendor"
        remedy = (
            "Ask for the cards of each vendor apart; llama.cpp joins them over Vulkan only, whose "
            "speed across vendors nobody has published."
        )
    else:
        return
    raise InputError(what, value=key, allowed=allowed, remedy=remedy, field="hardware.accelerator")
