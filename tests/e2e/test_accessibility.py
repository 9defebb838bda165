"""Every page in both themes against all accessibility rules that a program can check."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.browsing import PHONE, open_page, settle, width_beyond_the_window

DESKTOP = {"viewport": {"width": 1440, "height": 900}}
SMALL = {"viewport": {"width": 390, "height": 844}, "user_agent": PHONE}
SETTLED_MS = 700


THEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 22, 20)"}
"""Theme and background."""
KNOWN = {"landmark-unique"}
"""Streamlit calls each table that scrolls on its own alike; some pages have two when unfolded."""


DRAWN_ANEW = 4
"""A switched theme runs the page anew, some time later: what is drawn anew is faint meanwhile."""


@pytest.mark.parametrize("device", [DESKTOP, SMALL], ids=["desktop", "phone"])
def test_no_page_breaks_a_rule_or_scrolls_sideways(
    new_page: Callable[..., Page], app_url: str, device: dict[str, object]
) -> None:
    page = new_page(**DESKTOP)
    open_page(page, app_url)
    links = page.get_by_role("navigation").get_by_role("link")
    addresses = {link.get_attribute("href") for link in links.all()}
    assert len(addresses) >= 3
    if device is SMALL:
        page.close()
        page = new_page(**device)
    for address in sorted(str(each) for each in addresses):  # one browser: its cache is warm
        open_page(page, f"{app_url}/{address.rpartition('/')[2]}")
        if device is SMALL:  # what is folded must not scroll beyond the keyboard's reach either
            for expander in page.get_by_test_id("stMain").locator("summary").all():
                expander.click()
                settle(page)
        for theme, channel in THEMES.items():
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            expect(page.get_by_test_id("stApp")).to_have_css("background-color", channel)
            broken: list[tuple[str, str, str]] = []
            for _ in range(DRAWN_ANEW):
                page.wait_for_timeout(SETTLED_MS)
                settle(page)
                found = Axe().run(page).response["violations"]
                broken = [
                    (rule["id"], rule["impact"], rule["nodes"][0]["html"][:200])
                    for rule in found
                    if rule["impact"] != "minor" and rule["id"] not in KNOWN
                ]
                if not broken:
                    break
            assert not broken, (address, theme, broken)
        assert width_beyond_the_window(page) <= 0, address
