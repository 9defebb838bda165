"""What a refresh brings, as it is kept in the cache, and what it did."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, model_validator

from advisor.catalog.records import IsoDay
from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Offer

SOURCE = "gpuhunt-live"
"""Key of the source that live offers cite."""
PRICE_BOUNDS_USD_PER_HOUR: Final = (0.005, 200.0)
"""One accelerator: the snapshot's offers reach from 0.15 to 35.15; far beyond, the feed is wrong,
as where a price stands in cents or for a year. [USD/h]"""


class LiveProvider(Noun):
    """Offers of one provider, all of one date."""

    name: Name
    """As in the catalog."""
    version: Name
    """Of its catalog, as gpuhunt states it."""
    date: IsoDay
    """Day of the prices. ISO 8601."""
    offers: Annotated[tuple[Offer, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _of_one_list(self) -> LiveProvider:
        low, high = PRICE_BOUNDS_USD_PER_HOUR
        for offer in self.offers:
            prices = (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour)
            told = [price / offer.accelerators for price in prices if price is not None]
            if (offer.provider, offer.price_date) != (self.name, self.date):
                msg = f"{offer.key} is not of this provider and day"
                raise ValueError(msg)
            if not told or not all(low <= price <= high for price in told):
                msg = f"{offer.key} has no possible price"
                raise ValueError(msg)
        return self


class LivePrices(Noun):
    """The content of the cache."""

    fetched_at: AwareDatetime
    gpuhunt: Name
    """Version of the package that fetched them."""
    providers: tuple[LiveProvider, ...]


class ProviderReport(Noun):
    """What a refresh did for one provider."""

    name: str
    outcome: Literal["taken", "kept", "failed"]
    """``kept``: the download failed, earlier live prices stay; ``failed``: there are none."""
    date: str
    """Day of the prices in use; empty where the snapshot stays."""
    offers: int
    refused: int
    """Rows with impossible values."""
    unknown: dict[str, int]
    """Rows by GPU that the table of names does not know: left out, not guessed."""
    message: str
    """Why it failed; empty where it did not."""


class RefreshReport(Noun):
    """What a refresh did."""

    fetched_at: datetime
    path: str
    """Where the prices are kept."""
    providers: tuple[ProviderReport, ...]

    @property
    def offers(self) -> int:
        """Live offers in use now."""
        return sum(item.offers for item in self.providers)
