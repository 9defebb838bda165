"""What stands behind the answer: why each card lost, every formula, downloads and the link."""

import re
from collections.abc import Sequence
from typing import Final

import streamlit as st

from advisor import api
from advisor.charts.curves import day_chart, scaling_chart, scaling_finding
from advisor.charts.grid import grid_chart, grid_finding
from advisor.errors import InputError, without_options
from advisor.foundation.references import citation
from advisor.frames import turning as tables
from advisor.frames.points import Pick, filtered, picks, rejections_frame, verdicts
from advisor.nouns.case import Case, Hardware
from advisor.ui.forms.rules import OWN
from advisor.ui.parts.chart_view import TABLE_PX, draw, plan_asked, table_below
from advisor.ui.parts.widgets import behind, csv_button, download_file, select, show_mistake
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import state
from advisor.ui.session.kept import kept, kept_for
from advisor.ui.session.state import Answer

PAGE_ROWS: Final = 12
ALL_REASONS: Final = "All reasons"
CODE: Final = re.compile(r"(^\s*```.*?^\s*```)", re.DOTALL | re.MULTILINE)
LAUNCH: Final = re.compile(r"^ *set -euo pipefail\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
"""What the script in a set-up checklist does."""
HEADING: Final = re.compile(r"^#", re.MULTILINE)


@st.fragment
def why_not(found: Answer) -> None:
    """Answer for any accelerator why it is not the pick, or which plan uses it."""
    name = st.selectbox(
        "Why not…?",
        list(state.accelerator_names().values()),
        index=None,
        placeholder="Choose any accelerator",
        key="why_not",
        persist_state="session",
        on_change=_write,
    )
    if name is not None and (verdict := verdicts(state.whole(found)).get(name)):
        st.info(plain(verdict), icon=":material/help:")


def _write() -> None:
    state.write()


@behind("Accelerators not recommended", key="rejections", icon="block")
def rejections(found: Answer) -> None:
    """List the accelerators that are not recommended, by reason and name, page by page."""
    table = rejections_frame(state.whole(found))
    with st.container(horizontal=True):
        text = st.text_input("Filter by name", key="rejections_filter", type="search")
        counts = table["Reason"].value_counts()
        reason = st.selectbox(
            "Reason",
            [ALL_REASONS, *counts.index],
            format_func=lambda item: f"{item} ({counts.get(item, len(table))})",
            key="rejections_reason",
        )
    shown = filtered(table, name=text or "", reason=None if reason == ALL_REASONS else reason)
    if shown.empty:
        st.markdown("No accelerator matches; clear the filter to see all.")
        return
    pages = -(-len(shown) // PAGE_ROWS)
    page = min(int(st.session_state.get("rejections_page") or 1), pages)
    text_table(shown.iloc[(page - 1) * PAGE_ROWS : page * PAGE_ROWS])
    if pages > 1:
        st.pagination(pages, key="rejections_page")
    csv_button("rejections", table)


@behind("Beside an API", key="hosted", icon="cloud")
def hosted(found: api.ApiComparison) -> None:
    """Show hosted models beside a plan."""
    st.markdown(plain(found.sentence))
    text_table([*api.hosted_cells(found)])


@behind("Fewest that meet the deadline", key="fewest", icon="timer")
def fewest(found: Answer) -> None:
    """List the smallest number of each accelerator that meets the deadline."""
    text_table([item.cells for item in state.whole(found).fewest], tallest_px=TABLE_PX)


@behind("Through the day", key="day", icon="schedule")
def day(found: api.Day) -> None:
    """Draw the day of a plan, and what each way of renting costs."""
    frame, fixed = tables.day_frame(found), found.ways[0].most_replicas
    draw(day_chart, frame, fixed, key="day_chart")
    text_table(tables.day_table(found))
    st.caption(plain(f"Assumed: {' '.join(found.assumptions)}."))


@behind("More or fewer accelerators", key="scaling", icon="stacked_line_chart")
def scaling(recommendation: api.Recommendation, chosen: Sequence[Pick]) -> None:
    """Draw how a plan's hardware speeds up with its number."""
    found = kept_for(_on_plan(recommendation, chosen, key="scaling_plan"), api.scaling)
    st.caption(
        "The best layout of each number, with the same batch. Smaller shares mean more "
        "traffic, waiting and failures for each second of computing; a number that does not "
        "divide the batch evenly waits for the cards with most of it."
    )
    frame = tables.scaling_frame(found)
    if len(frame) == 1:
        st.markdown(
            "No offer rents these accelerators together in another number that holds the work."
        )
        return
    st.markdown(plain(scaling_finding(frame)))
    draw(scaling_chart, frame, key="scaling_chart")
    table_below("scaling", lambda: tables.scaling_table(found), frame)


@behind("What if the hardware were better?", key="what_if", icon="upgrade")
def what_if(recommendation: api.Recommendation, chosen: Sequence[Pick]) -> None:
    """Show what more or better hardware than a plan's would buy."""
    found = kept_for(_on_plan(recommendation, chosen, key="what_if_plan"), api.what_if)
    st.markdown(plain(tables.what_if_sentence(found)))
    text_table(tables.what_if_table(found))
    st.caption(
        "One change at a time, each with its best layout. Each card keeps its measured "
        "efficiencies. Half the price changes nothing but the bill."
    )


def _on_plan(recommendation: api.Recommendation, chosen: Sequence[Pick], *, key: str) -> Case:
    """Ask for one of the plans; return the question on its hardware."""
    estimate = plan_asked(chosen, key=key)
    hardware = Hardware(accelerator=estimate.accelerator, count=estimate.count)
    return recommendation.case.changed(hardware=hardware)


@behind("What would change the answer?", key="turning", icon="change_circle")
def turning(recommendation: api.Recommendation) -> None:
    """Show at which values of the inputs another card would be the answer."""
    case = recommendation.case
    with st.spinner("Trying other amounts, limits and prices …", show_time=True):
        found = kept(lambda: api.turning(case).turns(), "turns", case.to_json(indent=None))
    st.markdown(plain(tables.turns_sentence(found)))
    text_table(tables.turns_table(found))
    st.caption(
        "One input at a time, all else as asked. Amounts of work are searched anew within a "
        "hundredfold, to about 3 %; limits and prices are exact."
    )


@behind("Every card in every number", key="grid", icon="grid_on")
def grid(recommendation: api.Recommendation) -> None:
    """Draw cost or time of each card in each number."""
    case = recommendation.case
    cells = kept(lambda: api.turning(case).cells(), "cells", case.to_json(indent=None))
    frame = tables.grid_frame(cells)
    if frame.empty:
        st.markdown("Nothing that is offered holds the work.")
        return
    ways = {"usd": "Cost", "time": "Time"} if (frame["usd"] > 0).any() else {"time": "Time"}
    by = select("Show", ways, key="grid_by")
    st.markdown(plain(grid_finding(frame)))
    draw(grid_chart, frame, key="grid_chart", by=by or "time")
    table_below("grid", lambda: tables.grid_table(frame, by=by or "time"), frame)


@behind("How the numbers are computed", key="computed", icon="functions")
def computed(found: Answer) -> None:
    """Open every number of a plan into its terms, formulas and sources."""
    estimate = plan_asked(picks(state.whole(found)), key="computed_plan")
    for section in api.term_sections(estimate):
        st.markdown(f"### {plain(section.title)}")
        if section.note:
            st.markdown(plain(section.note))
        text_table([*api.term_cells(section.terms)])
    if estimate.neighbours:
        st.markdown("### What other layouts on the same cards would do")
        text_table([*api.neighbour_cells(estimate)])


@behind("Assumptions and sources", key="assumptions", icon="checklist")
def assumptions(recommendation: api.Recommendation) -> None:
    """List every assumption, and every source in full."""
    st.markdown(
        "\n".join(f"- {plain(without_options(item))}" for item in recommendation.assumptions)
    )
    st.markdown("### Sources")
    sources = [citation(item) for item in recommendation.references]
    st.markdown("\n".join(f"- {plain(item, links=True)}" for item in sources))


@behind("Report and launch files", key="download_part", icon="download")
def download(found: Answer) -> None:
    """Offer the answer as a report, and its first plan as a launch configuration."""
    case, link = found.recommendation.case, state.link(state.page(), found.inputs, found)
    formats = api.export_formats(case)
    to = st.selectbox(
        "Report or launch configuration", formats, format_func=formats.__getitem__, key="to"
    )
    try:
        file = api.export(case, to, answer=state.whole(found), link=link)
    except InputError as error:
        show_mistake(error, blocked=True)
    else:
        download_file("Download", file, key="download")


def start(found: Answer) -> None:
    """Show who owns the cards the command that starts a server of the first plan.

    It is the last of its file; a file that writes other files first has none to type.
    """
    plans, case = found.recommendation.plans, found.recommendation.case
    if found.inputs.rent != OWN or not plans or plans[0].estimate.serving is None:
        return
    try:
        steps = api.export(case, "checklist", answer=found.recommendation).content
    except InputError:  # told where it is set up
        return
    launch = LAUNCH.search(steps)
    if launch is None or "<<" in launch[1]:
        return
    *_, command = launch[1].replace("\\\n", " ").strip().splitlines()
    st.markdown("Start it (*Set it up*, below, says how to get the software and the weights):")
    st.code(" ".join(command.split()), language=None, wrap_lines=True)


@behind("Set it up", key="set_up", icon="build")
def set_up(found: Answer) -> None:
    """Show the set-up checklist of the first plan, and offer the script that checks a machine."""
    titles = api.platforms()
    platform = st.selectbox(
        "Where",
        [None, *titles],
        format_func=lambda name: titles[name] if name else "The usual place for the card",
        key="platform",
    )
    try:
        steps, script = (
            api.export(
                found.recommendation.case, to, answer=found.recommendation, platform=platform
            )
            for to in ("checklist", "check-script")
        )
    except InputError as error:
        show_mistake(error, blocked=True)
        return
    download_file("Script that checks a machine", script, key="check_script")
    _, _, sections = steps.content.partition("\n## ")  # the answer and options stand before
    st.markdown(_shown(f"## {sections}"))


def _shown(text: str) -> str:
    r"""Return Markdown with smaller headings, no boxes to tick, and dollars that start no formula.

    A box that nobody can tick has no name for who hears the page.

    >>> print(_shown("# Set-up\n- [ ] Expect $3 ($2-4)."))
    ### Set-up
    - Expect \$3 (\$2-4).
    """
    parts = CODE.split(text)
    for place in range(0, len(parts), 2):  # code stands between the others
        plain = HEADING.sub("###", parts[place]).replace("- [ ] ", "- ")
        parts[place] = plain.replace("$", "\\$")
    return "".join(parts)
