"""The HTML report in a browser: nothing of it is cut off on A4 or on a phone."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

import advisor

A4_TEXT_PX = 672
"""210 mm less two margins of 16 mm, at 96 pixels an inch."""
CASE = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6},
}


@pytest.mark.parametrize(
    ("media", "width"), [("print", A4_TEXT_PX), ("screen", 390)], ids=["A4", "phone"]
)
def test_the_report_is_not_clipped(
    page: Page, media: Literal["print", "screen"], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media=media)
    page.set_content(advisor.export(CASE, "html", link=f"http://localhost/?{'x' * 400}").content)
    assert page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    ) == (0)
    # Whole words in narrow columns: no row of a table is much higher than a paragraph.
    assert page.evaluate(
        "Math.max(...[...document.querySelectorAll('tr')].map(row => row.offsetHeight))"
    ) < (350)


RATE = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {
        "kind": "serving",
        "requests_per_s": 10,
        "input_tokens": 7168,
        "output_tokens": 1024,
    },
    "limits": {"max_tpot_ms": 50, "max_ttft_ms": 2000},
}


@pytest.mark.parametrize(("case", "work"), [(CASE, "fine-tune"), (RATE, "serve")])
def test_the_report_prints_on_two_pages_with_its_charts(
    page: Page, case: dict[str, Any], work: str
) -> None:
    page.set_content(advisor.export(case, "html", link="http://localhost/?tokens=50M").content)
    assert page.get_by_role("img").count() == 2
    assert page.get_by_role("heading", level=1).inner_text().startswith(f"Llama 3.1 8B: {work}")
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 2
