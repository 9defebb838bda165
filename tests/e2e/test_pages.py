"""Pages in a browser, and reports: a file has one, and a new one takes seconds of the processor."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

import advisor
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.planning.fits.results import Verdict
from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.session.links import encode
from advisor.ui.session.question import question
from tests.cases import CASES, tune
from tests.e2e.browsing import (
    CHART,
    NARROW,
    a_run,
    choose,
    follow,
    open_answer,
    open_page,
    settle,
    unbroken,
    width_beyond_the_window,
)

LORA = tune("llama-3.1-8b", method="lora", tokens=10e6, limits={"deadline_hours": 24})
OWNING = {"months": 36}
FLIP = 0.02
"""How near the stated break-even the answer has to turn."""
SCREENS = 6
"""Most screens of a phone that the page is long."""


def test_three_accelerators_what_differs_and_the_source_of_a_value(
    page: Page, app_url: str, catalog_counts: tuple[int, int, int]
) -> None:
    open_page(page, app_url)
    follow(page, "Catalog")
    counted = "{} accelerators and {:,} offers of {} providers".format(*catalog_counts)
    expect(page.get_by_text(counted)).to_be_visible()
    page.wait_for_selector(CHART)
    # Three data-centre and consumer cards of one vendor: that row goes, the memory stays.
    expect(page.get_by_role("cell", name="Vendor", exact=True)).to_be_visible()
    with a_run(page):
        page.get_by_text("Differences only").click()
    expect(page.get_by_role("cell", name="Vendor", exact=True)).to_be_hidden()
    expect(page.get_by_role("cell", name="Memory, reported", exact=True)).to_be_visible()
    expect(page.get_by_text("at every one of 17 providers that rent both")).to_be_visible()

    page.get_by_text("Where each value comes from").click()

    expect(page.get_by_text("CUDA 13.2 release notes").first).to_be_visible()
    expect(page.get_by_text("recalled, not checked", exact=True).first).to_be_visible()


def test_a_phone_shows_the_main_facts_and_folds_the_others(page: Page, app_url: str) -> None:
    page.set_viewport_size(NARROW)
    open_page(page, f"{app_url}/catalog")
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollHeight") < SCREENS * 844
    facts = page.get_by_test_id("stMain").locator("strong")
    expect(facts.filter(has_text=re.compile("^Bandwidth$"))).to_be_visible()
    expect(facts.filter(has_text="Form factor")).to_be_hidden()
    page.get_by_text("25 more facts").click()
    expect(facts.filter(has_text="Form factor")).to_be_visible()


def test_from_the_first_page_to_what_fits_and_to_the_break_even_of_rent_or_buy(
    page: Page, app_url: str
) -> None:
    open_page(page, app_url)
    follow(page, "What fits my GPU")
    fits = advisor.fits("rtx-4090")
    fitting = len(fits.having(Verdict.FITS))
    expect(
        page.get_by_text(f"{fitting} of {len(fits.models)} models can be served")
    ).to_be_visible()
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0

    follow(page, "Rent or buy")
    hours = page.get_by_role("spinbutton", name="Hours a month")
    said = page.get_by_role("status")
    usual = advisor.own(LORA | {"owning": OWNING})
    expect(said.filter(has_text="hours a month")).to_have_text(unbroken(usual.answer))
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0
    found = advisor.own(LORA | {"owning": {"hours_per_month": 250, **OWNING}})
    hours.fill("250")
    hours.press("Enter")
    expect(said.filter(has_text="hours a month")).to_have_text(unbroken(found.answer))

    assert found.against is not None
    even = found.rents[found.against].break_even.hours_per_month
    assert even is not None
    for factor, words in ((1 - FLIP, "more than renting"), (1 + FLIP, "less than renting")):
        value = f"{even.expected * factor:.0f}"
        hours.fill(value)
        hours.press("Enter")
        answer = said.filter(has_text=f"at {value} hours a month")
        expect(answer.filter(has_text=words)).to_be_visible()

    for wait_ms in (0, 120, 320):  # a second value typed before the answer to the first stays
        first, second = f"{300 + wait_ms}", f"{100 + wait_ms // 4}"
        hours.fill(first)
        hours.press("Enter")
        page.wait_for_timeout(wait_ms)
        hours.fill(second)
        hours.press("Enter")
        expect(said.filter(has_text=f"at {second} hours a month")).to_be_visible()
        settle(page)
        expect(hours).to_have_value(second)


def test_a_student_finds_what_a_small_card_does_and_takes_the_question_along(
    page: Page, app_url: str
) -> None:
    open_page(page, f"{app_url}/fits?task=full")
    choose(page, "GPU", "3060", "RTX 3060 · 12 GB")
    expect(page.get_by_role("combobox", name="GPU")).to_have_value("RTX 3060 · 12 GB")
    said = page.get_by_role("status")
    expect(said.filter(has_text="does not fit 1x NVIDIA GeForce RTX 3060")).to_be_visible()
    with a_run(page):
        page.get_by_role("button", name="QLoRA instead").click()
    fits = "QLoRA fine-tuning of Llama 3.1 8B fits 1x NVIDIA GeForce RTX 3060 12 GB"
    expect(page.get_by_role("status").filter(has_text=fits)).to_be_visible()

    follow(page, "Rent or buy")
    expect(page.get_by_role("status").filter(has_text="RTX 3060")).to_be_visible()
    expect(page.get_by_text("QLoRA fine-tuning of Llama 3.1 8B").first).to_be_visible()
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_text(f"{app_url}/rent-or-buy?v=1&")).to_be_visible()
    assert page.title().startswith("Rent or buy: QLoRA fine-tuning of Llama 3.1 8B")


ENTERED: dict[str, dict[str, str]] = {
    "lora": {"task": "lora", "tokens": "50M", "sequence": "4096", "deadline": "24 h"},
    "pretrain": {
        "task": "pretrain",
        "model": "parameters",
        "parameters": "7B",
        "pretrain_tokens": "300B",
        "pretrain_deadline": "30 days",
        "budget": "300000",
        "objective": "fastest",
    },
    "serve": {
        "task": "serve",
        "model": "llama-3.1-70b",
        "users": "32",
        "prompt": "1024",
        "answer": "256",
        "speed": "",
        "first_token": "",
    },
}


def address(app_url: str, entered: dict[str, str]) -> str:
    page = question(providers=tuple, accelerators=dict)
    return f"{app_url}/?{urlencode(encode(page, asdict(DEFAULTS) | entered | {'why': None}))}"


def test_the_page_gives_the_answer_of_python(app_url: str, page: Page) -> None:
    for name, case in CASES.items():  # one browser: its cache is warm
        open_answer(page, address(app_url, ENTERED[name]))
        answer = advisor.recommend(case)
        status = page.get_by_role("status").filter(has_text="Rent").first
        expect(status).to_contain_text(unbroken(answer.answer), timeout=30_000)
        body = page.locator("[data-testid=stMain]").inner_text()
        for ranking in answer.rankings:
            best = ranking.plans[0]
            for shown in (best.title, *figures(best.estimate)):
                assert shown in body.replace("\N{NO-BREAK SPACE}", " "), (ranking.objective, shown)


def figures(estimate: Any) -> list[str]:
    """The numbers that a plan card must show, as Python formats them."""
    if estimate.time is not None:
        return [duration(estimate.time.run_hours.scaled(HOUR_S)), money(estimate.cost.rent_usd)]
    return [milliseconds(estimate.serving.tpot_ms.scaled(MILLISECOND))]


A4_TEXT_PX = 672
"""210 mm less two margins of 16 mm, at 96 pixels an inch."""
CASE = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6},
}


@pytest.mark.parametrize(
    ("media", "width"), [("print", A4_TEXT_PX), ("screen", 390)], ids=["A4", "phone"]
)
def test_the_report_is_not_clipped(
    page: Page, media: Literal["print", "screen"], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media=media)
    page.set_content(advisor.export(CASE, "html", link=f"http://localhost/?{'x' * 400}").content)
    assert page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    ) == (0)
    # Whole words in narrow columns: no row of a table is much higher than a paragraph.
    assert page.evaluate(
        "Math.max(...[...document.querySelectorAll('tr')].map(row => row.offsetHeight))"
    ) < (350)


RATE = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {
        "kind": "serving",
        "requests_per_s": 10,
        "input_tokens": 7168,
        "output_tokens": 1024,
    },
    "limits": {"max_tpot_ms": 50, "max_ttft_ms": 2000},
}


@pytest.mark.parametrize(("case", "work"), [(CASE, "fine-tune"), (RATE, "serve")])
def test_the_report_prints_on_two_pages_with_its_charts(
    page: Page, case: dict[str, Any], work: str
) -> None:
    page.set_content(advisor.export(case, "html", link="http://localhost/?tokens=50M").content)
    assert page.get_by_role("img").count() == 2
    assert page.get_by_role("heading", level=1).inner_text().startswith(f"Llama 3.1 8B: {work}")
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 2
