"""The page *What fits my GPU* in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import advisor
from advisor.planning.fits.results import Verdict
from tests.e2e.browsing import CHART, follow, open_page, width_beyond_the_window


def test_the_page_is_reached_from_the_first_and_tells_the_engines_answer(
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


def test_a_student_finds_what_a_small_card_does_and_takes_the_question_along(
    page: Page, app_url: str
) -> None:
    open_page(page, f"{app_url}/fits?task=full")
    page.get_by_role("combobox", name="GPU").click()
    page.keyboard.type("3060")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="GPU")).to_have_value("RTX 3060 · 12 GB")
    said = page.get_by_role("status")
    expect(said.filter(has_text="does not fit 1x NVIDIA GeForce RTX 3060")).to_be_visible()
    page.get_by_role("button", name="QLoRA instead").click()
    fits = "QLoRA fine-tuning of Llama 3.1 8B fits 1x NVIDIA GeForce RTX 3060 12 GB"
    expect(page.get_by_role("status").filter(has_text=fits)).to_be_visible()

    follow(page, "Rent or buy")
    expect(page.get_by_role("status").filter(has_text="RTX 3060")).to_be_visible()
    expect(page.get_by_text("QLoRA fine-tuning of Llama 3.1 8B").first).to_be_visible()
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_text(f"{app_url}/rent-or-buy?v=1&")).to_be_visible()
    assert page.title().startswith("Rent or buy: QLoRA fine-tuning of Llama 3.1 8B")
