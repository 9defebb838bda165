"""Options as points of the chart of cost against time."""

from collections.abc import Sequence

from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import MILLISECOND
from advisor.planning.explain.sentences import label
from advisor.planning.results import Candidate
from advisor.planning.search.options import Option, run_rents
from advisor.planning.search.ranking import RankColumns
from advisor.planning.search.systems import System
from advisor.planning.time_ranges import TimeSpreads

CHART_CANDIDATES = 240
"""Most points in the cost-time chart, including the frontier."""


def chart_points(
    options: Sequence[Option],
    axes: RankColumns,
    systems: Sequence[System],
    spreads: TimeSpreads,
    *,
    serving: bool,
) -> tuple[Candidate, ...]:
    """Return the frontier and the best of each system, fastest first; ``axes``: of the options."""
    best = [options[place] for place in axes.frontier()]
    keep = dict.fromkeys((*best, *(options[place] for place in axes.best_of_systems())))
    on_frontier = set(best)
    shown = sorted(keep, key=lambda item: (item not in on_frontier, item.value))
    shown = sorted(shown[:CHART_CANDIDATES], key=lambda item: (item.time, item.cost_usd))
    return as_candidates(shown, systems, spreads, serving=serving, on_frontier=on_frontier)


def fewest(options: Sequence[Option], systems: Sequence[System]) -> list[Option]:
    """Return the option with the fewest of each accelerator; among equals, the cheapest."""
    found: dict[str, Option] = {}
    for option in sorted(options, key=fewest_first):
        found.setdefault(systems[option.system].accelerator.key, option)
    return list(found.values())


def fewest_first(option: Option) -> tuple[float, float, float]:
    """Sort key: the fewest accelerators, then the cheapest."""
    return (option.count, option.cost_high_usd, option.time_high)


def as_candidates(
    options: Sequence[Option],
    systems: Sequence[System],
    spreads: TimeSpreads,
    *,
    serving: bool,
    on_frontier: set[Option],
) -> tuple[Candidate, ...]:
    """Return options with ranges and names, in the given order.

    ``serving``: times are of a token, not of a run. ``on_frontier``: options that no other beats in
    both cost and time.
    """
    spans = [_span(option, systems[option.system], spreads, serving=serving) for option in options]
    rents = (
        [[option.cost_usd] * 3 for option in options]
        if serving
        else run_rents(
            [option.offer for option in options],
            [(span.low, span.expected, span.high) for span in spans],
            [option.usd_per_hour for option in options],
        )
    )
    return tuple(
        Candidate(
            accelerator=systems[option.system].accelerator.key,
            accelerator_name=systems[option.system].accelerator.name,
            count=option.count,
            provider=option.offer.provider if option.offer else None,
            instance_type=option.offer.instance_type if option.offer else None,
            hours=None if serving else span,
            tpot_ms=span if serving else None,
            cost_usd=_rent(rent, span, serving=serving) if option.offer else None,
            on_frontier=option in on_frontier,
            label=label(option, systems[option.system]),
        )
        for option, span, rent in zip(options, spans, rents, strict=True)
    )


def _span(option: Option, system: System, spreads: TimeSpreads, *, serving: bool) -> Range:
    """Return the hours of a run with interruptions, or the milliseconds per token."""
    spread = spreads.of(
        system.accelerator,
        system.node,
        precision=option.precision,
        count=option.count,
        software=option.run.software if option.run else "",
        hosted=option.layouts.on_host(option.row),
    )
    if serving:
        low, time, high = (end * option.time for end in (spread.low, spread.expected, spread.high))
        ends = min(low, option.time_high), time, max(high, option.time_high)
        low, time, high = (end * (1 / MILLISECOND) for end in ends)
        return Range(low=low, expected=time, high=high, evidence=spread.evidence)
    time_range = spread.scaled(option.time)
    if option.interrupted is None:
        return time_range
    return time_range.scaled(1 / option.interrupted.expected).times(option.interrupted)


def _rent(usd: Sequence[float], hours: Range, *, serving: bool) -> Range:
    low, expected, high = usd
    evidence = Evidence.DERIVED if serving else hours.evidence
    return Range(low=low, expected=expected, high=high, evidence=evidence)
