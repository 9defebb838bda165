"""Cards side by side."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from advisor.compare import RECALLED, Comparison, comparison_rows
from advisor.terminal.console import paragraph, table

LABEL_WIDTH: Final = 20
CARD_WIDTH: Final = 18
"""Columns that a card needs at least."""


def show_comparison(console: Console, comparison: Comparison, *, differences: bool = False) -> None:
    """Print cards side by side, as many in a row as the console is wide."""
    rows = comparison_rows(comparison, differences=differences)
    names = [card.accelerator.name for card in comparison.cards]
    abreast = max(1, (console.width - LABEL_WIDTH) // CARD_WIDTH)
    for start in range(0, len(names), abreast):
        part = slice(start, start + abreast)
        console.print(
            table(["", *names[part]], [(row.title, *row.values[part]) for row in rows]),
        )
    paragraph(console, "Rates are dense, with fp32 accumulation. Rent is per card on demand.")
    if any(RECALLED in text for row in rows for text in row.values):
        paragraph(console, f"{RECALLED} recalled by a person and not checked.")
    if comparison.doubtful_offers:
        paragraph(
            console,
            "Left out because the price is too low to be credible: "
            + ", ".join(comparison.doubtful_offers)
            + ".",
        )
