"""The parts of the page *Fleet*."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import streamlit as st

from advisor import api, frames
from advisor.charts import weeks_alt, weeks_chart
from advisor.errors import InputError
from advisor.foundation.formatting import money
from advisor.nouns.case_files import load_sent
from advisor.ui.parts import question
from advisor.ui.parts.chart_view import draw, theme
from advisor.ui.parts.results import status
from advisor.ui.parts.widgets import download, show_mistake
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import address
from advisor.ui.session.kept import kept
from advisor.ui.session.links import Field, Page, choice, number, packed, text, unpack

OWN: Final = "own"
QUESTIONS: Final = {
    "home": "At home: fine-tune one model and run another",
    "lab": "A lab: machines for a group of people",
    "chatbot": "A chatbot: one server or the cloud",
    OWN: "My own portfolio",
}
MOST_BUDGET: Final = 1e8
MOST_PEOPLE: Final = 10_000.0
MOST_WORKLOADS: Final = 30
"""More would keep other visitors waiting: each workload is a search of its own."""
EXAMPLE: Final = """\
workloads:
  - name: chatbot
    case:
      model: {preset: llama-3.1-8b}
      workload: {kind: serving, concurrency: 32}
      limits: {max_tpot_ms: 50}
    growth_per_year: 0.5
  - name: weekly fine-tune
    case:
      model: {preset: llama-3.1-8b}
      workload: {kind: fine_tuning, method: lora, tokens: 50e6}
      limits: {deadline_hours: 24}
    runs_per_month: 4.3
    preemptible: true
"""


@functools.cache
def inputs() -> Page:
    """Return the inputs as they stand in the address."""
    own = Field(
        "fleet_text",
        "Portfolio",
        EXAMPLE,
        lambda given: (_unpacked(given), None),
        write=packed,
        title=lambda value: "the example" if value == EXAMPLE else "your own",
    )
    return Page(
        "fleet",
        {
            "ask": choice("fleet_ask", "Question", "home", lambda: QUESTIONS),
            "budget": number("fleet_budget", "Budget", 2500.0, 0.0, MOST_BUDGET),
            "people": number("fleet_people", "People", 12.0, 1.0, MOST_PEOPLE),
            "tune": replace(text("fleet_tune", "Fine-tuned model", "llama-3.1-8b")),
            "serve": text("fleet_serve", "Served model", "qwen3-32b"),
            "portfolio": own,
        },
    )


def _unpacked(given: str) -> str:
    return unpack(given) or EXAMPLE


def ask() -> api.Portfolio | None:
    """Show the inputs; return the portfolio, or None after saying what is wrong with it."""
    question.head("What to own, what to rent, and when?")
    address.open_page(inputs())
    st.radio("Question", [*QUESTIONS], format_func=QUESTIONS.__getitem__, key="fleet_ask")
    asked = st.session_state["fleet_ask"]
    if asked == OWN:
        st.text_area("Portfolio (YAML or JSON)", key="fleet_text", height=320)
    else:
        columns = st.columns(4)
        with columns[0]:
            st.number_input("Budget for machines (USD)", 0.0, MOST_BUDGET, key="fleet_budget")
        if asked != "home":
            with columns[1]:
                st.number_input("People", 1.0, MOST_PEOPLE, key="fleet_people", format="%.0f")
        with columns[2]:
            st.text_input("Fine-tuned model", key="fleet_tune")
        with columns[3]:
            st.text_input("Served model", key="fleet_serve")
    address.write(inputs())
    question_words = QUESTIONS[asked].partition(":")[0]
    st.set_page_config(page_title=f"Fleet: {question_words}")
    try:
        return _portfolio(address.values(inputs()))
    except InputError as error:
        show_mistake(error)
        return None


def _portfolio(values: Mapping[str, Any]) -> api.Portfolio:
    if values["ask"] == OWN:
        portfolio = load_sent(api.Portfolio, api.parse_case(str(values["portfolio"])))
        if len(portfolio.workloads) > MOST_WORKLOADS:
            raise InputError(
                "the portfolio has too many workloads for a page",
                value=len(portfolio.workloads),
                allowed=f"up to {MOST_WORKLOADS}",
                remedy="Plan it on your machine: gpu-advisor fleet portfolio.yaml",
                field="workloads",
            )
        return portfolio
    return api.quick_portfolio(
        str(values["ask"]),
        budget_usd=float(values["budget"] or 0.0),
        people=float(values["people"] or 1.0),
        tune=str(values["tune"]) or None,
        serve=str(values["serve"]) or None,
    )


def show(portfolio: api.Portfolio) -> None:
    """Plan the portfolio and show the answer, what it rests on, and the other ways."""
    try:
        with st.spinner("Planning"):
            plan: api.FleetPlan = kept(
                lambda: api.plan_fleet(portfolio), "fleet", portfolio.to_json(indent=None)
            )
    except InputError as error:
        show_mistake(error)
        return
    status(plan.sentence)
    if plan.purchases:
        st.header("Machines", anchor=False)
        text_table(frames.purchases_table(plan))
    st.header("Where each workload runs at first", anchor=False)
    text_table(frames.places_table(plan))
    if plan.fleet:
        st.header("Use of the machines, by workload", anchor=False)
        _week(plan)
        text_table(frames.use_table(plan))
    st.header("Cost by workload", anchor=False)
    text_table(frames.charges_table(plan))
    if plan.alternatives:
        st.header("Other ways", anchor=False)
        text_table(frames.ways_table(plan))
    for price in plan.limit_prices:
        st.markdown(plain(price.sentence))
    budget = portfolio.budget.purchase_usd
    if plan.headroom is not None and budget is not None:
        times = f"{money(budget)} for machines carries {plan.headroom:.1f} times this work."
        st.markdown(plain(times))
    with st.expander("Cash by quarter"):
        text_table(frames.cash_table(plan))
    with st.expander("Energy, and what the plan leaves out"):
        energy = f"{plan.energy_kwh:,.0f} kWh and {plan.carbon_kg:,.0f} kg of CO2"
        st.markdown(plain(f"Machines on site: {energy} over the horizon."))
        for note in plan.notes:
            st.markdown(plain(note))
    download(
        "Save the report (two pages)",
        lambda: api.fleet_report(plan).content,
        name="fleet.html",
        media_type="text/html",
        key="fleet_report",
    )
    download(
        "Save the plan (JSON)",
        plan.to_json,
        name="fleet.json",
        media_type="application/json",
        key="fleet_json",
    )


def _week(plan: api.FleetPlan) -> None:
    """Draw who holds the machines in a week of a period."""
    months = sorted({item.month for item in plan.weeks})
    if not months:
        return
    month = months[0]
    if len(months) > 1:
        month = st.select_slider(
            "Week of the period that starts in month", months, key="fleet_month"
        )
    frame = frames.weeks_frame(plan, month)
    draw(weeks_chart(frame, theme=theme()), key="fleet_weeks", alt=weeks_alt(frame))
