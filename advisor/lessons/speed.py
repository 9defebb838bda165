"""Lessons about speed: processors, several cards, what limits the work, and how sure that is."""

from statistics import median
from typing import Final

from advisor import api
from advisor.errors import InputError
from advisor.foundation.formatting import bandwidth, duration, flops_rate, milliseconds, percent
from advisor.foundation.quantities import Evidence
from advisor.foundation.units import HOUR_S, MILLISECOND, trimmed
from advisor.lessons.asked import Asked
from advisor.lessons.memory import DEGREES, numbered, speed
from advisor.lessons.results import Bar, Figures
from advisor.nouns.layout import ParallelLayout
from advisor.owning.results import ProcessorOption
from advisor.planning.explain.sentences import BOUND_WORDS

MOST_PROCESSORS: Final = 6
ALIKE: Final = 1.05
"""Times within this factor are told as the same."""
MOST_NUMBERS: Final = 10
RELIEF: Final = (
    "More than 100 % has a reason: several cards have room for a layout that recomputes or "
    "offloads less than the one that fits on fewer."
)
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
    others.sort(key=lambda item: item.slower.expected)
    best = others[0]
    cards = f"{plan.count}x {plan.accelerator_name}"
    times = best.slower.expected
    longer = f"{trimmed(times, 2)} times as long as" if times > ALIKE else "about as long as"
    if times < 1 / ALIKE:
        longer = f"{percent(times)} of the time of"
    reach = f"; {best.count:,} of them reach its throughput" if times > ALIKE else ""
    sentences = (f"{best.accelerator_name} takes {longer} {cards}{reach}.", *_small(asked, best))
    return Figures(
        sentences=sentences,
        axis="Times as long as the plan, one machine each",
        bars=tuple(
            Bar.of(
                cards if item is first else item.accelerator_name,
                item.slower,
                _slower(item),
                chosen=item is first,
            )
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
    plan = asked.plan
    if plan.serving is not None:
        bars, axis, more = _replies(asked), f"Time {plan.serving.timed} in ms", ""
    else:
        several = asked.on(plan.accelerator, max(plan.count, DEGREES[-1]))
        points = api.scaling(several, catalog=asked.catalog).points[:MOST_NUMBERS]
        bars = tuple(
            Bar.of(
                numbered(point.count),
                100 * point.efficiency,
                f"{percent(point.efficiency)}, {duration(point.run_hours * HOUR_S)}",
                chosen=point.count == plan.count,
            )
            for point in points
        )
        axis = "Percent of perfect scaling"
        more = RELIEF if any(point.efficiency > ALIKE for point in points) else ""
    if not bars:
        return Figures(sentences=("The model fits on no number of these cards.",))
    sentence = " ".join(f"{bar.label}: {bar.text}." for bar in dict.fromkeys((bars[0], bars[-1])))
    return Figures(sentences=tuple(filter(None, (sentence, more))), axis=axis, bars=bars)


def _replies(asked: Asked) -> tuple[Bar, ...]:
    bars = []
    for number in DEGREES:
        layout = ParallelLayout(tensor=number)
        found = asked.variant(layout=layout)
        if found is None or found.serving is None or not found.memory.fits:
            continue
        ms = found.serving.tpot_ms
        chosen = found.layout == asked.plan.layout
        bars.append(Bar.of(numbered(number), ms, speed(found), chosen=chosen))
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
