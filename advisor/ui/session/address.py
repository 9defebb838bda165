"""The session and the address of a page: both hold the same question, whoever changed it last.

A page opens from its address, and so do back and forward. Every edit is written to the address, so
that a reload, a second tab and another server show the same. While the session lives it is the
authority: an address that a quick second edit brings along is older than the first edit.
"""

from typing import Any, Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.common import user_key_from_element_id

from advisor.foundation.units import HOUR_S
from advisor.ui.parts.wording import plain
from advisor.ui.session import links
from advisor.ui.session.links import Opened, Page, Value, Values

WRITTEN: Final = "address_written"
ONE_ENTRY: Final = """
if (!window.oneEntryForEachAct) {
  window.oneEntryForEachAct = true
  let acted = false
  for (const act of ["pointerdown", "click", "keydown", "input"])
    window.addEventListener(act, () => { acted = true }, { capture: true })
  const push = history.pushState
  history.pushState = (...entry) => {
    (acted ? push : history.replaceState).apply(history, entry)
    acted = false
  }
}
"""
"""Makes one press of Back undo one act of the reader.

Streamlit tells the browser a page and its inputs one after the other, in either order; the first
alone would be a step of its own: the page before with inputs of the next.
"""
SHOWN: Final = "page_shown"
"""Session's key of the name of the page of the last run."""


def open_page(page: Page) -> Opened:
    """Fill the inputs of a page where its address decides; return the address as it was read."""
    parameters = st.query_params.to_dict()
    new = _opened(page) not in st.session_state
    back = _goes_back()
    if st.session_state.get(SHOWN) != page.name:
        st.session_state[SHOWN] = page.name
        # Streamlit forgets, on the next page, what a link or a callback put into a box that no
        # later run of this page drew.
        for field in page.fields.values():
            if field.key in st.session_state:
                st.session_state[field.key] = st.session_state[field.key]
    if new or back:
        # Where the server died under an open page, its boxes hold what the reader sees.
        boxes = _sent() if new else frozenset()
        found = links.decode(page, parameters)
        for name, field in page.fields.items():
            # A page reached by a click has the question of the page before.
            kept = new and not back and not parameters and field.key in st.session_state
            if not kept and field.key not in boxes:
                value = found.values[name]
                st.session_state[field.key] = list(value) if isinstance(value, tuple) else value
        st.session_state[_opened(page)] = found
    _corrections(opened(page))
    return opened(page)


def opened(page: Page) -> Opened:
    """Return the address of a page as it was last read."""
    found: Opened = st.session_state[_opened(page)]
    return found


def values(page: Page) -> dict[str, Value]:
    """Return what the boxes of a page hold, drawn or not."""
    found: dict[str, Value] = {}
    read = opened(page).values
    for name, field in page.fields.items():
        value: Any = st.session_state.get(field.key, read[name])
        found[name] = tuple(value) if isinstance(value, list) else value
    return found


def write(page: Page, asked: Values | None = None) -> None:
    """Write what a page asks to its address: what its boxes hold, if not ``asked``."""
    wanted = links.encode(page, values(page) if asked is None else asked)
    # What the browser sent may be older than what was written to it since.
    if not wanted == st.query_params.to_dict() == st.session_state.get(WRITTEN, wanted):
        st.query_params.from_dict(wanted)
    st.session_state[WRITTEN] = wanted


def here(page: Page) -> str:
    """Return the address of a page as the reader's browser says it, proxies and all."""
    app = (st.context.url or "").rstrip("/")
    if page.path:  # in a browser, the address says the page already
        app = app.removesuffix(f"/{page.path}")
    return f"{app}/{page.path}"


def _corrections(found: Opened) -> None:
    """Name every value of an opened address that could not be used."""
    if found.corrections:
        lines = "\n".join(f"- {plain(item)}" for item in found.corrections)
        st.warning(
            f"The link had values that this page cannot use:\n{lines}", icon=":material/link_off:"
        )


@st.fragment(run_every=HOUR_S)
def survive_restarts() -> None:
    """Draw nothing: only where some part repeats does a page run anew when it reconnects.

    A page that did not would send its next edit to a server that never drew it; the server drops
    an edit of a fragment then.
    """


def _opened(page: Page) -> str:
    return f"address_opened_{page.name}"


def _goes_back() -> bool:
    """Return whether the reader went back or forward to another address."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _sent() -> frozenset[str]:
    """Return the keys of the boxes that came with this run."""
    context = get_script_run_ctx()
    if context is None:
        return frozenset()
    widgets = context.session_state.get_widget_states()
    return frozenset(user_key_from_element_id(widget.id) or "" for widget in widgets)
