"""The live prices as the cache holds them, and the report of a refresh."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from advisor.catalog.api_prices import ApiPrice
from advisor.catalog.files.checks import PRICE_BOUNDS
from advisor.catalog.records import IsoDay
from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Offer

SOURCE = "gpuhunt-live"
"""Key of the source that live offers cite."""


class LiveProvider(Noun):
    """Offers of one provider, all with the same date."""

    name: Name
    """Provider name of the catalog."""
    version: Name
    """Version of the provider's list; its day if it has none."""
    date: IsoDay
    """Day of the prices. ISO 8601."""
    offers: Annotated[tuple[Offer, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _of_one_list(self) -> Self:
        low, high = PRICE_BOUNDS
        for offer in self.offers:
            prices = (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour)
            told = [price / offer.accelerators for price in prices if price is not None]
            if (offer.provider, offer.price_date) != (self.name, self.date):
                raise ValueError(f"{offer.key} is not of this provider and day")
            if not told or not all(low <= price <= high for price in told):
                raise ValueError(f"{offer.key} has no possible price")
        return self


class LivePrices(Noun):
    """The content of the cache."""

    fetched_at: AwareDatetime
    providers: tuple[LiveProvider, ...]
    hosted: tuple[ApiPrice, ...] = ()
    """Prices of hosted models that are newer than the shipped ones."""


class ProviderReport(Noun):
    """The result of a refresh for one provider."""

    name: str
    outcome: Literal["taken", "kept", "failed"]
    """``kept``: the download failed and earlier live prices stay. ``failed``: there are none."""
    date: str = ""
    """Day of the prices in use. Empty if the snapshot stays in use."""
    offers: int = 0
    refused: int = 0
    """Rows with impossible values."""
    unknown: dict[str, int] = Field(default_factory=dict)
    """Number of rows left out because the table of names lacks their GPU, by GPU."""
    message: str = ""
    """Why the download, or a part of it, failed. Empty if it worked."""


class RefreshReport(Noun):
    """The result of a refresh."""

    fetched_at: datetime
    path: str
    """The cache file."""
    providers: tuple[ProviderReport, ...]
    hosted: int = 0
    """Number of hosted models with a live price."""

    @property
    def offers(self) -> int:
        """Number of live offers in use now."""
        return sum(item.offers for item in self.providers)
