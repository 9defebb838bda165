"""The numbers of an estimate, each with the terms that give it."""

from collections.abc import Iterable, Iterator
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.estimate.results import Estimate, StepTime
from advisor.foundation.formatting import (
    count,
    duration,
    flops,
    memory,
    milliseconds,
    money,
    percent,
    term_value,
)
from advisor.foundation.quantities import Range, Term
from advisor.foundation.record import record
from advisor.foundation.references import citation
from advisor.foundation.units import HOUR_S, MILLISECOND, plain

RARE: Final = 0.01
"""Below this number of interruptions, the text says *under*."""


@record
class Section:
    """One number of an estimate and its terms."""

    name: str
    value: str
    """With its range; empty if the terms are of several numbers."""
    note: str
    """How the terms give the number, if they do not simply add up."""
    terms: tuple[Term, ...]

    @property
    def title(self) -> str:
        """Name and value."""
        return f"{self.name}: {self.value}" if self.value else self.name


def term_sections(estimate: Estimate) -> Iterator[Section]:
    """Yield every number of an estimate that has terms; memory first."""
    return filter(lambda section: section.terms, _sections(estimate))


def _sections(estimate: Estimate) -> Iterator[Section]:
    total = memory(estimate.memory.total_bytes, with_range=True)
    yield Section(f"Memory {estimate.memory_place}", total, "", estimate.memory.terms)
    done = f"{flops(estimate.flops.per_token)} per {answer_unit(estimate)}."
    if estimate.time is not None:
        done = f"{flops(estimate.flops.hardware_per_step)} per step, recomputation included."
    yield Section("Operations", "", done, estimate.flops.terms)
    if (time := estimate.time) is not None:
        step = duration(time.step_s, with_range=True)
        hours = duration(time.run_hours.scaled(HOUR_S), with_range=True)
        steps = f"{count(time.steps)} steps with start-up, evaluation and failures take {hours}."
        yield Section("Time of a step", step, steps, time.terms)
        yield Section("Time of the run", hours, _delivered(time), time.run_terms)
    if (serving := estimate.serving) is not None:
        token = milliseconds(serving.tpot_ms.scaled(MILLISECOND), with_range=True)
        yield Section(answer_title(estimate), token, "", serving.terms)
    yield Section("Cost and energy", "", "", estimate.cost.terms)


def _delivered(time: StepTime) -> str:
    """Return how the steps become the hours of the run."""
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
    return f"{note}."


def answer_title(estimate: Estimate) -> str:
    """Return the name of the time of a served answer."""
    serving = estimate.serving
    if serving is None or serving.unit is Unit.TOKEN:
        return "Time per token"
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


def headlines(estimate: Estimate) -> dict[str, str]:
    """Return time, cost and memory of a plan with their ranges, by name."""
    shown = {}
    if (time := estimate.time) is not None:
        shown["Time"] = duration(time.run_hours.scaled(HOUR_S), with_range=True)
        steps = duration(time.benchmark_hours.scaled(HOUR_S))
        shown["Steps alone, in a tuned benchmark"] = steps
    for label, value in latencies(estimate):
        shown[label] = milliseconds(value.scaled(MILLISECOND), with_range=True)
    if estimate.cost.rent_usd is not None:
        name = "Cost" if time is not None else "Cost of a month"
        shown[name] = money(estimate.cost.rent_usd, with_range=True)
    used = memory(estimate.memory.total_bytes, with_range=True)
    shown["Memory"] = f"{used} of {memory(estimate.memory.usable_bytes)}{estimate.memory_of}"
    return shown


def answer_unit(estimate: Estimate) -> str:
    """Return the unit of a server's output: generated token, image or sample."""
    unit = Unit.TOKEN if estimate.serving is None else estimate.serving.unit
    return "generated token" if unit is Unit.TOKEN else unit.value


def term_cells(terms: Iterable[Term]) -> Iterator[dict[str, str]]:
    """Yield terms with value, formula, this case's values and full source, by column."""
    for item in terms:
        yield {
            "Term": item.title,
            "Value": term_value(item),
            "Formula": item.formula,
            "With your values": item.substituted,
            "Source": citation(item.reference),
        }
