"""What interruptions of spot instances add to a run, and what an old price may be today."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from advisor.catalog.economy import Economy, load_economy
from advisor.catalog.offer_list import drift_of
from advisor.equations.pricing import aged_price_factor, checkpoint_interval_s, spot_hours
from advisor.estimate.results import Estimate
from advisor.foundation.dates import age_days, current_day
from advisor.foundation.formatting import count, percent
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.hardware import Offer, PriceKind
from advisor.nouns.money import Renting
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving

WORTH_TELLING = 1.03
"""A smaller factor is not mentioned."""


@lru_cache(maxsize=4096)
def _aged(sigma: float, price_date: str, today: date) -> float:
    age = age_days(price_date, today=today)
    return float(aged_price_factor(sigma_per_sqrt_year=sigma, age_days=age))


def aged_factor(offer: Offer, kind: PriceKind, today: date | None = None) -> float:
    """Return the factor by which an offer's price may have risen since its date.

    A spot price does not rise above the price on demand of the same offer.
    """
    sigma = drift_of(offer, kind).sigma_per_sqrt_year
    factor = _aged(sigma, offer.price_date, today or current_day())
    demand, spot = offer.on_demand_usd_per_hour, offer.spot_usd_per_hour
    if kind is PriceKind.SPOT and demand and spot:
        return max(1.0, min(factor, demand / spot))
    return factor


def upper_factor(offer: Offer, kind: PriceKind, today: date | None = None) -> float:
    """Return the upper end of an offer's price over its price: for "from", and for its age."""
    return offer.price_factor * aged_factor(offer, kind, today)


def with_price_age(estimate: Estimate, offer: Offer | None, kind: PriceKind) -> Estimate:
    """Return an estimate whose cost tells how old its price is and what it may be today."""
    if offer is None or estimate.cost.usd_per_hour is None:
        return estimate
    update = {
        "price_age_days": age_days(offer.price_date),
        "price_may_be": aged_factor(offer, kind),
    }
    cost = estimate.cost.changed(**update)
    return estimate.changed(cost=cost)


def price_age(estimate: Estimate) -> str:
    """Return the age of an estimate's price as a sentence after a space; empty without a rent."""
    age, factor = estimate.cost.price_age_days, estimate.cost.price_may_be
    if age is None or estimate.cost.rent_usd is None:
        return ""
    day = "today's" if age == 0 else f"{count(age)} day{'s' * (age > 1)} old"
    more = f"; it may be up to {percent(factor - 1)} higher today" if factor > WORTH_TELLING else ""
    return f" Its price is {day}{more}."


@record
class Interruptions:
    """How often a spot instance is taken back, and how much a training run loses."""

    low: float
    """Per instance and hour. [1/h]"""
    expected: float
    high: float
    checkpoint_s: float
    restart_s: float

    @classmethod
    def of(cls, renting: Renting, economy: Economy, reliability: Reliability) -> Interruptions:
        """Return the user's rate, or the default with its spread."""
        given = renting.interruptions_per_hour
        default = economy.default("interruptions_per_hour")
        low, expected, high = (
            (default.low, default.expected, default.high) if given is None else (given,) * 3
        )
        return cls(low, expected, high, reliability.checkpoint_s, reliability.restart_s)

    def hours(self, instances: int) -> Range:
        """Hours that a training job takes for an hour of work; one lost instance stops it all."""
        return _hours(self, instances)

    def served_hours(self) -> Range:
        """Hours of an instance for an hour of serving, including the wait for a replacement."""
        low, expected, high = (
            1 + rate * self.restart_s / HOUR_S for rate in (self.low, self.expected, self.high)
        )
        return Range(low=low, expected=expected, high=high, evidence=Evidence.ASSUMED)

    def interval_s(self, instances: int) -> float:
        """Best time between two checkpoints. [s]"""
        return float(
            checkpoint_interval_s(
                interruptions_per_hour=self.expected * instances, checkpoint_s=self.checkpoint_s
            )
        )


def interruptions_of(case: Case, calibration: Calibration) -> Interruptions | None:
    """Return the interruptions of the case's run; None on demand or when serving."""
    if case.limits.price_kind is not PriceKind.SPOT or isinstance(case.workload, Serving):
        return None
    return Interruptions.of(case.renting, load_economy(), calibration.reliability)


@lru_cache(maxsize=4096)
def _hours(interruptions: Interruptions, instances: int) -> Range:
    low, expected, high = (
        float(
            spot_hours(
                hours=1.0,
                interruptions_per_hour=rate * instances,
                checkpoint_s=interruptions.checkpoint_s,
                restart_s=interruptions.restart_s,
            )
        )
        for rate in (interruptions.low, interruptions.expected, interruptions.high)
    )
    return Range(low=low, expected=expected, high=high, evidence=Evidence.ASSUMED)
