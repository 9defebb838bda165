"""The app in a real browser: one server for the session, one tab for each file."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

START_SECONDS = 120
ACTION_MS = 20_000
USUAL: ViewportSize = {"width": 1280, "height": 800}
expect.set_options(timeout=ACTION_MS)
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No page lives long enough to repay what its fastest code takes to compile.
    "--js-flags=--no-opt",
)
# A page opened by its own address looks for the server below that address first.
SEARCH_FOR_SERVER = re.compile(r"^http://127\.0\.0\.1:\d+/[^?]+/_stcore/(health|host-config)$")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def app_url(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the running app."""
    log = tmp_path_factory.mktemp("app") / "server.log"
    with serve(root / "app.py", log=log) as url:
        yield url
    assert "Uncaught app execution" not in log.read_text(), log.read_text()


# For a module, not the session: while Playwright runs, so does an event loop in this thread,
# which tests elsewhere must not find.
@pytest.fixture(scope="module")
def browser(browser_executable: str) -> Iterator[Browser]:
    """Headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser_executable, args=list(CHROMIUM_ARGUMENTS)
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page_errors() -> Iterator[list[str]]:
    """What the browser complained of; whatever is left in it fails the test at its end."""
    errors: list[str] = []
    yield errors
    assert not errors, "the browser reported errors:\n" + "\n".join(errors)


@pytest.fixture
def watched(page_errors: list[str]) -> Iterator[Callable[[Page], Page]]:
    """Collect what pages complain of until the test ends."""
    pages: list[Page] = []

    def collect(message: ConsoleMessage) -> None:
        url = message.location.get("url", "")
        if message.type == "error" and not SEARCH_FOR_SERVER.search(url):
            page_errors.append(f"console: {message.text} ({url})")

    def uncaught(error: object) -> None:
        page_errors.append(f"uncaught: {error}")

    def watch(page: Page) -> Page:
        page.on("console", collect)
        page.on("pageerror", uncaught)
        pages.append(page)
        return page

    yield watch
    for page in pages:
        page.remove_listener("console", collect)
        page.remove_listener("pageerror", uncaught)


def _open(browser: Browser, **options: object) -> Page:
    # Without a graphics card, drawing what pulses and spins took a third of the processor.
    settings = {"viewport": USUAL, "reduced_motion": "reduce"} | options
    context = browser.new_context(**settings)  # type: ignore[arg-type]
    context.set_default_timeout(ACTION_MS)
    return context.new_page()


@pytest.fixture
def new_page(browser: Browser, watched: Callable[[Page], Page]) -> Iterator[Callable[..., Page]]:
    """Open a page in a context of its own; arguments as for ``Browser.new_context``."""
    pages: list[Page] = []

    def open_page(**options: object) -> Page:
        pages.append(watched(_open(browser, **options)))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> list[Page]:
    """The tab that the tests of a file share. In a new one, the app's code is compiled anew."""
    return []


@pytest.fixture
def page(browser: Browser, tabs: list[Page], watched: Callable[[Page], Page]) -> Page:
    """A page of 1280 by 800 that remembers nothing; an address opens in a session of its own."""
    if not tabs or tabs[-1].is_closed():
        tabs.append(_open(browser))
    tab = tabs[-1]
    if tab.url.startswith("http"):
        tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    tab.goto("about:blank")
    tab.context.clear_cookies()
    tab.set_viewport_size(USUAL)
    tab.emulate_media(media="null", color_scheme="null", reduced_motion="reduce")
    return watched(tab)


@contextlib.contextmanager
def serve(script: Path, *, log: Path) -> Iterator[str]:
    """Run a Streamlit script on a free port of this machine until the block ends."""
    port = free_port()
    server = start(script, log=log, port=port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def start(script: Path, *, log: Path, port: int, prefix: str = "") -> subprocess.Popen[bytes]:
    """Start a server of a Streamlit script; return it when it is healthy."""
    command = [sys.executable, "-m", "streamlit", "run", str(script)]
    command += ["--server.headless", "true", "--server.fileWatcherType", "none"]
    command += ["--server.address", "127.0.0.1", "--server.port", str(port)]
    command += ["--server.baseUrlPath", prefix.strip("/")] if prefix else []
    env = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    with log.open("ab") as output:
        server = subprocess.Popen(
            command, cwd=script.parent, env=env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for_health(f"http://127.0.0.1:{port}{prefix}", server=server, log=log)
    except BaseException:
        server.kill()
        raise
    return server


def free_port() -> int:
    """Return a port of this machine that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_health(url: str, *, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"Streamlit ended with {server.returncode}:\n{log.read_text()}")
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer,
        ):
            if answer.read() == b"ok":
                return
        time.sleep(0.1)
    pytest.fail(f"Streamlit was not healthy after {START_SECONDS} s:\n{log.read_text()}")
