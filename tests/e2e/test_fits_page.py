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
