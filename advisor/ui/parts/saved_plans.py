"""The saved questions beside the one that is asked, differences first."""

from __future__ import annotations

import streamlit as st

from advisor import frames
from advisor.errors import AdvisorError
from advisor.ui.forms.asked import work_words
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.reading import used, value_title
from advisor.ui.forms.rules import RULES
from advisor.ui.parts.widgets import csv_button, folded, show_mistake
from advisor.ui.parts.wording import text_table
from advisor.ui.session import saved, state
from advisor.ui.session.state import Answer


@st.fragment
def side_by_side(found: Answer) -> None:
    """Compare the answer with those to the saved questions."""
    others = [saved.inputs_spelled(item) for item in saved.saved()]
    others = [item for item in others if item != found.inputs]
    if not others:
        return
    part = folded("Saved questions side by side", key="side_by_side", icon="view_column")
    if not part.open:
        return
    with part:
        asked, answers, titles = [_asked(found.inputs)], [found.recommendation], ["Now"]
        for place, inputs in enumerate(others, start=1):
            try:
                answers.append(state.recommended(inputs))
            except AdvisorError as error:
                show_mistake(error, blocked=True)
                continue
            asked.append(_asked(inputs))
            titles.append(f"Saved {place}")
        table = frames.side_by_side(asked, answers, titles)
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
