"""The page *Fleet*: common questions, a portfolio of one's own, and what it refuses."""

from __future__ import annotations

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from advisor import estimate, own, plan_fleet
from advisor.api import parse_case, quick_portfolio
from advisor.ui.session.links import packed
from tests.cases import serve, tune
from tests.ui.seen import seen
from tests.ui.test_one_case import ROOT, opened, text

pytestmark = pytest.mark.slow

SMALL = """\
workloads:
  - name: notes
    case: {model: {preset: gpt2}, workload: {kind: fine_tuning, tokens: 1e6}}
    runs_per_month: 1
"""
OWN = {"ask": "own", "portfolio": packed(SMALL) or ""}
"""The example that the page would show takes minutes."""


@pytest.fixture
def one_way(monkeypatch: pytest.MonkeyPatch, fresh_caches: None) -> None:
    """Plan without alternatives, which take ten times as long."""
    monkeypatch.setattr("advisor.api.plan_fleet", partial(plan_fleet, alternatives=False))


def test_the_page_gives_the_plan_of_python() -> None:
    page = opened("fleet", {"ask": "home", "budget": "2500"})
    plan = plan_fleet(
        quick_portfolio("home", budget_usd=2500, tune="llama-3.1-8b", serve="qwen3-32b")
    )

    assert plan.sentence in text(page)


def test_the_question_of_all_pages_is_planned_as_a_workload() -> None:
    page = opened(
        "fleet",
        {"model": "qwen3-8b", "task": "qlora", "tokens": "20M", "runs": "8", "growth": "50"},
    )
    workload = {
        "name": "QLoRA fine-tuning of Qwen3 8B",
        "case": tune("qwen3-8b", method="qlora", tokens=20e6, limits={"deadline_hours": 24}),
        "runs_per_month": 8,
        "growth_per_year": 0.5,
    }
    assert plan_fleet({"workloads": [workload], "single": True}).sentence in text(page)
    assert "QLoRA fine-tuning of Qwen3 8B, tokens 20M" in text(page)


def test_runs_that_nobody_states_are_those_of_rent_or_buy() -> None:
    page = opened("fleet", {"model": "qwen3-8b", "task": "qlora", "tokens": "20M"})
    bought = opened("rent_or_buy", {"model": "qwen3-8b", "task": "qlora", "tokens": "20M"})
    case = tune("qwen3-8b", method="qlora", tokens=20e6, limits={"deadline_hours": 24})
    found = own(case)
    hardware = {"accelerator": found.accelerator, "count": found.count}
    time = estimate(case | {"hardware": hardware}).time
    assert time is not None

    runs = float(page.number_input(key="fleet_runs").placeholder)
    assert f"at {found.hours_per_month:,.0f} hours a month" in text(bought)
    assert f"for {runs:g} runs a month" in text(bought)
    assert runs * time.run_hours.expected == pytest.approx(found.hours_per_month, rel=0.005)
    workload = {"name": "QLoRA fine-tuning of Qwen3 8B", "case": case, "runs_per_month": runs}
    assert plan_fleet({"workloads": [workload], "single": True}).sentence in text(page)


def test_spare_replicas_of_the_question_are_spare_machines_of_the_fleet() -> None:
    query = {"task": "serve", "users": "8", "prompt": "1024", "answer": "256", "here": "yes"}
    page = opened("fleet", query | {"spare_replicas": "1"})
    assert "others stay free: 1 of each kind for Serving Llama 3.1 8B" in text(page)


def test_a_service_asks_alike_at_all_hours_as_on_the_other_pages() -> None:
    query = {"task": "serve", "users": "8", "prompt": "1024", "answer": "256"}
    page = opened("fleet", query | {"speed": "20", "first_token": "2 s"})
    case = serve(
        "llama-3.1-8b",
        input_tokens=1024,
        output_tokens=256,
        concurrency=8,
        limits={"max_tpot_ms": 50, "max_ttft_ms": 2000},
    )
    workload = {"name": "Serving Llama 3.1 8B", "case": case, "quiet_share": 1}
    assert plan_fleet({"workloads": [workload], "single": True}).sentence in text(page)


def test_cards_of_the_question_count_as_owned_machines() -> None:
    page = opened("fleet", {"rent": "own", "own_accelerator": "rtx-4090", "own_count": "1"})

    assert "Computer of yours with GeForce RTX 4090" in text(page)
    assert "Use the machines that you have" in text(page)


def test_the_page_shows_names_and_no_keys() -> None:
    page = opened("fleet", {"ask": "home"})
    said = text(page) + " ".join(str(item.value) for item in page.table)

    assert "chat with Qwen3 32B" in seen(said)
    for key in ("qwen3-32b", "llama-3.1-8b", "w4a16", "fine_tuning"):
        assert key not in seen(said)


@pytest.mark.usefixtures("one_way")
def test_the_week_that_is_shown_stands_in_the_address() -> None:
    page = opened("fleet", {"growth": "300", "here": "yes", "month": "7"})
    [week] = [item for item in page.select_slider if item.key == "fleet_month"]

    assert week.value == 6  # the period that is nearest
    assert page.query_params["month"] == "6"
    assert "in use by LoRA fine-tuning of Llama 3.1 8B." in text(page)


def test_weeks_that_are_all_alike_need_no_choice() -> None:
    page = opened("fleet", {"ask": "home"})

    assert "in use, most of it by chat with Qwen3 32B." in text(page)
    assert not [item for item in page.select_slider if item.key == "fleet_month"]


@pytest.mark.usefixtures("one_way")
def test_the_question_is_added_to_a_portfolio_under_a_name_of_its_own() -> None:
    page = opened("fleet", OWN)
    for _ in range(2):
        page.button(key="fleet_add").click().run()

    held = parse_case(page.text_area(key="fleet_text").value or "")["workloads"]
    assert [item["name"] for item in held] == [
        "notes",
        "LoRA fine-tuning of Llama 3.1 8B",
        "LoRA fine-tuning of Llama 3.1 8B (2)",
    ]
    assert not page.exception
    assert not page.error


def test_a_question_stands_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    small = plan_fleet(parse_case(SMALL), alternatives=False)
    monkeypatch.setattr("advisor.api.plan_fleet", lambda *_, **__: small)
    page = opened("fleet", {"ask": "chatbot", "budget": "20321", "people": "8"})
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
    page = opened("fleet", OWN)
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


def test_the_plan_of_a_refused_portfolio_is_marked_as_old() -> None:
    page = opened("fleet", OWN)
    page.text_area(key="fleet_text").set_value("workloads: {}").run()

    [problem] = page.error
    assert seen(problem.value).endswith("The plan below is for the last inputs that worked.")
    assert plan_fleet(parse_case(SMALL)).sentence in text(page)


def test_a_refused_file_is_told_beside_the_plan_that_stands() -> None:
    page = opened("fleet", OWN)
    page.file_uploader[0].set_value(("bad.yaml", b"workloads: {}", "text/yaml")).run()

    [problem] = page.error
    assert seen(problem.value).endswith("The plan below is for the last inputs that worked.")
    assert page.text_area(key="fleet_text").value == SMALL


def test_an_uploaded_portfolio_is_planned() -> None:
    page = opened("fleet", OWN)
    good = SMALL.replace("gpt2", "qwen3-0.6b")
    page.file_uploader[0].set_value(("good.yaml", good.encode(), "text/yaml")).run()

    assert not page.error
    assert page.text_area(key="fleet_text").value == good
    assert plan_fleet(parse_case(good)).sentence in text(page)


def test_a_portfolio_that_would_keep_others_waiting_is_refused() -> None:
    page = opened("fleet", OWN)
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
