"""The page *What fits my GPU* in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import advisor
from advisor.planning.fits_results import Verdict


def test_the_page_is_reached_from_the_first_and_tells_the_engines_answer(
    page: Page, app_url: str
) -> None:
    page.goto(app_url)
    page.get_by_role("link", name="What fits my GPU").first.click()
    fits = advisor.fits("rtx-4090")
    fitting = len(fits.having(Verdict.FITS))
    expect(
        page.get_by_text(f"{fitting} of {len(fits.models)} models can be served")
    ).to_be_visible()
    page.wait_for_selector(".js-plotly-plot .main-svg")
    wide = page.evaluate(
        "document.querySelector('[data-testid=stMain]').scrollWidth"
        " - document.querySelector('[data-testid=stMain]').clientWidth"
    )
    assert wide <= 0
