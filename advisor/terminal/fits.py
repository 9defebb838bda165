"""Cards on the terminal: what fits them, and several side by side."""

from itertools import zip_longest
from typing import Final

from rich.table import Table
from rich.text import Text

from advisor.compare.cards import RECALLED, Comparison, comparison_rows
from advisor.foundation.formatting import count, length_limit, memory, rate
from advisor.planning.fits.results import VERDICT_TITLES, Fits, ModelFit, ServedFit, Verdict
from advisor.terminal.console import MOST_LINES, Report, Screen, listed, of_cells, table

METHODS: Final = ("full", "LoRA", "QLoRA")


def show_fits(console: Report, fits: Fits, *, everything: bool = False) -> None:
    """Print the models that can be served, and the longest training sequences, in full if asked."""
    raised = ""
    if fits.raised_bytes is not None:
        filled = memory(fits.raised_bytes)
        raised = f"; servers may fill {filled} where the system's limit is raised (--all)"
    summary = (
        f"With {count(fits.context_tokens)} tokens of context, {fits.served}. "
        f"Each card has {memory(fits.memory_bytes)}{raised}."
    )
    if not everything:
        _short(console, fits, summary=summary)
        return
    console.print(f"What fits {count(fits.count)}x {fits.accelerator_name}", style="bold")
    console.paragraph(summary)
    for verdict, title in VERDICT_TITLES.items():
        cells = [_cells(model, fits) for model in fits.having(verdict)]
        console.tabled_cells(title, cells, right=range(3, 7))
    losses = {fit.weight_format: fit.quality for fit in _shown(fits) if fit.quality}
    console.bullets("Published loss", [f"{name}: {text}" for name, text in losses.items()])
    rows = [
        (model.preset, *(fit.lengths for fit in model.trained))
        for model in fits.models
        if any(fit.trains for fit in model.trained)
    ]
    title = "Longest training sequence: kept / recomputed / with the host (host: only so)"
    console.tabled(title, ("model", *METHODS), rows, right=range(1, 4))
    if not rows:
        console.paragraph("None of them can be trained on it, not even with QLoRA.")
    console.bullets("Assumed", fits.assumptions)


def _shown(fits: Fits) -> list[ServedFit]:
    return [model.served for model in fits.models if model.served.fits]


def _cells(model: ModelFit, fits: Fits) -> dict[str, str]:
    """Return how a model is served, by column."""
    served = model.served
    margin = "short of" if model.verdict is Verdict.DOES_NOT_FIT else "to spare"
    return {
        "model": model.preset,
        "weights": f"{served.formats} {served.layout.host_options}".strip(),
        "software": served.software_title,
        margin: memory(abs(served.margin_bytes)),
        "context": length_limit(served.max_context_tokens),
        f"{fits.concurrency} at once": model.context_together,
        "tok/s": rate(served.tokens_per_s, "").strip() if served.tokens_per_s else "-",
    }


def _short(console: Report, found: Fits, *, summary: str) -> None:
    """Print the models that a card serves, with the longest sequences that it trains."""
    screen = Screen(console, "--all shows every preset, and by how much models miss.")
    screen.add(0, Text(f"What fits {found.count:,}x {found.accelerator_name}", style="bold"))
    screen.say(0, summary)
    rows = [
        _cells(model, found)
        | dict(zip_longest(METHODS, (fit.longest for fit in model.trained), fillvalue=""))
        for verdict in VERDICT_TITLES
        for model in found.having(verdict)
        if model.served.fits
    ]
    shown = ("model", "weights", "context", "tok/s", *METHODS)
    if rows:
        screen.add(0, of_cells(rows, only=shown, right=range(2, 7)))
    losses = {fit.weight_format: fit.quality for fit in _shown(found) if fit.quality}
    screen.say(1, listed([f"{name} {text}" for name, text in losses.items()]), title="Quality")
    screen.say(
        1,
        "tok/s: tokens per second for one user. -ngl: layers on the card, the host holds the "
        "others; --n-cpu-moe: layers whose experts the host holds. full, LoRA and QLoRA: longest "
        "training sequence with recomputation (*: with the host's memory; --all says what the card "
        "alone holds).",
    )
    missing = ", ".join(item.preset for item in found.having(Verdict.DOES_NOT_FIT))
    screen.say(2, missing and f"{missing}.", title="Does not fit")
    screen.say(3, listed(found.assumptions), title="Assumed")
    screen.show()


KEY_ROWS: Final = (
    *("Memory, reported", "Bandwidth", "bf16 rate", "Cheapest rent", "Purchase price"),
    *("Board power", "fp8 rate", "bf16 per rent", "Link between cards"),
)
"""Rows of cards that would not fit on a screen with all, the most important first."""
NOTES: Final = 6
"""Lines that the notes need at most."""
LABEL_WIDTH: Final = 20
CARD_WIDTH: Final = 18
"""Columns that a card needs at least."""


def show_comparison(
    console: Report, comparison: Comparison, *, differences: bool = False, everything: bool = True
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
        console.paragraph("Key figures; --all shows every row, --differences those that differ.")
    while too_long() and len(rows) > 1:
        rows.pop()
    for item in tables():
        console.print(item)
    console.paragraph("Rates are dense, with fp32 accumulation. Rent is per card on demand.")
    if any(RECALLED in text for row in rows for text in row.values):
        console.paragraph(f"{RECALLED} recalled by a person and not checked.")
    if comparison.doubtful_offers:
        console.paragraph(
            "Left out because the price is too low to be credible: "
            + ", ".join(comparison.doubtful_offers)
            + ".",
        )
