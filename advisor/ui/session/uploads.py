"""Files that a reader of the page uploads: read once, then forgotten by the server."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor.errors import InputError
from advisor.foundation.files.reading import too_large
from advisor.ui.parts.wording import plain
from advisor.ui.session.state import sentence

MB: Final = 1_000_000
Take = Callable[[str, bytes], object]
"""Takes the name of a file and its content."""


def uploader(
    label: str,
    *,
    key: str,
    most: int,
    take: Take,
    kinds: Sequence[str] = ("json",),
    tell: Callable[[InputError], str] = sentence,
) -> None:
    """Draw a box for a file of at most ``most`` bytes, and what was wrong with the last one.

    ``take`` takes its name and content. An `InputError` that it raises is shown below the box,
    as ``tell`` says it: ``str`` keeps the names that fields have in a file.
    """
    turn = st.session_state.setdefault(f"{key}_turn", 0)
    st.file_uploader(
        f"{label} ({most / MB:g} MB at most)",
        type=list(kinds),
        max_upload_size=math.ceil(most / MB),
        key=f"{key}_{turn}",
        on_change=_taken,
        args=(key, most, take, tell),
    )
    if problem := st.session_state.pop(f"{key}_problem", None):
        st.error(plain(problem), icon=":material/error:")


def _taken(key: str, most: int, take: Take, tell: Callable[[InputError], str]) -> None:
    """Read an uploaded file and let go of it; a callback."""
    upload = st.session_state[f"{key}_{st.session_state[f'{key}_turn']}"]
    if upload is None:
        return
    try:
        if upload.size > most:
            raise too_large(f"the file {upload.name}", most, remedy="Upload another.")
        take(upload.name, upload.getvalue())
    except InputError as error:
        st.session_state[f"{key}_problem"] = tell(error)
    # A new box: the old one would keep the file for as long as the session lives.
    st.session_state[f"{key}_turn"] += 1
    context = get_script_run_ctx()
    if context is None:
        return
    files = context.uploaded_file_mgr
    if isinstance(files, MemoryUploadedFileManager):
        files.remove_file(context.session_id, upload.file_id)
