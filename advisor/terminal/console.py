"""The console, the parts of every report, and which screen shows which answer."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from advisor.foundation.names import visible
from advisor.foundation.references import citation

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


INDENT = 2
NARROWEST, WIDEST = 20, 1_000
"""Allowed range of ``COLUMNS``: tables need the lower end, more would only add blanks."""
SIZES = ("COLUMNS", "LINES")
MOST_LINES: Final = 40
"""Lines of a first answer."""


class Report(Console):
    """A console with the parts of every report; a closed pipe is left to the caller.

    Rich itself would exit with 1 there.
    """

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError."""
        self.quiet = True
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render text that no name, whoever chose it, makes control the terminal."""
        for text, style, control in super().render(renderable, options):
            safe = text if control else "\n".join(map(visible, text.split("\n")))
            yield Segment(safe, style, control)

    def heading(self, text: str) -> None:
        """Print a title with a blank line before it."""
        self.print()
        self.print(text, style="bold")

    def paragraph(self, text: str) -> None:
        """Print indented text, wrapped at words."""
        self.print(Padding(Text(text), (0, 0, 0, INDENT)))

    def bullets(self, title: str, items: Iterable[str]) -> None:
        """Print a titled list; nothing if it is empty."""
        lines = [("-", line) for line in items]
        if lines:
            self.heading(title)
            self.print(_grid(lines, INDENT))

    def definitions(self, *items: tuple[str, str]) -> None:
        """Print an indented grid of names and texts, without names that have no text."""
        self.print(_grid([item for item in items if item[1]], 2 * INDENT))

    def tabled(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Sequence[int] = (),
    ) -> None:
        """Print a table under its title, if it has one; nothing without rows."""
        lines = list(rows)
        if lines and title:
            self.heading(title)
        if lines:
            self.print(table(columns, lines, right=right))

    def tabled_cells(
        self, title: str, cells: Iterable[Mapping[str, str]], *, right: Sequence[int] = ()
    ) -> None:
        """Print rows whose cells bear the names of the columns, as `tabled` does."""
        rows = list(cells)
        columns = [*rows[0]] if rows else []
        self.tabled(title, columns, [[*row.values()] for row in rows], right=right)

    def references(self, keys: Iterable[str]) -> None:
        """Print the cited sources in full."""
        self.bullets("Sources", (f"[{key}] {citation(key)}" for key in keys))


def new_console(file: IO[str] | None = None, *, width: int | None = None) -> Report:
    """Return a console that prints plain text: no markup, no emoji, no guessed colours."""
    if width is None and "COLUMNS" in os.environ:
        width = max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))
    # Rich does not check the two: they may be 0, or digits that are not a number.
    known = {name: value for name, value in os.environ.items() if name not in SIZES}
    return Report(
        file=file, width=width, markup=False, emoji=False, highlight=False, _environ=known
    )


@contextmanager
def drawn(
    *columns: "ProgressColumn", total: float | None, **told: Any
) -> Iterator[Callable[..., None]]:
    """Draw a bar on standard error while something long runs, if it is a terminal.

    Yields what moves the bar, as ``Progress.update`` does; columns may show what is ``told``.
    """
    from rich.progress import BarColumn, Progress

    console = new_console(sys.stderr)
    bar = Progress(
        BarColumn(), *columns, console=console, transient=True, disable=not console.is_terminal
    )
    with bar:
        yield partial(bar.update, bar.add_task("", total=total, **told))


def _grid(rows: Iterable[tuple[str, str]], indent: int) -> Padding:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return Padding(grid, (0, 0, 0, indent))


LONGEST_NAME: Final = 24
"""Characters of a name that a table keeps on one line."""


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> Table:
    """Return a table with a rule under its head; figures and names are never cut or broken.

    A short row leaves its last columns empty. Columns of ``right`` hold figures, aligned right; in
    a narrow console they wrap between words.
    """
    lines = [tuple(row) for row in rows]
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, header_style="bold")
    for index, column in enumerate(columns):
        figures = index in right
        cells = [row[index] for row in lines if index < len(row)]
        words = [word for cell in cells for word in cell.split()]
        longest = max(map(len, words), default=0)
        made.add_column(
            column,
            justify="right" if figures else "left",
            min_width=longest if figures else None,
            no_wrap=len(words) <= len(cells) and (figures or longest <= LONGEST_NAME),
            overflow="fold",
        )
    for row in lines:
        made.add_row(*row)
    return made


def of_cells(
    rows: Sequence[Mapping[str, str]], *, only: Sequence[str] = (), right: Sequence[int] = ()
) -> Table:
    """Return the table of rows whose cells bear the names of the columns, or of some columns."""
    columns = only or [*rows[0]]
    return table(columns, [[row[name] for name in columns] for row in rows], right=right)


@dataclass
class Screen:
    """A command's first answer on a screen: the least important blocks make way for the others."""

    console: Report
    rest: str
    """Closing line: how to see what is left out."""
    blocks: list[tuple[int, tuple[RenderableType, ...]]] = field(default_factory=list)

    def add(self, weight: int, *lines: RenderableType) -> None:
        """Add a block; of all blocks, those with the largest weight go first."""
        if lines:
            self.blocks.append((weight, lines))

    def say(self, weight: int, text: str, *, title: str = "") -> None:
        """Add a paragraph, with a title in bold at its start; nothing if it is empty."""
        if text:
            words = Text(f"{title}: " if title else "", style="bold")
            self.add(weight, Padding(words.append(Text(text, style="not bold")), (0, 0, 0, INDENT)))

    def show(self) -> None:
        """Print the blocks that fit."""
        self.say(0, self.rest)
        sizes = [
            sum(len(self.console.render_lines(line, pad=False)) for line in lines)
            for _, lines in self.blocks
        ]
        kept = set(range(len(self.blocks)))
        while sum(sizes[place] for place in kept) > MOST_LINES:
            worst = max(kept, key=lambda place: (self.blocks[place][0], place))
            if self.blocks[worst][0] == 0:
                break
            kept.remove(worst)
        for place in sorted(kept):
            for line in self.blocks[place][1]:
                self.console.print(line)


def listed(items: Iterable[str]) -> str:
    """Return sentences or their parts as one list."""
    return "; ".join(item.removesuffix(".") for item in items) + "."


SCREENS: Final = {
    "Comparison": "fits.show_comparison",
    "Estimate": "estimate.show_estimate",
    "Fits": "fits.show_fits",
    "FleetPlan": "fleet.show_fleet",
    "Lessons": "lessons.show_lessons",
    "OfferList": "prices.show_offers",
    "Ownership": "ownership.show_ownership",
    "PriceOverview": "prices.show_prices",
    "ProbeReport": "probe.show_probe",
    "Recommendation": "recommendation.show_recommendation",
    "RefreshReport": "prices.show_refresh",
    "SweepSummary": "fleet.show_sweep",
    "ValidationReport": "validation.show_validation",
}
"""Module and function by the type of the answer; imported when one is shown."""


def show(console: Report, answer: object, **how: object) -> None:
    """Print an answer of a type that has a screen; ``how`` are further arguments of it."""
    module, _, name = SCREENS[type(answer).__name__].partition(".")
    getattr(import_module(f"advisor.terminal.{module}"), name)(console, answer, **how)
