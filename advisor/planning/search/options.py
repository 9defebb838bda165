"""Priced configurations, and the limits that filter them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import inf
from typing import NamedTuple

import numpy as np

from advisor.equations.pricing import rent_usd
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.run import TrainingRun
from advisor.foundation import cents
from advisor.foundation.dates import current_day
from advisor.foundation.quantities import Evidence, Range, way_to_end
from advisor.foundation.record import by_identity, record
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH, MILLISECOND
from advisor.nouns.hardware import Billing, Offer, PriceKind
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints
from advisor.nouns.workload import Serving
from advisor.planning.balancer import balancer_usd_per_month
from advisor.planning.search.systems import System, price_usd_per_hour
from advisor.planning.spot import Interruptions, upper_factor

NEAR_FASTEST = 1.05
"""Options within this factor of the least time count as equally fast."""


class Miss(NamedTuple):
    """The layout with the smallest need, for an accelerator on which nothing fits."""

    needed_bytes: float
    """High end of its range. [bytes]"""
    usable_bytes: float
    """Usable memory of the accelerator, less than that need. [bytes]"""


@dataclass(slots=True, eq=False)
class Option:
    """One configuration: a point of the cost-time chart once it has a price. Equal only to itself.

    Not frozen: a search makes thousands, and :func:`priced_options` completes them.
    """

    system: int
    count: int
    """Accelerators in use; the rent is for whole instances."""
    precision: str
    layouts: LayoutArrays
    row: int
    """The layout is element ``row`` of ``layouts``."""
    time: float
    """Hours of the run (training) or seconds per output token (serving)."""
    time_high: float
    """Upper end of its range."""
    first_token_s: float | None = None
    """Serving only: the price is then for a month. [s]"""
    tokens_per_s: float | None = None
    """Serving only: generated tokens of the whole deployment. [tokens/s]"""
    judged: tuple[float, float] | None = None
    """Serving: time per output token and to the first token, where the limits judge them. [s]"""
    run: TrainingRun | None = None
    """The resolved workload; None for serving."""
    proven: bool = True
    """Whether published runs on cards of this generation are behind the range of the time."""
    offer: Offer | None = None
    instances: int = 0
    usd_per_hour: float = 0.0
    """0 for owned hardware. [USD/h]"""
    cost_usd: float = 0.0
    """Run (training) or month (serving). [USD]"""
    cost_high_usd: float = 0.0
    """Upper end of the cost of a run. A month of serving has a list price; without a published run
    on the card, it is that of the machines which then still give the expected rate. [USD]"""
    interrupted: Range | None = None
    """Spot: hours of the run for an hour of work; ``time`` includes them."""
    spares: int = 0
    """Spare replicas; instances and cost include them."""

    @property
    def layout(self) -> ParallelLayout:
        """The layout as a noun."""
        return self.layouts.layout(self.row)

    @property
    def cards(self) -> int:
        """Accelerators in use, and those of spare replicas."""
        each = self.layouts.replica_cards(self.row) if self.spares else 0
        return self.count + self.spares * each

    @property
    def later_s(self) -> float:
        """Time per output token where a limit judges it. [s]"""
        return self.judged[0] if self.judged else self.time

    @property
    def first_s(self) -> float:
        """Time to the first token where a limit judges it. [s]"""
        return self.judged[1] if self.judged else self.first_token_s or 0.0

    @property
    def value(self) -> float:
        """Cost x time at their upper ends, the smaller the better.

        Owned hardware costs no rent, so only its time counts.
        """
        return self.time_high * (self.cost_high_usd if self.cost_usd > 0 else 1.0)


def cheapest_offer(
    system: System, kind: PriceKind, today: date | None = None
) -> tuple[Offer, float, float]:
    """Return the cheapest offer of a rented system, its price and the factor to its upper end.

    The upper end decides, so a price "from" or an old one has to win clearly over a firm new one.
    [USD/h]
    """
    return _cheapest(system.offers, kind, today or current_day())


@by_identity(1024)
def _cheapest(
    offers: tuple[Offer, ...], kind: PriceKind, today: date
) -> tuple[Offer, float, float]:
    priced = [(price_usd_per_hour(offer, kind), offer) for offer in offers]
    found = [
        (offer, price, upper_factor(offer, kind, today))
        for price, offer in priced
        if price is not None
    ]
    return min(found, key=lambda item: (item[1] * item[2], item[0].key))


@record
class Price:
    """Price of the cheapest instance of a system; None for owned hardware."""

    offer: Offer | None
    usd_per_hour: float
    """One instance. [USD/h]"""
    accelerators: int
    """In one instance."""
    interruptions: Interruptions | None = None
    """Of a run on spot instances."""
    factor: float = 1.0
    """Upper end of the price over the price."""

    @classmethod
    def of(
        cls,
        system: System,
        kind: PriceKind,
        interruptions: Interruptions | None = None,
        today: date | None = None,
    ) -> Price:
        """Return the price of a system's cheapest offer."""
        if system.owned:
            return cls(None, 0.0, system.node.accelerators)
        offer, per_hour, factor = cheapest_offer(system, kind, today)
        return cls(offer, per_hour, system.node.accelerators, interruptions, factor)

    def affordable(self, counts: Sequence[int], most_usd: float) -> int:
        """Return how many of rising numbers of accelerators cost less than a monthly bill."""
        month = self.usd_per_hour * self.factor * HOURS_PER_MONTH
        return bisect_left(
            counts, most_usd, key=lambda count: -(-count // self.accelerators) * month
        )


def priced_options(
    found: list[Option],
    prices: Sequence[Price] | Mapping[int, Price],
    served: Serving | None = None,
) -> list[Option]:
    """Price what was found, with the spare replicas and the load balancer of a served model.

    The options that were given: their times grow by interruptions.
    """
    for item in found:
        price = prices[item.system]
        item.offer, item.spares = price.offer, 0 if served is None else served.spare_replicas
        item.instances = -(-item.cards // price.accelerators) if price.offer else 0
        item.usd_per_hour = cents.times(price.usd_per_hour, item.instances)
        if price.interruptions:
            longer = item.interrupted = price.interruptions.hours(item.instances)
            item.time, item.time_high = item.time * longer.expected, item.time_high * longer.high
    rents: Iterable[Sequence[float]] = (_month(item, served) for item in found)
    if found and found[0].first_token_s is None:
        rents = run_rents(
            [item.offer for item in found],
            [(item.time, item.time_high) for item in found],
            [item.usd_per_hour for item in found],
        )
    for item, (usd, high) in zip(found, rents, strict=True):
        item.cost_usd, item.cost_high_usd = usd, high * prices[item.system].factor
    return found


def _month(option: Option, served: Serving | None) -> tuple[float, float]:
    """Return the bill of a month of serving, and the upper end of its range. [USD]"""
    usd = option.usd_per_hour * HOURS_PER_MONTH
    if served is not None and served.load_balancer:
        usd += balancer_usd_per_month(option.offer, served, option.tokens_per_s)
    return usd, usd if option.proven else usd * option.time_high / option.time


def run_rents(
    offers: Sequence[Offer | None], hours: Sequence[Sequence[float]], usd_per_hour: Sequence[float]
) -> list[list[float]]:
    """Rent of runs in the providers' billing steps. [USD]

    In the shape of ``hours``. Offers with equal billing are computed together.

    ``offers``: owned hardware (None) has no rent. ``hours``: time of each run at several points of
    its range. [h]
    """
    times, usd = np.asarray(hours, dtype=float), np.asarray(usd_per_hour)
    rents = np.zeros_like(times)
    alike: dict[Billing, list[int]] = {}
    for place, offer in enumerate(offers):
        if offer is not None:
            alike.setdefault(offer.billing, []).append(place)
    for billing, places in alike.items():
        rents[places] = rent_usd(
            hours=times[places],
            instances=1.0,
            usd_per_hour=usd[places][:, None],
            billing_step_hours=billing.step_s / HOUR_S,
            minimum_hours=billing.minimum_s / HOUR_S,
        )
    costs: list[list[float]] = rents.tolist()
    return costs


def in_time(options: Iterable[Option], limits: Constraints) -> list[Option]:
    """Return the options that meet the deadline (training) or the latency targets (serving)."""
    hours, later_ms, first_ms = (
        inf if most is None else most
        for most in (limits.deadline_hours, limits.max_tpot_ms, limits.max_ttft_ms)
    )
    found = []
    for option in options:
        if option.first_token_s is None:
            meets = option.time <= hours
        else:
            later_s, first_s = option.judged or (option.time, option.first_token_s)
            meets = later_s / MILLISECOND <= later_ms and first_s / MILLISECOND <= first_ms
        if meets:
            found.append(option)
    return found


def within_limits(options: Iterable[Option], limits: Constraints) -> list[Option]:
    """Return the options that meet the limits of time and cost no more than the budget."""
    usd = inf if limits.budget_usd is None else limits.budget_usd
    return [option for option in in_time(options, limits) if option.cost_usd <= usd]


def meets_time(option: Option, limits: Constraints) -> bool:
    """Return whether an option meets the deadline (training) or the latency targets (serving)."""
    return bool(in_time([option], limits))


def meets_tpot(option: Option, limits: Constraints) -> bool:
    """Return whether a served option meets the target for the time per output token."""
    return limits.max_tpot_ms is None or option.later_s / MILLISECOND <= limits.max_tpot_ms


def likely_in_time(option: Option, limits: Constraints) -> bool:
    """Return whether a served option is expected to meet the latency targets."""
    return (limits.max_tpot_ms is None or option.time / MILLISECOND <= limits.max_tpot_ms) and (
        limits.max_ttft_ms is None
        or (option.first_token_s or 0.0) / MILLISECOND <= limits.max_ttft_ms
    )


def latency_risk(option: Option, limits: Constraints) -> float:
    """Return the share of outcomes in which a served option misses the nearer latency target."""
    way, risk = way_to_end(1.0 - limits.risk), 0.0
    for expected, judged, most_ms in (
        (option.time, option.later_s, limits.max_tpot_ms),
        (option.first_token_s or 0.0, option.first_s, limits.max_ttft_ms),
    ):
        if most_ms is not None and expected > 0:
            high = expected * (judged / expected) ** (1 / way)
            span = Range(low=expected, expected=expected, high=high, evidence=Evidence.DERIVED)
            risk = max(risk, span.risk_above(most_ms * MILLISECOND))
    return risk


def meets_budget(option: Option, limits: Constraints) -> bool:
    """Return whether an option costs no more than the budget."""
    return limits.budget_usd is None or option.cost_usd <= limits.budget_usd
