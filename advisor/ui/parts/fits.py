"""The parts of the page *What fits my GPU*."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import streamlit as st

from advisor import api
from advisor.architecture.presets import find_preset
from advisor.architecture.titles import model_title
from advisor.charts.memory import fits_chart, fits_finding
from advisor.errors import InputError
from advisor.foundation.formatting import duration, memory_against, milliseconds, rate
from advisor.foundation.formatting import memory as memory_size
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.frames.machine import fits_memory_frame, fits_table, training_fits_table
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_sent
from advisor.nouns.inputs import Task
from advisor.nouns.workload import Serving
from advisor.ui.forms import controls
from advisor.ui.forms.asked import work_words
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.reading import read
from advisor.ui.forms.rules import OWN
from advisor.ui.parts import memory, question, remedies
from advisor.ui.parts.chart_view import draw
from advisor.ui.parts.results import status
from advisor.ui.parts.widgets import box, select, show_mistake
from advisor.ui.parts.wording import list_table, plain
from advisor.ui.session import state
from advisor.ui.session.kept import kept, kept_for
from advisor.ui.session.links import Page, choice, flag

ANSWER_TOKENS: Final = 256
"""Of the context, what is generated; memory does not depend on it."""
CALLED: Final = {"own_accelerator": "card", "own_count": "count", "users": "requests"}
"""Names that this page's address has for inputs of the question."""
CONTEXT, LINKED_CONTEXT = "fits_context_shown", "fits_context"
"""Session's keys of the context in sight, and of one that a link states."""
CURVE_MODEL: Final = "fits_context_model"
USUAL_LENGTHS: Final = Serving().input_tokens + Serving().output_tokens
USUAL_CONTEXT: Final = 8192
"""Of a question that is not about serving, as on the command line. [tokens]"""
NUMBER_FORMATS: Final = (
    "Weights: the largest format that fits; of files for llama.cpp, MLX and ExLlama the largest at "
    "the usual speed (5 tokens/s, or 20 for several users), or the smallest usual one. bf16 has 16 "
    "bits, fp8 8, w4a16 4 (AWQ, GPTQ), mxfp4 4 as published; q8_0 to q3_k_m are GGUF files for "
    "llama.cpp. To spare: with one request "
    "of the chosen context. Tokens/s: of that request alone. Loss of quality: a comparison with "
    "the model's own weights, measured on the model in brackets."
)
CONTEXTS: Final = {tokens: f"{tokens:,}" for tokens in (2**power for power in range(11, 18))}
"""Context [tokens] -> title."""


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    own = {
        "context": choice(LINKED_CONTEXT, "Context", None, lambda: CONTEXTS),
        "all": flag("fits_all", "Every known model"),
        "curve": choice(CURVE_MODEL, "Model of the chart", None, state.preset_titles),
    }
    return state.beside("fits", own, CALLED)


def ask() -> tuple[Inputs, api.Fits]:
    """Show the inputs; return the question and what fits."""
    inputs = question.asked(
        page(), title="What fits", heading="What fits my GPU?", elsewhere=CALLED.keys()
    )
    if linked := st.session_state.get(LINKED_CONTEXT):  # as older links say it
        st.session_state[LINKED_CONTEXT] = None
        _take_context(linked)
        st.rerun()
    slots: controls.Slots = {}
    usable, problems = _usable(inputs)
    numbers = read(usable).numbers
    context = int((numbers["prompt"] or 0) + (numbers["answer"] or 0))
    if inputs.task != Task.SERVE and context == USUAL_LENGTHS:
        context = USUAL_CONTEXT
    with st.container(border=True):
        grid = st.grid(5, min_column_width=controls.NARROWEST_PX)
        controls.field("own_accelerator", slots, grid.cell(column_span=2))
        controls.field("own_count", slots, grid.cell())
        with grid.cell():
            _ask_context(context)
        controls.field("users", slots, grid.cell())
        everything = box(page(), "all")
    controls.show_problems(problems, usable, _as_asked(inputs), slots)
    state.write(page())
    card, count = state.card_of(usable)
    users = int(numbers["users"] or 1)
    with st.container(), st.spinner("Trying the models on these cards …", show_time=True):
        found = kept(
            lambda: api.fits(
                card, count=count, context_tokens=context, concurrency=users, everything=everything
            ),
            *("fits", card, count, context, users, everything),
        )
    return inputs, found


def _ask_context(context: int) -> None:
    """Ask for prompt and answer together."""
    st.session_state[CONTEXT] = context
    titles = CONTEXTS | {context: f"{context:,}"}
    st.selectbox(
        "Context (tokens)",
        sorted(titles),
        format_func=titles.__getitem__,
        key=CONTEXT,
        on_change=lambda: _take_context(st.session_state[CONTEXT]),
    )


def _take_context(context: int) -> None:
    """Make prompt and answer as long as a context, the answer as long as it is if it can be."""
    usable, _ = _usable(state.current(page()))
    answer_tokens = min(int(read(usable).numbers["answer"] or 1), context // 2)
    state.take({"prompt": str(context - answer_tokens), "answer": str(answer_tokens)})


def _as_asked(inputs: Inputs) -> Inputs:
    """Return the inputs of the question that this page uses, whatever the task."""
    used = {name: getattr(inputs, name) for name in (*CALLED, "prompt", "answer")}
    return replace(DEFAULTS, task=Task.SERVE, rent=OWN, **used)


def _usable(inputs: Inputs) -> tuple[Inputs, Mapping[str, str]]:
    """Return them with the default for each that is wrong, and what is wrong."""
    asked = _as_asked(inputs)
    problems = read(asked).problems
    wrong = {name: getattr(DEFAULTS, name) for name in problems}
    return replace(asked, **wrong), problems


def _own_model(inputs: Inputs) -> None:
    """Say whether the work of the question fits the cards."""
    try:
        case = state.case_on_card(inputs)
        estimate = kept_for(case, api.estimate)
    except InputError as error:
        show_mistake(error)
        return
    remedies.undo(inputs)
    status(fit_words(work_words(inputs), estimate))
    if not estimate.memory.fits:
        remedies.offer(replace(inputs, rent=OWN), _fits_then, limits=False)
    memory.ways_out(estimate)


def _fits_then(inputs: Inputs) -> str | None:
    """Say how a changed question fits the cards; None where it does not."""
    estimate = kept_for(state.case_on_card(inputs), api.estimate)
    return fit_words(work_words(inputs), estimate) if estimate.memory.fits else None


def fit_words(work: str, estimate: api.Estimate) -> str:
    """Return whether some work fits the cards of an estimate."""
    needed, usable = memory_against(estimate.memory.total_bytes, estimate.memory.usable_bytes)
    where, there = f"{estimate.count:,}x {estimate.accelerator_name}", estimate.memory_of
    if estimate.memory.fits:
        host = estimate.memory.host_bytes.expected
        each = " for each" * (estimate.count > 1)
        beside = f", and {memory_size(host)} of the host's memory{each}" if host else ""
        hours = estimate.time and duration(estimate.time.run_hours.scaled(HOUR_S), with_range=True)
        how = "likely fits" if estimate.memory.tight else "fits"
        served = estimate.serving
        if served and served.arrivals and served.arrivals.load > 1:
            most, asked = served.arrivals.most_requests_per_s, served.arrivals.asked_requests_per_s
            where += f", which keeps up with only {rate(most, '').strip()} of {asked:g} requests/s"
        said = f"{work} {how} {where}: it takes {needed} of {usable}{there}{beside}."
        if served and served.streams:
            pace = served.tpot_ms.scaled(MILLISECOND).reciprocal()
            said += f" Each user gets {rate(pace, 'tokens/s', with_range=True)}."
        elif served:
            each = milliseconds(served.tpot_ms.scaled(MILLISECOND), with_range=True)
            said += f" It works {each} {served.timed}."
        return f"{said} The run takes {hours}." if hours else said
    if estimate.crowded:
        return f"{work} does not fit {where}: {estimate.crowded}."
    # The search of the other pages takes the host's memory where nothing else fits.
    alone = " alone" if any(way.host_bytes for way in estimate.ways_out) else ""
    return f"{work} does not fit {where}{alone}: it needs {needed}, {usable} are usable{there}."


def show(inputs: Inputs, fits: api.Fits) -> None:
    """Show the answer: a sentence, the groups, training, the chart and what is assumed."""
    _own_model(inputs)
    answer = f"{fits.count:,}x {fits.accelerator_name}: {fits.served}."
    fitting, changed, hosted, _ = map(fits.having, api.VERDICT_TITLES)
    if fits_at_all := [*fitting, *changed] or hosted:
        largest = max(fits_at_all, key=lambda model: model.parameters)
        answer += f" The largest: {model_title(largest.preset)} in {largest.served.weight_format}."
    st.header("Known models", anchor=False)
    st.markdown(plain(answer))
    st.caption(plain(NUMBER_FORMATS))
    for verdict, title in api.VERDICT_TITLES.items():
        table = fits_table(fits, verdict)
        if not table.empty:
            st.header(title, anchor=False)
            list_table(table)
    st.header("Longest training sequence", anchor=False)
    training = training_fits_table(fits)
    if training.empty:
        st.markdown("None of the models can be trained on this, not even by QLoRA.")
    else:
        st.markdown(
            "Tokens, one sequence at a time: as fast as possible / with recomputation, which "
            "computes intermediate results twice instead of keeping them and takes about a third "
            "longer; where that is more, also with states in the host's memory, which is slower. "
            "(host): only so."
        )
        list_table(training, height="content")
    st.header("Memory of one request", anchor=False)
    frame = fits_memory_frame(fits)
    st.markdown(plain(fits_finding(frame)))
    draw(fits_chart, frame, key="fits_chart")
    _how_far(inputs, fits)
    st.header("Assumed", anchor=False)
    st.markdown("\n".join(f"- {plain(line)}" for line in fits.assumptions))


@st.fragment
def _how_far(inputs: Inputs, fits: api.Fits) -> None:
    """Draw memory against context for one model, up to where it ends."""
    models = {
        model.preset: model
        for verdict in api.VERDICT_TITLES
        for model in fits.having(verdict)
        if model.served.fits
    }
    st.header("How far can the context go?", anchor=False)
    own = find_preset(inputs.model)
    titles = state.preset_titles()
    chosen = select(
        "Model of the chart",
        {name: titles[name] for name in models},
        key=CURVE_MODEL,
        index=None,
        placeholder=titles[own] if own in models else "Choose a model that fits",
    )
    state.write(page())
    name = chosen or own
    if name not in models:
        return
    served = models[name].served
    case = load_sent(
        Case,
        {
            "model": {"preset": name},
            "workload": {
                "kind": "serving",
                "input_tokens": max(1, models[name].context_tokens - ANSWER_TOKENS),
                "output_tokens": ANSWER_TOKENS,
                "concurrency": 1,
                "weight_format": served.weight_format,
                "kv_cache_format": served.kv_cache_format,
                "engine": served.software,
            },
            "hardware": {"accelerator": fits.accelerator, "count": fits.count},
            "layout": served.layout.model_dump(mode="json"),
        },
    )
    for curve in kept_for(case, api.memory_curves):
        if curve.variable == "context":
            memory.show_curve(curve)
