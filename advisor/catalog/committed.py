"""Offers at the price of a commitment, as one more way to rent."""

from __future__ import annotations

from advisor.catalog.catalog import Catalog
from advisor.catalog.economy import Commitment, Economy
from advisor.foundation import cents
from advisor.foundation.formatting import percent
from advisor.nouns.hardware import Offer


def with_commitments(catalog: Catalog, economy: Economy, months: int) -> Catalog:
    """Return the catalog with on-demand prices for a commitment of up to ``months``.

    Parameters
    ----------
    months : int
        The longest term. Of a provider's plans for a card within it, the cheapest counts; an offer
        without one keeps its price.

    Returns
    -------
    Catalog
        Committed offers name term and plan. Spot prices stay.
    """
    plans = [item for item in economy.commitments if item.term_months <= months]
    offers = tuple(_committed(offer, plans) for offer in catalog.offers)
    return catalog.model_copy(update={"offers": offers})


def _committed(offer: Offer, plans: list[Commitment]) -> Offer:
    price = offer.on_demand_usd_per_hour
    fitting = [
        item for item in plans if item.provider == offer.provider and item.covers(offer.accelerator)
    ]
    if price is None or not fitting:
        return offer
    plan = min(fitting, key=lambda item: (item.price_ratio, item.term_months))
    term = f"{plan.term_months} month{'s' * (plan.term_months > 1)}"
    return offer.model_copy(
        update={
            "on_demand_usd_per_hour": cents.times(price, plan.price_ratio),
            "commitment": f"{term}: {plan.plan}, {percent(plan.price_ratio)} of the price on demand"
            f"{plan.caution}",
        }
    )
