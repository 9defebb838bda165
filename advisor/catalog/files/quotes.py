"""Prices as providers quote them: in other currencies, and "from" the lowest of a list.

Currencies use exact decimal arithmetic, so that sums of prices do not drift. A price "from" is a
lower bound on the price of a machine.
"""

from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from typing import Final

from advisor.foundation.data_records import refuse
from advisor.nouns.hardware import FIRM_TIER, Offer

HOURLY_STEP: Final = Decimal("0.0001")
"""Rounding step of hourly prices: a hundredth of a cent, as most providers quote them. [USD]"""


def in_usd(amount: float | None, *, usd: float) -> float | None:
    """Return a price in US dollars, rounded to a hundredth of a cent.

    ``usd`` buy one unit of its currency.

    >>> in_usd(2.82, usd=1.1269)
    3.1779
    """
    if amount is None:
        return None
    # Through text, to get the decimal figure as written and not its nearest binary fraction.
    exact = Decimal(str(amount)) * Decimal(str(usd))
    return float(exact.quantize(HOURLY_STEP))


def converted(offer: Offer, *, usd: float, rate_date: str) -> Offer:
    """Return an offer with its quoted price converted; a quote in US dollars as it is.

    ``usd`` buy one unit of the quote's currency. ``rate_date`` is empty if the user gave the rate.
    """
    quote = offer.quote
    if quote is None:
        return offer
    return offer.changed(
        on_demand_usd_per_hour=in_usd(quote.on_demand_per_hour, usd=usd),
        spot_usd_per_hour=in_usd(quote.spot_per_hour, usd=usd),
        quote=quote.changed(usd=usd, rate_date=rate_date),
    )


def with_upper_ends(offers: Sequence[Offer], *, file: str) -> tuple[Offer, ...]:
    """Give each price "from" an upper end, taken from other providers' firm prices for the card.

    Its ``price_factor`` is the median of the firm list prices per card divided by this price, at
    least 1. Raises ``CatalogError`` if no provider has a firm price for the card.
    """
    firm: dict[str, list[float]] = {}
    for offer in offers:
        if offer.tier == FIRM_TIER and offer.on_demand_usd_per_hour is not None:
            price = offer.on_demand_usd_per_hour / offer.accelerators
            firm.setdefault(offer.accelerator, []).append(price)
    return tuple(_bounded(offer, firm.get(offer.accelerator), file) for offer in offers)


def _bounded(offer: Offer, firm: list[float] | None, file: str) -> Offer:
    if not offer.is_from or offer.on_demand_usd_per_hour is None:
        return offer
    if firm is None:
        remedy = f"Add a firm price ({FIRM_TIER}) for {offer.accelerator}, which bounds it."
        refuse(file, offer.tier, remedy, entry=offer.key, field="tier")
    each = offer.on_demand_usd_per_hour / offer.accelerators
    return offer.changed(price_factor=max(1.0, median(firm) / each))
