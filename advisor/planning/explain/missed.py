"""Limits that a configuration misses, or meets but for a share of risk."""

from collections.abc import Callable, Iterator
from math import ceil

from advisor.estimate.results import Estimate
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.formatting import Value, duration, milliseconds, money, percent
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.limits import Constraints


def missed_limits(estimate: Estimate, limits: Constraints) -> tuple[str, ...]:
    """Return one sentence for each limit that a configuration does not meet.

    ``estimate``: a latency is judged at the accepted risk, other values at the expected one, as in
    the search.
    """
    return tuple(
        item.missed for item in _limited(estimate, limits) if item.value.at(item.share) > item.limit
    )


def limits_in_reach(estimate: Estimate, limits: Constraints) -> list[str]:
    """Return one sentence for each limit that a configuration meets but for a share of risk."""
    return [
        item.missed
        for item in _limited(estimate, limits)
        if item.value.at(item.share) <= item.limit < item.value.high
    ]


@record
class _Limited:
    """A value with its limit."""

    lead: str
    """Words of a miss."""
    value: Range
    limit: float
    write: Callable[[Value], str]
    share: float = 0.5
    """Share of outcomes that has to meet the limit."""
    remedy: str = ""
    """What meets the limit that is missed."""

    @property
    def missed(self) -> str:
        limit = f"limit {self.write(self.limit)}"
        if self.value.expected > self.limit:
            return f"{self.lead}: {self.write(self.value)}, {limit}.{self.remedy}"
        return (
            f"{self.lead} at the high end of the range: {self.write(self.value.high)}, {limit}: "
            f"a risk of {percent(self.value.risk_above(self.limit))}."
        )


def _limited(estimate: Estimate, limits: Constraints) -> Iterator[_Limited]:
    time, serving, rent = estimate.time, estimate.serving, estimate.cost.rent_usd
    if time and limits.deadline_hours:
        limit = limits.deadline_hours * HOUR_S
        yield _Limited("Misses the deadline", time.run_hours.scaled(HOUR_S), limit, duration)
    if serving:
        yield from _limited_serving(serving, limits)
    if rent and limits.budget_usd:
        month = " a month" if serving else ""
        yield _Limited(
            "Over the budget", rent, limits.budget_usd, lambda usd: f"{money(usd)}{month}"
        )


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
        times = ceil(under.load)
        remedy = f" About {times:,} times these accelerators would keep up."
        lead = "Does not keep up with the requests"
        yield _Limited(lead, load, 1.0, _of_capacity, share, remedy)
    judged = serving.at(limits.at)
    which = "" if judged is serving else f" ({limits.at})"
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
