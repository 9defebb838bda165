"""The parts of the page *What fits my GPU*."""

from __future__ import annotations

import functools
from typing import Final

import streamlit as st

from advisor import api, frames
from advisor.architecture.presets import list_presets
from advisor.charts import Theme, fits_alt, fits_chart
from advisor.ui.parts import memory
from advisor.ui.parts.chart_view import draw
from advisor.ui.parts.results import status
from advisor.ui.parts.wording import plain
from advisor.ui.session import address
from advisor.ui.session.kept import kept
from advisor.ui.session.links import Page, choice, flag, number
from advisor.ui.session.state import accelerator_names

ANSWER_TOKENS: Final = 256
"""Of the context, what is generated; memory does not depend on it."""
DEFAULT_CARD: Final = "rtx-4090"
CURVE_MODEL: Final = "fits_context_model"
NUMBER_FORMATS: Final = (
    "Weights: bf16 has 16 bits, fp8 8, w4a16 4 (AWQ, GPTQ), mxfp4 4 as published. To spare: with "
    "one request of the chosen context. Tokens/s: of that request alone."
)
CONTEXTS: Final = {tokens: f"{tokens:,}" for tokens in (2**power for power in range(11, 18))}
"""Context [tokens] -> title."""
MOST: Final = 1024
"""Cards, and requests at once."""


def answer(card: str, count: int, context: int, concurrency: int, everything: bool) -> api.Fits:
    """Return what fits, computed once for the same question."""
    return kept(
        lambda: api.fits(
            card,
            count=count,
            context_tokens=context,
            concurrency=concurrency,
            everything=everything,
        ),
        *("fits", card, count, context, concurrency, everything),
    )


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    return Page(
        "fits",
        {
            "card": choice("fits_card", "GPU", DEFAULT_CARD, accelerator_names),
            "count": number("fits_count", "How many", 1, 1, MOST),
            "context": choice("fits_context", "Context", 8192, lambda: CONTEXTS),
            "requests": number("fits_requests", "Requests at once", 8, 2, MOST),
            "all": flag("fits_all", "Every known model"),
            "model": choice(
                CURVE_MODEL, "Model", None, lambda: {name: name for name in list_presets()}
            ),
        },
    )


def ask() -> api.Fits:
    """Show the inputs and return the answer to them."""
    inputs = page()
    address.open_page(inputs)
    names = accelerator_names()
    with st.container(border=True):
        card = st.selectbox(
            "GPU",
            list(names),
            format_func=names.__getitem__,
            key="fits_card",
            persist_state="session",
        )
        columns = st.columns(3)
        count = columns[0].number_input(
            "How many", 1, MOST, key="fits_count", persist_state="session"
        )
        context = columns[1].selectbox(
            "Context (tokens)",
            list(CONTEXTS),
            format_func=CONTEXTS.__getitem__,
            key="fits_context",
            persist_state="session",
        )
        concurrency = columns[2].number_input(
            "Requests at once", 2, MOST, key="fits_requests", persist_state="session"
        )
        everything = st.toggle("Every known model", key="fits_all", persist_state="session")
    address.write(inputs)
    return answer(card, int(count), context, int(concurrency), everything)


def show(fits: api.Fits, *, theme: Theme) -> None:
    """Show the answer: a sentence, the groups, training, the chart and what is assumed."""
    fitting, changed, _ = (fits.having(verdict) for verdict in frames.VERDICT_TITLES)
    answer = (
        f"{fits.count:,}x {fits.accelerator_name}: {len(fitting)} of {len(fits.models)} models "
        f"can be served as they are, {len(changed)} more with smaller weights."
    )
    if fits_at_all := [*fitting, *changed]:
        largest = max(fits_at_all, key=lambda model: model.parameters)
        answer += f" The largest: {largest.preset} in {largest.served.weight_format}."
    status(answer)
    st.caption(plain(NUMBER_FORMATS))
    for verdict, title in frames.VERDICT_TITLES.items():
        table = frames.fits_table(fits, verdict)
        if not table.empty:
            st.subheader(title, anchor=False)
            st.dataframe(table, hide_index=True, width="stretch")
    st.subheader("Longest training sequence", anchor=False)
    training = frames.training_fits_table(fits)
    if training.empty:
        st.markdown("None of the models can be trained on this, not even by QLoRA.")
    else:
        st.markdown(
            "Tokens, one sequence at a time: as fast as possible / with recomputation, which "
            "computes intermediate results twice instead of keeping them and takes about a third "
            "longer."
        )
        st.dataframe(training, hide_index=True, width="stretch", height="content")
    st.subheader("Memory of one request", anchor=False)
    frame = frames.fits_memory_frame(fits)
    draw(fits_chart(frame, theme=theme), key="fits_chart")
    st.caption(fits_alt(frame))
    _how_far(fits, theme)
    st.subheader("Assumed", anchor=False)
    st.markdown("\n".join(f"- {plain(line)}" for line in fits.assumptions))


@st.fragment
def _how_far(fits: api.Fits, theme: Theme) -> None:
    """Draw memory against context for one model, up to where it ends."""
    models = {
        model.preset: model
        for verdict in list(frames.VERDICT_TITLES)[:2]
        for model in fits.having(verdict)
    }
    st.subheader("How far can the context go?", anchor=False)
    name = st.selectbox(
        "Model",
        list(models),
        index=None,
        placeholder="Choose a model that fits",
        key=CURVE_MODEL,
        persist_state="session",
    )
    address.write(page())
    if name not in models:
        return
    served = models[name].served
    case = api.load_case(
        {
            "model": {"preset": name},
            "workload": {
                "kind": "serving",
                "input_tokens": max(1, models[name].context_tokens - ANSWER_TOKENS),
                "output_tokens": ANSWER_TOKENS,
                "concurrency": 1,
                "weight_format": served.weight_format,
            },
            "hardware": {"accelerator": fits.accelerator, "count": fits.count},
            "layout": served.layout.model_dump(mode="json"),
        }
    )
    for curve in memory.curves(case):
        if curve.variable == "context":
            memory.show_curve(curve, theme)
