"""The way from an empty machine to the plan's run."""

from __future__ import annotations

import streamlit as st

from advisor import api
from advisor.errors import InputError
from advisor.ui.parts.wording import plain
from advisor.ui.session import state
from advisor.ui.session.state import Answer


@st.fragment
def set_up(found: Answer) -> None:
    """Show the set-up checklist of the first plan, and offer the script that checks a machine."""
    expander = st.expander(
        "Set it up", key="set_up", on_change="rerun", icon=":material/checklist:"
    )
    if not expander.open:
        return
    with expander:
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
            st.warning(plain(state.sentence(error)), icon=":material/block:")
            return
        st.download_button(
            "Script that checks a machine",
            data=script.content,
            file_name=script.file_name,
            mime=script.media_type,
            on_click="ignore",
            icon=":material/download:",
            key="check_script",
        )
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
