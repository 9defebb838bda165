"""The limits that a configuration misses, or meets at a risk, one sentence each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from advisor.estimate.results import Estimate, ServingEstimate
from advisor.foundation.formatting import Value, duration, milliseconds, money, percent
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.limits import Constraints


def missed_limits(estimate: Estimate, limits: Constraints) -> tuple[str, ...]:
    """Return one sentence for each limit that a configuration does not meet.

    Parameters
    ----------
    estimate : Estimate
        A latency is judged at the accepted risk, other values at the expected one, as in the
        search.
    """
    return tuple(
        item.missed for item in _limited(estimate, limits) if item.value.at(item.share) > item.limit
    )


def limits_in_reach(estimate: Estimate, limits: Constraints) -> list[str]:
    """Return one sentence for each limit that a configuration meets but for a share of risk."""
    return [
        f"{item.lead} at the high end of the range: {item.write(item.value.high)}, limit "
        f"{item.write(item.limit)}: a risk of {percent(item.value.risk_above(item.limit))}."
        for item in _limited(estimate, limits)
        if item.value.at(item.share) <= item.limit < item.value.high
    ]


@dataclass(frozen=True, slots=True)
class _Limited:
    """A value with its limit."""

    lead: str
    """Words of a miss."""
    value: Range
    limit: float
    write: Callable[[Value], str]
    share: float = 0.5
    """Share of outcomes that has to meet the limit."""

    @property
    def missed(self) -> str:
        text = f"{self.lead}: {self.write(self.value)}, limit {self.write(self.limit)}"
        if self.value.expected > self.limit:
            return f"{text}."
        return f"{text}: a risk of {percent(self.value.risk_above(self.limit))}."


def _limited(estimate: Estimate, limits: Constraints) -> Iterator[_Limited]:
    time, serving, rent = estimate.time, estimate.serving, estimate.cost.rent_usd
    if time and limits.deadline_hours:
        limit = limits.deadline_hours * HOUR_S
        yield _Limited("Misses the deadline", time.run_hours.scaled(HOUR_S), limit, duration)
    if serving:
        yield from _limited_serving(serving, limits)
    if rent and limits.budget_usd:
        write = _monthly if serving else money
        yield _Limited("Over the budget", rent, limits.budget_usd, write)


def _limited_serving(serving: ServingEstimate, limits: Constraints) -> Iterator[_Limited]:
    under, share = serving.arrivals, 1.0 - limits.risk
    if under is not None:
        completed = under.most_requests_per_s
        load = Range(
            low=under.load * completed.expected / completed.high,
            expected=under.load,
            high=under.load * completed.expected / completed.low,
            evidence=completed.evidence,
        )
        yield _Limited("Does not keep up with the requests", load, 1.0, _of_capacity, share)
    known = getattr(under.percentiles, limits.at, None) if under else None
    judged, which = (serving, "") if known is None else (known, f" ({limits.at})")
    for what, value, most in (
        ("first token", judged.ttft_ms, limits.max_ttft_ms),
        ("time per token", judged.tpot_ms, limits.max_tpot_ms),
    ):
        if most is not None:
            lead = f"Misses the target for the {what}{which}"
            limit = most * MILLISECOND
            yield _Limited(lead, value.scaled(MILLISECOND), limit, milliseconds, share)


def _of_capacity(load: Value) -> str:
    value = load.expected if isinstance(load, Range) else load
    return f"{percent(value)} of what it completes"


def _monthly(usd: Value) -> str:
    return f"{money(usd)} a month"
