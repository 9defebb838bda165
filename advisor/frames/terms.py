"""The terms of a number, with formula, values and source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from advisor.architecture.table.sample import Unit
from advisor.estimate.results import Estimate, StepTime
from advisor.foundation.formatting import (
    citation,
    count,
    duration,
    flops,
    memory,
    memory_against,
    milliseconds,
    percent,
    term_value,
)
from advisor.foundation.quantities import Range, Term
from advisor.foundation.rounding import plain
from advisor.foundation.units import HOUR_S, MILLISECOND

RARE: Final = 0.01
"""Below this number of interruptions, the text says *under*."""


@dataclass(frozen=True, slots=True)
class Section:
    """One number of an estimate and its terms."""

    title: str
    """The number with its value and range."""
    note: str
    """How the terms give the number, if they do not simply add up."""
    terms: tuple[Term, ...]


def term_sections(estimate: Estimate) -> tuple[Section, ...]:
    """Return every number of an estimate that has terms."""
    total = memory(estimate.memory.total_bytes, with_range=True)
    sections = [Section(f"Memory on each accelerator: {total}", "", estimate.memory.terms)]
    if estimate.time is not None:
        time = estimate.time
        sections.append(
            Section(
                f"Time of one step: {duration(time.step_s, with_range=True)}",
                f"{count(time.steps)} steps with start-up, evaluation and failures take "
                f"{duration(time.run_hours.scaled(HOUR_S), with_range=True)}.",
                time.terms,
            )
        )
        sections.append(_run_section(time))
    if estimate.serving is not None:
        token = estimate.serving.tpot_ms.scaled(MILLISECOND)
        sections.append(
            Section(
                f"{answer_title(estimate)}: {milliseconds(token, with_range=True)}",
                "",
                estimate.serving.terms,
            )
        )
    sections.append(
        Section(
            "Operations",
            f"{flops(estimate.flops.hardware_per_step)} per step, recomputation included."
            if estimate.time
            else f"{flops(estimate.flops.per_token)} per {answer_unit(estimate)}.",
            estimate.flops.terms,
        )
    )
    sections.append(Section("Cost and energy", "", estimate.cost.terms))
    return tuple(item for item in sections if item.terms)


def _run_section(time: StepTime) -> Section:
    """Return the parts of the run's hours."""
    note = (
        "In a tuned benchmark, the steps alone take "
        f"{duration(time.benchmark_hours.scaled(HOUR_S))}. "
        f"Failures, restarts and checkpoints leave {percent(time.goodput.expected)} of the time "
        "after the start-up"
    )
    if time.checkpoint_interval_s is not None:
        expected = time.interruptions
        often = plain(expected, 2) if expected >= RARE else f"under {RARE}"
        note += f". Expect {often} interruptions; save every {duration(time.checkpoint_interval_s)}"
    hours = time.run_hours.scaled(HOUR_S)
    return Section(
        f"Time of the run: {duration(hours, with_range=True)}", f"{note}.", time.run_terms
    )


def answer_title(estimate: Estimate) -> str:
    """Return the name of the time of a served answer."""
    token = estimate.serving is None or estimate.serving.unit is Unit.TOKEN
    return "Time per output token" if token else "Time of a batch"


def latencies(estimate: Estimate) -> list[tuple[str, Range]]:
    """Labels and values of a served model's waiting times; none for training. [ms]"""
    serving = estimate.serving
    if serving is None:
        return []
    if serving.unit is not Unit.TOKEN:
        return [("Time of a batch", serving.ttft_ms)]
    if not serving.streams:
        return [("First token after", serving.ttft_ms)]
    return [("Time per token", serving.tpot_ms), ("First token after", serving.ttft_ms)]


def answer_unit(estimate: Estimate) -> str:
    """Return the unit of a server's output: generated token, image or sample."""
    unit = Unit.TOKEN if estimate.serving is None else estimate.serving.unit
    return "generated token" if unit is Unit.TOKEN else unit.value


def terms_frame(terms: Sequence[Term]) -> pd.DataFrame:
    """Return terms with value, formula, this case's values and full source."""
    rows = [
        (item.title, term_value(item), item.formula, item.substituted, citation(item.reference))
        for item in terms
    ]
    return pd.DataFrame(rows, columns=["Term", "Value", "Formula", "With your values", "Source"])


def neighbours_frame(estimate: Estimate) -> pd.DataFrame:
    """Return layouts one step away with their time and memory, as text for people."""
    usable = estimate.memory.usable_bytes
    rows = [
        (
            item.change,
            duration(item.time_s) if item.time_s >= 1 else milliseconds(item.time_s),
            f"{plain(item.time_ratio, 2)}x",
            " of ".join(memory_against(item.memory_bytes, usable)),
            ("fits" if item.fits else "does not fit") + (f"; {item.note}" if item.note else ""),
        )
        for item in estimate.neighbours
    ]
    time = "Time per token" if estimate.serving else "Time of a step"
    return pd.DataFrame(
        rows, columns=["Change", time, "Of the plan's time", "Memory on each", "Verdict"]
    )
