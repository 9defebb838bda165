"""The page *Rent or buy* in a browser: a person enters 200 hours and reads the break-even."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import advisor
from tests.cases import tune
from tests.e2e.browsing import CHART, follow, open_page, width_beyond_the_window


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
    expect(page.get_by_role("status").filter(has_text="hours a month")).to_have_text(found.answer)
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0
