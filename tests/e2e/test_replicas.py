"""Two real server processes behind nginx: sticky by cookie, and one of them dies."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from websockets.exceptions import ConnectionClosed

from benchmarks.replicas import Replicas, behind_nginx
from benchmarks.sessions import Session
from tests.e2e.browsing import fill, open_page, settle

pytestmark = pytest.mark.nginx
CONNECTED = '[data-testid="stApp"][data-test-connection-state="CONNECTED"]'
VISITORS = 6
Beside = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with behind_nginx(tmp_path) as found:
        yield found


@pytest.fixture
def beside() -> Iterator[Beside]:
    """Run sessions in a thread of their own: the browser has the event loop of this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def tokens(number: int) -> str:
    return f"{50 + number}M"


def answer_of(visitor: Session) -> list[str]:
    """Return what a page said, without the line of a wait, which the page takes away again."""
    return [text for text in visitor.shown if not text.startswith("Many people ask at once")]


async def come(replicas: Replicas, visitors: list[Session]) -> list[int]:
    """Open visitors until both replicas have some; return where each is at home."""
    visitors += [
        Session(replicas.address, query=f"tokens={tokens(number)}") for number in range(VISITORS)
    ]
    await asyncio.gather(*(visitor.open() for visitor in visitors))
    homes = [replicas.of(visitor.cookie) for visitor in visitors]
    while len(set(homes)) < 2:  # the cookies are random
        visitors.append(Session(replicas.address, query=f"tokens={tokens(len(visitors))}"))
        await visitors[-1].open()
        homes.append(replicas.of(visitors[-1].cookie))
        assert len(homes) < 40
    return homes


async def outlive(
    replicas: Replicas,
    visitors: list[Session],
    homes: list[int],
    answers: list[list[str]],
    dead: int,
) -> None:
    """One replica has died; every question is answered as before."""
    for visitor, home, answer in zip(visitors, homes, answers, strict=True):
        query = visitor.query
        if home == dead:
            with pytest.raises((ConnectionClosed, ConnectionError)):
                await visitor.run()
            await visitor.open()  # with the same cookie, as a browser does
        else:
            await visitor.run()
        assert visitor.query == query
        assert answer_of(visitor) == answer
        assert replicas.of(visitor.cookie) != dead
    for number, visitor in enumerate(visitors):
        await visitor.change("Tokens", tokens(100 + number))
        assert f"tokens={tokens(100 + number)}" in visitor.query
        assert visitor.shown
    assert [visitor.exceptions for visitor in visitors] == [0] * len(visitors)


async def leave(visitors: list[Session]) -> None:
    await asyncio.gather(*(visitor.close() for visitor in visitors))


def test_a_page_and_sessions_outlive_a_replica(
    replicas: Replicas, beside: Beside, page: Page, page_errors: list[str]
) -> None:
    visitors: list[Session] = []
    try:
        homes: list[int] = beside(come(replicas, visitors))
        answers = [answer_of(visitor) for visitor in visitors]
        assert all(answers)
        assert len({tuple(answer) for answer in answers}) > 1
        open_page(page, replicas.address)
        fill(page, "Tokens", "77M")
        settle(page)
        [cookie] = [item for item in page.context.cookies() if item.get("name") == "gpu_advisor"]
        dead = replicas.of(f"gpu_advisor={cookie.get('value')}")

        with page.expect_websocket(timeout=60_000):  # to the other replica
            replicas.processes[dead].kill()
            replicas.processes[dead].wait()
        beside(outlive(replicas, visitors, homes, answers, dead))
    finally:
        beside(leave(visitors))

    page.wait_for_selector(CONNECTED, state="attached", timeout=60_000)
    settle(page)
    expect(page.get_by_label("Tokens", exact=True)).to_have_value("77M")
    fill(page, "Deadline", "30h")
    # The edit may meet a page that is about to run: what is no longer running has not begun.
    page.wait_for_url(lambda url: "deadline=30h" in url and "tokens=77M" in url)
    # The browser reports the connection that broke; nothing else may be wrong.
    page_errors[:] = [error for error in page_errors if not error.startswith("console:")]
