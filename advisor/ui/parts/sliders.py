"""Sliders beside the answer for the inputs that move it most: they write into the inputs' boxes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st

from advisor.architecture.titles import in_letters
from advisor.foundation.units import DAY_S, HOUR_S, MILLISECOND
from advisor.nouns.inputs import Reads
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.workload import Serving
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.reading import read
from advisor.ui.forms.rules import RULES
from advisor.ui.session import state

SERIES: Final = (1.0, 1.2, 1.5, 1.8, 2.0, 2.4, 3.0, 3.6, 4.0, 5.0, 6.0, 7.0, 8.0)
"""Steps of each decade."""
NARROWEST_PX: Final = 300
"""Narrower sliders stand one below the other. [px]"""
DAY_H: Final = DAY_S / HOUR_S
WORK: Final = {
    "tokens": (1e6, 1e9),
    "pretrain_tokens": (1e9, 1e13),
    "samples": (1e5, 1e9),
    "users": (1.0, 1e4),
    "at_once": (1.0, 1e3),
}
LIMIT: Final = {
    "deadline": (1.0, 200.0),
    "pretrain_deadline": (DAY_H, 365 * DAY_H),
    "speed": (5.0, 200.0),
}
"""Inputs with a slider, the first in use of each kind, with its usual ends in the case's unit."""


def steps(low: float, high: float, value: float) -> list[float]:
    """Return the steps of a slider: from ``low`` to ``high``, wider if the value lies outside.

    >>> steps(1, 5, 3.0)
    [1.0, 1.2, 1.5, 1.8, 2.0, 2.4, 3.0, 3.6, 4.0, 5.0]
    """
    low = min(low, 10.0 ** math.floor(math.log10(value)))
    high = max(high, value)
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    values = (float(f"{step}e{place}") for place in range(first, last + 1) for step in SERIES)
    return [each for each in values if low <= each <= high]


def slide(
    label: str,
    value: float,
    ends: tuple[float, float],
    *,
    key: str,
    box: str,
    take: Callable[[float], None],
    text: Callable[[float], str],
    whole: bool = False,
) -> None:
    """Draw a slider at the step nearest to a value; ``take`` puts the step chosen into its box.

    ``box``: key of the box. The value says what it is, so the label is only read aloud: another
    than that of the box. Of a box that was edited again before the slider had moved, the browser
    still sends where the slider stood: the box is right then.
    """
    options = [each for each in steps(*ends, value) if not whole or each == int(each)]
    here = min(options, key=lambda each: abs(math.log(each / value)))
    st.session_state[key] = here
    seen = {st.session_state.get(box)}

    def chosen() -> None:
        if st.session_state.get(box) in seen:
            take(st.session_state[key])
            seen.add(st.session_state.get(box))

    st.select_slider(
        f"Slide: {label}",
        options,
        key=key,
        label_visibility="collapsed",
        format_func=lambda each: text(value if each == here else each),
        on_change=chosen,
    )


def question(inputs: Inputs) -> None:
    """Draw the sliders of the question: how much work, and how fast."""
    numbers = dict(read(inputs).numbers)
    if numbers.get("speed", 1.0) is None:
        numbers["speed"] = _usual_speed(numbers.get("users"))
    found = [next((name for name in kind if numbers.get(name)), None) for kind in (WORK, LIMIT)]
    names = [name for name in found if name is not None]
    if not names:
        return
    with st.grid(2, min_column_width=NARROWEST_PX):
        for name in names:
            slide(
                RULES[name].label,
                numbers[name] or 1.0,
                (WORK | LIMIT)[name],
                key=f"slide_{name}",
                box=state.key(name),
                take=partial(_take, name),
                text=partial(_words, name),
                whole=RULES[name].kind is Reads.WHOLE,
            )


def _usual_speed(users: float | None) -> float:
    """Return the speed that an answer holds to where none is stated. [tokens/s for each user]"""
    load = {"requests_per_s": 1.0} if users is None else {"concurrency": int(users)}
    usual_ms = serving_defaults().patience.between_tokens_ms(Serving.model_validate(load))
    return 1 / (usual_ms * MILLISECOND)


def _take(name: str, value: float) -> None:
    state.take({name: _typed(name, value)})


def _words(name: str, value: float) -> str:
    """Return how a value stands above the thumb: as the question names it, for 1 user too."""
    return f"{RULES[name].label.partition(' (')[0].lower()} {_typed(name, value)}"


def _typed(name: str, value: float) -> str:
    """Return how a value of an input is typed."""
    if RULES[name].kind is not Reads.HOURS:
        return in_letters(value) if name in WORK else f"{value:g}"
    return f"{value:g} h" if value < 3 * DAY_H else f"{value / DAY_H:.3g} days"
