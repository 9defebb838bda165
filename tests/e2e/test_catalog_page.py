"""The page *Catalog* in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.browsing import CHART, follow, open_page, width_beyond_the_window


def test_three_accelerators_and_what_differs(
    page: Page, app_url: str, catalog_counts: tuple[int, int, int]
) -> None:
    open_page(page, app_url)
    follow(page, "Catalog")
    counted = "{} accelerators and {} offers of {} providers".format(*catalog_counts)
    expect(page.get_by_text(counted)).to_be_visible()
    page.wait_for_selector(CHART)
    # Three data-centre and consumer cards of one vendor: that row goes, the memory stays.
    expect(page.get_by_role("cell", name="Vendor", exact=True)).to_be_visible()
    page.get_by_text("Differences only").click()
    expect(page.get_by_role("cell", name="Vendor", exact=True)).to_be_hidden()
    expect(page.get_by_role("cell", name="Memory, reported", exact=True)).to_be_visible()
    expect(page.get_by_text("at every one of 16 providers that rent both")).to_be_visible()


def test_a_value_opens_to_its_source(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/catalog")
    page.get_by_text("Where each value comes from").click()

    expect(page.get_by_text("CUDA 13.2 release notes").first).to_be_visible()
    expect(page.get_by_text("recalled, not checked", exact=True).first).to_be_visible()


def test_nothing_scrolls_sideways_on_a_phone(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, f"{app_url}/catalog")
    page.wait_for_selector(CHART)
    assert width_beyond_the_window(page) <= 0
