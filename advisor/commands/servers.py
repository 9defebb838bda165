"""The commands that serve until they are ended: the web page, HTTP and MCP."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from advisor.errors import refusal
from advisor.foundation.parsing import parse_count
from advisor.terminal.streams import complain

MAX_PORT: Final = 65_535
MAX_PROCESSES: Final = 256
CATALOG_FILES: Final = "GPU_ADVISOR_CATALOG"
"""Environment variable with your own catalog files, separated as in PATH."""


def _count(text: str, *, field: str, most: int, remedy: str) -> int:
    count = parse_count(text, field=field)
    if count > most:
        raise refusal("number_too_large", field=field, value=count, most=most, remedy=remedy)
    return count


def _port(text: str) -> int:
    return _count(text, field="--port", most=MAX_PORT, remedy="Choose another port, e.g. 8501.")


def _share_catalog(arguments: Namespace) -> None:
    """Name your own catalog files to every process and thread of a server."""
    if arguments.catalog:
        named = [item for item in (os.environ.get(CATALOG_FILES), *arguments.catalog) if item]
        os.environ[CATALOG_FILES] = os.pathsep.join(named)


def serve_api(arguments: Namespace) -> None:
    """Answer programs over HTTP."""
    port = _port(arguments.port)
    remedy = "Give one process for each core."
    processes = _count(arguments.workers, field="--workers", most=MAX_PROCESSES, remedy=remedy)
    _share_catalog(arguments)
    with _extra("api"):
        from advisor.services.http import serve
    complain(f"Listening on http://{arguments.host}:{port}/docs")
    serve(host=arguments.host, port=port, processes=processes)


def mcp(arguments: Namespace) -> None:
    """Answer assistants over MCP."""
    _share_catalog(arguments)
    with _extra("mcp"):
        from advisor.services.agents import run
    run()


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Say how to install an optional extra where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise refusal("extra_missing", name=name, value=error.name) from None


def web(arguments: Namespace) -> None:
    """Open the app in a browser."""
    port = _port(arguments.port)
    from advisor.foundation.resources import app_path

    _share_catalog(arguments)
    command = [sys.executable, "-m", "streamlit", "run", str(app_path())]
    command += ["--server.port", str(port)]
    if arguments.no_browser:
        command += ["--server.headless", "true"]
    os.execv(sys.executable, command)
