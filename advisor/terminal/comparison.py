"""Cards side by side."""

from typing import Final

from rich.console import Console
from rich.table import Table

from advisor.compare.cards import Comparison
from advisor.compare.facts import RECALLED, comparison_rows
from advisor.terminal.console import MOST_LINES, paragraph, table

KEY_ROWS: Final = (
    *("Memory, reported", "Bandwidth", "bf16 rate", "Cheapest rent", "Board power"),
    *("fp8 rate", "bf16 per rent", "Link between cards"),
)
"""Rows of cards that would not fit on a screen with all, the most important first."""
NOTES: Final = 6
"""Lines that the notes need at most."""
LABEL_WIDTH: Final = 20
CARD_WIDTH: Final = 18
"""Columns that a card needs at least."""


def show_comparison(
    console: Console, comparison: Comparison, *, differences: bool = False, everything: bool = True
) -> None:
    """Print cards side by side, as many in a row as the console is wide; all rows if asked."""
    rows = comparison_rows(comparison, differences=differences)
    names = [card.accelerator.name for card in comparison.cards]
    abreast = max(1, (console.width - LABEL_WIDTH) // CARD_WIDTH)
    parts = [slice(start, start + abreast) for start in range(0, len(names), abreast)]

    def tables() -> list[Table]:
        return [
            table(["", *names[part]], [(row.title, *row.values[part]) for row in rows])
            for part in parts
        ]

    def too_long() -> bool:
        lines = sum(len(console.render_lines(item, pad=False)) for item in tables())
        return not everything and lines > MOST_LINES - NOTES

    if too_long():
        rows = [row for title in KEY_ROWS for row in rows if row.title == title]
        paragraph(console, "Key figures; --all shows every row, --differences those that differ.")
    while too_long() and len(rows) > 1:
        rows.pop()
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
