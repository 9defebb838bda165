"""The page *Catalog* in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.browsing import CHART, NARROW, follow, open_page, width_beyond_the_window

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
