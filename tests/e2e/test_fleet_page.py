"""The page *Fleet* in a browser: three common questions, each from its inputs to the answer."""

from __future__ import annotations

import re

import yaml
from playwright.sync_api import Page, expect

from advisor.api import fleet_report, plan_fleet, quick_portfolio
from advisor.ui.session.links import packed
from tests.e2e.browsing import (
    CHART,
    a_run,
    follow,
    open_page,
    settle,
    unbroken,
    width_beyond_the_window,
)

STATUS = "p[role=status]"


GROUPS = {
    "lab": "A lab: machines for a group of people",
    "chatbot": "A chatbot: one server or the cloud",
}
TYPED = {"People": 16, "Budget for machines (USD)": 250_000}
"""For the first of them; it stands for the next."""


def test_a_person_plans_for_the_home_saves_the_report_and_asks_for_two_groups(
    page: Page, app_url: str
) -> None:
    open_page(page, app_url)
    follow(page, "Fleet")
    with a_run(page):
        page.get_by_text("At home: fine-tune one model and run another", exact=True).click()
    most = page.get_by_role("spinbutton", name="Budget for machines (USD)")
    most.fill("3000")
    most.press("Enter")

    plan = plan_fleet(quick_portfolio("home", budget_usd=3000))
    expect(page.locator(STATUS).first).to_contain_text(plan.sentence, timeout=60_000)
    page.wait_for_selector(CHART)
    settle(page)
    assert "budget=3000" in page.url
    assert width_beyond_the_window(page) <= 0

    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the report").click()
    content = saved.value.path().read_text(encoding="utf-8")
    assert plan.purchases[0].title in content
    assert f"{app_url}/fleet?v=1&amp;" in content

    people, budget = TYPED.values()
    for ask, label in GROUPS.items():
        with a_run(page):
            page.get_by_text(label, exact=True).click()
        for name, value in TYPED.items() if ask == "lab" else ():
            box = page.get_by_role("spinbutton", name=name)
            box.fill(str(value))
            box.press("Enter")
            settle(page)

        plan = plan_fleet(quick_portfolio(ask, budget_usd=budget, people=people))
        expect(page.locator(STATUS).first).to_contain_text(plan.sentence, timeout=60_000)
        settle(page)
        runs = page.get_by_role("table").filter(has_text="Runs on")
        expect(runs).to_contain_text(next(iter(plan.places().values())))
        # A single workload that fills all hours alike has no chart.
        for machine in plan.fleet[:1] if len({week.workload for week in plan.weeks}) > 1 else ():
            drawn = page.locator(".js-plotly-plot").first
            expect(drawn).to_contain_text(f"{machine.title}, office hours")


def test_the_report_of_a_fleet_prints_on_two_pages(page: Page) -> None:
    plan = plan_fleet(quick_portfolio("chatbot", people=16))
    page.set_content(fleet_report(plan).content)

    assert page.get_by_role("heading", level=1).inner_text().startswith("What to own")
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 2


PORTFOLIO = b"""\
workloads:
  - name: support bot
    case: {model: {preset: qwen3-8b}, workload: {kind: serving, requests_per_s: 2}}
"""


def test_a_portfolio_file_is_planned_and_a_bad_one_leaves_its_plan(
    page: Page, app_url: str
) -> None:
    other = packed(PORTFOLIO.decode().replace("qwen3-8b", "gpt2"))  # the example takes minutes
    open_page(page, f"{app_url}/fleet?ask=own&portfolio={other}")
    page.get_by_text("Open a portfolio file", exact=True).click()
    box = page.locator('input[type="file"]')
    box.set_input_files({"name": "ours.yaml", "mimeType": "text/yaml", "buffer": PORTFOLIO})

    plan = plan_fleet(yaml.safe_load(PORTFOLIO))
    expect(page.locator(STATUS).first).to_contain_text(unbroken(plan.sentence), timeout=60_000)
    expect(page.get_by_label("Portfolio (YAML or JSON)", exact=True)).to_have_value(
        PORTFOLIO.decode()
    )

    settle(page)
    box.set_input_files({"name": "bad.yaml", "mimeType": "text/yaml", "buffer": b"workloads: 7"})
    problem = page.get_by_role("alert").filter(has_text="for the last inputs that worked")
    expect(problem).to_be_visible(timeout=60_000)
    expect(page.locator(STATUS).first).to_contain_text(unbroken(plan.sentence))
