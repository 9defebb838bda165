"""Every page against the accessibility rules that a program can check (WCAG 2.1, A and AA)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.e2e.browsing import PHONE, open_page, settle, width_beyond_the_window

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
DESKTOP = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
SMALL = {
    "viewport": {"width": 390, "height": 844},
    "color_scheme": "dark",
    "user_agent": PHONE,
}
SETTLED_MS = 1500


@pytest.mark.parametrize("device", [DESKTOP, SMALL], ids=["desktop-light", "phone-dark"])
def test_no_page_breaks_a_rule_or_scrolls_sideways(
    new_page: Callable[..., Page], app_url: str, device: dict[str, object]
) -> None:
    page = new_page(**DESKTOP)
    open_page(page, app_url)
    links = page.get_by_role("navigation").get_by_role("link")
    addresses = {link.get_attribute("href") for link in links.all()}
    assert len(addresses) >= 3
    page.close()
    for address in sorted(str(each) for each in addresses):
        page = new_page(**device)
        open_page(page, f"{app_url}/{address.rpartition('/')[2]}")
        if device is SMALL:  # what is folded must not scroll beyond the keyboard's reach either
            for expander in page.get_by_test_id("stMain").locator("summary").all():
                expander.click()
                settle(page)
        page.wait_for_timeout(SETTLED_MS)
        found = Axe().run(page, options=RULES).response["violations"]
        broken = [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]
        assert not broken, (address, broken)
        assert width_beyond_the_window(page) <= 0, address
        page.close()
