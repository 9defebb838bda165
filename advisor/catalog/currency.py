"""Prices in other currencies: exact decimal arithmetic, so that sums of prices do not drift."""

from decimal import Decimal
from typing import Final

from advisor.nouns.hardware import Offer, Quote

HOURLY_STEP: Final = Decimal("0.0001")
"""Rounding step of hourly prices: a hundredth of a cent, as most providers quote them. [USD]"""


def in_usd(amount: float | None, *, usd: float) -> float | None:
    """Return a price in US dollars, rounded to a hundredth of a cent.

    ``usd`` buy one unit of its currency.

    Examples
    --------
    >>> in_usd(2.82, usd=1.1269)
    3.1779
    """
    if amount is None:
        return None
    # Through text, to get the decimal figure as written and not its nearest binary fraction.
    exact = Decimal(str(amount)) * Decimal(str(usd))
    return float(exact.quantize(HOURLY_STEP))


def converted(offer: Offer, *, usd: float, rate_date: str) -> Offer:
    """Return an offer with its quoted price converted.

    ``usd`` buy one unit of the quote's currency.

    ``rate_date`` is empty if the user gave the rate. A quote in US dollars is returned unchanged.
    """
    quote = offer.quote
    if quote is None:
        return offer
    return offer.model_copy(
        update={
            "on_demand_usd_per_hour": in_usd(quote.on_demand_per_hour, usd=usd),
            "spot_usd_per_hour": in_usd(quote.spot_per_hour, usd=usd),
            "quote": Quote(
                currency=quote.currency,
                on_demand_per_hour=quote.on_demand_per_hour,
                spot_per_hour=quote.spot_per_hour,
                usd=usd,
                rate_date=rate_date,
            ),
        }
    )
