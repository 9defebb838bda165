"""One configuration: its numbers, their terms, and an explanation of every term."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from rich.text import Text

from advisor.architecture.table.model import Unit
from advisor.estimate.beside_results import Day
from advisor.estimate.results import Estimate
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.dates import dated
from advisor.foundation.formatting import (
    count,
    duration,
    flops,
    hourly_price,
    lowered,
    memory,
    memory_against,
    milliseconds,
    money,
    percent,
    rate,
    term_value,
)
from advisor.foundation.quantities import Range, Term
from advisor.foundation.references import citation
from advisor.foundation.units import HOUR_S, MILLISECOND, plain, trimmed
from advisor.nouns.layout import ParallelLayout, Recompute, Schedule
from advisor.nouns.precision import formats_served
from advisor.planning.explain.sentences import BOUND_WORDS, neighbour_cells, way_out_sentence
from advisor.planning.explain.terms import Section, answer_title, term_sections
from advisor.terminal.console import Report, Screen, listed, table

RANGES: Final = (
    "Ranges in brackets are 80 % intervals if the evidence is calibrated; otherwise they are "
    "assumptions."
)

Row = tuple[str, str, str]
DETAILS: Final = {
    "Goodput",
    "Model FLOPs per step",
    "Purchase of the cards",
    "Energy of the run",
    "Energy of the month",
    "Replicas",
}
"""Numbers that only ``--explain`` shows."""
SHOWN_TERMS: Final = 4
SHOWN_WAYS: Final = 4


def show_estimate(console: Report, estimate: Estimate, *, everything: bool = False) -> None:
    """Print an estimate on one screen; ``everything`` opens every term."""
    if not everything:
        _short(console, estimate)
        return
    console.print(
        f"{estimate.model} on {count(estimate.count)}x {estimate.accelerator_name}", style="bold"
    )
    console.paragraph(f"{estimate.workload[:1].upper()}{estimate.workload[1:]}.")
    console.paragraph(f"{arrangement(estimate)}.")
    if (software := estimate.software) is not None:
        note = f" Note: {software.note.rstrip('.')}." if software.note else ""
        console.paragraph(f"{software.sentence}{note}")
    console.paragraph(" ".join((fit_sentence(estimate), *estimate.missed_limits)))
    console.bullets("Faster or smaller on the same cards", estimate.improvements)
    console.bullets(
        "What would make it fit",
        (way_out_sentence(way, estimate) for way in estimate.ways_out),
    )
    console.print(table(["Number", "Value", "Evidence"], numbers(estimate)))
    console.paragraph(RANGES)
    show_day(console, estimate.day)
    for section in term_sections(estimate):
        _explain(console, section)
    title = "Other layouts on the same accelerators"
    console.tabled_cells(title, neighbour_cells(estimate), right=(1, 2))
    console.bullets("Largest sizes", (curve.sentence for curve in estimate.curves))
    console.bullets("Assumed", estimate.assumptions)
    console.references(estimate.references)


def _short(console: Report, found: Estimate) -> None:
    """Print the headline numbers, and where memory and time go."""
    rows = [row for row in numbers(found) if row[0] not in DETAILS]
    screen = Screen(console, "--explain shows every term with its formula, source and neighbours.")
    screen.add(0, Text(f"{found.model} on {found.cards:,}x {found.accelerator_name}", style="bold"))
    screen.say(0, f"{found.workload[:1].upper()}{found.workload[1:]}.")
    screen.say(0, f"{arrangement(found)}.")
    screen.say(0, " ".join((fit_sentence(found), *found.missed_limits)))
    better = ("", *(f"- {text}" for text in found.improvements))
    screen.say(1, "\n".join(better), title="Faster or smaller on the same cards")
    screen.say(1, "\n".join(["", *ways_out(found)]), title="What would make it fit")
    screen.add(0, table(["Number", "Value", "Evidence"], rows))
    screen.say(2, found.api.sentence if found.api else "", title="Beside an API")
    timed = found.time or found.serving
    screen.say(3, _largest(found.memory.terms), title="Memory")
    screen.say(3, _largest(timed.terms if timed else ()), title="Time")
    near = [item for item in found.neighbours if item.fits][:3]
    others = ", ".join(f"{trimmed(item.time_ratio, 3)}x ({item.change})" for item in near)
    screen.say(5, others and f"{others}.", title="Other layouts that fit")
    screen.say(4, " ".join(curve.sentence for curve in found.curves), title="Largest sizes")
    screen.say(2, listed(found.assumptions) if found.assumptions else "", title="Assumed")
    screen.show()


def ways_out(found: Estimate) -> list[str]:
    """Return what would make an estimate fit, one line each."""
    return [f"- {way_out_sentence(way, found)}" for way in found.ways_out[:SHOWN_WAYS]]


def _largest(terms: Iterable[Term]) -> str:
    ordered = sorted((term for term in terms if term.value > 0), key=lambda term: -term.value)
    parts = [f"{lowered(term.title)} {term_value(term)}" for term in ordered]
    rest = f" and {len(parts) - SHOWN_TERMS} more" if len(parts) > SHOWN_TERMS else ""
    return f"{'; '.join(parts[:SHOWN_TERMS])}{rest}." if parts else ""


def day_line(day: Day) -> str:
    """Return what each way of renting through the day costs, in one sentence."""
    ways = (
        f"{way.title.lower()} {money(way.usd_per_month)} a month, {percent(way.idle_share)} idle, "
        f"{percent(way.late_share)} of requests late"
        for way in day.ways
    )
    return (
        f"{trimmed(day.mean_requests_per_s, 3)} requests/s on average, "
        f"{trimmed(day.peak_requests_per_s, 3)} at the peak: {'; '.join(ways)}."
    )


def show_day(console: Report, day: Day | None) -> None:
    """Print what each way of renting costs through the day."""
    if day is None:
        return
    rates = (
        f"{trimmed(day.mean_requests_per_s, 3)} requests/s on average, "
        f"{trimmed(day.peak_requests_per_s, 3)} at the peak"
    )
    ways = [way.cells for way in day.ways]
    console.tabled_cells(f"Through the day: {rates}", ways, right=(1, 2, 3))
    notes = [f"{way.title}: {way.note}." for way in day.ways if way.note]
    console.paragraph(" ".join([*(f"Assumed: {text}." for text in day.assumptions), *notes]))


def arrangement(estimate: Estimate) -> str:
    """Return precision and layout in words, without degrees of one.

    Serving has no sharding, micro-batch, recomputation or offload.
    """
    layout = estimate.layout
    degrees = [
        f"{name} {degree}"
        for name in ("data", "tensor", "pipeline", "context")
        if (degree := getattr(layout, name)) > 1
    ]
    formats = formats_served(estimate.precision, estimate.kv_cache_format)
    parts = [formats, " x ".join(degrees) or "one accelerator"]
    if layout.expert > 1:
        # A server spreads whole experts over all its cards, a trainer over its expert ranks.
        over = layout.expert if estimate.serving is None else layout.expert * layout.tensor
        parts.append(f"experts over {over}")
    if layout.host_options:
        parts.append(f"layers in the host's memory ({layout.host_options})")
    if estimate.serving is None:
        if layout.virtual_stages > 1:
            parts.append(f"{layout.virtual_stages} virtual stages")
        if layout.schedule is not Schedule.PLAIN:
            parts.append(f"schedule {layout.schedule.value}")
        if layout.data > 1:
            parts.append(layout.sharding.value)
        parts.append(f"micro-batch {layout.micro_batch}")
        if layout.recompute is not Recompute.NONE:
            parts.append(f"{layout.recompute.value} recompute")
        if layout.offload:
            parts.append(f"{' and '.join(what.value for what in layout.offload)} on the host")
    names = [name.replace("_", " ") for name in estimate.stated]
    chosen = len(names) < len(ParallelLayout.model_fields)
    you = f"; you stated {', '.join(names)}, the search chose the rest" if names and chosen else ""
    return "Layout: " + ", ".join(parts) + you


def fit_sentence(estimate: Estimate) -> str:
    """Return whether the work fits in memory, with needed and usable bytes."""
    breakdown = estimate.memory
    needed, usable = memory_against(breakdown.total_bytes, breakdown.usable_bytes)
    usable = f"{usable} usable {estimate.memory_place}"
    if breakdown.fits:
        verdict = "Tight, but likely fits" if breakdown.tight else "Fits"
        software = estimate.software
        told = f" {software.sentence}" if software and software.instead_of else ""
        return f"{verdict}: needs {needed} of {usable}.{told}"
    if breakdown.needed_bytes <= breakdown.usable_bytes:
        held = memory(breakdown.host_bytes.expected)
        host = f"{held} for each accelerator is too much for the host's memory"
        return f"Does not fit: {estimate.crowded or host}."
    if breakdown.total_bytes.expected <= breakdown.usable_bytes:
        return f"May not fit: needs {needed}, {usable}."
    short = memory(breakdown.needed_bytes - breakdown.usable_bytes)
    return f"Does not fit: needs {needed}, {usable}; up to {short} short."


def numbers(estimate: Estimate) -> list[Row]:
    """Return the headline numbers with range and evidence."""
    parameters = estimate.parameters
    total = count(parameters.total)
    if parameters.with_vision > parameters.total:
        total += f" of the text tower, {count(parameters.with_vision)} with the vision tower"
    rows: list[Row] = [("Parameters", total, parameters.evidence.value)]
    if parameters.active < parameters.total:
        shown = count(parameters.active)
        if parameters.active_without_embedding < parameters.active:
            shown += f" ({count(parameters.active_without_embedding)} without the embedding table)"
        rows.append(("Active parameters", shown, parameters.evidence.value))
    if 0 < parameters.trainable < parameters.total:
        rows.append(("Trained parameters", count(parameters.trainable), parameters.evidence.value))
    rows.append(_row(f"Memory{estimate.memory_of}", memory, estimate.memory.total_bytes))
    if estimate.memory.host_bytes.expected > 0:
        rows.append(_row("Host memory for each", memory, estimate.memory.host_bytes))
    return [*rows, *_training_rows(estimate), *_serving_rows(estimate), *_cost_rows(estimate)]


def short_time(seconds: Range, *, with_range: bool = False) -> str:
    """Return a time in milliseconds below one second."""
    form = milliseconds if seconds.expected < 1 else duration
    return form(seconds, with_range=with_range)


class Form(Protocol):
    """A function of ``advisor.foundation.formatting`` that shows a range."""

    def __call__(self, value: Range, /, *, with_range: bool) -> str:
        """Return the range as text."""


def _row(title: str, form: Form, value: Range) -> Row:
    return (title, form(value, with_range=True), value.evidence.value)


def _training_rows(estimate: Estimate) -> Iterator[Row]:
    time = estimate.time
    if time is None:
        return
    yield _row("Run", duration, time.run_hours.scaled(HOUR_S))
    yield _row("Steps in a tuned benchmark", duration, time.benchmark_hours.scaled(HOUR_S))
    yield _row("Step", short_time, time.step_s)
    yield ("Steps", count(time.steps), "derived")
    speed = partial(rate, unit=f"{time.unit.value}s/s")
    yield _row("Throughput over the run", speed, time.delivered_tokens_per_s)
    yield _row("Throughput in a tuned benchmark", speed, time.tokens_per_s)
    yield _row("Model FLOPs utilization", percent, time.model_flops_utilization)
    yield _row("Goodput", percent, time.goodput)
    every = time.checkpoint_interval_s
    # A run that ends before its first checkpoint saves none.
    if every is not None and every < time.run_hours.expected * HOUR_S:
        yield ("Interruptions in the run", plain(time.interruptions, 2), "assumed")
        yield ("Save a checkpoint every", duration(every), "assumed")
    yield ("Model FLOPs per step", flops(estimate.flops.model_per_step), "derived")
    yield ("Limited by", BOUND_WORDS[time.bound_by], "")


def _serving_rows(estimate: Estimate) -> Iterator[Row]:
    serving = estimate.serving
    if serving is None:
        return
    if serving.unit is Unit.TOKEN:
        yield _row("Time to first token", milliseconds, serving.ttft_ms.scaled(MILLISECOND))
        yield _row("Time per token", _with_its_rate, serving.tpot_ms.scaled(MILLISECOND))
        yield from _arrivals_rows(serving)
        yield _row("Output", partial(rate, unit="tokens/s"), serving.output_tokens_per_s)
        yield _row("Requests", partial(rate, unit="requests/s"), serving.requests_per_s)
        if serving.sound_s_per_s is not None:
            yield _row("Speech", partial(rate, unit="x real time"), serving.sound_s_per_s)
        yield ("Requests that fit at once", count(serving.max_concurrency), "derived")
        longest = f"{count(serving.max_context_tokens)} tokens"
        yield ("Longest context that fits", longest, "derived")
    else:
        yield _row(answer_title(estimate), short_time, serving.ttft_ms.scaled(MILLISECOND))
        yield from _arrivals_rows(serving)
        unit = f"{serving.unit.value}s/s"
        yield _row("Output", partial(rate, unit=unit), serving.output_tokens_per_s)
        yield ("Largest batch that fits", count(serving.max_concurrency), "derived")
    yield ("Replicas", count(serving.replicas), "")
    yield ("Limited by", BOUND_WORDS[serving.bound_by], "")


def _with_its_rate(token_s: Range, *, with_range: bool) -> str:
    """Return the time of a token and what a reader sees: benchmarks leave the prompt out."""
    time = milliseconds(token_s, with_range=with_range)
    return f"{time}, {rate(1 / token_s.expected, 'tokens/s')}"


def _arrivals_rows(serving: ServingEstimate) -> Iterator[Row]:
    under = serving.arrivals
    if under is None:
        return
    for name, at in under.percentiles or ():
        share = f"  {name.upper()} of"
        if serving.unit is not Unit.TOKEN:
            yield _row(f"{share} an answer", milliseconds, at.ttft_ms.scaled(MILLISECOND))
            continue
        yield _row(f"{share} the first token", milliseconds, at.ttft_ms.scaled(MILLISECOND))
        yield _row(f"{share} the time per token", milliseconds, at.tpot_ms.scaled(MILLISECOND))
    asked = f"{trimmed(under.asked_requests_per_s, 3)} requests/s"
    yield (f"Load by {asked}", percent(under.load), "derived")
    yield ("Requests in flight, mean", plain(under.in_flight, 3), "derived")
    most = partial(rate, unit="requests/s")
    yield _row("Most that it completes", most, under.most_requests_per_s)


def _cost_rows(estimate: Estimate) -> Iterator[Row]:
    cost = estimate.cost
    period = "run" if estimate.time is not None else "month"
    if cost.usd_per_hour is None:
        yield ("Rent", "not priced", "")
    else:
        place = ", ".join(
            part for part in (cost.provider, cost.region, dated(cost.price_date)) if part
        )
        price = hourly_price(cost.usd_per_hour)
        yield ("Rent", f"{price} ({place})" if place else price, cost.usd_per_hour.evidence.value)
    served = cost.usd_per_million_output_tokens is not None
    answers = "answer tokens, prompts included" if served else f"{_unit(estimate)}s"
    energy = partial(rate, unit="kWh")
    told: tuple[tuple[str, Form, Range | None], ...] = (
        (f"Rent of the {period}", money, cost.rent_usd),
        (f"Per million {answers}", money, cost.usd_per_million_tokens),
        ("  of them: prompt tokens alone", money, cost.usd_per_million_input_tokens),
        ("  of them: answer tokens alone", money, cost.usd_per_million_output_tokens),
        ("Rent for an hour of sound", money, estimate.sound_hour_usd),
        ("Purchase of the cards", money, cost.purchase_usd),
        (f"Energy of the {period}, machines and cooling", energy, cost.energy_kwh),
        (f"CO2 of it, {cost.carbon_place}", partial(rate, unit="kg"), cost.carbon_kg),
    )
    yield from (_row(title, form, value) for title, form, value in told if value is not None)


def _unit(estimate: Estimate) -> str:
    """Return the unit of the work."""
    counted = estimate.time or estimate.serving
    return "token" if counted is None else counted.unit.value


def _explain(console: Report, section: Section) -> None:
    console.heading(section.title)
    if section.note:
        console.paragraph(section.note)
    for term in section.terms:
        console.paragraph(f"{term.title}: {term_value(term)}")
        console.definitions(
            ("formula", term.formula),
            ("here", term.substituted),
            ("source", citation(term.reference)),
        )
