"""Words around the numbers: what a range rests on, and text that Markdown must not read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from typing import Any, Final, Literal
from zlib import crc32

import pandas as pd
import streamlit as st
from streamlit.errors import StreamlitDuplicateElementKey

from advisor.foundation.formatting import with_minus
from advisor.foundation.quantities import Evidence

EVIDENCE: Final = {
    Evidence.MEASURED: "measured on your machine",
    Evidence.CALIBRATED: "8 of 10 comparable measured runs fell in it",
    Evidence.DERIVED: "follows from the inputs",
    Evidence.ASSUMED: "assumed, no comparable run",
}
"""What a range rests on. The bounds are those of an 80 % interval, see ``quantities.Range``."""
ROW_PX: Final = 32
PHONE_COLUMNS: Final = 3
"""A phone shows no more sentences side by side."""
NUMBER: Final = re.compile(
    r"(?:above |below )?[-+]?\$?\d[\d,.]*(?:[\u2013]\$?[\d,.]+)?(?:/\w+|\s?%|\s?[A-Za-z][\w/·]*)?"
    r"(?: (?:or|a) \w+)?(?: \([^()]*\))?"
)
DIGIT: Final = re.compile(r"\d")
PHONE: Final = "Mobi"
"""What browsers on phones put into their user agent."""
PHONE_PX: Final = 640
"""A window as narrow is drawn as on a phone, whatever browser it is. [px]"""
WINDOW: Final = "window_watched"
"""Session's key of what `chart_view.follow_window` reports."""
INSIDE_NUMBER: Final = re.compile(
    r"(?<=\d) (?=%|(?:[KMGTPE]iB|[EPTG]FLOP|[TG]B|k?Wh?|USD|h|min|ms|s|days|years)\b)"
    r"|(?<=\d\u2013)(?=[$\d])"
)
"""The blank between a number and its unit, and the place after the dash of a range."""
MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-!|~$:<>^=&]|(?<=\d)\.(?=\s|$))", re.MULTILINE)
READ_LATER: Final = re.compile(
    r"(?<=:)(?=[A-Za-z/])|(?<=www)(?=\.)|(?<=@)(?=[\w-])|(?<=[-<>~])(?=[-<>=])", re.IGNORECASE
)
"""Places in bare addresses, ``:material/…:`` and arrows. The browser looks for these after
Markdown, when escapes are gone."""
ARXIV: Final = re.compile(r"arXiv\\:(\d{4}\.\d{4,5})")
"""A paper's number, escaped."""
WORD_JOINER: Final = "\N{WORD JOINER}"
"""Has no width and allows no line break."""


def plain(text: str, *, links: bool = False) -> str:
    r"""Return a text that Streamlit's Markdown shows as it is.

    Without this, two dollar signs would make a formula of the text between them, and an address
    would become a link. ``links`` makes addresses and papers links: only for texts of the data
    files.

    >>> plain("$12 ($9)")
    '\\$12 \\(\\$9\\)'
    """
    shown = MARKDOWN.sub(r"\\\1", together(text if links else READ_LATER.sub(WORD_JOINER, text)))
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", shown) if links else shown


def together(text: str) -> str:
    r"""Return a text whose numbers stand on one line with sign, units and ranges.

    >>> together("15\N{EN DASH}25 GiB")
    '15\u2013\u206025\xa0GiB'
    """
    joined = INSIDE_NUMBER.sub(lambda gap: "\N{NO-BREAK SPACE}" if gap[0] else WORD_JOINER, text)
    return with_minus(joined)


def text_table(
    texts: pd.DataFrame | Sequence[Mapping[str, str]],
    *,
    tallest_px: int | None = None,
    links: bool = False,
) -> None:
    """Show a table, or rows of texts by column, as it is: cells wrap, numbers keep their units.

    On a phone a wide one becomes a list, unless that were endless: it would scroll sideways,
    beyond the keyboard's reach.
    """
    table = pd.DataFrame(texts)
    cells = table.map(lambda cell: plain(str(cell), links=links))
    long = tallest_px is not None and len(table) * ROW_PX > tallest_px
    if on_phone() and len(table.columns) > PHONE_COLUMNS and not long:
        st.markdown("\n".join(listed(cells)))
        return
    with _aligned(table):
        st.table(
            cells,
            border="horizontal",
            hide_index=True,
            height=tallest_px if long and tallest_px else "content",
        )


def list_table(table: pd.DataFrame, *, height: Literal["auto", "content"] = "auto") -> None:
    """Show a table that scrolls on its own, numbers at the right of their columns."""
    right: Any = {
        str(name): st.column_config.TextColumn(alignment="right")
        for name in table
        if numeric(table[name])
    }
    shown = table.map(with_minus, na_action="ignore")
    st.dataframe(shown, hide_index=True, width="stretch", height=height, column_config=right)


def numeric(column: Iterable[object]) -> bool:
    """Return whether the cells of a column are numbers, each with at most a unit and a range.

    Words such as "too slow" may stand in their place, and numbers side by side between strokes.

    >>> numeric(["$1,900 ($1,300\N{EN DASH}2,200)", "-"]), numeric(["1.6 h", "24 h"])
    (True, True)
    >>> numeric(["1x NVIDIA L4"]), numeric(["2026-09-20"]), numeric(["-"])
    (False, False, False)
    """
    cells = [part for cell in column for part in str(cell).split(" / ") if DIGIT.search(part)]
    return bool(cells) and all(map(NUMBER.fullmatch, cells))


def _aligned(table: pd.DataFrame) -> AbstractContextManager[object]:
    """Return a container whose name says to the style sheet which columns hold numbers.

    The name stays while the columns do, so that a table with other numbers is not drawn anew.
    """
    right = [place for place, name in enumerate(table, 1) if numeric(table[name])]
    if not right:
        return nullcontext()
    named = f"{crc32('|'.join(map(str, table)).encode())}" + "".join(f"_right{n}_" for n in right)
    for number in count():
        with suppress(StreamlitDuplicateElementKey):
            return st.container(key=f"table{number}_{named}")
    raise AssertionError


def listed(cells: pd.DataFrame) -> list[str]:
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
    """Whether the window is narrow; before it says so, whether the browser is a phone's."""
    narrow = st.session_state.get(WINDOW, {}).get("narrow")
    if narrow is None and (narrow := st.session_state.get(PHONE)) is None:  # headers cost a parse
        narrow = st.session_state[PHONE] = PHONE in st.context.headers.get("User-Agent", "")
    return bool(narrow)


def span(text: str) -> str:
    """Return the range of a formatted number alone, with its unit; empty where it is exact.

    >>> span("9 h (7–12)")
    '7–12 h'
    >>> span("$12 ($9–$16)")
    '$9–$16'
    """
    value, _, bounds = text.partition(" (")
    unit = value.partition(" ")[2]
    return f"{bounds.rstrip(')')} {unit}".rstrip() if bounds else ""
