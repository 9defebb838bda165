"""The answer as a person reads it: one sentence, the numbers, the plans, the two charts."""

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor import api
from advisor.charts.cost_time import cost_time_chart, cost_time_finding
from advisor.charts.memory import memory_chart, memory_finding
from advisor.errors import without_options
from advisor.foundation.formatting import duration, memory, milliseconds, money, rate
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.frames.memory import memory_table, memory_terms
from advisor.frames.points import (
    Pick,
    Point,
    axes,
    candidate_points,
    charted,
    nearest_misses,
    picked_points,
    points_table,
    within_reach,
)
from advisor.lessons.glossary import explained
from advisor.nouns.inputs import TEXT
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving
from advisor.ui.forms.reading import network_of, read
from advisor.ui.forms.rules import OWN
from advisor.ui.parts.chart_view import draw, table_below
from advisor.ui.parts.wording import EVIDENCE, plain, span, together
from advisor.ui.session import state
from advisor.ui.session.links import Opened
from advisor.ui.session.state import Answer

SHOWN_MISSES: Final = 3
SHOWN_ASSUMPTIONS: Final = 7
FIRST_SENTENCE: Final = re.compile(r"(?<=[.?!])\s(?=[A-Z])")
CARD_PX: Final = 260
DIGIT_PX: Final = 20
"""Width of a character of a large number: a card that is too narrow would cut it off."""
FRAME_PX: Final = 34
"""Of a card, both sides together."""
SAME_PRICE: Final = 0.01
"""A change of the answer below this share is not worth a sentence."""


def status(answer: str, work: str = "", place: DeltaGenerator | None = None) -> None:
    """Say an answer, its first sentence large, in a live region that screen readers announce.

    ``work`` names what the answer is about, where the sentence does not; ``place`` is where it
    stands, here unless given.
    """
    about = f"<span>{escape(work)}:</span> " if work else ""
    first, *rest = FIRST_SENTENCE.split(escape(together(answer)), maxsplit=1)
    quiet = f'<span style="font-size:1rem;font-weight:400"> {rest[0]}</span>' if rest else ""
    (place or st).html(
        '<p role="status" style="font-size:1.25rem;font-weight:600;margin:0;line-height:1.4">'
        f'{about}<span class="answer">{first}{quiet}</span></p>'
    )


def nearest(recommendation: api.Recommendation) -> None:
    """Where nothing works, name the smallest changes that would and that the answer leaves out."""
    lines = [
        f"- {plain(happened)} **{plain(help_)}**"
        for happened, help_ in nearest_misses(recommendation, at_most=SHOWN_MISSES)
        if happened.rstrip(".") not in recommendation.answer
    ]
    if lines:
        st.markdown("\n".join(("What would change that:\n", *lines)))


def compared(opened: Opened, found: Answer) -> None:
    """Say how the answer moved since an opened link was made, while its inputs stand."""
    seen = opened.seen
    plans = found.recommendation.plans
    if seen is None or found.inputs != state.inputs_of(opened.values) or not plans:
        return
    now = plans[0].estimate.cost.rent_usd
    if now is None or abs(now.expected - seen.usd) <= SAME_PRICE * seen.usd:
        return
    st.info(
        plain(
            f"This link said {money(seen.usd)} with prices up to {seen.catalog}; now it is "
            f"{money(now)} with prices up to {found.recommendation.catalog_date}."
        ),
        icon=":material/history:",
    )


def numbers(found: Answer) -> None:
    """Show the figures of the first plan, each with its range and what the range rests on."""
    plans = found.recommendation.plans
    if not plans:
        return
    st.markdown(plain(_reason(found.recommendation)))
    metrics(_figures(plans[0].estimate))
    estimate = plans[0].estimate
    beside = [f"{name}: **{plain(value)}**" for name, value in _output_lines(estimate)]
    st.markdown("  \n".join([*beside, plain(_price_note(estimate))]))


def _reason(recommendation: api.Recommendation) -> str:
    """Say in how large a field the plan is the best, and what limits it."""
    works, why = recommendation.able, recommendation.plans[0].why
    if works == 1:
        return why
    objective = api.OBJECTIVE_WORDS[recommendation.rankings[0].objective]
    return f"Why: the {objective} of {works:,} accelerators that do this work. {why}"


def metrics(figures: Sequence[tuple[str, str, str]]) -> None:
    """Show figures as cards: label, value, and a note that may wrap."""
    longest = max(len(value) for _, value, _ in figures)
    with st.grid(len(figures), min_column_width=FRAME_PX + DIGIT_PX * longest):
        for label, value, note in figures:
            with st.container(border=True, height="stretch", gap="xxsmall"):
                meant = "\n\n".join(
                    f"**{plain(word)}**: {plain(means)}"
                    for word, means in explained(f"{label} {value} {note}")
                )
                st.metric(label, value, help=meant or None)
                st.markdown(plain(note))


def assumed(found: Answer) -> None:
    """Name what the answer takes for granted, and where to change it."""
    stated = found.recommendation.assumed
    stated = tuple(without_options(item).rstrip(".") for item in (*_out_of_sight(found), *stated))
    text = "; ".join(stated[:SHOWN_ASSUMPTIONS])
    if more := len(stated[SHOWN_ASSUMPTIONS:]):
        text += f"; and {more} more under Assumptions and sources"
    st.caption(f"**Assumed:** {plain(text)}. {plain('Change it above or under Advanced.')}")


def _out_of_sight(found: Answer) -> list[str]:
    """Inputs that shape the answer from under Advanced."""
    stated, inputs = [], found.inputs
    numbers = read(inputs).numbers
    workload = found.recommendation.case.workload
    if isinstance(workload, Serving) and network_of(inputs) in TEXT:
        shown = f"prompts of {workload.input_tokens:,} and answers of {workload.output_tokens:,}"
        if found.recommendation.batches:
            shown = f"sequences of {workload.input_tokens:,}"
        held = {"prompt": workload.input_tokens, "answer": workload.output_tokens}
        whole = all(numbers.get(name, length) == length for name, length in held.items())
        cut = "" if whole else ", which is what the model's positions hold"
        stated.append(f"{shown} tokens{cut}")
        if inputs.first_token:
            stated.append(f"first token within {inputs.first_token}")
    elif (sequence := numbers.get("sequence")) is not None:
        stated.append(f"sequences of {sequence:,.0f} tokens, as entered")
    if isinstance(workload, FineTuning) and workload.method is not FineTuningMethod.FULL:
        stated.append(f"LoRA rank {workload.lora_rank}")
    if inputs.rent != OWN:
        stated.append("list prices in USD without tax")
    return stated


def other_plans(chosen: Sequence[Pick]) -> None:
    """Show the best plans for other aims; the first plan is the answer above."""
    others = chosen[1:]
    if not others:
        return
    with st.grid(len(others), min_column_width=CARD_PX):
        for pick in others:
            with st.container(border=True, height="stretch"):
                _card(pick)


def _card(pick: Pick) -> None:
    """Show a plan with its reason."""
    estimate = pick.plan.estimate
    st.header(pick.title, anchor=False)
    lines = [f"**{plain(pick.plan.title)}**"]
    figures = (*_pace(estimate), *api.headlines(estimate).items(), *_output_lines(estimate))
    lines += [f"{label}: **{plain(value)}**" for label, value in figures]
    notes = [_price_note(estimate), pick.plan.why]
    if estimate.memory.tight:
        notes.append("Tight: a run may take more memory than is usable. Measure one step first.")
    st.markdown("\n\n".join(("  \n".join(lines), *map(plain, notes))))


def _pace(estimate: api.Estimate) -> list[tuple[str, str]]:
    """Return what each user of a server reads in a second; nothing for other work."""
    if (serving := estimate.serving) is None or not serving.streams:
        return []
    pace = serving.tpot_ms.scaled(MILLISECOND).reciprocal()
    return [("Tokens/s per user", _bare(pace, with_range=True))]


def _output_lines(estimate: api.Estimate) -> list[tuple[str, str]]:
    """Return what a server puts out, and the price of it; nothing for training."""
    lines = []
    if serving := estimate.serving:
        copies = "1 replica" if serving.replicas == 1 else f"{serving.replicas:,} replicas"
        output = rate(serving.output_tokens_per_s, f"{serving.unit.value}s/s")
        lines.append(("Output", f"{output} from {copies}"))
    if estimate.sound_hour_usd is not None:
        lines.append(("Per hour of sound", money(estimate.sound_hour_usd, with_range=True)))
        return lines
    million = estimate.cost.usd_per_million_tokens
    prompt = estimate.cost.usd_per_million_input_tokens
    answer = estimate.cost.usd_per_million_output_tokens
    split = prompt is not None and answer is not None
    if estimate.serving and million is not None:
        per = f"Per million {api.answer_unit(estimate)}s{', prompts included' * split}"
        lines.append((per, money(million, with_range=True)))
    if prompt is not None and answer is not None:
        each = f"{money(prompt)} for prompt tokens, {money(answer)} for answer tokens"
        lines.append(("Or each kind for its own work, per million", each))
    return lines


def _price_note(estimate: api.Estimate) -> str:
    return f"{api.rent_sentence(estimate)}{api.energy_used(estimate)}"


def _figures(estimate: api.Estimate) -> list[tuple[str, str, str]]:
    """Label, value and note of each figure of a plan."""
    figures: list[tuple[str, str, str]] = []

    def add(label: str, value: Range, words: Callable[..., str], before: str = "") -> None:
        bounds = span(words(value, with_range=True))
        listed = words is money and value.evidence is Evidence.MEASURED
        rests = "at list prices" if listed else EVIDENCE[value.evidence]
        figures.append((label, words(value), f"{before}{bounds}{': ' if bounds else ''}{rests}"))

    if estimate.time is not None:
        add("Time", estimate.time.run_hours.scaled(HOUR_S), duration)
    serving = estimate.serving
    paced = serving is not None and serving.streams
    if serving is not None and paced:
        pace = serving.tpot_ms.scaled(MILLISECOND)
        add("Tokens/s per user", pace.reciprocal(), _bare, f"{milliseconds(pace)} a token; ")
    for label, value in api.latencies(estimate):
        if serving is None or not paced or value is not serving.tpot_ms:
            add(label, value.scaled(MILLISECOND), milliseconds)
    if serving is not None:
        if serving.sound_s_per_s is not None:
            add("Hours of sound per hour", serving.sound_s_per_s, _bare)
        add("Requests/s", serving.requests_per_s, _bare)
    if (rent := estimate.cost.rent_usd) is not None:
        add("Cost" if estimate.time is not None else "Cost of a month", rent, money)
    usable = f"of {memory(estimate.memory.usable_bytes)} usable; "
    add(f"Memory {estimate.memory_place}", estimate.memory.total_bytes, memory, usable)
    return figures


def _bare(value: Range, **more: bool) -> str:
    return " ".join(rate(value, "", **more).split())


def pictures(recommendation: api.Recommendation, chosen: Sequence[Pick]) -> None:
    """Draw cost against time, and the memory of the plans."""
    points = candidate_points(recommendation)
    if not points:
        return
    if len(points) > 1:  # One point is no chart: the answer has its numbers.
        _cost_time(recommendation, chosen, points)
    if not chosen:
        return
    st.header("What fills the memory", anchor=False)
    terms = memory_terms(chosen)
    st.markdown(plain(memory_finding(terms)))
    draw(memory_chart, terms, key="memory")
    table_below("memory", lambda: memory_table(chosen), lambda: pd.DataFrame(terms))


def _cost_time(
    recommendation: api.Recommendation,
    chosen: Sequence[Pick],
    points: Sequence[Point],
) -> None:
    """Say and draw what a faster plan costs."""
    selected = picked_points(chosen)
    shown = charted(points, selected)
    shown_axes, far_limits = within_reach(axes(recommendation), shown)
    st.header("What speed costs", anchor=False)
    if finding := cost_time_finding(shown, selected, shown_axes):
        st.markdown(plain(finding))
    note = (
        "Both axes are logarithmic: each gridline is about 2×. Crosses show 80 % ranges of the "
        "best trade-offs; a hollow point, the best of its card, is beaten on cost and time at once."
    )
    if left_out := len(points) - len(shown):
        note += f" {left_out} more configurations are in the table only."
    st.caption(plain(f"{note} {far_limits}"))
    draw(cost_time_chart, shown, selected, shown_axes, key="cost_time")
    table_below("cost_time", lambda: points_table(points, shown_axes), lambda: pd.DataFrame(points))
