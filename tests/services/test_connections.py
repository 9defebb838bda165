"""Clients that send nothing, send slowly or do not read: each loses its connection in time."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest
import uvicorn

from advisor.services import http
from advisor.services.http import TimedProtocol

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
LONG = b"x" * 30_000_000


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with more than a socket holds, with a byte, or not in time."""
    if scope["path"] == "/never":
        await receive()
        await receive()
        return
    content = LONG if scope["path"] == "/long" else b"x"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": content})


async def seconds_open(server: uvicorn.Server, port: int, first: bytes, *, drips: bool) -> float:
    """Return how long the server keeps the connection of a client that reads nothing; to 5 s."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(first)
    start = passed = asyncio.get_running_loop().time()
    await asyncio.sleep(0.1)
    while passed - start < 5 and server.server_state.connections:
        with contextlib.suppress(OSError):
            writer.write(b"a" if drips else b"")
        await asyncio.sleep(0.05)
        passed = asyncio.get_running_loop().time()
    writer.transport.abort()
    return passed - start


async def served(first: bytes, *, drips: bool) -> float:
    server = uvicorn.Server(
        uvicorn.Config(app, http=TimedProtocol, lifespan="off", log_level="error")
    )
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        task = asyncio.create_task(server.serve(sockets=[own]))
        while not server.started:
            await asyncio.sleep(0.01)
        found = await seconds_open(server, own.getsockname()[1], first, drips=drips)
        server.should_exit = True
        await task
    return found


@pytest.mark.parametrize(
    ("first", "drips"),
    [
        (b"", False),
        (HEAD + b"X: ", True),
        (HEAD + b"\r\n" + HEAD + b"X: ", True),
        (HEAD.replace(b"/ ", b"/long ") + b"\r\n", False),
        (HEAD.replace(b"/ ", b"/never ") + b"\r\n", False),
    ],
    ids=["silent", "slow", "slow again", "does not read", "no answer"],
)
def test_a_client_that_waits_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, first: bytes, drips: bool
) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.4)
    monkeypatch.setattr(http, "ANSWER_S", 0.8)
    monkeypatch.setattr(http, "TICK_S", 0.1)

    assert 0.3 < asyncio.run(served(first, drips=drips)) < 4


def test_the_service_has_these_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda *_, **options: given.update(options))

    http.serve(host="127.0.0.1", port=1, processes=1)

    assert given["http"] is TimedProtocol
    assert given["limit_concurrency"] == http.MOST_CONNECTIONS


def test_a_body_that_does_not_arrive_is_told_apart_from_a_late_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "READ_S", 0.1)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/estimate", "headers": [],
             "query_string": b"", "http_version": "1.1"}  # fmt: skip
    asyncio.run(http.create_app()(scope, receive, send))  # type: ignore[arg-type]

    assert sent[0]["status"] == 408
    assert b"the body did not arrive" in sent[1]["body"]
