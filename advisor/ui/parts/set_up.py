"""The way from an empty machine to the plan's run."""

from __future__ import annotations

import streamlit as st

from advisor import api
from advisor.errors import InputError
from advisor.ui.parts.widgets import download_file, folded, show_mistake
from advisor.ui.session.state import Answer


@st.fragment
def set_up(found: Answer) -> None:
    """Show the set-up checklist of the first plan, and offer the script that checks a machine."""
    part = folded("Set it up", key="set_up", icon="checklist")
    if not part.open:
        return
    with part:
        titles = api.platforms()
        platform = st.selectbox(
            "Where",
            [None, *titles],
            format_func=lambda name: titles[name] if name else "The usual place for the card",
            key="platform",
        )
        try:
            steps, script = (
                api.export(
                    found.recommendation.case,
                    to,
                    answer=found.recommendation,
                    platform=platform,
                )
                for to in ("checklist", "check-script")
            )
        except InputError as error:
            show_mistake(error, blocked=True)
            return
        download_file("Script that checks a machine", script, key="check_script")
        st.markdown(_shown(steps.content))


def _shown(text: str) -> str:
    """Return Markdown with smaller headings, and with dollars that start no formula."""
    lines, in_code = [], False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        smaller = f"##{line}" if line.startswith("#") else line
        lines.append(line if in_code or fence else smaller.replace("$", "\\$"))
        in_code ^= fence
    return "\n".join(lines)
