"""The parts of the page *Fleet*."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import streamlit as st
import yaml

from advisor import api
from advisor.charts.fleet import weeks_chart, weeks_differ, weeks_finding
from advisor.errors import InputError, refusal
from advisor.foundation.units import round_significant
from advisor.frames import fleet as tables
from advisor.nouns.case_files import load_sent
from advisor.nouns.hardware import PriceKind
from advisor.nouns.inputs import Task
from advisor.ui.forms import money_inputs
from advisor.ui.forms.asked import work_words
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.rules import OWN as OWN_CARDS
from advisor.ui.parts import question
from advisor.ui.parts.chart_view import draw
from advisor.ui.parts.results import status
from advisor.ui.parts.widgets import behind, box, download, show_mistake
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import address, state
from advisor.ui.session.kept import kept
from advisor.ui.session.links import Field, Page, choice, flag, number, packed, unpack
from advisor.ui.session.uploads import uploader

CASE, OWN = "case", "own"
QUESTIONS: Final = {
    CASE: "The question above, month after month",
    "home": "At home: fine-tune one model and run another",
    "lab": "A lab: machines for a group of people",
    "chatbot": "A chatbot: one server or the cloud",
    OWN: "My own portfolio of many workloads",
}
HOURS: Final = {
    "always": "Day and night alike",
    "quiet": "A quarter of it outside office hours",
    "office": "In office hours only",
}
MOST_BUDGET: Final = 1e8
MOST_PEOPLE: Final = 10_000.0
MOST_RUNS: Final = 1e5
MOST_MONTH: Final = 600
MOST_WORKLOADS: Final = 30
"""More would keep other visitors waiting: each workload is a search of its own."""
MOST_BYTES: Final = 1_000_000
"""Of an uploaded portfolio."""
LIMIT: Final = {"format": "%.0f", "placeholder": "no limit"}
MONTH: Final = "fleet_month"
PLANNED: Final = "fleet_planned"
"""Session's key of the last portfolio that could be used."""


@functools.cache
def inputs() -> Page:
    """Return the inputs as they stand in the address."""
    example = api.example_portfolio()
    own = Field(
        "fleet_text",
        "Portfolio",
        example,
        lambda given: (unpack(given) or example, None),
        write=packed,
        title=lambda value: "the example" if value == example else "your own",
    )
    return state.beside(
        "fleet",
        {
            "ask": choice("fleet_ask", "Plan", CASE, lambda: QUESTIONS),
            "runs": number("fleet_runs", "Runs a month", None, 0.01, MOST_RUNS),
            "when": choice("fleet_hours", "When", "always", lambda: HOURS),
            "growth": number("fleet_growth", "Growth a year (%)", 0.0, -90.0, 900.0),
            "here": flag("fleet_here", "Must stay on premises"),
            "most": number("fleet_most", "Most for machines (USD)", None, 0.0, MOST_BUDGET),
            "budget": number("fleet_budget", "Budget for machines (USD)", None, 0.0, MOST_BUDGET),
            "people": number("fleet_people", "People", 12.0, 1.0, MOST_PEOPLE),
            "tune": choice("fleet_tune", "Fine-tuned model", "llama-3.1-8b", state.preset_titles),
            "serve": choice("fleet_serve", "Served model", None, state.preset_titles),
            "portfolio": own,
            "month": number(MONTH, "Month of the week", 0, 0, MOST_MONTH),
        },
    )


def ask() -> api.Portfolio | None:
    """Show the inputs; return the portfolio, or the last good one after saying what is wrong."""
    asked = question.asked(inputs(), title="Fleet", heading="What to own, what to rent, and when?")
    st.radio(
        "Plan",
        [*QUESTIONS],
        format_func=QUESTIONS.__getitem__,
        key="fleet_ask",
        persist_state="session",
    )
    plan = st.session_state["fleet_ask"]
    if plan == OWN:
        _ask_portfolio(asked)
    elif plan == CASE:
        _ask_how_often(asked)
    else:
        _ask_group(plan)
        st.set_page_config(page_title=f"Fleet: {QUESTIONS[plan].partition(':')[0]}")
    state.write(inputs())
    try:
        portfolio = _portfolio(asked, address.values(inputs()))
    except InputError as error:
        show_mistake(error, instead=_instead())
        return st.session_state.get(PLANNED)
    st.session_state[PLANNED] = portfolio
    return portfolio


def _instead() -> str:
    """Return what the plan on the page is for, where new inputs are refused."""
    if PLANNED not in st.session_state:
        return ""
    return "The plan below is for the last inputs that worked."


def _ask_portfolio(asked: Inputs) -> None:
    st.text_area("Portfolio (YAML or JSON)", key="fleet_text", height=320, persist_state="session")
    st.button("Add the question above", key="fleet_add", on_click=_add, args=(asked,))
    if problem := st.session_state.pop("fleet_add_problem", None):
        show_mistake(problem, instead=_instead())
    with st.expander("Open a portfolio file"):
        uploader(
            "Portfolio (YAML or JSON)",
            key="fleet_file",
            most=MOST_BYTES,
            take=lambda _, content: _take(content),
            kinds=("yaml", "yml", "json"),
            tell=lambda error: f"{error} {_instead()}",
        )


def _take(content: bytes) -> None:
    """Put an uploaded portfolio into the box."""
    text = content.decode("utf-8-sig", errors="replace")
    _checked(api.parse_case(text))
    st.session_state["fleet_text"] = text


def _add(asked: Inputs) -> None:
    """Add the question of all pages to the portfolio; a callback."""
    try:
        content = dict(api.parse_case(str(st.session_state["fleet_text"])))
        held = content.get("workloads")
        others = [*held] if isinstance(held, list) else []
        names = {str(item.get("name")) for item in others if isinstance(item, Mapping)}
        values = address.values(inputs())
        work = _workload(asked, values)
        place = 2
        while work["name"] in names:
            work["name"], place = f"{work_words(asked)} ({place})", place + 1
        content["workloads"] = [*others, work]
        _checked(content)
    except InputError as error:
        st.session_state["fleet_add_problem"] = error
        return
    st.session_state["fleet_text"] = yaml.safe_dump(content, sort_keys=False)


def _ask_how_often(asked: Inputs) -> None:
    columns = st.columns(4, vertical_alignment="bottom")
    with columns[0]:
        if asked.task == Task.SERVE:
            box(inputs(), "when")
        else:
            box(inputs(), "runs", format="%g", placeholder=f"{_usual_runs(asked):g}")
    with columns[1]:
        box(inputs(), "growth", format="%g")
    with columns[2]:
        box(inputs(), "most", **LIMIT)
    with columns[3]:
        box(inputs(), "here")


def _ask_group(plan: str) -> None:
    columns = st.columns(3 if plan == "home" else 4)
    with columns[0]:
        box(inputs(), "budget", **LIMIT)
    if plan != "home":
        with columns[1]:
            box(inputs(), "people", format="%.0f")
    with columns[-2]:
        box(inputs(), "tune")
    with columns[-1]:
        box(inputs(), "serve", placeholder="Usual for this plan")


def _portfolio(asked: Inputs, values: Mapping[str, Any]) -> api.Portfolio:
    if values["ask"] == OWN:
        return _checked(api.parse_case(str(values["portfolio"])))
    if values["ask"] == CASE:
        most = values["most"]
        content = {
            "name": work_words(asked),
            "workloads": [_workload(asked, values)],
            "owned": _owned(asked),
            "budget": {} if most is None else {"purchase_usd": most},
            "single": True,
        }
        return load_sent(api.Portfolio, content)
    return api.quick_portfolio(
        str(values["ask"]),
        budget_usd=values["budget"],
        people=float(values["people"] or 1.0),
        tune=str(values["tune"]),
        serve=values["serve"],
    )


def _checked(content: Mapping[str, Any]) -> api.Portfolio:
    portfolio = load_sent(api.Portfolio, content)
    if len(portfolio.workloads) > MOST_WORKLOADS:
        raise refusal("portfolio_too_long", value=len(portfolio.workloads), most=MOST_WORKLOADS)
    return portfolio


def _workload(asked: Inputs, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question of all pages as a workload: the plan decides what it runs on."""
    case: Any = state.case_mapping(_anywhere(asked))
    serving = asked.task == Task.SERVE
    often = (
        _when(values["when"])
        if serving
        else {"runs_per_month": values["runs"] or _usual_runs(asked)}
    )
    if case["workload"].get("demand"):
        often = {}  # its curve says when
    if spares := case["workload"].pop("spare_replicas", 0):
        often["spare_machines"] = spares
    return {
        "name": work_words(asked)[:60],
        "case": case,
        **often,
        "growth_per_year": (values["growth"] or 0.0) / 100,
        "on_premises": bool(values["here"]),
        "preemptible": asked.rent == PriceKind.SPOT,
    }


def _anywhere(asked: Inputs) -> Inputs:
    """Return the question without what the plan decides."""
    return replace(asked, **{name: getattr(DEFAULTS, name) for name in ("rent", "budget")})


def _usual_runs(asked: Inputs) -> float:
    """Return the runs that *Rent or buy* counts with; else 1."""
    try:
        found = money_inputs.answer(money_inputs.usual(_anywhere(state.usable(asked))))
    except InputError:  # told where the plan would stand
        return 1.0
    return round_significant(found.runs_per_month or 1.0, 3)


def _when(hours: str) -> dict[str, Any]:
    """Return the load of a service over the week; the other pages take it alike at all hours."""
    if hours == "office":
        return {"hours": "office"}
    return {"hours": "always", "quiet_share": 0.25 if hours == "quiet" else 1.0}


def _owned(asked: Inputs) -> list[dict[str, Any]]:
    """Return the cards that the question says are owned."""
    if asked.rent != OWN_CARDS:
        return []
    card, count = state.card_of(asked)
    return [{"machine": card, "count": count}]


def show(portfolio: api.Portfolio) -> None:
    """Plan the portfolio and show the answer, what it rests on, and the other ways."""
    place = st.empty()

    def tell(share: float, text: str) -> None:
        place.progress(share, text=plain(text))

    try:
        plan: api.FleetPlan = kept(
            lambda: api.plan_fleet(portfolio, tell=tell), "fleet", portfolio.to_json(indent=None)
        )
    except InputError as error:
        show_mistake(error)
        return
    finally:
        place.empty()
    status(plan.sentence)
    if plan.purchases:
        st.header("Machines", anchor=False)
        text_table([item.cells | {"Why": " ".join(item.why) or "-"} for item in plan.purchases])
    st.header("Where each workload runs at first", anchor=False)
    places = plan.places().items()
    text_table([{"Workload": name, "Runs on": words} for name, words in places])
    if plan.fleet:
        st.header("Use of the machines, by workload", anchor=False)
        _week(plan)
        text_table(tables.use_table(plan))
    st.header("Cost by workload", anchor=False)
    text_table(tables.charges_table(plan))
    if plan.differing or plan.curve:
        st.header("Other ways", anchor=False)
        text_table(tables.ways_table(plan))
    for text in plan.looser:
        st.markdown(plain(text))
    _cash(plan)
    _left_out(plan)
    with st.container(horizontal=True):
        _files(plan)


@behind("Cash by quarter", key="fleet_cash", icon="payments")
def _cash(plan: api.FleetPlan) -> None:
    text_table([item.cells for item in plan.cash])


@behind("Energy, and what the plan leaves out", key="fleet_left_out", icon="checklist")
def _left_out(plan: api.FleetPlan) -> None:
    st.markdown("\n".join(f"- {plain(note)}" for note in (plan.energy, *plan.notes) if note))


def _files(plan: api.FleetPlan) -> None:
    """Offer the report, the plan and the portfolio."""
    link = state.link(inputs(), state.usable(state.current(inputs())))

    def report() -> str:
        return api.fleet_report(plan, link=link).content

    def portfolio() -> str:
        content = plan.portfolio.model_dump(mode="json", exclude_unset=True)
        return yaml.safe_dump(content, sort_keys=False)

    download("Save the report (two pages)", "fleet.html", report, key="fleet_report")
    download("Save the plan (JSON)", "fleet.json", plan.to_json, key="fleet_json")
    download("Save the portfolio (YAML)", "portfolio.yaml", portfolio, key="fleet_yaml")


def _week(plan: api.FleetPlan) -> None:
    """Draw who holds the machines in a week of a period."""
    months = tables.week_months(plan)
    if not months:
        return
    month = min(months, key=lambda one: abs(one - int(st.session_state.get(MONTH) or 0)))
    if len(months) > 1:
        st.session_state[MONTH] = month
        st.select_slider("A week from month", months, key=MONTH, persist_state="session")
        state.write(inputs())
    frame = tables.weeks_frame(plan, month)
    st.markdown(plain(weeks_finding(frame)))
    if weeks_differ(frame):
        draw(weeks_chart, frame, key="fleet_weeks")
