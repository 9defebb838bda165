"""Cards on the terminal: what fits them, and several side by side."""

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.compare.cards import RECALLED, Comparison, comparison_rows
from advisor.foundation.formatting import count, length_limit, memory, rate
from advisor.planning.fits.results import VERDICT_TITLES, Fits, ModelFit, ServedFit, Verdict
from advisor.terminal.console import MOST_LINES, Screen, bullets, listed, paragraph, table, tabled


def show_fits(console: Console, fits: Fits, *, everything: bool = False) -> None:
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
    paragraph(console, summary)
    for verdict, title in VERDICT_TITLES.items():
        missing = verdict is Verdict.DOES_NOT_FIT
        columns = (
            "model",
            "weights",
            "software",
            "short of" if missing else "to spare",
            "context",
            f"{fits.concurrency} at once",
            "tokens/s",
        )
        tabled(console, title, columns, map(_served, fits.having(verdict)), right=range(3, 7))
    losses = {fit.weight_format: fit.quality for fit in _shown(fits) if fit.quality}
    bullets(console, "Published loss", [f"{name}: {text}" for name, text in losses.items()])
    rows = [
        (model.preset, *(fit.lengths for fit in model.trained))
        for model in fits.models
        if any(fit.trains for fit in model.trained)
    ]
    title = "Longest training sequence: kept / recomputed / with the host (host: only so)"
    tabled(console, title, ("model", "full", "LoRA", "QLoRA"), rows, right=range(1, 4))
    if not rows:
        paragraph(console, "None of them can be trained on it, not even with QLoRA.")
    bullets(console, "Assumed", fits.assumptions)


def _weights(fit: ServedFit) -> str:
    return f"{fit.formats} {fit.layout.host_options}".strip()


def _shown(fits: Fits) -> list[ServedFit]:
    return [model.served for model in fits.models if model.served.fits]


def _served(model: ModelFit) -> tuple[str, ...]:
    served = model.served
    speed = rate(served.tokens_per_s, "") if served.tokens_per_s else "-"
    return (
        model.preset,
        _weights(served),
        served.software_title,
        memory(abs(served.margin_bytes)),
        length_limit(served.max_context_tokens),
        model.context_together,
        speed.strip(),
    )


def _short(console: Console, found: Fits, *, summary: str) -> None:
    """Print the models that a card serves, with the longest sequences that it trains."""
    screen = Screen(console, "--all shows every preset, and by how much models miss.")
    screen.add(0, Text(f"What fits {found.count:,}x {found.accelerator_name}", style="bold"))
    screen.say(0, summary)
    served = [
        model for verdict in VERDICT_TITLES for model in found.having(verdict) if model.served.fits
    ]
    columns = ("model", "weights", "context", "tok/s")
    trained = ("full", "LoRA", "QLoRA")
    screen.add(
        0, table((*columns, *trained), [_fitting(item) for item in served], right=range(2, 7))
    )
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


def _fitting(model: ModelFit) -> tuple[str, ...]:
    served = model.served
    speed = rate(served.tokens_per_s, "").strip() if served.tokens_per_s else "-"
    return (
        model.preset,
        _weights(served),
        length_limit(served.max_context_tokens),
        speed,
        *(fit.longest for fit in model.trained),
    )


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
