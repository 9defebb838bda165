"""Every page against all accessibility rules that a program can check, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.browsing import PHONE, open_page, settle, width_beyond_the_window

pytestmark = pytest.mark.slow
DESKTOP: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
SMALL: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "user_agent": PHONE}
SETTLED_MS = 700


THEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 22, 20)"}
"""Theme and background."""
VIOLATIONS: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
RULES = {"light": VIOLATIONS, "dark": VIOLATIONS | COLOURS}
"""Of all rules, those of colours: a theme changes nothing else."""
KNOWN = {"landmark-unique"}
"""Streamlit calls each table that scrolls on its own alike; some pages have two when unfolded."""


DRAWN_ANEW = 4
"""A switched theme runs the page anew, some time later: what is drawn anew is faint meanwhile."""


ROUNDS = 8
"""Parts within parts unfold one round later, as does what a run of the script shut again."""
CLICK_ALL = "found => found.forEach(element => element.click())"
"""One run of the script for all parts that a page folds, not one for each."""
THUMBED = {"/", "/fits", "/rent-or-buy", "/fleet", "/learn", "/my-machine"}
"""Pages of which a thumb hits every control; the others have long tables."""
THUMB_PX = 44
"""The least side of what a thumb hits (WCAG 2.5.5)."""
SMALLER = """least => [...document.querySelectorAll(
  'button, summary, [role=tab], input:not([type=range]), .stMain a[href^="/"]')]
  .map(element => element.matches('input') && element.closest('label') || element)
  .filter(element => !element.closest('[data-testid=stSidebar]')
    && element.checkVisibility({visibilityProperty: true}))
  .map(element => [element.getBoundingClientRect(), element.innerText || element.ariaLabel])
  .filter(([box]) => box.width > 0 && Math.min(box.width, box.height) < least)
  .map(([box, name]) => `${name}: ${box.width} x ${box.height}`)
"""


def too_small(page: Page) -> list[str]:
    """Return the controls that a thumb may miss."""
    small: list[str] = []
    for _ in range(DRAWN_ANEW):  # the style sheet may come after the first boxes
        small = page.evaluate(SMALLER, THUMB_PX)
        if not small:
            break
        page.wait_for_timeout(SETTLED_MS)
    return small


def test_who_uses_the_keyboard_sees_where_the_focus_is(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/learn")
    ringed = "document.activeElement.matches(':focus-visible') && parseFloat(getComputedStyle("
    ringed += "document.activeElement).outlineWidth)"
    for _ in range(16):  # to the last control above the chart
        page.keyboard.press("Tab")
        assert page.evaluate(ringed) >= 3, page.evaluate("document.activeElement.outerHTML")[:200]


def test_the_chosen_model_is_read_whole_on_a_small_laptop(page: Page, app_url: str) -> None:
    for query in ("", "?task=serve&model=llama-3.3-70b"):
        open_page(page, f"{app_url}/{query}")
        for label in ("Task", "Model", "Rent or own"):
            box = page.get_by_role("combobox", name=label, exact=True)
            expect(box).not_to_have_value("")
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), (query, label)


def listed(page: Page) -> set[str]:
    """Return the paths of all pages, which the open one lists: above it, or in its side bar."""
    links = page.locator("[data-testid=stTopNavLink], [data-testid=stSidebarNavLink]")
    expect(links).not_to_have_count(0)
    return {f"/{str(link.get_attribute('href')).rpartition('/')[2]}" for link in links.all()}


@pytest.mark.parametrize("device", [DESKTOP, SMALL], ids=["desktop", "phone"])
def test_no_page_breaks_a_rule_or_scrolls_sideways(
    page: Page, new_page: Callable[..., Page], app_url: str, device: dict[str, Any]
) -> None:
    if device is SMALL:
        page = new_page(**device)
    page.set_viewport_size(device["viewport"])
    open_page(page, f"{app_url}/")
    paths = listed(page)
    assert paths >= THUMBED
    for address in sorted(paths):  # one browser: its cache is warm
        if address != "/":  # the first is open
            open_page(page, f"{app_url}{address}")
        if device is SMALL:  # what is folded must not scroll beyond the keyboard's reach either
            if address in THUMBED:
                assert too_small(page) == [], address
            shut = page.get_by_test_id("stMain").locator("details:not([open]) > summary")
            for _ in range(ROUNDS):
                shut.evaluate_all(CLICK_ALL)
                page.wait_for_timeout(SETTLED_MS)  # a run that these clicks ask for begins later
                settle(page)
                if not shut.count():
                    break
            expect(shut).to_have_count(0)
        for theme, channel in THEMES.items() if device is SMALL else [("light", THEMES["light"])]:
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            expect(page.get_by_test_id("stApp")).to_have_css("background-color", channel)
            broken: list[tuple[str, str, str]] = []
            for _ in range(DRAWN_ANEW):
                page.wait_for_timeout(SETTLED_MS)
                settle(page)
                found = Axe().run(page, options=RULES[theme]).response["violations"]
                broken = [
                    (rule["id"], rule["impact"], rule["nodes"][0]["html"][:200])
                    for rule in found
                    if rule["impact"] != "minor" and rule["id"] not in KNOWN
                ]
                if not broken:
                    break
            assert not broken, (address, theme, broken)
        assert width_beyond_the_window(page) <= 0, address
