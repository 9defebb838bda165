"""The inputs of the page *Rent or buy*."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import streamlit as st

from advisor import api
from advisor.foundation.units import HOURS_PER_MONTH, trimmed
from advisor.nouns.case import case_inputs
from advisor.nouns.inputs import Declared, Reads, Task
from advisor.nouns.money import TRAINING_HOURS_PER_MONTH
from advisor.ui.forms import controls
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.rules import OWN
from advisor.ui.parts.widgets import box, folded
from advisor.ui.session import address, state
from advisor.ui.session.kept import kept_for
from advisor.ui.session.links import Page, choice, number

DEFAULT_MONTHS: Final = 36
DEFAULT_PLACE: Final = "usa"
CHOSEN_FOR_YOU: Final = "The cheapest that does the work"
YEARS: Final = {months: f"{months // 12} year{'s' * (months > 12)}" for months in range(12, 61, 12)}
CALLED: Final = {"own_accelerator": "card", "own_count": "count"}
"""Names that this page's address has for inputs of the question."""
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
    if path.startswith(("owning.", "renting."))
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
    "budget_usd": 1000.0,
    "power_limit_w": 100.0,
}
"""What one click adds, where it is neither 1 nor five percent."""

Section = dict[str, float | int | str]


@dataclass(frozen=True)
class Question:
    """What the page asks the engine."""

    inputs: Inputs
    owning: Section
    renting: Section


def key(field: str) -> str:
    """Return the key of the box of a field."""
    return f"own_{field}"


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    hours = case_inputs()["owning.hours_per_month"]
    fields = {
        "hours": replace(
            number(key("hours"), hours.title, 1, 1, int(hours.high or 0)), default=None
        ),
        "months": choice(key("months"), "Horizon", DEFAULT_MONTHS, lambda: YEARS),
        "place": choice(key("place"), "Place", None, state.place_names),
    }
    boxes = {
        item.name: number(key(item.name), _title(item), None, *_bounds(item))
        for item in map(case_inputs().__getitem__, BOXES)
    }
    return state.beside("rent_or_buy", fields | boxes, CALLED)


def ask() -> controls.Slots:
    """Show the main inputs; return where boxes with strips, and what is wrong, go."""
    slots: controls.Slots = {}
    with st.container(border=True):
        known = bool(state.current(page()).own_accelerator)
        card, *counted, hours, horizon, place = st.columns([3, *[1] * known, 1.5, 1, 2])
        controls.field("own_accelerator", slots, card, blank=CHOSEN_FOR_YOU)
        for column in counted:
            controls.field("own_count", slots, column)
        with hours:
            box(page(), "hours", step=10, placeholder=_usual_hours())
        with horizon:
            box(page(), "months")
        with place:
            box(page(), "place", placeholder=state.place_names()[DEFAULT_PLACE])
        for column, path in zip(st.columns(len(MAIN)), MAIN, strict=True):
            slots[case_inputs()[path].name] = column
    return slots


def ask_main(slots: controls.Slots, found: api.Ownership | None) -> None:
    """Show the boxes that have a strip, once it is known what the empty ones stand for."""
    for path in MAIN:
        with slots[case_inputs()[path].name]:
            _box(path, found)


def _usual_hours() -> str:
    """Return the hours of a month where the reader states none; or that runs decide."""
    asked = state.current(page())
    if asked.task == Task.SERVE:
        return f"{HOURS_PER_MONTH:g}"
    return f"{TRAINING_HOURS_PER_MONTH:g}" if asked.own_accelerator else "by runs"


def question(inputs: Inputs) -> Question:
    """Return what the boxes hold, drawn or not, beside the question of all pages."""
    held: dict[str, Any] = address.values(page())
    owning, renting = _given(held)
    if held["hours"] is not None:
        owning["hours_per_month"] = float(held["hours"])
    owning |= {"months": held["months"], "place": held["place"] or DEFAULT_PLACE}
    return Question(inputs, owning, renting)


def usual(inputs: Inputs) -> Question:
    """Return what the page asks of a question while nothing is entered there."""
    return Question(inputs, {"months": DEFAULT_MONTHS, "place": DEFAULT_PLACE}, {})


def take(field: str, value: float) -> None:
    """Put a value into the box of a field; a callback."""
    st.session_state[key(field)] = value


def ask_budget() -> None:
    """Show the boxes of a purchase budget."""
    for column, path in zip(st.columns(len(BUDGET)), BUDGET, strict=True):
        with column:
            _box(path, empty="none")


def ask_further(found: api.Ownership | None) -> None:
    """Show the remaining assumptions, four abreast."""
    held = address.values(page())
    changed = sum(held[case_inputs()[path].name] is not None for path in FURTHER)
    # A title that changes would fold the part.
    place = folded("More assumptions", key="own_further", icon="tune")
    if changed:
        st.caption(f"More assumptions: {changed} changed")
    if not place.open:
        return
    with place:
        for start in range(0, len(FURTHER), 4):
            for column, path in zip(st.columns(4), FURTHER[start : start + 4], strict=False):
                with column:
                    _box(path, found)


def _title(item: Declared) -> str:
    return f"{item.told.label}, {item.told.unit}" if item.told.unit else item.told.label


def _scale(item: Declared) -> float:
    """Return what the page shows of 1: shares are typed in percent."""
    return 100.0 if item.told.unit.startswith("%") else 1.0


def _bounds(item: Declared) -> tuple[float, float | None]:
    low, high = float(item.low or 0), item.high
    return low * _scale(item), None if high is None else float(high) * _scale(item)


def _box(path: str, found: api.Ownership | None = None, *, empty: str = "") -> None:
    """Show a box; an empty one shows what the answer takes, and its unit."""
    item = case_inputs()[path]
    step = STEPS.get(item.name, 5.0 if _scale(item) > 1 else 1.0)
    taken = {} if found is None else {one.field: one.value for one in found.strips}
    taken |= {one.field: one.value.expected for one in found.inputs} if found else {}
    value = taken.get(item.name, item.default)
    if isinstance(value, float | int):
        empty = f"{trimmed(value * _scale(item), 4)} {item.told.unit}".strip()
    box(page(), item.name, step=step, placeholder=empty or item.told.blank or "default")


def _given(held: Mapping[str, Any]) -> tuple[Section, Section]:
    """Return what was entered; a box at a bound that no value reaches says nothing."""
    sections: dict[str, Section] = {"owning": {}, "renting": {}}
    for path in BOXES:
        item = case_inputs()[path]
        value = held[item.name]
        if value is not None and not (item.above and value == item.low):
            number = value / _scale(item)
            whole = item.reads is Reads.WHOLE
            sections[path.partition(".")[0]][item.name] = int(number) if whole else number
    return sections["owning"], sections["renting"]


def answer(asked: Question) -> api.Ownership:
    """Return the comparison, computed once for the same question."""
    more: dict[str, object] = {"owning": asked.owning, "renting": asked.renting}
    if asked.inputs.own_accelerator or asked.inputs.rent == OWN:
        card, count = state.card_of(asked.inputs)
        more["hardware"] = {"accelerator": card, "count": count}
    case = state.asked_case(asked.inputs, **more)
    return kept_for(case, api.own)
