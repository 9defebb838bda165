"""Cards side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich.console import Console

from advisor.compare import ComparedCard, Comparison
from advisor.dates import dated
from advisor.formatting import bandwidth, flops_rate, hourly_price, money, plain
from advisor.hardware import Confidence
from advisor.terminal.console import paragraph, table
from advisor.units import GB, GIB, TFLOP

FORMATS: Final = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
LABEL_WIDTH: Final = 20
CARD_WIDTH: Final = 18
"""Columns that a card needs at least."""
RECALLED: Final = "(?)"
"""Marks a value of confidence ``memory``."""
UNKNOWN: Final = "unknown"
NONE: Final = "none"


def show_comparison(console: Console, comparison: Comparison, *, differences: bool = False) -> None:
    """Print cards side by side, as many abreast as the console holds."""
    rows = comparison_rows(comparison)
    if differences and len(comparison.cards) > 1:
        rows = [row for row in rows if len(set(row[1:])) > 1]
    names = [card.accelerator.name for card in comparison.cards]
    abreast = max(1, (console.width - LABEL_WIDTH) // CARD_WIDTH)
    for start in range(0, len(names), abreast):
        part = slice(start, start + abreast)
        console.print(
            table(["", *names[part]], [(row[0], *row[1:][part]) for row in rows]),
        )
    paragraph(console, "Rates are dense, with fp32 accumulation. Rent is per card on demand.")
    if any(RECALLED in text for row in rows for text in row):
        paragraph(console, f"{RECALLED} recalled by a person and not checked.")
    if comparison.doubtful_offers:
        paragraph(
            console,
            "Left out as too cheap to be believed: " + ", ".join(comparison.doubtful_offers) + ".",
        )


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return one row for each fact: its name, then one text per card.

    A number format that no card has a rate for is left out.
    """
    cards = comparison.cards
    rows = [(title, *map(text, cards)) for title, text in _FACTS]
    rates = [
        (f"{name} rate", *(_rate(card, name) for card in cards))
        for name in FORMATS
        if any(name in card.accelerator.peak_flops_per_s for card in cards)
    ]
    after = 1 + next(index for index, row in enumerate(rows) if row[0] == "Bandwidth")
    return [*rows[:after], *rates, *rows[after:]]


def _marked(card: ComparedCard, field: str, text: str) -> str:
    recalled = card.accelerator.source_of(field).confidence is Confidence.MEMORY
    return f"{text} {RECALLED}" if recalled else text


def _rate(card: ComparedCard, name: str) -> str:
    peak = card.accelerator.peak_flops_per_s.get(name)
    if peak is None:
        return "none or unknown"
    text = flops_rate(peak)
    text = text.replace("TFLOPS", "TOPS") if name.startswith("int") else text
    return _marked(card, "peak_flops_per_s", text)


def _bandwidth(card: ComparedCard) -> str:
    text = bandwidth(card.accelerator.memory_bandwidth_bytes_per_s)
    return _marked(card, "memory_bandwidth_bytes_per_s", text)


def _reported(card: ComparedCard) -> str:
    size = f"{card.accelerator.memory_reported_bytes / GIB:,.1f} GiB"
    derived = card.accelerator.memory_reported_derived
    return _marked(card, "memory_reported_bytes", f"{size} (derived)" if derived else size)


def _links(card: ComparedCard) -> str:
    link = card.accelerator.interconnect
    if link is None:
        return NONE
    speed = bandwidth(link.bytes_per_s)
    text = f"{link.name}, {speed} each way, {link.domain_size} cards"
    return _marked(card, "interconnect", text)


def _power(card: ComparedCard) -> str:
    power = card.accelerator.board_power_w
    return UNKNOWN if power is None else _marked(card, "board_power_w", f"{power:,.0f} W")


def _pcie(card: ComparedCard) -> str:
    generation = card.accelerator.pcie_generation
    return UNKNOWN if generation is None else f"gen {generation}"


def _purchase(card: ComparedCard) -> str:
    item = card.accelerator
    if item.purchase_usd is None:
        return UNKNOWN
    detail = ", ".join(part for part in (item.purchase_kind, item.purchase_date) if part)
    text = f"{money(item.purchase_usd)} ({detail})" if detail else money(item.purchase_usd)
    return _marked(card, "purchase_usd", text)


def _rent(card: ComparedCard) -> str:
    if card.offer is None or card.usd_per_hour is None:
        return "not offered"
    return (
        f"{hourly_price(card.usd_per_hour)}, {card.offer.provider}, {dated(card.offer.price_date)}"
    )


def _ratio(value: float | None, unit: float, name: str) -> str:
    return UNKNOWN if value is None else f"{plain(value / unit, 3)} {name}"


_FACTS: Final[tuple[tuple[str, Callable[[ComparedCard], str]], ...]] = (
    ("Key", lambda card: card.accelerator.key),
    ("Vendor", lambda card: card.accelerator.vendor),
    ("Architecture", lambda card: card.accelerator.architecture),
    ("Year", lambda card: str(card.accelerator.year)),
    ("Segment", lambda card: card.accelerator.segment.value),
    ("Form factor", lambda card: card.accelerator.form_factor),
    (
        "Memory, marketed",
        lambda card: f"{card.accelerator.memory_marketed_bytes / GB:,.4g} GB",
    ),
    ("Memory, reported", _reported),
    ("Memory type", lambda card: card.accelerator.memory_type),
    ("Bandwidth", _bandwidth),
    ("Link between cards", _links),
    ("PCIe", _pcie),
    ("Board power", _power),
    ("Purchase price", _purchase),
    ("Cheapest rent", _rent),
    (
        "Bandwidth per rent",
        lambda card: _ratio(card.bytes_per_s_per_usd_per_hour, GB, "GB/s per $/h"),
    ),
    (
        "bf16 per rent",
        lambda card: _ratio(card.flops_per_s_per_usd_per_hour, TFLOP, "TFLOPS per $/h"),
    ),
    (
        "Bandwidth per price",
        lambda card: _ratio(card.bytes_per_s_per_usd, GB, "GB/s per $"),
    ),
    (
        "bf16 per price",
        lambda card: _ratio(card.flops_per_s_per_usd, TFLOP, "TFLOPS per $"),
    ),
)
