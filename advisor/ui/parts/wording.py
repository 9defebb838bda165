"""Words around the numbers: what a range rests on, and text that Markdown must not read."""

from __future__ import annotations

import re
from typing import Final

import streamlit as st

from advisor import frames
from advisor.foundation.quantities import Evidence

EVIDENCE: Final = {
    Evidence.MEASURED: "measured or listed",
    Evidence.CALIBRATED: "holds 8 of 10 comparable measured runs",
    Evidence.DERIVED: "follows from the inputs",
    Evidence.ASSUMED: "assumed, no comparable run",
}
"""What a range rests on. The bounds are those of an 80 % interval, see ``quantities.Range``."""
ROW_PX: Final = 32
PHONE_COLUMNS: Final = 3
"""A phone shows no more sentences side by side."""
PHONE: Final = "Mobi"
"""What browsers on phones put into their user agent."""
NUMBER_AND_UNIT: Final = re.compile(
    r"(\d) (?=%|(?:[KMGTPE]iB|[EPTG]FLOP|k?Wh?|USD|h|min|ms|s|days)\b)"
)
MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-!|~$:<>^=&]|(?<=\d)\.(?=\s|$))", re.MULTILINE)
READ_LATER: Final = re.compile(
    r"(?<=:)(?=[A-Za-z/])|(?<=www)(?=\.)|(?<=@)(?=[\w-])|(?<=[-<>~])(?=[-<>=])", re.IGNORECASE
)
"""Places in bare addresses, ``:material/…:`` and arrows. The browser looks for these after
Markdown, when escapes are gone."""
WORD_JOINER: Final = "\N{WORD JOINER}"
"""Has no width and allows no line break."""


def plain(text: str, *, links: bool = False) -> str:
    r"""Return a text that Streamlit's Markdown shows as it is.

    Without this, two dollar signs would make a formula of the text between them, and an address
    would become a link. ``links`` keeps addresses as links: only for texts of the data files.

    Examples
    --------
    >>> plain("$12 ($9)")
    '\\$12 \\(\\$9\\)'
    """
    return MARKDOWN.sub(r"\\\1", text if links else READ_LATER.sub(WORD_JOINER, text))


def text_table(table: frames.Table, *, tallest_px: int | None = None, links: bool = False) -> None:
    """Show a table of texts as they are: cells wrap, and numbers stay with their units.

    On a phone a wide one becomes a list, unless that were endless: it would scroll sideways,
    beyond the keyboard's reach.
    """
    cells = table.map(lambda cell: plain(NUMBER_AND_UNIT.sub("\\1\u00a0", str(cell)), links=links))
    long = tallest_px is not None and len(table) * ROW_PX > tallest_px
    if on_phone() and len(table.columns) > PHONE_COLUMNS and not long:
        st.markdown("\n".join(listed(cells)))
        return
    st.table(
        cells,
        border="horizontal",
        hide_index=True,
        height=tallest_px if long and tallest_px else "content",
    )


def listed(cells: frames.Table) -> list[str]:
    """Return each row as a point of a list: its first cell, then the others with their titles."""
    first, *others = cells.columns
    return [
        "  \n  ".join(
            [
                f"- **{row[first]}**",
                *(f"{plain(title.strip())}: {row[title]}" for title in others if row[title]),
            ]
        )
        for _, row in cells.iterrows()
    ]


def on_phone() -> bool:
    """Whether the browser says that it runs on a phone."""
    return PHONE in st.context.headers.get("User-Agent", "")


def span(text: str) -> str:
    """Return the range of a formatted number alone, with its unit; empty where it is exact.

    Examples
    --------
    >>> span("9 h (7–12)")
    '7–12 h'
    >>> span("$12 ($9–$16)")
    '$9–$16'
    """
    value, _, bounds = text.partition(" (")
    unit = value.partition(" ")[2]
    return f"{bounds.rstrip(')')} {unit}".rstrip() if bounds else ""
