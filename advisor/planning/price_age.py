"""What an old price may be today: the upper end that ranks offers, and the age in words."""

from datetime import date
from functools import lru_cache

from advisor.catalog.price_drift import drift_of
from advisor.equations.pricing import aged_price_factor
from advisor.estimate.results import Estimate
from advisor.foundation.dates import age_days, current_day
from advisor.foundation.formatting import count, percent
from advisor.nouns.hardware import Offer, PriceKind

WORTH_TELLING = 1.03
"""A smaller factor is not mentioned."""


@lru_cache(maxsize=4096)
def _aged(sigma: float, price_date: str, today: date) -> float:
    age = age_days(price_date, today=today)
    return float(aged_price_factor(sigma_per_sqrt_year=sigma, age_days=age))


def aged_factor(offer: Offer, kind: PriceKind, today: date | None = None) -> float:
    """Return the upper end of an offer's price today over its price, for its age alone.

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
    cost = estimate.cost.model_copy(update=update)
    return estimate.model_copy(update={"cost": cost})


def price_age(estimate: Estimate) -> str:
    """Return the age of an estimate's price as a sentence after a space; empty without a rent."""
    age, factor = estimate.cost.price_age_days, estimate.cost.price_may_be
    if age is None or estimate.cost.rent_usd is None:
        return ""
    day = "today's" if age == 0 else f"{count(age)} day{'s' * (age > 1)} old"
    more = f": today up to {percent(factor - 1)} more" if factor > WORTH_TELLING else ""
    return f" Its price is {day}{more}."
