"""Tasks that a stranger does on the pages in few inputs; the other pages' tests have the others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

import advisor
from advisor import api
from advisor.frames.accuracy import accuracy_summary, quantities
from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.session.links import packed
from advisor.ui.session.saved import spelled
from tests.e2e.browsing import (
    ANSWER,
    NARROW,
    a_run,
    choose,
    fill,
    open_answer,
    open_page,
    settle,
    unbroken,
    unfold,
)

LORA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 10e6},
    "limits": {"deadline_hours": 24},
}
SIZE_OF_FOCUS = """() => {
  const box = document.activeElement.getBoundingClientRect();
  return Math.min(box.width, box.height);
}"""


def test_the_largest_model_for_a_card_of_12_gib_and_a_context_that_makes_work_fail(
    page: Page, app_url: str
) -> None:
    open_page(page, f"{app_url}/fits?task=serve&users=1&weights=w4a16")
    choose(page, "GPU", "3060", "RTX 3060 · 12 GB")
    expect(page.get_by_text("The largest: ")).to_be_visible()
    expect(page.get_by_text("To spare: with one request of the chosen context")).to_be_visible()

    said = page.get_by_role("status")
    choose(page, "Context (tokens)", "16,384")
    expect(said.filter(has_text="Llama 3.1 8B fits 1x NVIDIA GeForce RTX 3060")).to_be_visible()
    choose(page, "Context (tokens)", "32,768")
    expect(said.filter(has_text="does not fit 1x NVIDIA GeForce RTX 3060")).to_be_visible()
    expect(page.get_by_text("What would work, with one click:")).to_be_visible()


def test_fifty_users_and_how_old_the_price_is(page: Page, app_url: str) -> None:
    open_answer(page, f"{app_url}/?task=serve")
    fill(page, "Users at once", "50")
    best = advisor.recommend(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "serving", "concurrency": 50},
            "limits": {"max_tpot_ms": 50},
        }
    )
    expect(page.locator(ANSWER)).to_have_text(unbroken(best.answer))
    assert " a month" in best.answer
    expect(page.locator(ANSWER)).to_contain_text("Its price is ")
    expect(page.get_by_text(", price of 20").first).to_be_visible()
    unfold(page, "Assumptions and sources")


def test_the_median_error_of_adapters_on_one_card(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/accuracy")
    choose(page, "Work", "LoRA", "LoRA")
    settle(page)
    fill(page, "Accelerator", "A100")
    runs = api.published_runs()
    quantity = quantities(runs)[0]
    errors = accuracy_summary(
        [
            run
            for run in runs
            if run.row.quantity == quantity
            and run.task == "LoRA"
            and "a100" in run.accelerator_name.lower()
        ]
    )
    told = "Untested: nobody's measurement of"
    if errors is not None:
        told = f"{errors.n:,} measurements in {errors.groups:,} groups, median error"
    expect(page.get_by_text(told)).to_be_visible()


def test_the_keyboard_alone_asks_on_a_phone_and_sees_its_focus(page: Page, app_url: str) -> None:
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    open_answer(page, app_url)
    tokens = page.get_by_label("Tokens", exact=True)
    for _ in range(30):
        page.keyboard.press("Tab")
        assert page.evaluate(SIZE_OF_FOCUS) > 0, "the focus is on something that nobody sees"
        if tokens.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("200M")
    page.keyboard.press("Enter")
    workload = LORA["workload"] | {"tokens": 200e6}
    answer = advisor.recommend(LORA | {"workload": workload}).answer
    expect(page.locator(ANSWER)).to_have_text(unbroken(answer))


def test_four_saved_questions_stand_side_by_side_and_a_fifth_is_refused(
    page: Page, app_url: str
) -> None:
    linked = [spelled(replace(DEFAULTS, tokens=tokens)) for tokens in ("10M", "20M", "40M")]
    query = {"tokens": "80M", "saved": packed(json.dumps(linked))}
    open_answer(page, f"{app_url}/?{urlencode(query)}")  # with three of them
    expect(page.locator(ANSWER)).to_have_text(unbroken(_tuned("80M")))
    with a_run(page):
        page.get_by_role("button", name="Save").first.click()
    with a_run(page):
        page.get_by_role("button", name="Save this question").click()
    expect(page.get_by_text("This question is saved.")).to_be_visible()
    page.keyboard.press("Escape")
    fill(page, "Tokens", "160M")
    expect(page.locator(ANSWER)).to_have_text(unbroken(_tuned("160M")))
    settle(page)
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_text("4 questions are saved. Remove one to save another.")).to_be_visible()
    page.keyboard.press("Escape")

    unfold(page, "Saved questions side by side")
    expect(page.get_by_role("columnheader").filter(has_text="Saved 4")).to_be_visible()
    rows = page.get_by_role("row").all_inner_texts()
    differs = next(at for at, row in enumerate(rows) if row.startswith("Tokens"))
    assert rows[differs].split() == ["Tokens", "160M", "10M", "20M", "40M", "80M"]
    assert differs < next(at for at, row in enumerate(rows) if row.startswith("Hardware"))
    assert not any(row.startswith("Work") for row in rows), "what all share is left out"


def _tuned(tokens: str) -> str:
    """Return the answer for millions of tokens."""
    workload = LORA["workload"] | {"tokens": float(tokens.removesuffix("M")) * 1e6}
    return advisor.recommend(LORA | {"workload": workload}).answer
