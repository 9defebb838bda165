"""The page *Fleet*: common questions, a portfolio of one's own, and what it refuses."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from advisor import plan_fleet
from advisor.api import quick_portfolio
from advisor.ui.session.links import packed
from tests.ui.test_one_case import ROOT, opened, text


def test_the_page_gives_the_plan_of_python() -> None:
    page = opened("fleet", {"ask": "home", "budget": "2500"})
    plan = plan_fleet(
        quick_portfolio("home", budget_usd=2500, tune="llama-3.1-8b", serve="qwen3-32b")
    )

    assert plan.sentence in text(page)


def test_a_question_stands_in_the_address() -> None:
    page = opened("fleet", {"ask": "chatbot", "budget": "20000", "people": "8"})
    page.number_input(key="fleet_people").set_value(9.0).run()

    assert not page.exception
    assert page.query_params["people"] == "9"
    assert page.query_params["ask"] == "chatbot"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{config: /etc/hostname}", "names a file"),
        ("{stack: /etc/hostname}", "names a file"),
        ("{hub: org/name}", "would be downloaded"),
    ],
)
def test_a_portfolio_of_ones_own_opens_no_file_of_the_server(model: str, said: str) -> None:
    page = opened("fleet", {"ask": "own"})
    page.text_area(key="fleet_text").set_value(
        "workloads:\n"
        "  - name: x\n"
        "    runs_per_month: 1\n"
        "    case:\n"
        f"      model: {model}\n"
        "      workload: {kind: fine_tuning}\n"
    ).run()

    assert not page.exception
    assert said in page.error[0].value


def test_a_portfolio_that_would_keep_others_waiting_is_refused() -> None:
    page = opened("fleet", {"ask": "own"})
    case = "{model: {preset: gpt2}, workload: {kind: serving}}"
    lines = [f"  - {{name: w{place}, case: {case}}}\n" for place in range(31)]
    page.text_area(key="fleet_text").set_value("workloads:\n" + "".join(lines)).run()

    assert not page.exception
    assert "too many workloads for a page" in page.error[0].value


def test_a_link_to_a_portfolio_opens_no_file_of_the_server() -> None:
    portfolio = (
        "workloads:\n"
        "  - name: x\n"
        "    case:\n"
        "      model: {preset: llama-3.1-8b}\n"
        "      workload: {kind: serving, demand: {file: /etc/hostname}}\n"
    )
    link = packed(portfolio)
    assert link is not None
    page = AppTest.from_file(str(ROOT / "advisor/ui/pages/fleet.py"), default_timeout=120)
    page.query_params.update({"ask": "own", "portfolio": link})
    page.run()

    assert not page.exception
    assert "names a file" in page.error[0].value
