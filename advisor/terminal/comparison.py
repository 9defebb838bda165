"""Cards side by side."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from advisor.compare import RECALLED, Comparison, comparison_rows
from advisor.terminal.console import paragraph, table

KEY_ROWS: Final = (
    *("Memory, reported", "Bandwidth", "bf16 rate", "fp8 rate", "Link between cards"),
    *("Board power", "Cheapest rent", "bf16 per rent"),
)
"""Rows of many cards, which would not fit on a screen with all."""
MOST_LINES: Final = 40
LABEL_WIDTH: Final = 20
CARD_WIDTH: Final = 18
"""Columns that a card needs at least."""


def show_comparison(
    console: Console, comparison: Comparison, *, differences: bool = False, everything: bool = True
) -> None:
    """Print cards side by side, as many in a row as the console is wide.

    Parameters
    ----------
    everything : bool
        Print every row, though they fill more than a screen.
    """
    rows = comparison_rows(comparison, differences=differences)
    names = [card.accelerator.name for card in comparison.cards]
    abreast = max(1, (console.width - LABEL_WIDTH) // CARD_WIDTH)
    parts = [slice(start, start + abreast) for start in range(0, len(names), abreast)]

    def tables() -> list[Table]:
        return [
            table(["", *names[part]], [(row.title, *row.values[part]) for row in rows])
            for part in parts
        ]

    lines = sum(len(console.render_lines(item, pad=False)) for item in tables())
    if not everything and lines > MOST_LINES - 2:
        rows = [row for row in rows if row.title in KEY_ROWS]
        paragraph(console, "Key figures; --all shows every row, --differences those that differ.")
    for item in tables():
        console.print(item)
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
