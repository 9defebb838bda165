"""The page *Rent or buy* in a browser: a person enters 200 hours and reads the break-even."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import advisor
from tests.cases import tune
from tests.e2e.browsing import CHART, follow, open_page, settle, unbroken, width_beyond_the_window


def test_a_person_finds_the_break_even_at_200_hours(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    follow(page, "Rent or buy")
    hours = page.get_by_role("spinbutton", name="Hours a month")
    hours.fill("250")
    hours.press("Enter")
    found = advisor.own(
        tune(
            "llama-3.1-8b",
            method="lora",
            tokens=10e6,
            limits={"deadline_hours": 24},
            owning={"hours_per_month": 250, "months": 36},
        )
    )
    expect(page.get_by_role("status").filter(has_text="hours a month")).to_have_text(
        unbroken(found.answer)
    )
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0


def test_a_second_value_typed_before_the_answer_to_the_first_stays(
    page: Page, app_url: str
) -> None:
    open_page(page, f"{app_url}/rent-or-buy")
    hours = page.get_by_role("spinbutton", name="Hours a month")
    said = page.get_by_role("status")
    expect(said.filter(has_text="at 200 hours a month")).to_be_visible()
    for wait_ms in range(0, 400, 80):
        first, second = f"{300 + wait_ms}", f"{100 + wait_ms // 4}"
        hours.fill(first)
        hours.press("Enter")
        page.wait_for_timeout(wait_ms)
        hours.fill(second)
        hours.press("Enter")
        expect(said.filter(has_text=f"at {second} hours a month")).to_be_visible()
        settle(page)
        expect(hours).to_have_value(second)
