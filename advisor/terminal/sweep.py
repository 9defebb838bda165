"""A sweep on the terminal: its progress, and what became of its rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from advisor.sweeps.sweep import SweepSummary
from advisor.terminal.console import drawn

WORDS: Final = {
    "ok": "answered",
    "misses_limits": "miss a limit",
    "does_not_fit": "do not fit",
    "no_plan": "without a plan within the limits",
    "mistake": "with a mistake (see the column problem)",
}


@contextmanager
def progress() -> Iterator[Callable[[int, int], object]]:
    """Draw a bar on standard error while rows are answered, if it is a terminal."""
    with drawn(MofNCompleteColumn(), TimeRemainingColumn(), total=None) as update:
        yield lambda done, total: update(completed=done, total=total)


def show_sweep(console: Console, summary: SweepSummary) -> None:
    """Print how many rows have which outcome, and where they are."""
    parts = [f"{number:,} {WORDS[name]}" for name, number in summary.outcomes.items()]
    console.print(f"{summary.rows:,} rows: {', '.join(parts) or 'none'}.")
    if summary.resumed:
        console.print(f"{summary.resumed:,} of them were done before.")
    console.print(f"Wrote {summary.output}.")
