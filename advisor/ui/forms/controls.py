"""The controls, in the order in which a person decides, and their errors beside them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.architecture.config.fields import MAX_CONFIG_BYTES, load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.parameter_count import whole_shape
from advisor.architecture.published_models import nearest_published
from advisor.architecture.titles import in_letters
from advisor.errors import InputError
from advisor.frames.catalog import shapes_table
from advisor.nouns.case import AssumedShape
from advisor.nouns.inputs import Reads
from advisor.ui.forms.asked import MAIN_ROW
from advisor.ui.forms.cases import parameters_of, shape_of
from advisor.ui.forms.inputs import DEFAULTS, EXAMPLE_CARD, FROM_CONFIG, FROM_COUNT, Inputs
from advisor.ui.forms.reading import (
    MAX_KEPT_CHARACTERS,
    complaint,
    listed,
    model_problem,
    read,
    short_config,
    used,
    value_title,
)
from advisor.ui.forms.rules import OWN, RULES, SHAPE
from advisor.ui.parts.widgets import folded, select
from advisor.ui.parts.wording import plain
from advisor.ui.session import state
from advisor.ui.session.uploads import uploader

NARROWEST_PX: Final = 155
"""Width at which fields begin to share a row with fewer others: two on a phone. [px]"""
ADVANCED_COLUMNS: Final = 4
SHAPE_TITLE: Final = "Assumed shape: published models near this count, and fields to edit"
SHOWN_PUBLISHED: Final = 5

INSTEAD: Final = frozenset(
    name for name, rules in RULES.items() if rules.kind is not Reads.CHOICE and not rules.several
) - {"config"}
"""Fields whose last good value can be named where a wrong one stands."""

Slots = dict[str, DeltaGenerator]
"""Below each field, the place for a sentence about it."""


def controls(inputs: Inputs, *, elsewhere: Collection[str] = ()) -> Slots:
    """Draw the main row, what belongs to its choices, and the advanced fields if opened.

    A page has those ``elsewhere`` in another place.
    """
    slots: Slots = {}
    row = [name for name in MAIN_ROW if used(name, inputs) and name not in elsewhere]
    with st.container(key="controls"):
        _fields(row, slots, columns=len(row), cells=False)
        slots |= dict.fromkeys(row, st.container())  # a cell is too narrow for a sentence
        if inputs.model == FROM_CONFIG:
            _config(slots)
        elif inputs.model == FROM_COUNT:
            field("parameters", slots, st.container())
        if used("layers", inputs):
            _shape(inputs, slots)
        if inputs.rent == OWN and "own_accelerator" not in elsewhere:
            _fields(("own_accelerator", "own_count"), slots, columns=2)
    _advanced(inputs, slots, elsewhere)
    return slots


def show_problems(
    problems: Mapping[str, str], inputs: Inputs | None, entered: Inputs, slots: Slots
) -> None:
    """Say what is wrong with each field below it, and what the answer rests on instead.

    ``problems`` holds sentences by field; those of no field in sight come first. ``inputs`` are
    those behind the answer, if there is one, ``entered`` those in the fields, ``slots`` as
    `controls` gives.
    """
    wrong = {name: getattr(entered, name) for name in problems if name}
    # Where more than the wrong fields differs, the answer is to another question.
    same = inputs is not None and replace(inputs, **wrong) == entered
    for name, problem in problems.items():
        text = complaint(name, problem) if name else problem
        instead = value_title(name, getattr(inputs, name, "")) if name in INSTEAD else ""
        if instead and same:
            text += f" The answer is for {instead}."
        elif inputs is not None and (not same or (name and name not in INSTEAD)):
            worked = "the page's example" if inputs == DEFAULTS else "the last inputs that worked"
            text += f" The answer is for {worked}."
        if name == "config" and not entered.config.strip():
            slots.get(name, st).info(plain(text), icon=":material/content_paste:")
        else:
            slots.get(name, st).error(plain(text), icon=":material/error:")


def _fields(names: Sequence[str], slots: Slots, *, columns: int, cells: bool = True) -> None:
    """Draw fields side by side; in ``cells``, what is wrong with each has room below it."""
    grid = st.grid(columns, min_column_width=NARROWEST_PX)
    for name in names:
        if name == "model":  # the longest names
            field(name, slots, grid.cell(column_span=2))
        else:
            field(name, slots, grid.cell() if cells else grid)


def field(name: str, slots: Slots, place: DeltaGenerator, *, blank: str | None = None) -> None:
    """Draw one field by its rules in a place of its own, which holds a sentence about it too.

    ``blank`` is what it means when empty, if not the rules'. Of a card, it names what stands in.
    """
    slots[name] = place
    with place:
        _box(name, blank)


def _box(name: str, blank: str | None) -> None:
    rules = RULES[name]
    key = state.key(name)
    if name == "model":
        titles = state.model_titles(st.session_state[state.key("network")])
        _open_select(name, titles)
    elif name == "own_accelerator":
        own = {item: f"{item} (measured)" for item in st.session_state.get(state.MEASURED, {})}
        titles = own | state.card_titles()
        none = blank or f"{titles[EXAMPLE_CARD]} (example)"
        _open_select(name, {"": none} | titles)
    elif rules.kind is Reads.CHOICE and not rules.several:
        changed = {"network": state.open_network, "task": state.open_work}
        select(rules.label, rules.options, key=key, on_change=changed.get(name))
    elif rules.several:
        titles = dict(rules.options)
        if name == "providers":
            titles = {item: item for item in state.provider_names()}
        elif not titles:
            titles = state.card_titles()
        st.multiselect(
            rules.label,
            list(titles),
            key=key,
            format_func=lambda value: titles.get(value, value),
            placeholder="All",
            persist_state="session",
        )
    else:
        st.text_input(
            rules.label,
            key=key,
            placeholder=blank or rules.blank or None,
            help=rules.explained or None,
            persist_state="session",
        )


def _open_select(name: str, titles: Mapping[str, str]) -> None:
    """Ask for a name of a list, or for one that is typed."""
    key = state.key(name)
    select(
        RULES[name].label,
        titles,
        key=key,
        accept_new_options=True,
        help=RULES[name].explained or None,
        on_change=lambda: _take_listed(key, name, titles),
    )


def _take_listed(box: str, name: str, titles: Mapping[str, str]) -> None:
    """Put a listed name in place of a typed part of it; a callback.

    Enter takes what was typed, where a reader expects the first line of the list below it.
    """
    typed = st.session_state[box]
    if name != "model" or model_problem(typed):
        st.session_state[box] = listed(typed, titles)
    if name == "model":
        state.open_work()


def _shape(inputs: Inputs, slots: Slots) -> None:
    """The shape behind a bare parameter count: published models near it, and fields to edit."""
    part = folded(SHAPE_TITLE, key="shape", icon="schema")
    numbers = read(inputs).numbers
    count = parameters_of(inputs, numbers)
    if not part.open or count is None:
        return
    with part:
        try:
            computed = whole_shape(count, AssumedShape.model_validate(shape_of(inputs, numbers)))
        except InputError:  # told at its field, with the answer
            computed = None
        # A plain table of eight columns would scroll on a phone beyond the keyboard's reach.
        st.dataframe(
            shapes_table(count, computed, nearest_published(count, SHOWN_PUBLISHED)),
            hide_index=True,
            width="stretch",
        )
        st.caption("Published dense models, nearest first. Edit what you know; the rest follows.")
        grid = st.grid(ADVANCED_COLUMNS, min_column_width=NARROWEST_PX)
        for name, case_field in SHAPE.items():
            value = getattr(computed, case_field) if computed else None
            blank = f"{value:,}" if isinstance(value, int) else None
            field(name, slots, grid.cell(), blank=blank)


def _config(slots: Slots) -> None:
    """A config.json, pasted or uploaded; an upload replaces the text."""
    left, right = st.columns((3, 2))
    with left:
        st.text_area(
            "Paste the model's config.json",
            key=state.key("config"),
            height=110,
            max_chars=MAX_KEPT_CHARACTERS,
            placeholder='{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, …}',
            persist_state="session",
        )
        slots["config"] = st.container()
        with slots["config"]:
            _read_back(st.session_state.get(state.key("config")) or "")
    with right:
        uploader("Or upload it", key="config_file", most=MAX_CONFIG_BYTES, take=_take_config)


def _read_back(text: str) -> None:
    """Say what a pasted config.json was read as; what is wrong with one is told elsewhere."""
    try:
        read_as = architecture_from_config(load_config_text(text))
    except InputError:
        return
    parameters = in_letters(read_as.total_parameters)
    layers = f"{read_as.num_hidden_layers:,} layers"
    st.markdown(plain(f"Read as: {read_as.family}, {parameters} parameters, {layers}."))


def _take_config(_: str, content: bytes) -> None:
    """Put the text of an uploaded file into the text field."""
    st.session_state[state.key("config")] = short_config(content)


def _advanced(inputs: Inputs, slots: Slots, elsewhere: Collection[str]) -> None:
    part = folded("Advanced", key="advanced", icon="tune")
    if part.open:
        names = [
            name
            for name, rules in RULES.items()
            if rules.advanced and used(name, inputs) and name not in elsewhere
        ]
        with part:
            st.caption("A blank field takes a default, which the answer states, or no limit.")
            _fields(names, slots, columns=ADVANCED_COLUMNS)
    changed = state.changed_advanced(inputs)
    if changed:
        # Not in the expander's label: a new label would close it under the user's hands.
        with st.container(horizontal=True, vertical_alignment="center"):
            labels = ", ".join(RULES[name].label for name in changed)
            st.markdown(f"Advanced ({len(changed)} changed): {plain(labels)}", width="content")
            st.button("Reset", icon=":material/restart_alt:", on_click=state.reset_advanced)
