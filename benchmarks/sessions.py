"""Sessions of the page without a browser: the websocket and the messages that Streamlit's own
page would send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

LARGEST = 32 << 20
"""Of one message. [bytes]"""


def cookies_of(address: str) -> str:
    """Return the cookies that a server, or the proxy in front of it, gives a new visitor."""
    with urlopen(Request(f"{address}/_stcore/health"), timeout=30) as answer:
        found = [value for name, value in answer.headers.items() if name.lower() == "set-cookie"]
    jar = SimpleCookie()
    for one in found:
        jar.load(one)
    return "; ".join(f"{name}={item.value}" for name, item in jar.items())


@dataclass
class Session:
    """One visitor of a page.

    Parameters
    ----------
    address : str
        Of the server: ``http://127.0.0.1:8501``.
    query : str
        The question in the page's address.
    """

    address: str
    query: str = ""
    cookie: str = ""
    page: str = ""
    """Path of the page; empty for the first."""
    texts: dict[str, str] = field(default_factory=dict)
    """Identifiers of text boxes by label, as the page last showed them."""
    shown: list[str] = field(default_factory=list)
    """Headings, sentences and errors of the last run."""
    exceptions: int = 0
    _socket: ClientConnection | None = None
    _states: dict[str, str] = field(default_factory=dict)

    async def open(self) -> None:
        """Connect and wait until the first page is whole."""
        await self.close()
        if not self.cookie:
            self.cookie = await asyncio.to_thread(cookies_of, self.address)
        url = f"ws://{urlsplit(self.address).netloc}/_stcore/stream"
        headers = {"Cookie": self.cookie} if self.cookie else {}
        self._socket = await connect(
            url,
            subprotocols=["streamlit"],  # type: ignore[list-item]
            additional_headers=headers,
            max_size=LARGEST,
            compression=None,
            open_timeout=60,
        )
        await self.run()

    async def run(self) -> None:
        """Ask for the page as it stands and wait until it is whole."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name = self.query, self.page
        for identifier, value in self._states.items():
            widget = state.widget_states.widgets.add()
            widget.id, widget.string_value = identifier, value
        assert self._socket is not None
        await self._socket.send(message.SerializeToString())
        await self._finished()

    async def change(self, label: str, value: str) -> None:
        """Type into a text box and wait for the new answer."""
        self._states[self.texts[label]] = value
        await self.run()

    async def _finished(self) -> None:
        assert self._socket is not None
        self.shown, found = [], ForwardMsg()
        async for content in self._socket:
            assert isinstance(content, bytes)
            found.ParseFromString(content)
            kind = found.WhichOneof("type")
            if kind == "delta":
                self._show(found.delta)
            elif kind == "page_info_changed":
                self.query = found.page_info_changed.query_string
            elif kind == "script_finished":
                status = found.script_finished
                if status == ForwardMsg.FINISHED_SUCCESSFULLY:
                    return
                if status == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                    self.exceptions += 1
                    return
        raise ConnectionError("the server closed the session")

    def _show(self, delta: Any) -> None:
        if delta.WhichOneof("type") != "new_element":
            return
        element = delta.new_element
        kind = element.WhichOneof("type")
        if kind == "text_input":
            self.texts[element.text_input.label] = element.text_input.id
        elif kind == "exception":
            self.exceptions += 1
            self.shown.append(element.exception.message)
        elif kind in {"markdown", "heading", "alert"}:
            self.shown.append(getattr(element, kind).body)

    async def close(self) -> None:
        """Leave."""
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


def query_of(question: Mapping[str, str]) -> str:
    """Return a question as the query of an address."""
    from urllib.parse import urlencode

    return urlencode(question)
