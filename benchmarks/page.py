"""The page against an empty Streamlit page with one Plotly chart, in the same run.

Both are opened in the same headless Chromium; printed are medians and their ratios.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

from advisor.resources import app_path
from benchmarks.timing import show

REPEATS = 5
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
    """Return the median time from opening the page to its first chart. [s]"""
    samples = []
    for _ in range(REPEATS + 1):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(CHART, state="attached", timeout=60_000)
        samples.append(time.perf_counter() - start)
        page.close()
    return statistics.median(samples[1:])


def changed_s(page: Page, label: str, values: list[str], answer: str) -> float:
    """Return the median time from a committed input to another text in the answer. [s]"""
    samples = []
    for value in values:
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
        samples.append(time.perf_counter() - start)
        page.wait_for_timeout(700)
    return statistics.median(samples[1:])


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
            empty_first, app_first = first_chart_s(browser, empty), first_chart_s(browser, app)
            show("empty page, first chart", empty_first * 1e3, "ms")
            show("advisor page, first chart", app_first * 1e3, "ms")
            show("ratio", app_first / empty_first, "x", "at most 1.5")
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(empty)
            page.wait_for_selector(CHART, state="attached")
            numbers = [str(number) for number in range(2, 8)]
            empty_changed = changed_s(page, "Value", numbers, '[data-testid="stMarkdown"]')
            page.close()
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(app)
            page.wait_for_selector(CHART, state="attached")
            page.wait_for_timeout(1500)
            amounts = ["20M", "30M", "45M", "60M", "80M", "90M"]
            app_changed = changed_s(page, "Tokens", amounts, '[role="status"]')
            page.close()
            show("empty page, changed input", empty_changed * 1e3, "ms")
            show("advisor page, changed input", app_changed * 1e3, "ms")
            show("ratio", app_changed / empty_changed, "x", "at most 2")
        browser.close()
