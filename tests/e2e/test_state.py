"""The question is in the address: reload, back, other servers, and a server that died."""

from __future__ import annotations

import json
import random
import string
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

import advisor
from tests.cases import tune
from tests.e2e.browsing import (
    ANSWER,
    CHART,
    LOOK_MS,
    NARROW,
    choose,
    fill,
    follow,
    open_answer,
    open_page,
    settle,
    unbroken,
    unfold,
)
from tests.e2e.conftest import free_port, start

pytestmark = pytest.mark.slow
BOXES = """() => JSON.stringify(
    [...document.querySelectorAll('[data-testid=stMain] :is(input:not([type=file]), textarea)')]
        .map(box => box.type === 'checkbox' ? box.checked : box.value)
)"""
SHOWS = f"""([query, boxes]) => {{
    const asked = [...new URLSearchParams(location.search)].sort(([a], [b]) => a < b ? -1 : 1);
    const shown = ({BOXES})();
    return JSON.stringify(asked) === JSON.stringify(query) && shown === (boxes ?? shown)
        && shown !== '[]';
}}"""
RECONNECT_MS = 60_000
PREFIX = "/tools/gpu"
"""Of the second server, as below a proxy."""
CONNECTED = '[data-testid="stApp"][data-test-connection-state="CONNECTED"]'
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
    "transformers_version": "".join(random.Random(0).choices(string.ascii_letters, k=12_000)),
}


@dataclass(frozen=True)
class Visit:
    """A page, two edits of it, and what each puts into the address."""

    path: str
    first: Callable[[Page], None]
    then: Callable[[Page], None]
    query: dict[str, str]
    added: dict[str, str]


VISITS = {
    "advisor": Visit(
        "",
        lambda page: choose(page, "Task", "QLoRA", "Fine-tune (QLoRA)"),
        lambda page: fill(page, "Deadline", "48h"),
        {"task": "qlora"},
        {"deadline": "48h"},
    ),
    "fits": Visit(
        "fits",
        lambda page: choose(page, "GPU", "L40S", "L40S · 48 GB"),
        lambda page: fill(page, "How many", "2"),
        {"card": "l40s"},
        {"count": "2"},
    ),
    "rent-or-buy": Visit(
        "rent-or-buy",
        lambda page: fill(page, "Hours a month", "300"),
        lambda page: fill(page, "Price of one GPU, USD", "20000"),
        {"hours": "300"},
        {"purchase_usd": "20000"},
    ),
    "catalog": Visit(
        "catalog",
        lambda page: choose(page, "Vendor", "AMD"),
        lambda page: choose(page, "Accelerator 1", "L40S", "L40S · 48 GB"),
        {"vendor": "AMD"},
        {"card_1": "l40s"},
    ),
    "my-machine": Visit(
        "my-machine",
        lambda page: choose(page, "How long", "Normal", "Normal, 2 min"),
        lambda page: choose(page, "How long", "Thorough", "Thorough, 10 min"),
        {"mode": "normal"},
        {"mode": "thorough"},
    ),
    "accuracy": Visit(
        "accuracy",
        lambda page: choose(page, "Work", "LoRA"),
        lambda page: fill(page, "Accelerator", "a100"),
        {"work": "LoRA"},
        {"card": "a100"},
    ),
}


LOADED = ("", "rent-or-buy")
"""Pages that are loaded anew here; ``tests/ui/test_state.py`` opens all in sessions of their own,
and *What fits* and the catalog outlive a server below."""

JUMPS = ("history.go({0}2)", "history.go({0}1); setTimeout(() => history.go({0}1), 200)")
"""Quick presses of Back. A browser may drop the first of two that it gets at once: one jump."""


def shows(page: Page, query: dict[str, str], boxes: str | None = None) -> str:
    """Wait until the address asks for ``query`` and the page shows ``boxes``; return its boxes."""
    for _ in range(2):  # A page that has just reconnected shows its boxes, then draws them anew.
        asked = [sorted(query.items()), boxes]
        page.wait_for_function(SHOWS, arg=asked, timeout=120_000, polling=LOOK_MS)
        settle(page)
    found: str = page.evaluate(BOXES)
    return found


@dataclass
class Server:
    """A server that can die and come back on its port."""

    script: Path
    log: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PREFIX}/"

    def start(self) -> None:
        self.process = start(self.script, log=self.log, port=self.port, prefix=PREFIX)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second server, as a second replica would be. Tests may kill it; each leaves it running."""
    log = tmp_path_factory.mktemp("mortal") / "server.log"
    found = Server(root / "app.py", log, free_port())
    found.start()
    yield found
    found.kill()


@pytest.mark.parametrize("visit", VISITS.values(), ids=VISITS.keys())
def test_reload_back_and_replicas_show_the_same_question(
    page: Page, app_url: str, server: Server, visit: Visit
) -> None:
    open_page(page, f"{app_url}/{visit.path}")
    at_first = shows(page, {})
    visit.first(page)
    once = shows(page, visit.query)
    visit.then(page)
    both = visit.query | visit.added
    twice = shows(page, both)
    assert len({at_first, once, twice}) == 3

    if visit.path in LOADED:
        page.reload()
        shows(page, both, twice)
    for jump in JUMPS if visit.path == "fits" else ():
        page.evaluate(f"() => {{ {jump.format('-')}; }}")
        shows(page, {}, at_first)
        page.evaluate(f"() => {{ {jump.format('')}; }}")
        shows(page, both, twice)
    page.go_back()
    shows(page, visit.query, once)
    page.go_back()
    shows(page, {}, at_first)
    page.go_forward()
    shows(page, visit.query, once)
    if visit.path in LOADED:
        query = urlsplit(page.url).query
        open_page(page, f"{server.url}{visit.path}?{query}")
        shows(page, visit.query, once)


def test_inputs_of_one_page_stay_and_the_question_travels(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    VISITS["advisor"].then(page)
    first = shows(page, {"deadline": "48h"})
    follow(page, "Rent or buy")
    VISITS["rent-or-buy"].first(page)
    second = shows(page, {"hours": "300", "deadline": "48h"})

    follow(page, "Advisor")
    shows(page, {"deadline": "48h"}, first)
    follow(page, "Rent or buy")
    shows(page, {"hours": "300", "deadline": "48h"}, second)

    # One press of Back for each act: two links, an edit, a link, and the first edit.
    for path, query in (
        ("/", {"deadline": "48h"}),
        ("/rent-or-buy", {"hours": "300", "deadline": "48h"}),
        ("/rent-or-buy", {"deadline": "48h"}),
        ("/", {"deadline": "48h"}),
        ("/", {}),
    ):
        page.go_back()
        shows(page, query, first if path == "/" and query else None)
        assert urlsplit(page.url).path == path


def test_the_card_of_a_link_is_on_every_page_after_an_edit_too(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/?rent=own&own_accelerator=rtx-3090&own_count=2")
    for name, edit, query in (
        ("Rent or buy", VISITS["rent-or-buy"].first, {"hours": "300"}),
        ("What fits", lambda page: fill(page, "Users at once", "4"), {"requests": "4"}),
    ):
        follow(page, name)
        edit(page)
        shows(page, {"rent": "own", "card": "rtx-3090", "count": "2"} | query)


@pytest.fixture
def new_tab(
    new_page: Callable[..., Page], watched: Callable[[Page], Page], page_errors: list[str]
) -> Iterator[Callable[[], Page]]:
    """Open a page whose server may die: what the browser's console says of that is forgotten."""
    opened: list[Page] = []

    def open_tab() -> Page:  # one context: its cache is warm
        opened.append(watched(opened[0].context.new_page()) if opened else new_page())
        return opened[-1]

    yield open_tab
    for page in opened:  # It would tell of the server that has ended.
        page.close()
    page_errors[:] = [error for error in page_errors if not error.startswith("console:")]


def die_and_restart(server: Server, *pages: Page) -> None:
    server.kill()
    for page in pages:
        page.wait_for_selector(CONNECTED, state="detached")
    server.start()
    for page in pages:
        page.wait_for_selector(CONNECTED, timeout=RECONNECT_MS)


def test_after_the_server_died_edits_and_the_answer_keep_all_earlier_inputs(
    new_tab: Callable[[], Page], server: Server
) -> None:
    """One death meets three pages: on the first, inputs that are folded and pasted as well."""
    asking = new_tab()
    open_page(asking, server.url)
    unfold(asking, "Advanced")
    fill(asking, "LoRA rank", "64")
    unfold(asking, "Advanced")
    choose(asking, "Model", "Own config", "Own config.json")
    field = asking.get_by_label("Paste the model's config.json")
    field.fill(json.dumps(CONFIG))  # of noise: too long for an address
    field.press("ControlOrMeta+Enter")
    query = {"rank": "64", "model": "config.json"}
    shows(asking, query)
    readers: list[tuple[Visit, Page, str]] = []
    for name in ("fits", "catalog"):  # the other pages are restored above
        visit, page = VISITS[name], new_tab()
        open_page(page, f"{server.url}{name}")
        visit.first(page)
        readers.append((visit, page, shows(page, visit.query)))

    die_and_restart(server, asking, *(page for _, page, _ in readers))
    fill(asking, "Tokens", "200M")
    shows(asking, query | {"tokens": "200M"})
    expected = advisor.recommend(
        tune(
            {"config": CONFIG},
            method="lora",
            tokens=200e6,
            lora_rank=64,
            limits={"deadline_hours": 24},
        )
    )
    expect(asking.locator(ANSWER)).to_have_text(unbroken(expected.answer))
    expect(asking.get_by_text("Advanced (1 changed): LoRA rank")).to_be_visible()
    for visit, page, once in readers:
        shows(page, visit.query, once)
        visit.then(page)
        both = shows(page, visit.query | visit.added)
        page.reload()
        shows(page, visit.query | visit.added, both)


PLOTLY = """() => {
    const found = performance.getEntriesByType("resource").find(one => one.name.includes("plotly"));
    return [found.name, found.transferSize];
}"""


def test_a_link_below_a_proxys_prefix_says_the_readers_address(page: Page, server: Server) -> None:
    home = server.url.replace("127.0.0.1", "localhost")
    open_page(page, f"{home}?tokens=20M")
    unfold(page, "Share")
    link = page.get_by_test_id("stCode").filter(has_text="tokens").inner_text()
    assert link.startswith(f"{home}?v=1&")
    assert "&tokens=20M&" in link
    open_page(page, link)
    expect(page.get_by_label("Tokens", exact=True)).to_have_value("20M")
    page.wait_for_selector(CHART)
    name, sent = page.evaluate(PLOTLY)
    assert name.startswith(f"{home}plotly-")
    assert sent == 0  # the browser has kept it


def test_a_narrow_window_is_drawn_as_on_a_phone(app_url: str, page: Page) -> None:
    """The width decides, not the browser's name; a window made wide is drawn anew."""
    page.set_viewport_size(NARROW)
    open_answer(page, app_url)
    legend = page.locator('[class*="st-key-cost_time"] .js-plotly-plot g.legend')
    expect(legend).to_have_count(0)
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(legend).not_to_have_count(0)


def test_the_folded_list_of_pages_takes_no_focus_and_closes_behind_a_link(
    app_url: str, page: Page
) -> None:
    page.set_viewport_size(NARROW)
    open_page(page, f"{app_url}/learn")
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getBoundingClientRect().x") >= 0
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_role("link", name="Catalog").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Which cards are there?")
    expect(page.get_by_test_id("stSidebar")).to_have_attribute("data-collapsed", "true")
