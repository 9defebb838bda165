"""What a refresh brings, as it is kept in the cache, and what it did."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Offer

SOURCE = "gpuhunt-live"
"""Key of the source that live offers cite."""


class LiveProvider(Noun):
    """Offers of one provider, all of one date."""

    name: Name
    """As in the catalog."""
    version: Name
    """Of its catalog, as gpuhunt states it."""
    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$")]
    """Day of the prices. ISO 8601."""
    offers: Annotated[tuple[Offer, ...], Field(min_length=1)]


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
