"""Lessons about speed: processors, several cards, what limits the work, and how sure that is."""

from statistics import median
from typing import Final

from advisor import api
from advisor.errors import InputError
from advisor.foundation.formatting import bandwidth, duration, flops_rate, milliseconds, percent
from advisor.foundation.quantities import Evidence
from advisor.foundation.rounding import trimmed
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.lessons.asked import Asked
from advisor.lessons.memory import DEGREES, numbered
from advisor.lessons.results import Bar, Figures
from advisor.nouns.layout import ParallelLayout
from advisor.owning.results import ProcessorOption
from advisor.planning.explain.sentences import BOUND_WORDS

MOST_PROCESSORS: Final = 6
MOST_NUMBERS: Final = 10
NEAREST: Final = 8
"""Measured runs that are drawn."""
LEAST_SHARE: Final = 0.005
"""Parts of a step below this share are not drawn."""
SMALL_NETWORK: Final = {
    "input": {"features": 784},
    "layers": [{"linear": 128}, "relu", {"linear": 10}],
}
"""Reads a handwritten digit of 28 x 28 pixels."""
EVIDENCE: Final = {
    Evidence.MEASURED: "was measured",
    Evidence.CALIBRATED: "is fitted on measurements",
    Evidence.DERIVED: "follows from facts by arithmetic",
    Evidence.ASSUMED: "rests on assumptions, because no comparable run was published",
}


def processor(asked: Asked) -> Figures:
    """Return the same work on processors."""
    plan = asked.plan
    first, *others = api.own(asked.placed, catalog=asked.catalog).processors[: MOST_PROCESSORS + 1]
    if not others:
        return Figures(sentences=("No processor of the catalog holds or does this work.",))
    best = min(others, key=lambda item: item.slower.expected)
    cards = f"{plan.count}x {plan.accelerator_name}"
    sentences = (
        (
            f"{best.accelerator_name} takes "
            f"{trimmed(best.slower.expected, 2)} times as long as {cards}; "
            f"{best.count:,} of them reach its throughput."
        ),
        *_small(asked, best),
    )
    return Figures(
        sentences=sentences,
        axis="Times as long as the plan, one machine each",
        bars=tuple(
            Bar.of(item.accelerator_name, item.slower, _slower(item), chosen=item is first)
            for item in (first, *others)
        ),
    )


def _small(asked: Asked, other: ProcessorOption) -> tuple[str, ...]:
    """Return the time of a small network on the plan's card and on a processor."""
    times = []
    for key in (asked.plan.accelerator, other.accelerator):
        case = {
            "model": {"stack": SMALL_NETWORK},
            "workload": {"kind": "serving", "concurrency": 1},
            "hardware": {"accelerator": key},
        }
        try:
            found = api.estimate(case, catalog=asked.catalog)
        except InputError:
            return ()
        assert found.serving is not None
        times.append(milliseconds(found.serving.tpot_ms.expected * MILLISECOND))
    return (
        (
            f"A network of two layers (784, 128, 10) answers one request in {times[0]} on "
            f"{asked.plan.accelerator_name} and in {times[1]} on {other.accelerator_name}."
        ),
    )


def _slower(item: ProcessorOption) -> str:
    times = f"{trimmed(item.slower.expected, 2)} times"
    return f"{times}, {duration(item.hours.expected * HOUR_S)}" if item.hours else times


def cards(asked: Asked) -> Figures:
    """Return what more cards of the plan's kind buy."""
    bars = _replies(asked) if asked.serves else _runs(asked)
    one, *more = bars or (None,)
    if one is None:
        return Figures(sentences=("The model fits on no number of these cards.",))
    sentence = f"{one.label}: {one.text}."
    if more:
        sentence = f"{sentence} {more[-1].label}: {more[-1].text}."
    return Figures(
        sentences=(sentence,),
        axis="Time per token in ms" if asked.serves else "Percent of perfect scaling",
        bars=bars,
    )


def _runs(asked: Asked) -> tuple[Bar, ...]:
    plan = asked.plan
    several = asked.on(plan.accelerator, max(plan.count, DEGREES[-1]))
    found = api.scaling(several, catalog=asked.catalog).points
    return tuple(
        Bar.of(
            numbered(point.count),
            100 * point.efficiency,
            f"{percent(point.efficiency)}, {duration(point.run_hours * HOUR_S)}",
            chosen=point.count == plan.count,
        )
        for point in found[:MOST_NUMBERS]
    )


def _replies(asked: Asked) -> tuple[Bar, ...]:
    bars = []
    for number in DEGREES:
        layout = ParallelLayout(tensor=number)
        found = asked.variant(layout=layout)
        if found is None or found.serving is None or not found.memory.fits:
            continue
        ms = found.serving.tpot_ms
        text = f"{milliseconds(ms.expected * MILLISECOND)} per token"
        bars.append(Bar.of(numbered(number), ms, text, chosen=found.layout == asked.plan.layout))
    return tuple(bars)


def limit(asked: Asked) -> Figures:
    """Return what the work waits for, beside the card's roofline."""
    plan = asked.plan
    card = asked.catalog.accelerator(plan.accelerator)
    told = plan.time or plan.serving
    assert told is not None
    total = sum(term.value for term in told.terms)
    shares = sorted(((term.value / total, term.title) for term in told.terms), reverse=True)
    peak = card.peak_flops_per_s.get("bf16") or max(card.peak_flops_per_s.values())
    reads = card.memory_bandwidth_bytes_per_s
    return Figures(
        sentences=(
            f"The plan is limited mostly by {BOUND_WORDS[told.bound_by]}.",
            (
                f"{card.name} computes up to {flops_rate(peak)} in 16 bits and reads "
                f"{bandwidth(reads)}: it waits for memory unless it does {peak / reads:,.0f} "
                "operations with each byte."
            ),
        ),
        axis="Percent of the time",
        bars=tuple(
            Bar.of(title, 100 * share, percent(share))
            for share, title in shares
            if share >= LEAST_SHARE
        ),
    )


def sure(asked: Asked) -> Figures:
    """Return how far predictions of such work were from measurements."""
    plan = asked.plan
    near = api.similar_runs(
        asked.case.workload,
        accelerator=asked.catalog.accelerator(plan.accelerator),
        count=plan.count,
        parameters=plan.parameters.total,
        active_parameters=plan.parameters.active,
        most=NEAREST,
    )
    sentences = []
    if plan.time is not None or plan.serving is not None:
        told = plan.time.run_hours if plan.time else plan.serving.tpot_ms  # type: ignore[union-attr]
        span = f"{trimmed(told.high / told.low, 2)}"
        sentences.append(
            f"The high end of your time is {span} times the low end. It {EVIDENCE[told.evidence]}."
        )
    if near:
        middle = median(abs(run.row.error_pct) for run in near)
        inside = sum(run.row.covered for run in near)
        sentences.append(
            f"The {len(near)} published runs most like yours: half were predicted within "
            f"{middle:.0f} %, and {inside} lay inside their range."
        )
    return Figures(
        sentences=tuple(sentences),
        axis="Percent between prediction and measurement",
        bars=tuple(
            Bar.of(
                f"{run.model}, {run.count}x {run.accelerator_name}",
                abs(run.row.error_pct),
                f"{run.row.error_pct:+.0f} %, {'in' if run.row.covered else 'out of'} range",
            )
            for run in near
        ),
    )
