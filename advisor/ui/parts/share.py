"""What can be done with every page: send it as a link, save its question, compare the saved."""

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st
import yaml

from advisor.errors import AdvisorError
from advisor.frames import turning
from advisor.ui.forms.asked import question_words, work_words
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.reading import used, value_title
from advisor.ui.forms.rules import RULES
from advisor.ui.parts.chart_view import PICTURE, PICTURES
from advisor.ui.parts.widgets import behind, csv_button, download, show_mistake
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import address, own_catalog, saved, state
from advisor.ui.session.links import Page
from advisor.ui.session.question import MOST_SAVED
from advisor.ui.session.state import Answer
from advisor.ui.session.uploads import uploader

MOST_BYTES: Final = 1_000_000
"""Of a case file."""
OPENED, NEW = "case_opened", "case_new"


@st.fragment
def tools(page: Page, inputs: Inputs, found: Answer | None = None) -> None:
    """Offer the link and the case file of a page, and the questions that were saved."""
    with st.container(horizontal=True, width="content"):
        sharing = st.popover("Share", key="share", on_change="rerun", icon=":material/share:")
        saving = st.popover("Save", key="saving", on_change="rerun", icon=":material/bookmark:")
    if sharing.open:
        with sharing:
            _share(page, inputs, found)
    if saving.open:
        with saving:
            _saved(inputs)


def _share(page: Page, inputs: Inputs, found: Answer | None) -> None:
    held = address.values(page)
    for name, field in page.fields.items():
        if held[name] not in (None, field.default) and field.write(held[name]) is None:
            st.warning(
                f"{field.label} is too long for a link. Send its file instead.",
                icon=":material/link_off:",
            )
    if own_catalog.held():
        st.caption("A link does not carry your own offers and cards: others see other prices.")
    price = " and the price you see now" if found else ""
    st.markdown(f"Link with every input, the versions{price}:")
    st.code(state.link(page, inputs, found), language=None, wrap_lines=True)
    download(
        "Case file (YAML)",
        "case.yaml",
        lambda: yaml.safe_dump(state.case_mapping(inputs), sort_keys=False),
        key="case_file",
    )
    _picture()
    st.caption("The command line reads the case file: gpu-advisor recommend case.yaml")


def _picture() -> None:
    """Ask for the format in which the buttons of the charts save them."""
    before = st.session_state.get(PICTURE) or next(iter(PICTURES))
    chosen = st.radio(
        "The button below a chart saves it as",
        list(PICTURES),
        index=list(PICTURES).index(before),
        format_func=PICTURES.__getitem__,
        horizontal=True,
    )
    if chosen != before:
        st.session_state[PICTURE] = chosen
        st.rerun()  # the whole page: its charts


def _saved(inputs: Inputs) -> None:
    """List the saved questions, each to open or to remove, and offer to add this one."""
    now, kept = saved.spelled(inputs), saved.saved()
    for place, item in enumerate(kept):
        other = saved.inputs_spelled(item)
        st.markdown(f"**Saved {place + 1}:** {plain(question_words(other))}")
        with st.container(horizontal=True):
            _button("Open", f"saved_open_{place}", state.take, vars(other))
            _button("Remove", f"saved_drop_{place}", saved.forget, item)
    if now in kept:
        st.caption("This question is saved.")
    elif len(kept) >= MOST_SAVED:
        st.caption(f"{MOST_SAVED} questions are saved. Remove one to save another.")
    else:
        _button("Save this question", "saved_add", saved.save, now)
    st.caption(
        "Saved questions are in the address of the page: bookmark it to keep them. Advisor "
        "compares them below its answer: Saved questions side by side."
    )
    uploader(
        "Open a case file",
        key="case_open",
        most=MOST_BYTES,
        take=lambda _, content: _open(content),
        kinds=("yaml", "yml", "json"),
        tell=str,
    )
    if OPENED in st.session_state:
        st.markdown(plain(st.session_state[OPENED]))
    if st.session_state.pop(NEW, False):
        st.rerun()  # the whole page


def _open(content: bytes) -> None:
    st.session_state.pop(OPENED, None)
    st.session_state[OPENED] = saved.take_case(content)
    st.session_state[NEW] = True


def _button(label: str, key: str, act: Callable[..., None], value: object) -> None:
    if st.button(label, key=key, on_click=act, args=(value,)):
        st.rerun()  # the whole page, not this part alone


def side_by_side(found: Answer) -> None:
    """Compare the answer with those to the saved questions."""
    others = [saved.inputs_spelled(item) for item in saved.saved()]
    if others := [item for item in others if item != found.inputs]:
        _compared(found, others)


@behind("Saved questions side by side", key="side_by_side", icon="view_column")
def _compared(found: Answer, others: Sequence[Inputs]) -> None:
    asked, answers, titles = [_asked(found.inputs)], [found.recommendation], ["Now"]
    for place, inputs in enumerate(others, start=1):
        try:
            answers.append(state.recommended(inputs))
        except AdvisorError as error:
            show_mistake(error, blocked=True)
            continue
        asked.append(_asked(inputs))
        titles.append(f"Saved {place}")
    table = turning.side_by_side(asked, answers, titles)
    text_table(table)
    csv_button("saved", table)


def _asked(inputs: Inputs) -> dict[str, str]:
    """Return what a question asks, by label."""
    stated = {
        rules.label: value_title(name, getattr(inputs, name))
        for name, rules in RULES.items()
        if name not in ("task", "model", "config", "network") and used(name, inputs)
    }
    return {"Work": work_words(inputs)} | stated
