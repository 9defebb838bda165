"""The parts of the page *Accuracy*, and the measurements nearest to a plan."""

import functools
from collections.abc import Sequence
from typing import Final

import streamlit as st

from advisor import api
from advisor.charts.accuracy import accuracy_chart
from advisor.frames import accuracy as tables
from advisor.ui.parts.chart_view import TABLE_PX, draw
from advisor.ui.parts.widgets import behind, box, csv_button
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import state
from advisor.ui.session.links import Page, choice, text

EVERYTHING: Final = "All work"
QUANTITY_PX: Final = 340
"""Of the box that names one: the longest stands in it whole, on a phone too."""
WORST: Final = 8
FEW: Final = 5
"""Below this number of groups, a median says little."""
ONE: Final = "accuracy_one"
"""Session's key of the measurement that is open."""
HEADLINES: Final = ("tokens_per_s_per_accelerator", "peak_memory_gib", "tpot_ms", "ttft_ms")


@functools.cache
def _said() -> str:
    runs = api.published_runs()
    unseen = [run for run in runs if run.unseen]
    return (
        f"Half of the predictions are off by less than: {_headlines(runs)}. "
        f"Scored on {len(runs):,} published measurements, misses included. "
        f"On the {len(unseen):,} of them that no constant was fitted on: {_headlines(unseen)}."
    )


def overview(runs: Sequence[api.PublishedRun]) -> None:
    """Say how far the predictions are off, then show it by quantity."""
    st.markdown(plain(_said()))
    _quantities(runs)


@behind("All quantities", key="accuracy_quantities", icon="table")
def _quantities(runs: Sequence[api.PublishedRun]) -> None:
    text_table(tables.accuracy_table(runs))
    st.caption(
        "Like measurements (same source, model and accelerator) are averaged into groups "
        "first; median and 90 % are of their absolute errors. Ranges aim at holding 80 % of "
        "measurements. Constants were fitted on some of these rows: docs/accuracy.md says on "
        "which. Score the engine on measurements of your own with: gpu-advisor validate FILE.csv"
    )


def _headlines(runs: Sequence[api.PublishedRun]) -> str:
    parts = []
    for name in HEADLINES:
        errors = tables.accuracy_summary([run for run in runs if run.row.quantity == name])
        if errors is not None:
            title = tables.quantity_title(name).partition(" (")[0].lower()
            parts.append(f"{title} {errors.median_abs_pct:.0f} %")
    return ", ".join(parts)


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    runs = api.published_runs()
    known = tables.quantities(runs)
    return state.beside(
        "accuracy",
        {
            "quantity": choice(
                "accuracy_quantity",
                "Quantity",
                known[0],
                lambda: {name: tables.quantity_title(name) for name in known},
            ),
            "work": choice(
                "accuracy_task",
                "Work",
                EVERYTHING,
                lambda: {task: task for task in (EVERYTHING, *{run.task for run in runs})},
            ),
            "card": text("accuracy_card", "Accelerator"),
            "run": choice(ONE, "Measurement", None, lambda: {run.row.id: "" for run in runs}),
        },
    )


@st.fragment
def explore(runs: Sequence[api.PublishedRun]) -> None:
    """Filter the measurements, draw them and open one."""
    with st.container(horizontal=True):
        quantity = box(page(), "quantity", width=QUANTITY_PX)
        of_quantity = [run for run in runs if run.row.quantity == quantity]
        tasks = [EVERYTHING, *sorted({run.task for run in of_quantity})]
        if st.session_state.get("accuracy_task", EVERYTHING) not in tasks:
            st.session_state["accuracy_task"] = EVERYTHING
        task = st.selectbox("Work", tasks, key="accuracy_task", persist_state="session")
        card = box(page(), "card", placeholder="any, or e.g. A100")
    state.write(page())
    shown = [run for run in of_quantity if _matches(run, task, card)]
    what = "" if task == EVERYTHING else f" of {task}"
    where = f" on {card.strip()}" if card and card.strip() else ""
    title = tables.quantity_title(quantity)
    errors = tables.accuracy_summary(shown)
    if errors is None:
        others = tables.quantities(run for run in runs if _matches(run, task, card))
        st.info(plain(_untested(f"{title}{what}{where}", others)), icon=":material/help:")
        return
    st.markdown(
        plain(
            f"{title}{what}{where}: {errors.n:,} measurements in {errors.groups:,} groups, median "
            f"error {errors.median_abs_pct:.0f} %, {errors.coverage_pct:.0f} % inside "
            f"the predicted range." + (" Too few to say much." if errors.groups < FEW else "")
        )
    )
    frame = tables.accuracy_frame(shown)
    clicked = draw(accuracy_chart, frame, key="accuracy", clicks=True, quantity=title)
    csv_button("accuracy", frame)
    _by_task(shown)
    st.header("Farthest off", anchor=False)
    worst = tables.farthest_off(shown, most=WORST)
    text_table(tables.runs_table(worst))
    if isinstance(clicked, int) and clicked < len(shown):
        st.session_state[ONE] = shown[clicked].row.id
    _one(shown, worst)


@behind("By work and generation", key="accuracy_parts", icon="table")
def _by_task(shown: Sequence[api.PublishedRun]) -> None:
    text_table(tables.accuracy_by_task(shown), tallest_px=TABLE_PX)


def _matches(run: api.PublishedRun, task: str, card: str | None) -> bool:
    """Whether a run is of some work, on an accelerator whose name holds what was typed."""
    return task in (EVERYTHING, run.task) and (card or "").strip().lower() in (
        run.accelerator_name.lower()
    )


def _untested(what: str, others: Sequence[str]) -> str:
    """Say that nothing was measured, and what else was."""
    text = f"Untested: nobody's measurement of {what} is among the data."
    if others:
        titles = "; ".join(tables.quantity_title(name) for name in others)
        return f"{text} Measured there: {titles}. Choose it under Quantity."
    return f"{text} Ranges there reflect assumptions, not measured runs."


def _one(shown: Sequence[api.PublishedRun], worst: Sequence[api.PublishedRun]) -> None:
    """Open one measurement of a list, which a click on its point chooses as well."""
    st.header("One measurement", anchor=False)
    names = {run.row.id: run for run in (*worst, *shown)}
    if ONE in st.session_state and st.session_state[ONE] not in names:
        st.session_state[ONE] = None

    def title(name: str) -> str:
        run = names[name]
        where = f"{tables.model_words(run.model)}, {run.count:,}x {run.accelerator_name}"
        return f"{where} ({run.row.error_pct:+.0f} %): {name}"

    chosen = st.selectbox(
        "Click a point of the chart, or choose",
        list(names),
        index=None,
        placeholder=title(next(iter(names))),
        format_func=title,
        key=ONE,
        persist_state="session",
    )
    state.write(page())
    name = chosen or next(iter(names))
    run = api.predicted_now(names[name])
    text_table(tables.runs_table([run]))
    source = run.row.source or "accounting by PyTorch on shapes, see data/measurements/README.md"
    if run.address:
        st.markdown(f"Source: [{plain(source)}]({run.address})")
    else:
        st.markdown(f"Source: {plain(source)}")
    _settings(run)


@behind("What the source states about it", key="accuracy_settings", icon="tune")
def _settings(run: api.PublishedRun) -> None:
    text_table(tables.settings_table(run))


@behind("Similar runs that people published", key="similar", icon="science")
def similar(recommendation: api.Recommendation) -> None:
    """Show the measurements nearest to the first plan, beside what the engine says of them."""
    estimate = recommendation.plans[0].estimate
    found = api.similar_runs(
        recommendation.case.workload,
        accelerator=api.load_catalog().accelerator(estimate.accelerator),
        count=estimate.count,
        parameters=estimate.parameters.total,
        active_parameters=estimate.parameters.active,
    )
    if not found:
        st.markdown("Untested: no comparable run is among the published measurements.")
        return
    text_table(tables.runs_table(found))
    measured = ", ".join(dict.fromkeys(tables.quantity_title(run.row.quantity) for run in found))
    st.caption(
        f"{measured}. Nearest by card, kind and size of the model and number of cards. The page "
        "Accuracy opens each with its source."
    )
