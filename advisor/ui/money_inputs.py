"""The inputs of the page *Rent or buy*.

Boxes below the answer are read from the session before they are drawn: what was entered last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from advisor import api
from advisor.architecture.presets import list_presets
from advisor.ui import state

DEFAULT_CARD: Final = "h100-sxm"
DEFAULT_COUNT: Final = 8
DEFAULT_HOURS: Final = 200
DEFAULT_PLACE: Final = "usa"
DEFAULT_MODEL: Final = "qwen3-0.6b"
"""Small enough for every card; the work decides the cost of a run alone."""
DEFAULT_WORK: Final = "qlora"
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
MAIN: Final = {
    "purchase_usd": ("Price of one GPU, USD", 100.0),
    "usd_per_hour": ("Rent of all, USD/h", 0.1),
    "electricity_usd_per_kwh": ("Electricity, USD/kWh", 0.01),
    "resale_share": ("Worth at the end, %", 5.0),
}
"""Field -> title and step of the boxes with a strip."""
FURTHER: Final = {
    "host_share": ("Rest of the machine, % of cards", 5.0),
    "host_usd": ("Rest of a machine, at least, USD", 100.0),
    "network_share": ("Network, % of cards", 5.0),
    "colocation_usd_per_kw_month": ("Colocation, USD/kW a month", 10.0),
    "staff_usd_per_machine_month": ("Staff, USD/machine a month", 10.0),
    "host_power_share": ("Power of the rest, % of cards", 5.0),
    "load_share": ("Draw in use, % of rated", 5.0),
    "idle_share": ("Draw unused, % of rated", 5.0),
    "pue": ("PUE", 0.05),
    "discount_rate": ("Cost of capital, % a year", 1.0),
    "rent_change": ("Change of rents, % a year", 1.0),
    "interruptions_per_hour": ("Spot interruptions an hour", 0.01),
    "api_usd_per_million": ("Hosted model, USD per million", 0.1),
    "usd_per_eur": ("USD for one EUR", 0.01),
}
BUDGET: Final = {
    "budget_usd": ("Purchase budget, USD", 1000.0),
    "power_limit_w": ("Power limit, W", 100.0),
    "slots": ("Slots", 1.0),
}
RENTING: Final = frozenset(
    {"usd_per_hour", "rent_change", "interruptions_per_hour", "api_usd_per_million"}
)
POSITIVE: Final = frozenset({"usd_per_hour", "purchase_usd", "usd_per_eur"})
"""Nothing is no price and no rate."""
LIMITS: Final = frozenset({"usd_per_eur"})
FALLING: Final = frozenset({"rent_change"})
"""Changes, which may be below nothing."""

Section = dict[str, float | int | str]
Slots = dict[str, st.delta_generator.DeltaGenerator]


@dataclass(frozen=True)
class Question:
    """What the page asks the engine."""

    card: str
    count: int
    model: str
    work: str
    owning: Section
    renting: Section
    limits: Section


def key(field: str) -> str:
    """Return the key of the box of a field."""
    return f"own_{field}"


def ask() -> Slots:
    """Show the main inputs; return where the strips go."""
    names, places = state.accelerator_names(), state.place_names()
    cards = list(names)
    slots = {}
    with st.container(border=True):
        first = st.columns([3, 1, 1, 1, 2])
        first[0].selectbox(
            "GPU",
            cards,
            index=cards.index(DEFAULT_CARD),
            format_func=names.__getitem__,
            key=key("card"),
            bind="query-params",
        )
        first[1].number_input(
            "How many", 1, 4096, DEFAULT_COUNT, key=key("count"), bind="query-params"
        )
        first[2].number_input(
            "Hours a month", 1, 730, DEFAULT_HOURS, 10, key=key("hours"), bind="query-params"
        )
        first[3].selectbox(
            "Horizon",
            list(YEARS),
            index=2,
            format_func=YEARS.__getitem__,
            key=key("months"),
            bind="query-params",
        )
        first[4].selectbox(
            "Place",
            list(places),
            index=None,
            format_func=places.__getitem__,
            key=key("place"),
            placeholder=places[DEFAULT_PLACE],
            bind="query-params",
        )
        for column, field in zip(st.columns(len(MAIN)), MAIN, strict=True):
            with column:
                _box(field, *MAIN[field])
                slots[field] = st.container()
    return slots


def question() -> Question:
    """Return what the boxes hold; those below the answer as they were last drawn."""

    def held(field: str) -> Any:
        return st.session_state.get(key(field))

    owning, renting, limits = _given()
    owning |= {
        "hours_per_month": float(held("hours")),
        "months": held("months"),
        "place": held("place") or DEFAULT_PLACE,
    }
    return Question(
        card=held("card"),
        count=int(held("count")),
        model=held("model") or DEFAULT_MODEL,
        work=held("work") or DEFAULT_WORK,
        owning=owning,
        renting=renting,
        limits=limits,
    )


def ask_work() -> None:
    """Show the boxes of the work."""
    columns = st.columns(2)
    models = list(list_presets())
    columns[0].selectbox(
        "Model", models, index=models.index(DEFAULT_MODEL), key=key("model"), bind="query-params"
    )
    columns[1].selectbox(
        "Task",
        list(WORKS),
        format_func=WORK_TITLES.__getitem__,
        key=key("work"),
        bind="query-params",
    )


def ask_budget() -> None:
    """Show the boxes of a purchase budget."""
    for column, field in zip(st.columns(len(BUDGET)), BUDGET, strict=True):
        with column:
            _box(field, *BUDGET[field], empty="none")


def ask_further() -> None:
    """Show the remaining assumptions, four abreast."""
    changed = sum(st.session_state.get(key(field)) is not None for field in FURTHER)
    title = "More assumptions" + (f" ({changed} changed)" if changed else "")
    with st.expander(title, key="own_further"):
        fields = list(FURTHER)
        for start in range(0, len(fields), 4):
            for column, field in zip(st.columns(4), fields[start : start + 4], strict=False):
                with column:
                    _box(field, *FURTHER[field])


def _box(field: str, title: str, step: float, *, empty: str = "default") -> None:
    percent = "%" in title
    st.number_input(
        title,
        min_value=-90.0 if field in FALLING else 1.0 if field in {"pue", *BUDGET} else 0.0,
        max_value=1000.0 if percent else None,
        value=None,
        step=step,
        placeholder=empty,
        key=key(field),
        bind="query-params",
    )


def _given() -> tuple[Section, Section, Section]:
    """Return what was entered: shares are typed in percent."""
    owning: Section = {}
    renting: Section = {}
    limits: Section = {}
    for field, (title, _) in (MAIN | FURTHER | BUDGET).items():
        value = st.session_state.get(key(field))
        if value is None or (value == 0 and field in POSITIVE):
            continue
        number = value / 100 if "%" in title else value
        section = renting if field in RENTING else limits if field in LIMITS else owning
        section[field] = int(number) if field == "slots" else number
    return owning, renting, limits


@st.cache_data(show_spinner=False, max_entries=32)
def answer(asked: Question) -> api.Ownership:
    """Return the comparison, computed once for the same question."""
    return api.own(
        {
            "model": {"preset": asked.model},
            "workload": WORKS[asked.work],
            "hardware": {"accelerator": asked.card, "count": asked.count},
            "owning": asked.owning,
            "renting": asked.renting,
            "limits": asked.limits,
        }
    )
