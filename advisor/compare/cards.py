"""Compares cards: facts of the catalog, each card's cheapest offer, performance per dollar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from advisor.catalog import Catalog
from advisor.errors import refusal
from advisor.foundation.dates import dated
from advisor.foundation.formatting import bandwidth, flops_rate, hourly_price, money
from advisor.foundation.noun import Noun
from advisor.foundation.record import record
from advisor.foundation.units import GB, GIB, TFLOP, plain
from advisor.nouns import hardware
from advisor.planning.search.systems import implausible_offers, price_usd_per_hour
from advisor.planning.spot import upper_factor

MAX_CARDS: Final = 12
"""Most cards in one comparison: more are not readable side by side."""


class ComparedCard(Noun):
    """One card with its cheapest on-demand offer and its performance per dollar."""

    accelerator: hardware.Accelerator
    software: hardware.SoftwareSupport | None
    """Software that its compute capability needs; None for other vendors."""
    offer: hardware.Offer | None
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
    doubtful = implausible_offers(catalog, hardware.PriceKind.ON_DEMAND)
    return Comparison(
        cards=tuple(_card(catalog.accelerator(key), catalog, doubtful) for key in keys),
        doubtful_offers=tuple(
            offer.key for key in keys for offer in catalog.offers_for(key) if offer.key in doubtful
        ),
    )


def _card(
    accelerator: hardware.Accelerator, catalog: Catalog, doubtful: frozenset[str]
) -> ComparedCard:
    priced = [
        (
            price * upper_factor(offer, hardware.PriceKind.ON_DEMAND) / offer.accelerators,
            offer.key,
            price,
            offer,
        )
        for offer in catalog.offers_for(accelerator.key)
        if (price := price_usd_per_hour(offer, hardware.PriceKind.ON_DEMAND)) is not None
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


FORMATS: Final = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
RECALLED: Final = "(?)"
"""Mark of a value whose confidence is ``memory``."""
UNKNOWN: Final = "unknown"
NONE: Final = "none"
UNSUPPORTED: Final = "none or unknown"
NOT_OFFERED: Final = "not offered"


class Row(Noun):
    """One fact of all cards."""

    title: str
    values: tuple[str, ...]
    """One text per card; a recalled value carries a mark."""
    sources: tuple[hardware.Provenance | None, ...]
    """One source per card; None for names and for values that follow from other rows."""

    @property
    def differs(self) -> bool:
        """Whether the cards differ in this fact."""
        return len(set(self.values)) > 1


class Differences(Noun):
    """The facts in which compared cards differ."""

    accelerators: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, comparison: Comparison) -> Differences:
        """Return the differences of compared cards."""
        keys = tuple(card.accelerator.key for card in comparison.cards)
        rows = comparison_rows(comparison, differences=True)
        return cls(accelerators=keys, rows=tuple(rows))


def comparison_rows(comparison: Comparison, *, differences: bool = False) -> list[Row]:
    """Return one row for each fact; with ``differences``, only those in which several cards differ.

    Number formats without a rate on any card are left out.
    """
    cards = comparison.cards
    known = [
        name for name in FORMATS if any(name in card.accelerator.peak_flops_per_s for card in cards)
    ]
    doubled = [
        name
        for name in FORMATS
        if any(name in card.accelerator.peak_flops_per_s_fp16_accumulate for card in cards)
    ]
    facts = [*_MEMORY, *map(_rate, known), *map(_rate_fp16_sums, doubled), *_REST]
    rows = [_row(fact, cards) for fact in facts]
    return [row for row in rows if row.differs] if differences and len(cards) > 1 else rows


@record
class _Fact:
    title: str
    text: Callable[[ComparedCard], str]
    source: Callable[[ComparedCard], hardware.Provenance | None] = lambda card: None


def _row(fact: _Fact, cards: tuple[ComparedCard, ...]) -> Row:
    sources = tuple(fact.source(card) for card in cards)
    texts = [fact.text(card) for card in cards]
    return Row(
        title=fact.title,
        values=tuple(map(_marked, texts, sources)),
        sources=tuple(
            None if text in {UNKNOWN, UNSUPPORTED, NOT_OFFERED} else source
            for text, source in zip(texts, sources, strict=True)
        ),
    )


def _marked(text: str, source: hardware.Provenance | None) -> str:
    recalled = source is not None and source.confidence is hardware.Confidence.MEMORY
    given = text not in {UNKNOWN, UNSUPPORTED, NOT_OFFERED, NONE}
    return f"{text} {RECALLED}" if recalled and given else text


def _of(field: str) -> Callable[[ComparedCard], hardware.Provenance | None]:
    return lambda card: card.accelerator.source_of(field)


def _rate(name: str) -> _Fact:
    def text(card: ComparedCard) -> str:
        peak = card.accelerator.peak_flops_per_s.get(name)
        if peak is None:
            return UNSUPPORTED
        shown = flops_rate(peak)
        return shown.replace("TFLOPS", "TOPS") if name.startswith("int") else shown

    return _Fact(f"{name} rate", text, _of(f"peak_flops_per_s.{name}"))


def _rate_fp16_sums(name: str) -> _Fact:
    """Rate with fp16 accumulation: double on GeForce cards, no gain on others."""

    def text(card: ComparedCard) -> str:
        peak = card.accelerator.peak_flops_per_s_fp16_accumulate.get(name)
        return _rate(name).text(card) if peak is None else flops_rate(peak)

    return _Fact(f"{name} rate, fp16 accumulation", text, _of("peak_flops_per_s_fp16_accumulate"))


def _reported(card: ComparedCard) -> str:
    size = f"{card.accelerator.memory_reported_bytes / GIB:,.1f} GiB"
    return f"{size} (derived)" if card.accelerator.memory_reported_derived else size


def _links(card: ComparedCard) -> str:
    link = card.accelerator.interconnect
    if link is None:
        return NONE
    return f"{link.name}, {bandwidth(link.bytes_per_s)} each way, {link.domain_size} cards"


def _power(card: ComparedCard) -> str:
    power = card.accelerator.board_power_w
    return UNKNOWN if power is None else f"{power:,.0f} W"


def _pcie(card: ComparedCard) -> str:
    generation = card.accelerator.pcie_generation
    if generation is None and card.accelerator.shares_host_memory:
        return NONE
    return UNKNOWN if generation is None else f"gen {generation} x{card.accelerator.pcie_lanes}"


def _purchase(card: ComparedCard) -> str:
    item = card.accelerator
    if item.purchase_usd is None:
        return f"{UNKNOWN}: {item.no_purchase}" if item.no_purchase else UNKNOWN
    return f"{money(item.purchase_usd)} ({item.price_words()})"


def _rent(card: ComparedCard) -> str:
    if card.offer is None or card.usd_per_hour is None:
        return NOT_OFFERED
    price, day = hourly_price(card.usd_per_hour), dated(card.offer.price_date)
    return f"{'from ' if card.offer.is_from else ''}{price}, {card.offer.provider}, {day}"


def _kit(field: str) -> Callable[[ComparedCard], hardware.Provenance | None]:
    return lambda card: card.software.source_of(field) if card.software else None


def _cuda(card: ComparedCard) -> str:
    kit = card.software
    if kit is None:
        return UNKNOWN
    return f"{kit.cuda} to {kit.last_cuda}" if kit.last_cuda else f"{kit.cuda} or later"


def _ratio(value: float | None, unit: float, name: str) -> str:
    return UNKNOWN if value is None else f"{plain(value / unit, 3)} {name}"


_MEMORY: Final = (
    _Fact("Key", lambda card: card.accelerator.key),
    _Fact("Vendor", lambda card: card.accelerator.vendor),
    _Fact("Architecture", lambda card: card.accelerator.architecture),
    _Fact("Year", lambda card: str(card.accelerator.year)),
    _Fact("Segment", lambda card: card.accelerator.segment.label),
    _Fact("Form factor", lambda card: card.accelerator.form_factor),
    _Fact(
        "Memory, marketed",
        lambda card: f"{card.accelerator.memory_marketed_bytes / GB:,.4g} GB",
        _of("memory_marketed_bytes"),
    ),
    _Fact("Memory, reported", _reported, _of("memory_reported_bytes")),
    _Fact("Memory type", lambda card: card.accelerator.memory_type, _of("memory_type")),
    _Fact(
        "Bandwidth",
        lambda card: bandwidth(card.accelerator.memory_bandwidth_bytes_per_s),
        _of("memory_bandwidth_bytes_per_s"),
    ),
)
_REST: Final = (
    _Fact("Link between cards", _links, _of("interconnect")),
    _Fact("PCIe", _pcie, _of("pcie_generation")),
    _Fact("Board power", _power, _of("board_power_w")),
    _Fact("CUDA", _cuda, _kit("cuda")),
    _Fact(
        "Driver, at least",
        lambda card: card.software.driver if card.software else UNKNOWN,
        _kit("driver"),
    ),
    _Fact(
        "PyTorch, from",
        lambda card: card.software.pytorch if card.software else UNKNOWN,
        _kit("pytorch"),
    ),
    _Fact("Purchase price", _purchase, _of("purchase_usd")),
    _Fact("Cheapest rent", _rent, lambda card: card.offer.provenance if card.offer else None),
    _Fact(
        "Bandwidth per rent",
        lambda card: _ratio(card.bytes_per_s_per_usd_per_hour, GB, "GB/s per $/h"),
    ),
    _Fact(
        "bf16 per rent",
        lambda card: _ratio(card.flops_per_s_per_usd_per_hour, TFLOP, "TFLOPS per $/h"),
    ),
    _Fact("Bandwidth per price", lambda card: _ratio(card.bytes_per_s_per_usd, GB, "GB/s per $")),
    _Fact("bf16 per price", lambda card: _ratio(card.flops_per_s_per_usd, TFLOP, "TFLOPS per $")),
)
