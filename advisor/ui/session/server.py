"""What a server allows its visitors: whether they are strangers, how many uploads they may hold."""

import gc
import os
import time
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

PUBLIC: Final = "GPU_ADVISOR_PUBLIC"
"""Environment variable; the container sets it."""
NO: Final = frozenset({"", "0", "no", "false", "off"})
COLLECT_AFTER: Final = 100_000
"""New objects between two rounds of the garbage collector: an answer's go after it."""
SWEPT_S: Final = 300.0
_SWEPT: Final[dict[int, float]] = {}
MOST_UPLOADS: Final = 2
"""Files that a session keeps: one that a page reads and one that arrives meanwhile."""

BROWSER: Final = Path(__file__).parents[1] / "browser"
PLOTLY: Final = BROWSER / "plotly-cartesian-4.1.1.min.js"
"""The part of Plotly with two axes, as its npm package plotly.js-cartesian-dist-min has it."""
KEPT: Final = {"Cache-Control": "public, immutable, max-age=31536000"}


def plotly_route() -> Route:
    """Return the route of Plotly, below whatever prefix the app has.

    A browser keeps what it compiled only of a script with an address and a life of its own, which
    the files of Streamlit's components lack. Another release has another name.
    """

    def plotly(_: Request) -> FileResponse:
        return FileResponse(PLOTLY, headers=KEPT)

    return Route(f"/{{prefix:path}}{PLOTLY.name}", plotly)


def is_public() -> bool:
    """Return whether strangers visit: they may not measure the machine or make it fetch prices."""
    return os.environ.get(PUBLIC, "").strip().lower() not in NO


def settle() -> None:
    """Exempt what earlier runs left from the collection of garbage after this run.

    Streamlit collects all garbage after every run. Going through modules, catalog and kept answers
    took a third of the processor time of a changed input. Once in ``SWEPT_S``, nothing is exempt.
    """
    now = time.monotonic()
    if now - _SWEPT.get(0, 0.0) > SWEPT_S:
        _SWEPT[0] = now
        gc.unfreeze()
        gc.collect()
        gc.set_threshold(COLLECT_AFTER)
    gc.freeze()


@st.cache_resource(show_spinner=False)
def bound_uploads() -> None:
    """Bound the uploads of each session, once for the life of the server."""
    context = get_script_run_ctx()
    files = context.uploaded_file_mgr if context else None
    if isinstance(files, MemoryUploadedFileManager):
        keep_newest(files)


def keep_newest(files: MemoryUploadedFileManager) -> None:
    """Make the manager of uploads forget the oldest uploads of a session.

    A page asks for one file at a time. A browser can send any number, and the manager would keep
    all of them until the session ends.
    """
    add = files.add_file

    def add_file(session_id: str, file: UploadedFileRec) -> None:
        add(session_id, file)
        held = [*files.file_storage.get(session_id, {})]
        for file_id in held[:-MOST_UPLOADS]:
            files.remove_file(session_id, file_id)

    files.add_file = add_file  # type: ignore[method-assign]
