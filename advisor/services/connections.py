"""Connections that a slow client cannot hold."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_S: Final = 10.0
"""A connection without a whole request head is closed after this time."""
ANSWER_S: Final = 60.0
"""A request whose answer is not read whole after this time is given up."""
TICK_S: Final = 1.0


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with limits of time; uvicorn itself waits for a first request without end."""

    _timer: asyncio.TimerHandle | None = None
    _busy = False
    _since = 0.0
    """When the connection began to wait for what it waits for. [s]"""

    def connection_made(self, transport: Any) -> None:
        """Watch a new connection."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watch."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        self._busy, self._since = False, self.loop.time()
        super().on_response_complete()

    def _watch(self) -> None:
        now = self.loop.time()
        cycle: RequestResponseCycle | None = self.cycle
        busy = cycle is not None and not cycle.response_complete
        if busy != self._busy:
            self._busy, self._since = busy, now
        if now - self._since > (ANSWER_S if busy else REQUEST_S):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(TICK_S, self._watch)
