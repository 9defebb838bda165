"""The terms of a number, with formula, values and source; memory of the plans by term."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pandas as pd

from advisor.architecture.table.model import Unit
from advisor.estimate.results import MEMORY_TITLES, Estimate, StepTime
from advisor.foundation.formatting import (
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
from advisor.foundation.record import record
from advisor.foundation.references import citation
from advisor.foundation.units import GIB, HOUR_S, MILLISECOND, plain
from advisor.frames.points import Pick
from advisor.frames.rows import Cells, columns

MEMORY_GROUPS: Final = {
    "Weights": ("weights_bytes",),
    "Gradients and optimizer": ("gradients_bytes", "optimizer_bytes"),
    "Activations and logits": ("activations_bytes", "logits_bytes"),
    "Key-value cache": ("kv_cache_bytes",),
    "Overheads": ("workspace_bytes", "context_bytes", "fragmentation_bytes"),
}
"""Five groups, one for each hue, with their fields of ``MemoryBreakdown``."""
RARE: Final = 0.01
"""Below this number of interruptions, the text says *under*."""


class MemoryTerm(NamedTuple):
    """One group of the memory of a plan, per accelerator; the fields are columns of its file."""

    plan: str
    accelerator: str
    group: str
    gib: float
    total_gib: float
    total_low_gib: float
    total_high_gib: float
    usable_gib: float


def memory_terms(chosen: Sequence[Pick]) -> list[MemoryTerm]:
    """Return the memory of each chosen plan, by groups that are above zero in any. [GiB]"""
    rows = []
    for pick in chosen:
        breakdown = pick.plan.estimate.memory
        for group, fields in MEMORY_GROUPS.items():
            size = sum(getattr(breakdown, field).expected for field in fields)
            rows.append(
                MemoryTerm(
                    pick.title,
                    f"{pick.plan.estimate.count:,}x {pick.plan.estimate.accelerator_name}",
                    group,
                    size / GIB,
                    breakdown.total_bytes.expected / GIB,
                    breakdown.total_bytes.low / GIB,
                    breakdown.total_bytes.high / GIB,
                    breakdown.usable_bytes / GIB,
                )
            )
    used = {row.group for row in rows if row.gib > 0}
    return [row for row in rows if row.group in used]


def memory_table(chosen: Sequence[Pick]) -> pd.DataFrame:
    """Return memory by component as text, one column for each chosen plan."""
    hosted = any(pick.plan.estimate.memory.host_bytes.expected > 0 for pick in chosen)
    host = ["In host memory"] * hosted
    table = {"On each accelerator": [*MEMORY_TITLES.values(), "Total", "Usable", *host]}
    for pick in chosen:
        found = pick.plan.estimate.memory
        table[f"{pick.title}: {pick.plan.estimate.accelerator_name}"] = [
            *(memory(getattr(found, field)) for field in MEMORY_TITLES),
            memory(found.total_bytes, with_range=True),
            memory(found.usable_bytes),
            *[memory(found.host_bytes, with_range=True)] * hosted,
        ]
    return pd.DataFrame(table)


@record
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
    sections = [Section(f"Memory {estimate.memory_place}: {total}", "", estimate.memory.terms)]
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
    serving = estimate.serving
    if serving is None or serving.unit is Unit.TOKEN:
        return "Time per output token"
    return "Time of a batch" if serving.arrivals is None else "Time of an answer"


def latencies(estimate: Estimate) -> list[tuple[str, Range]]:
    """Labels and values of a served model's waiting times; none for training. [ms]"""
    serving = estimate.serving
    if serving is None:
        return []
    if serving.unit is not Unit.TOKEN:
        return [(answer_title(estimate), serving.ttft_ms)]
    if not serving.streams:
        return [("First token after", serving.ttft_ms)]
    return [("Time per token", serving.tpot_ms), ("First token after", serving.ttft_ms)]


def answer_unit(estimate: Estimate) -> str:
    """Return the unit of a server's output: generated token, image or sample."""
    unit = Unit.TOKEN if estimate.serving is None else estimate.serving.unit
    return "generated token" if unit is Unit.TOKEN else unit.value


@columns("Term", "Value", "Formula", "With your values", "Source")
def terms_frame(terms: Sequence[Term]) -> Cells:
    """Return terms with value, formula, this case's values and full source."""
    for item in terms:
        yield (
            item.title,
            term_value(item),
            item.formula,
            item.substituted,
            citation(item.reference),
        )


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
