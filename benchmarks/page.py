"""The page against an empty Streamlit page with one Plotly chart, in the same run.

Both are opened in the same headless Chromium and measured in turn, so that what else the machine
does slows both alike; printed are medians and their ratios.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

from advisor.foundation.resources import app_path
from benchmarks.timing import show

REPEATS = 5
CHANGES = 10
SETTLE_MS = 700
EMPTY_PAGE = """
import plotly.graph_objects as go
import streamlit as st

number = st.number_input("Value", value=1)
st.markdown(f"answer {number}")
st.plotly_chart(go.Figure(go.Scatter(x=[1, 2, 3], y=[1, number, 9])), key="chart")
"""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHART = ".js-plotly-plot .main-svg"


@contextmanager
def served(script: Path) -> Iterator[str]:
    """Serve a Streamlit script on a free port of this machine and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"]
    command += [f"--server.port={port}", "--server.address=127.0.0.1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urlopen(f"{address}/_stcore/health", timeout=1).close()
                break
            except (URLError, OSError):
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=10)


def first_chart_s(browser: Browser, address: str) -> float:
    """Return the time from opening the page to its first chart. [s]"""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(CHART, state="attached", timeout=60_000)
    taken = time.perf_counter() - start
    page.close()
    return taken


def opened(browser: Browser, address: str) -> Page:
    """Return the page once its chart is drawn and nothing moves any more."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    page.wait_for_selector(CHART, state="attached", timeout=60_000)
    page.wait_for_timeout(SETTLE_MS)
    return page


def changed_s(page: Page, label: str, value: str, answer: str) -> float:
    """Return the time from a committed input to another text in the answer. [s]"""
    before = page.locator(answer).first.inner_text()
    field = page.get_by_label(label, exact=False).first
    field.fill(value)
    start = time.perf_counter()
    field.press("Enter")
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.innerText !== text",
        arg=[answer, before],
        timeout=60_000,
    )
    taken = time.perf_counter() - start
    page.wait_for_timeout(SETTLE_MS)
    return taken


def report(what: str, pairs: Sequence[tuple[float, float]], limit: str) -> None:
    """Print the medians of empty page and advisor, and their ratio; the first pair warms up."""
    empty_s, app_s = (statistics.median(times) for times in zip(*pairs[1:], strict=True))
    show(f"empty page, {what}", empty_s * 1e3, "ms")
    show(f"advisor page, {what}", app_s * 1e3, "ms")
    show("ratio", app_s / empty_s, "x", limit)


def main() -> None:
    """Print the page's figures and their ratios to the empty page's."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("page: skipped, no chromium on PATH", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        script = Path(folder) / "empty.py"
        script.write_text(EMPTY_PAGE, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with served(script) as empty, served(app_path()) as app:
            pairs = [
                (first_chart_s(browser, empty), first_chart_s(browser, app))
                for _ in range(REPEATS + 1)
            ]
            report("first chart", pairs, "at most 1.5")
            plain, advisor = opened(browser, empty), opened(browser, app)
            pairs = [
                (
                    changed_s(plain, "Value", str(number), '[data-testid="stMarkdown"]'),
                    changed_s(advisor, "Tokens", f"{10 * number}M", '[role="status"]'),
                )
                for number in range(2, CHANGES + 3)
            ]
            report("changed input", pairs, "at most 2")
        browser.close()
