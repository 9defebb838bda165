"""Three real cases in a real browser: the page shows the answer that Python gives."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

import advisor
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.session.links import encode
from advisor.ui.session.question import question
from tests.cases import CASES
from tests.e2e.browsing import open_answer, unbroken

ENTERED: dict[str, dict[str, str]] = {
    "lora": {"task": "lora", "tokens": "50M", "sequence": "4096", "deadline": "24 h"},
    "pretrain": {
        "task": "pretrain",
        "model": "parameters",
        "parameters": "7B",
        "pretrain_tokens": "300B",
        "pretrain_deadline": "30 days",
        "budget": "300000",
        "objective": "fastest",
    },
    "serve": {
        "task": "serve",
        "model": "llama-3.1-70b",
        "users": "32",
        "prompt": "1024",
        "answer": "256",
        "speed": "",
        "first_token": "",
    },
}


def address(app_url: str, entered: dict[str, str]) -> str:
    page = question(providers=tuple, accelerators=dict)
    return f"{app_url}/?{urlencode(encode(page, asdict(DEFAULTS) | entered | {'why': None}))}"


def test_the_page_gives_the_answer_of_python(app_url: str, page: Page) -> None:
    for name, case in CASES.items():  # one browser: its cache is warm
        open_answer(page, address(app_url, ENTERED[name]))
        answer = advisor.recommend(case)
        status = page.get_by_role("status").filter(has_text="Rent").first
        expect(status).to_contain_text(unbroken(answer.answer), timeout=30_000)
        body = page.locator("[data-testid=stMain]").inner_text()
        for ranking in answer.rankings:
            best = ranking.plans[0]
            for shown in (best.title, *figures(best.estimate)):
                assert shown in body.replace("\N{NO-BREAK SPACE}", " "), (ranking.objective, shown)


def figures(estimate: Any) -> list[str]:
    """The numbers that a plan card must show, as Python formats them."""
    if estimate.time is not None:
        return [
            duration(estimate.time.run_hours.scaled(HOUR_S)),
            money(estimate.cost.rent_usd),
        ]
    return [milliseconds(estimate.serving.tpot_ms.scaled(MILLISECOND))]
