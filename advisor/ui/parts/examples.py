"""Questions to click, for whoever does not know what to type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import streamlit as st

from advisor.nouns.inputs import Task
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.rules import OWN
from advisor.ui.session import saved

ONE_CARD: Final[dict[str, Any]] = {"max_accelerators": "1"}
EXAMPLES: Final = {
    "Fine-tune an 8B on one card": replace(DEFAULTS, task=Task.QLORA, **ONE_CARD),
    "Serve a chat to 500 users": replace(
        DEFAULTS, task=Task.SERVE, users="500", prompt="1024", answer="256"
    ),
    "Plan an 8-GPU server": replace(
        DEFAULTS,
        task=Task.FULL,
        tokens="100M",
        deadline="7 days",
        rent=OWN,
        own_accelerator="h100-sxm",
        own_count="8",
    ),
}


def offer(inputs: Inputs) -> None:
    """Offer the examples to a reader who has changed nothing yet."""
    if inputs != DEFAULTS:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="examples"):
        st.markdown("Change what you like, or try:", width="content")
        for title, example in EXAMPLES.items():
            st.button(title, type="tertiary", on_click=saved.take, args=(example,), key=title)
