"""Remedies as buttons: applied with one click, undone with one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import streamlit as st

from advisor import api
from advisor.errors import InputError, without_options
from advisor.ui.forms import remedies
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.remedies import Remedy
from advisor.ui.forms.rules import OWN
from advisor.ui.parts.wording import plain
from advisor.ui.session import state

SHOWN: Final = 4
UNDO: Final = "undo"
"""Session's key of the last remedy, and of what it set: before and after."""

Outcome = Callable[[Inputs], str | None]
"""What the engine says of a changed question; None where it does not work."""


def undo(inputs: Inputs) -> None:
    """Offer to undo the last remedy while what it set stands."""
    title, before, after = st.session_state.get(UNDO, ("", {}, {}))
    if not title or any(vars(inputs)[name] != value for name, value in after.items()):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"Changed: **{plain(title)}**", width="content")
        st.button("Undo", key="undo_remedy", on_click=_undo, args=(before,), icon=":material/undo:")


def own_card(inputs: Inputs) -> None:
    """Offer the card that the reader named on another page, where this one rents."""
    title = state.card_titles().get(inputs.own_accelerator)
    if title and inputs.rent != OWN:
        use = Remedy(f"Use my {title} instead", {"rent": OWN})
        st.button(use.title, key="use_own", on_click=_apply, args=(use,))


def offer(
    inputs: Inputs,
    outcome: Outcome,
    rejections: Iterable[api.Rejection] = (),
    *,
    limits: bool = True,
) -> None:
    """Offer the changes that the engine finds to work, near misses first.

    ``outcome`` says what a changed question brings. Limits that the nearest of ``rejections`` meet
    come first; without ``limits``, only memory counts and no looser limit can help.
    """
    found: list[tuple[Remedy, str]] = []
    for remedy in (*remedies.near_misses(inputs, rejections), *remedies.changes(inputs)):
        if not limits and remedy.changes.keys() & {*remedies.LIMITS, "rent", "speed"}:
            continue
        try:
            said = outcome(remedy.applied(inputs))
        except InputError:
            continue
        if said is not None:
            found.append((remedy, said))
        if len(found) == SHOWN:
            break
    if not found:
        return
    st.markdown("What would work, with one click:")
    for remedy, said in found:
        button, outcome_of = st.columns((1, 3), vertical_alignment="center")
        button.button(
            remedy.title,
            key=f"remedy_{remedy.title}",
            on_click=_apply,
            args=(remedy,),
            icon=":material/check:",
            width="stretch",
        )
        outcome_of.markdown(plain(said))


def advice(inputs: Inputs, recommendation: api.Recommendation) -> None:
    """Say what a careful colleague would add, warnings first, and offer each change as a button."""
    words = {"warning": ":material/warning: **Check:**", "info": ":material/info: **Note:**"}
    lines = [
        f"{words[item.severity]} {plain(without_options(item.message))}"
        for item in recommendation.advice
    ]
    if lines:
        st.markdown("  \n".join(lines))
    found = [remedies.advised(inputs, item.message) for item in recommendation.advice]
    changes = [change for change in found if change is not None]
    if not changes:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("Try:", width="content")
        for change in changes:
            key = f"advised_{change.title}"
            st.button(plain(change.title), key=key, on_click=_apply, args=(change,))


def recommended(inputs: Inputs) -> str | None:
    """Return the answer to a changed question, if something works."""
    found = state.recommended(inputs)
    return found.answer if found.plans else None


def _apply(remedy: Remedy) -> None:
    """Set what a remedy changes, and nothing else: the page may be older than the question."""
    before = {name: st.session_state.get(state.key(name)) for name in remedy.changes}
    st.session_state[UNDO] = remedy.title, before, dict(remedy.changes)
    state.take(remedy.changes)


def _undo(before: Mapping[str, object]) -> None:
    del st.session_state[UNDO]
    state.take(before)
