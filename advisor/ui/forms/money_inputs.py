"""The inputs of the page *Rent or buy*."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from advisor import api
from advisor.architecture.presets import list_presets
from advisor.nouns.case import case_inputs
from advisor.nouns.inputs import Declared, Reads, Task
from advisor.ui.session import address, state
from advisor.ui.session.kept import kept
from advisor.ui.session.links import Page, choice, number

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
    Task.QLORA: "Fine-tune, QLoRA",
    Task.LORA: "Fine-tune, LoRA",
    Task.FULL: "Fine-tune, full",
    Task.SERVE: "Serve",
}
MAIN: Final = (
    "owning.purchase_usd",
    "renting.usd_per_hour",
    "owning.electricity_usd_per_kwh",
    "owning.resale_share",
)
"""Fields whose boxes have a strip."""
BUDGET: Final = ("owning.budget_usd", "owning.power_limit_w", "owning.slots")
ALONE: Final = ("owning.hours_per_month", "owning.months", "owning.place")
"""Fields with another control than a box of the kind below."""
FURTHER: Final = tuple(
    path
    for path, item in case_inputs().items()
    if item.input and item.input.label and path not in (*MAIN, *BUDGET, *ALONE)
    if path.startswith(("owning.", "renting.")) or path == "limits.usd_per_eur"
)
BOXES: Final = (*MAIN, *BUDGET, *FURTHER)
STEPS: Final = {
    "purchase_usd": 100.0,
    "usd_per_hour": 0.1,
    "electricity_usd_per_kwh": 0.01,
    "host_usd": 100.0,
    "pue": 0.05,
    "colocation_usd_per_kw_month": 10.0,
    "staff_usd_per_machine_month": 10.0,
    "discount_rate": 1.0,
    "rent_change": 1.0,
    "interruptions_per_hour": 0.01,
    "api_usd_per_million": 0.1,
    "usd_per_eur": 0.01,
    "budget_usd": 1000.0,
    "power_limit_w": 100.0,
}
"""What one click adds, where it is neither 1 nor five percent."""

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
    count, hours = case_inputs()["hardware.count"], case_inputs()["owning.hours_per_month"]
    fields = {
        "card": choice(key("card"), "GPU", DEFAULT_CARD, state.accelerator_names),
        "count": number(key("count"), count.title, DEFAULT_COUNT, 1, count.high),
        "hours": number(key("hours"), hours.title, DEFAULT_HOURS, 1, hours.high),
        "months": choice(key("months"), "Horizon", DEFAULT_MONTHS, lambda: YEARS),
        "place": choice(key("place"), "Place", None, state.place_names),
        "model": choice(
            key("model"), "Model", DEFAULT_MODEL, lambda: {name: name for name in list_presets()}
        ),
        "work": choice(key("work"), "Task", DEFAULT_WORK, lambda: WORKS),
    }
    boxes = {
        item.name: number(key(item.name), _title(item), None, *_bounds(item))
        for item in map(case_inputs().__getitem__, BOXES)
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
        for column, field, path, step in (
            (first[1], "count", "hardware.count", 1),
            (first[2], "hours", "owning.hours_per_month", 10),
        ):
            item = case_inputs()[path]
            most = int(item.high or 0)
            column.number_input(
                item.title, 1, most, step=step, key=key(field), persist_state="session"
            )
        with first[3]:
            _select("months", "Horizon", YEARS)
        with first[4]:
            _select("place", "Place", places, placeholder=places[DEFAULT_PLACE])
        for column, path in zip(st.columns(len(MAIN)), MAIN, strict=True):
            with column:
                _box(path)
                slots[case_inputs()[path].name] = st.container()
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
        _select("work", "Task", WORKS)


def ask_budget() -> None:
    """Show the boxes of a purchase budget."""
    for column, path in zip(st.columns(len(BUDGET)), BUDGET, strict=True):
        with column:
            _box(path, empty="none")


def ask_further() -> None:
    """Show the remaining assumptions, four abreast."""
    held = address.values(page())
    changed = sum(held[case_inputs()[path].name] is not None for path in FURTHER)
    title = "More assumptions" + (f" ({changed} changed)" if changed else "")
    with st.expander(title, key="own_further"):
        for start in range(0, len(FURTHER), 4):
            for column, path in zip(st.columns(4), FURTHER[start : start + 4], strict=False):
                with column:
                    _box(path)


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


def _title(item: Declared) -> str:
    return f"{item.told.label}, {item.told.unit}" if item.told.unit else item.told.label


def _scale(item: Declared) -> float:
    """Return what the page shows of 1: shares are typed in percent."""
    return 100.0 if item.told.unit.startswith("%") else 1.0


def _bounds(item: Declared) -> tuple[float, float | None]:
    low, high = item.low or 0.0, item.high
    return low * _scale(item), None if high is None else high * _scale(item)


def _box(path: str, *, empty: str = "default") -> None:
    item = case_inputs()[path]
    low, high = _bounds(item)
    st.number_input(
        _title(item),
        min_value=float(low),
        max_value=None if high is None else float(high),
        value=None,
        step=STEPS.get(item.name, 5.0 if _scale(item) > 1 else 1.0),
        placeholder=empty,
        key=key(item.name),
        persist_state="session",
    )


def _given(held: Mapping[str, Any]) -> tuple[Section, Section, Section]:
    """Return what was entered; a box at a bound that no value reaches says nothing."""
    sections: dict[str, Section] = {"owning": {}, "renting": {}, "limits": {}}
    for path in BOXES:
        item = case_inputs()[path]
        value = held[item.name]
        if value is not None and not (item.above and value == item.low):
            number = value / _scale(item)
            whole = item.reads is Reads.WHOLE
            sections[path.partition(".")[0]][item.name] = int(number) if whole else number
    return sections["owning"], sections["renting"], sections["limits"]


def answer(asked: Question) -> api.Ownership:
    """Return the comparison, computed once for the same question."""
    case = {
        "model": {"preset": asked.model},
        "workload": Task(asked.work).workload,
        "hardware": {"accelerator": asked.card, "count": asked.count},
        "owning": asked.owning,
        "renting": asked.renting,
        "limits": asked.limits,
    }
    return kept(lambda: api.own(case), "own", asked)
