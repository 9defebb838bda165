"""Pieces that several pages have: parts that open, mistakes, lists of numbers, files to save."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec

import pandas as pd
import streamlit as st
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from advisor import api
from advisor.errors import AdvisorError
from advisor.ui.parts.wording import plain
from advisor.ui.session.links import Page
from advisor.ui.session.state import sentence

P = ParamSpec("P")
LIST_PX: Final = 420
"""A longer list scrolls on its own. [px]"""
ROW_PX: Final = 36
MEDIA_TYPES: Final = {
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "yaml": "application/yaml",
}


def folded(title: str, *, key: str, icon: str) -> ExpanderContainer:
    """Return a part whose content is computed only while its ``open`` is true."""
    return st.expander(title, key=key, on_change="rerun", icon=f":material/{icon}:")


def behind(
    title: str, *, key: str, icon: str
) -> Callable[[Callable[P, object]], Callable[P, None]]:
    """Make a function the content of a part that opens: it runs only while the part is open."""

    def unfolding(content: Callable[P, object]) -> Callable[P, None]:
        @wraps(content)
        def part(*args: P.args, **more: P.kwargs) -> None:
            place = folded(title, key=key, icon=icon)
            if place.open:
                with place:
                    content(*args, **more)

        return part

    return unfolding


def select(label: str, titles: Mapping[Any, str], *, key: str, **more: Any) -> Any:
    """Ask for one of some values by its title; ``more`` are arguments of Streamlit's box."""
    return st.selectbox(
        label,
        list(titles),
        format_func=lambda value: titles.get(value, value),
        key=key,
        persist_state="session",
        **more,
    )


def box(page: Page, name: str, **more: Any) -> Any:
    """Ask for an input of a page as its address has it; ``more`` are arguments of the box."""
    field = page.fields[name]
    if field.options is not None:
        index = None if field.default is None else 0
        return select(field.label, field.options(), key=field.key, **{"index": index} | more)
    kept: Any = {"key": field.key, "persist_state": "session", **more}
    if isinstance(field.default, bool):
        return st.toggle(field.label, **kept)
    if field.bounds is not None:
        return st.number_input(field.label, *field.bounds, value=None, **kept)
    return st.text_input(field.label, type="search", **kept)


def show_mistake(error: AdvisorError, *, blocked: bool = False, instead: str = "") -> None:
    """Say what is wrong, and what the answer below is for ``instead``.

    ``blocked`` if only this part of the page has no answer.
    """
    show, icon = (st.warning, "block") if blocked else (st.error, "error")
    show(plain(f"{sentence(error)} {instead}".strip()), icon=f":material/{icon}:")


def number_list(
    table: pd.DataFrame,
    *,
    key: str,
    numbers: Mapping[str, str],
    others: Mapping[str, Any] | None = None,
) -> None:
    """Show a list of accelerators that sorts by any column.

    ``numbers`` holds formats of columns of numbers (``%.2f``), ``others`` Streamlit's configuration
    of other columns.
    """
    formats = {name: st.column_config.NumberColumn(format=form) for name, form in numbers.items()}
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        placeholder="-",
        height=min(LIST_PX, ROW_PX * (len(table) + 1) + 2),
        key=key,
        column_config={
            "Accelerator": st.column_config.TextColumn(pinned=True),
            **formats,
            **(others or {}),
        },
    )


def csv_button(name: str, table: pd.DataFrame | Callable[[], pd.DataFrame]) -> None:
    """Offer a table as a file, written when it is asked for."""
    file = f"gpu-advisor-{name.replace('_', '-')}.csv"
    made = table if callable(table) else lambda: table
    download("CSV", file, lambda: made().to_csv(index=False), key=f"{name}_csv")


def download(
    label: str, name: str, data: str | Callable[[], str], *, key: str, media_type: str = ""
) -> None:
    """Offer a file; a callable is called when the file is asked for."""
    st.download_button(
        label,
        data=data,
        file_name=name,
        mime=media_type or MEDIA_TYPES[name.rpartition(".")[2]],
        key=key,
        on_click="ignore",
        icon=":material/download:",
    )


def download_file(label: str, file: api.Export, *, key: str) -> None:
    """Offer an export."""
    download(label, file.file_name, file.content, key=key, media_type=file.media_type)
