"""The inputs of the page *Rent or buy*."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from advisor import api
from advisor.architecture.presets import list_presets
from advisor.ui import address, state
from advisor.ui.kept import kept
from advisor.ui.links import Page, choice, number

DEFAULT_CARD: Final = "h100-sxm"
DEFAULT_COUNT: Final = 8
DEFAULT_HOURS: Final = 200
DEFAULT_MONTHS: Final = 36
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

MOST_CARDS: Final = 4096
MOST_HOURS: Final = 730
MOST_USD: Final = 1e12
"""More is no price, no power and no rate."""

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


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    fields = {
        "card": choice(key("card"), "GPU", DEFAULT_CARD, state.accelerator_names),
        "count": number(key("count"), "How many", DEFAULT_COUNT, 1, MOST_CARDS),
        "hours": number(key("hours"), "Hours a month", DEFAULT_HOURS, 1, MOST_HOURS),
        "months": choice(key("months"), "Horizon", DEFAULT_MONTHS, lambda: YEARS),
        "place": choice(key("place"), "Place", None, state.place_names),
        "model": choice(
            key("model"), "Model", DEFAULT_MODEL, lambda: {name: name for name in list_presets()}
        ),
        "work": choice(key("work"), "Task", DEFAULT_WORK, lambda: WORK_TITLES),
    }
    boxes = {
        field: number(key(field), title, None, *_bounds(field, title))
        for field, (title, _) in (MAIN | BUDGET | FURTHER).items()
    }
    return Page("rent_or_buy", fields | boxes)


def ask() -> Slots:
    """Show the main inputs; return where the strips go."""
    names, places = state.accelerator_names(), state.place_names()
    slots = {}
    with st.container(border=True):
        first = st.columns([3, 1, 1, 1, 2])
        with first[0]:
            _select("card", "GPU", names)
        first[1].number_input("How many", 1, MOST_CARDS, key=key("count"), persist_state="session")
        first[2].number_input(
            "Hours a month", 1, MOST_HOURS, step=10, key=key("hours"), persist_state="session"
        )
        with first[3]:
            _select("months", "Horizon", YEARS)
        with first[4]:
            _select("place", "Place", places, placeholder=places[DEFAULT_PLACE])
        for column, field in zip(st.columns(len(MAIN)), MAIN, strict=True):
            with column:
                _box(field, *MAIN[field])
                slots[field] = st.container()
    return slots


def question() -> Question:
    """Return what the boxes hold, drawn or not."""
    held: dict[str, Any] = address.values(page())
    owning, renting, limits = _given(held)
    owning |= {
        "hours_per_month": float(held["hours"]),
        "months": held["months"],
        "place": held["place"] or DEFAULT_PLACE,
    }
    return Question(
        card=held["card"],
        count=int(held["count"]),
        model=held["model"],
        work=held["work"],
        owning=owning,
        renting=renting,
        limits=limits,
    )


def ask_work() -> None:
    """Show the boxes of the work."""
    columns = st.columns(2)
    with columns[0]:
        _select("model", "Model", {name: name for name in list_presets()})
    with columns[1]:
        _select("work", "Task", WORK_TITLES)


def ask_budget() -> None:
    """Show the boxes of a purchase budget."""
    for column, field in zip(st.columns(len(BUDGET)), BUDGET, strict=True):
        with column:
            _box(field, *BUDGET[field], empty="none")


def ask_further() -> None:
    """Show the remaining assumptions, four abreast."""
    held = address.values(page())
    changed = sum(held[field] is not None for field in FURTHER)
    title = "More assumptions" + (f" ({changed} changed)" if changed else "")
    with st.expander(title, key="own_further"):
        fields = list(FURTHER)
        for start in range(0, len(fields), 4):
            for column, field in zip(st.columns(4), fields[start : start + 4], strict=False):
                with column:
                    _box(field, *FURTHER[field])


def _select(
    field: str, title: str, titles: Mapping[Any, str], *, placeholder: str | None = None
) -> None:
    st.selectbox(
        title,
        list(titles),
        index=None if placeholder else 0,
        format_func=lambda value: titles.get(value, value),
        key=key(field),
        placeholder=placeholder,
        persist_state="session",
    )


def _bounds(field: str, title: str) -> tuple[float, float]:
    low = -90.0 if field in FALLING else 1.0 if field in {"pue", *BUDGET} else 0.0
    return low, 1000.0 if "%" in title else MOST_USD


def _box(field: str, title: str, step: float, *, empty: str = "default") -> None:
    low, high = _bounds(field, title)
    st.number_input(
        title,
        min_value=low,
        max_value=high,
        value=None,
        step=step,
        placeholder=empty,
        key=key(field),
        persist_state="session",
    )


def _given(held: Mapping[str, Any]) -> tuple[Section, Section, Section]:
    """Return what was entered: shares are typed in percent."""
    owning: Section = {}
    renting: Section = {}
    limits: Section = {}
    for field, (title, _) in (MAIN | FURTHER | BUDGET).items():
        value = held[field]
        if value is None or (value == 0 and field in POSITIVE):
            continue
        number = value / 100 if "%" in title else value
        section = renting if field in RENTING else limits if field in LIMITS else owning
        section[field] = int(number) if field == "slots" else number
    return owning, renting, limits


def answer(asked: Question) -> api.Ownership:
    """Return the comparison, computed once for the same question."""
    case = {
        "model": {"preset": asked.model},
        "workload": WORKS[asked.work],
        "hardware": {"accelerator": asked.card, "count": asked.count},
        "owning": asked.owning,
        "renting": asked.renting,
        "limits": asked.limits,
    }
    return kept(lambda: api.own(case), "own", asked)
