"""The parts of the page *Rent or buy*."""

from __future__ import annotations

from typing import Final

import streamlit as st

from advisor import api, frames
from advisor.architecture.presets import list_presets
from advisor.charts import (
    Theme,
    effects_alt,
    effects_chart,
    strip_alt,
    strip_chart,
    timeline_alt,
    timeline_chart,
)
from advisor.errors import InputError
from advisor.formatting import hourly_price, money, rate
from advisor.quantities import Range
from advisor.ui import state
from advisor.ui.results import CHART_CONFIG, status, table_below
from advisor.ui.words import plain, span, text_table

CACHED_ANSWERS: Final = 32
DEFAULT_CARD: Final = "h100-sxm"
DEFAULT_HOURS: Final = 200
DEFAULT_PLACE: Final = "usa"
DEFAULT_WORK: Final = "qwen3-0.6b"
"""Small enough for every card; the work decides the cost of a run alone."""
YEARS: Final = {months: f"{months // 12} year{'s' * (months > 12)}" for months in range(12, 61, 12)}
WORKS: Final = {
    "qlora": {"kind": "fine_tuning", "method": "qlora"},
    "lora": {"kind": "fine_tuning", "method": "lora"},
    "full": {"kind": "fine_tuning", "method": "full"},
    "serve": {"kind": "serving"},
}
WORK_TITLES: Final = {
    "qlora": "Fine-tune, QLoRA",
    "lora": "Fine-tune, LoRA",
    "full": "Fine-tune, full",
    "serve": "Serve",
}

BUDGET: Final = {
    "own_budget": "budget_usd",
    "own_watts": "power_limit_w",
    "own_slots": "slots",
}
"""Keys of the boxes of a purchase budget, and what they set."""

Section = dict[str, float | int | str]


@st.cache_data(show_spinner=False, max_entries=CACHED_ANSWERS)
def answer(
    card: str, count: int, model: str, work: str, owning: Section, renting: Section
) -> api.Ownership:
    """Return the comparison, computed once for the same question."""
    return api.own(
        {
            "model": {"preset": model},
            "workload": WORKS[work],
            "hardware": {"accelerator": card, "count": count},
            "owning": owning,
            "renting": renting,
        }
    )


def page(*, theme: Theme, compact: bool) -> None:
    """Ask, answer first, then the numbers behind the answer."""
    said = st.container()
    asked = st.container()
    with asked:
        card, count, owning, slots = _ask()
    renting: Section = {}
    for name, field in BUDGET.items():
        if st.session_state.get(name):
            owning[field] = st.session_state[name]
    rent = st.session_state.get("own_rent")
    if rent:
        renting["usd_per_hour"] = float(rent)
    model = st.session_state.get("own_model") or DEFAULT_WORK
    work = st.session_state.get("own_work") or "qlora"
    try:
        found = answer(card, count, model, work, owning, renting)
    except InputError as error:
        with said:
            st.error(state.sentence(error), icon=":material/error:")
        with st.expander("The work", expanded=True):
            _ask_work()
        return
    with said:
        status(found.answer)
        _numbers(found)
    _strips(found, slots, theme)
    _charts(found, theme, compact=compact)
    _details(found)


def _ask() -> tuple[str, int, Section, dict[str, st.delta_generator.DeltaGenerator]]:
    """Show the inputs; return card, count, what the user changed, and where strips go."""
    names = state.accelerator_names()
    keys = list(names)
    owning: Section = {}
    slots = {}
    with st.container(border=True):
        first = st.columns([3, 1, 1, 1, 2])
        card = first[0].selectbox(
            "GPU",
            keys,
            index=keys.index(DEFAULT_CARD),
            format_func=names.__getitem__,
            key="own_card",
        )
        count = int(first[1].number_input("How many", 1, 4096, 8, key="own_count"))
        owning["hours_per_month"] = float(
            first[2].number_input("Hours a month", 1, 730, DEFAULT_HOURS, 10, key="own_hours")
        )
        owning["months"] = first[3].selectbox(
            "Horizon", list(YEARS), index=2, format_func=YEARS.__getitem__, key="own_months"
        )
        places = state.place_names()
        owning["place"] = (
            first[4].selectbox(
                "Place",
                list(places),
                index=None,
                format_func=places.__getitem__,
                key="own_place",
                placeholder=places[DEFAULT_PLACE],
            )
            or DEFAULT_PLACE
        )
        second = st.columns(4)
        for column, (name, title, step, field) in zip(
            second,
            (
                ("own_price", "Price of one GPU, USD", 100.0, "purchase_usd"),
                ("own_rent", "Rent of all, USD/h", 0.1, "usd_per_hour"),
                ("own_power", "Electricity, USD/kWh", 0.01, "electricity_usd_per_kwh"),
                ("own_resale", "Worth at the end, %", 5.0, "resale_share"),
            ),
            strict=True,
        ):
            given = column.number_input(
                title,
                min_value=0.0,
                max_value=100.0 if field == "resale_share" else None,
                value=None,
                step=step,
                placeholder="default",
                key=name,
            )
            slots[field] = column.container()
            if given is None or field == "usd_per_hour":
                continue
            owning[field] = given / 100 if field == "resale_share" else given
    return card, count, owning, slots


def _budget(found: api.Ownership) -> None:
    """Ask what a sum buys for the work, and answer."""
    with st.expander("What does a budget buy?"):
        columns = st.columns(3)
        for column, (name, title, step) in zip(
            columns,
            (
                ("own_budget", "Purchase budget, USD", 1000),
                ("own_watts", "Power limit, W", 100),
                ("own_slots", "Slots", 1),
            ),
            strict=True,
        ):
            column.number_input(title, 1, None, None, step, placeholder="none", key=name)
        bought = found.budget
        if bought is None:
            st.markdown(
                "Enter a budget: every card with a known price is tried for the work below."
            )
        elif not bought.best:
            st.markdown("Nothing that this buys can do the work.")
        else:
            st.markdown(plain(bought.sentence))
            text_table(frames.budget_table(found))


def _ask_work() -> None:
    columns = st.columns(2)
    models = list(list_presets())
    columns[0].selectbox("Model", models, index=models.index(DEFAULT_WORK), key="own_model")
    columns[1].selectbox("Task", list(WORKS), format_func=WORK_TITLES.__getitem__, key="own_work")


def _numbers(found: api.Ownership) -> None:
    """Show owning, renting, energy and carbon over the horizon."""
    cheapest = found.rents[0] if found.rents else None
    own = found.own
    figures = [
        (
            "Owning",
            money(own.total_usd),
            f"{_span(own.total_usd)}; first {money(own.purchase_usd)}",
        ),
        (
            "Renting, cheapest",
            money(cheapest.total_usd) if cheapest else "not offered",
            f"{_span(cheapest.total_usd)}; {cheapest.title}" if cheapest else "nothing rents it",
        ),
        ("An hour in use, owned", money(own.usd_per_hour), _span(own.usd_per_hour)),
        (
            "Energy",
            rate(own.energy_kwh, "kWh"),
            f"{rate(own.carbon_kg, 'kg CO2')}, {found.place}",
        ),
    ]
    for column, (title, value, note) in zip(st.columns(4), figures, strict=True):
        column.metric(title, value)
        column.markdown(plain(note))


def _strips(
    found: api.Ownership, slots: dict[str, st.delta_generator.DeltaGenerator], theme: Theme
) -> None:
    """Draw break-even across each input below its box."""
    for strip in found.strips:
        with slots[strip.field]:
            ticks, text = _strip_text(strip.field, strip.value)
            frame = frames.strip_frame(strip)
            st.markdown(f"In use: {plain(text)}. Buy above, hours a month:")
            st.plotly_chart(
                strip_chart(
                    frame,
                    value=strip.value,
                    hours=found.hours_per_month,
                    ticks=ticks,
                    theme=theme,
                ),
                theme=None,
                config=CHART_CONFIG,
                key=f"own_strip_{strip.field}",
                alt=strip_alt(frame, title="Break-even", value_text=text),
            )


def _strip_text(field: str, value: float) -> tuple[str, str]:
    """Return the format of a strip's ticks, and the value in use as text."""
    if field == "resale_share":
        return "~%", f"{value:.0%}"
    if field == "electricity_usd_per_kwh":
        return "$.2f", f"${value:.3f}/kWh"
    if field == "usd_per_hour":
        return "$~s", hourly_price(value)
    return "$~s", money(value)


def _span(value: Range) -> str:
    """Return a range of money alone."""
    return span(money(value, with_range=True)) or "exact"


def _charts(found: api.Ownership, theme: Theme, *, compact: bool) -> None:
    if found.against is None:
        return
    main = found.rents[found.against]
    even = main.break_even
    st.subheader("When does owning overtake?", anchor=False)
    st.caption(
        plain(
            f"Against {main.title}. Bands hold 80 %: their inputs are assumptions. What the "
            "machines are worth at the end counts in the last month."
        )
    )
    timeline = frames.timeline_frame(found)
    st.plotly_chart(
        timeline_chart(
            timeline, months=(even.first_month, even.month, even.last_month), theme=theme
        ),
        theme=None,
        config=CHART_CONFIG,
        key="own_timeline",
        alt=timeline_alt(timeline, month=even.month),
    )
    table_below("own_timeline", lambda: frames.timeline_table(found), timeline)
    effects = frames.effects_frame(found)
    if effects.empty:
        return
    st.subheader("What matters?", anchor=False)
    st.plotly_chart(
        effects_chart(effects, theme=theme, compact=compact),
        theme=None,
        config=CHART_CONFIG,
        key="own_effects",
        alt=effects_alt(effects),
    )
    table_below("own_effects", lambda: frames.effects_table(found), effects)


def _details(found: api.Ownership) -> None:
    """Show the bill, the ways of renting, processors, inputs, terms and what is assumed."""
    bill, rents = st.columns([1, 3])
    with bill:
        st.subheader("The bill of owning", anchor=False)
        text_table(frames.bill_table(found))
    with rents:
        st.subheader("Ways of renting", anchor=False)
        if found.rents:
            text_table(frames.rents_table(found))
        else:
            st.markdown("Nothing in the catalog rents this hardware; enter a rent above.")
    _budget(found)
    with st.expander("The work: cost of a run, and the same on processors"):
        _ask_work()
        st.markdown(plain(found.workload))
        text_table(frames.processors_table(found))
    with st.expander("How the numbers are computed"):
        text_table(frames.inputs_table(found))
        terms = [*found.own.terms, *(term for rent in found.rents for term in rent.terms)]
        text_table(frames.terms_frame(terms))
    with st.expander("Assumed"):
        lines = (*found.assumptions, *found.attributions)
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))
