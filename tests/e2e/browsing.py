"""What every browser test does: open a page, wait until it is whole, measure its width."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from playwright.sync_api import Page, TimeoutError, ViewportSize, expect

CHART = ".js-plotly-plot .main-svg"
DONE = '[data-test-script-state="notRunning"]'
"""Streamlit's mark of a script that has ended: a click before that may meet a box made anew."""
WATCH = """() => {
    window.begun = false;
    new MutationObserver((_, watch) => { window.begun = true; watch.disconnect(); }).observe(
        document.querySelector('[data-test-script-state]'),
        {attributeFilter: ['data-test-script-state']});
}"""
LOADING = ':is([data-testid="stSpinner"], [data-testid="stSkeleton"])'
"""Stands where the script still works, or where the browser still fetches the code of a box."""
ANSWER = "p[role=status] .answer"
PHONE = (
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Mobile Safari/537.36"
)
NARROW: ViewportSize = {"width": 390, "height": 844}
"""A phone's window: the page goes by the width."""
BEGIN_MS = 4_000
LOOK_MS = 100
"""Between two looks at a page; by default, there is one at each frame that is drawn."""
FIRST_ANSWER_MS = 120_000
"""The first visitor of a server waits until everything is imported and read."""


def settle(page: Page) -> None:
    """Wait until the page has a title, an end of its script, and every box drawn."""
    page.get_by_role("heading", level=1).wait_for(timeout=FIRST_ANSWER_MS)
    page.wait_for_selector(DONE, timeout=FIRST_ANSWER_MS)
    page.wait_for_selector(LOADING, state="detached", timeout=FIRST_ANSWER_MS)


@contextlib.contextmanager
def a_run(page: Page) -> Iterator[None]:
    """Wait until what is done to a whole page has begun a run of its script, and the run's end.

    Right after a click the script has not begun: a page that seems whole is about to change. The
    browser may hear of begin and end of a short run at once; then nothing is seen of it.
    """
    settle(page)
    page.evaluate(WATCH)
    yield
    with contextlib.suppress(TimeoutError):
        page.wait_for_function("window.begun", timeout=BEGIN_MS, polling=LOOK_MS)
    settle(page)


def open_page(page: Page, url: str) -> None:
    """Open an address and wait until the page is whole."""
    page.goto(url)
    settle(page)


def open_answer(page: Page, url: str) -> None:
    """Open an address of a page that answers in a sentence and charts."""
    open_page(page, url)
    page.wait_for_selector(CHART, timeout=FIRST_ANSWER_MS)
    expect(page.locator(ANSWER)).not_to_be_empty()


def unbroken(sentence: str) -> str:
    """Return a sentence as the page writes it: no line breaks after the dash of a range."""
    return sentence.replace("\N{EN DASH}", "\N{EN DASH}\N{WORD JOINER}")


def unfold(page: Page, *names: str) -> None:
    """Open expanders one by one: each runs the script anew, which could swallow the next click."""
    for name in names:
        with a_run(page):
            page.get_by_text(name, exact=True).click()


def fill(page: Page, label: str, text: str) -> None:
    """Type into a box of a whole page and commit it."""
    settle(page)
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


def choose(page: Page, label: str, text: str, option: str | None = None) -> None:
    """Choose an option of a box by typing part of it; while the script runs it may be lost."""
    settle(page)
    box = page.get_by_role("combobox", name=label).first
    box.click()
    box.fill(text)
    page.get_by_role("option", name=option or text).first.click()


def follow(page: Page, name: str) -> None:
    """Go to another page by its link."""
    title = page.get_by_role("heading", level=1)
    before = title.inner_text()
    page.get_by_role("link", name=name).first.click()
    expect(title).not_to_have_text(before)
    settle(page)


def width_beyond_the_window(page: Page) -> int:
    """Pixels by which the page could be scrolled sideways."""
    beyond: int = page.evaluate(
        "Math.max(...[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(element => element.scrollWidth - element.clientWidth))"
    )
    return beyond
