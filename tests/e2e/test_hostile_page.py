"""What strangers name is shown as it is, in a browser: no link, no picture, no markup."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Request, expect

from tests.e2e.browsing import LOOK_MS, a_run, fill, open_page, settle
from tests.e2e.test_state import VISITS

HOSTILE = (
    "www.evil.example/login",
    "WWW.evil.example",
    "see https://evil.example/x?a=1 now",
    "HTTP://evil.example",
    "//evil.example",
    "me@evil.example mailto:a@evil.example",
    "![i](https://evil.example/i.png)",
    "<https://evil.example>",
    "<img src=//evil.example/i.png>",
    "<a href='//evil.example'>x</a>",
    "<script>alert(1)</script>",
    ":material/delete: :streamlit: :smile:",
    ":red[x] :small[x] :orange-badge[x]",
    "$x^2$ $$y$$ `z` **b** ~~s~~",
    "a <- b -> c <-> d -- e >= f <= g ~= h",
    "&lt;b&gt; &copy; &#x41;",
)
MARKUP = """() => [...document.querySelectorAll(
    '[data-testid=stAlert] [data-testid=stMarkdownContainer] *'
)].filter(node => !['P', 'UL', 'LI'].includes(node.tagName)).map(node => node.outerHTML)"""
LINKS = """() => [...document.querySelectorAll('[data-testid=stMain] :is(a, img, iframe, script)')]
    .map(node => node.href || node.src).filter(address => /evil/i.test(address))"""
JOINER = "\N{WORD JOINER}"
TOLD = """texts => texts.every(text => [...document.querySelectorAll('[data-testid=stAlert]')].some(
    alert => alert.innerText.replaceAll('\\u2060', '').includes(`'${text}'`)))"""
BOXES = ("Tokens", "Deadline", "Budget (USD)")
"""Each says what is wrong below it."""


@pytest.fixture
def asked(page: Page) -> Iterator[list[str]]:
    """Addresses that the page asks."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    yield asked
    page.remove_listener("request", note)


def test_an_address_cannot_put_links_or_markup_on_a_page(
    page: Page, app_url: str, asked: list[str]
) -> None:
    for number, visit in enumerate(VISITS.values()):  # one browser: its cache is warm
        texts = HOSTILE[number % 2 :: 2]  # A page names twelve wrong values.
        open_page(page, f"{app_url}/{visit.path}?{urlencode({text: text for text in texts})}")
        warning = page.get_by_test_id("stAlert").first
        shown = warning.inner_text().replace(JOINER, "")
        assert page.evaluate(MARKUP) == [], visit.path
        assert page.evaluate(LINKS) == [], visit.path
        for text in texts:
            assert f"'{text}'" in shown, visit.path
    assert not [address for address in asked if "evil" in urlsplit(address).netloc]


def test_what_a_link_says_of_prices_is_a_date(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/?v=1&engine=0&catalog=www.evil.example&usd=999")
    assert page.evaluate(LINKS) == []
    assert page.get_by_text("This link said").count() == 0

    open_page(page, f"{app_url}/?v=1&engine=0&catalog=2026-01-31&usd=999")
    assert "This link said $999 with prices up to 2026-01-31" in (
        page.get_by_test_id("stAlert").first.inner_text().replace(JOINER, "")
    )


def test_boxes_cannot_put_links_or_markup_on_a_page(
    page: Page, app_url: str, asked: list[str]
) -> None:
    open_page(page, app_url)
    for first in range(0, len(HOSTILE), len(BOXES)):
        texts = HOSTILE[first : first + len(BOXES)]
        for box, text in zip(BOXES, texts, strict=False):  # to leave a box commits its text
            page.get_by_label(box, exact=True).fill(text)
        page.keyboard.press("Enter")
        page.wait_for_function(TOLD, arg=texts, polling=LOOK_MS)
        settle(page)
        assert page.evaluate(MARKUP) == []
        assert page.evaluate(LINKS) == []
    open_page(page, f"{app_url}/accuracy")
    for text in HOSTILE[:4]:
        with a_run(page):
            fill(page, "Accelerator", text)
        expect(page.get_by_text("Untested")).to_be_visible()
        assert page.evaluate(LINKS) == []
    assert not [address for address in asked if "evil" in urlsplit(address).netloc]


FLOOD = """async address => {
    const token = document.cookie.match(/_streamlit_xsrf=([^;]+)/)[1];
    const found = [];
    for (let number = 0; number < 30; number++) {
        const form = new FormData();
        form.append('file', new Blob(['x'.repeat(2900000)]), 'a.json');
        const answer = await fetch(address.replace(/[^/]*$/, `flood-${number}`), {
            method: 'PUT', body: form, headers: {'X-Xsrftoken': token}, credentials: 'include',
        });
        found.push(answer.status);
    }
    return found;
}"""


def test_a_file_of_ten_megabytes_is_not_sent_and_a_session_that_sends_many_holds_few(
    page: Page, app_url: str, asked: list[str]
) -> None:
    open_page(page, f"{app_url}/my-machine")
    files = page.locator("input[type=file]")
    files.set_input_files(
        {"name": "a.json", "mimeType": "application/json", "buffer": b"{" * 10_000_000}
    )
    expect(page.get_by_text("File must be 2.0MB or smaller.")).to_be_visible()
    assert not any("/upload_file/" in url for url in asked)

    with page.expect_request(lambda request: "/upload_file/" in request.url) as sent:
        files.set_input_files({"name": "b.json", "mimeType": "application/json", "buffer": b"{}"})
    settle(page)
    assert page.evaluate(FLOOD, sent.value.url) == [204] * 30

    held = [
        int(line.split()[-1])
        for line in urlopen(f"{app_url}/_stcore/metrics").read().decode().splitlines()
        if line.startswith("cache_memory_bytes") and "UploadedFileManager" in line
    ]
    assert 2_900_000 <= sum(held) < 10_000_000
