"""Live prices: their records, the cache file verified by its checksum, and the catalog in use."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AwareDatetime, Field, ValidationError, model_validator

from advisor.catalog.api_prices import ApiPrice
from advisor.catalog.catalog import Catalog, PriceState, Source
from advisor.catalog.files.checks import PRICE_BOUNDS
from advisor.catalog.records import IsoDay
from advisor.errors import RefreshError, TransferError
from advisor.foundation.dates import first_day
from advisor.foundation.files.writing import write_whole
from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Confidence, Offer

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


FORMAT: Final = "gpu-advisor live prices"
SCHEMA: Final = 2
"""Version of the file format. The reader refuses every other version."""
MAX_BYTES: Final = 10_000_000
"""Some 16,000 offers, of 600 bytes each; reading them takes half a second and under 100 MB."""
MAX_HEAD_BYTES: Final = 1000
CLOCK_TOLERANCE: Final = timedelta(days=1)


class CacheRefusedError(Exception):
    """The cache cannot be used; the message says why."""


class ClockError(CacheRefusedError):
    """The cache has a date in the future, so the clock is wrong, not the cache."""


def read_cache(path: Path, *, now: datetime) -> LivePrices | None:
    """Read the cached prices; None if no cache exists.

    Raises CacheRefusedError if it is unreadable, damaged, of another version, or from the future.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CacheRefusedError("it is too large")
        if path.exists() and not path.is_file():  # reading a named pipe would wait
            raise CacheRefusedError("it cannot be read: it is not a regular file")
        head, _, body = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheRefusedError(f"it cannot be read ({error.strerror})") from None
    _check_head(head, body)
    try:
        prices = LivePrices.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CacheRefusedError(f"its field {place} is broken") from None
    if prices.fetched_at > now + CLOCK_TOLERANCE:
        day = prices.fetched_at.date().isoformat()
        raise ClockError(
            f"it was written on {day}, after today: the clock of this machine seems to be wrong"
        )
    return prices


def write_cache(path: Path, prices: LivePrices) -> None:
    """Write the prices.

    A reader sees the old file or the new one. Raises ``RefreshError`` if it cannot be written.
    """
    body = prices.model_dump_json()
    if len(body) > MAX_BYTES - MAX_HEAD_BYTES:
        raise RefreshError(
            f"live prices cannot be kept: they are too large, {len(body) / 1e6:,.0f} MB",
            remedy="Report it: a true feed takes a few MB.",
        )
    digest = sha256(body.encode()).hexdigest()
    head = json.dumps({"format": FORMAT, "schema": SCHEMA, "sha256": digest})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{head}\n{body}")
    except (OSError, TransferError) as error:
        why = f"{str(path)!r} cannot be written ({getattr(error, 'strerror', '')})"
        why = error.what if isinstance(error, TransferError) else why
        raise RefreshError(
            f"live prices cannot be kept: {why}",
            remedy="Free disk space, allow writing there, or set GPU_ADVISOR_CACHE_DIR.",
        ) from None


def _check_head(head: bytes, body: bytes) -> None:
    try:
        found = json.loads(head)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CacheRefusedError("it is damaged: its first line is not that of this program")
    if found.get("schema") != SCHEMA:
        raise CacheRefusedError(
            f"it has version {found.get('schema')}, but this program reads version {SCHEMA}"
        )
    if found.get("sha256") != sha256(body).hexdigest():
        raise CacheRefusedError("it is damaged: its checksum does not match")


def with_live(catalog: Catalog, path: Path, *, now: datetime | None = None) -> Catalog:
    """Return the catalog with the cached live prices, or with the reason why they are not used.

    Its ``prices`` field says which prices are in use. A live list replaces the provider's offers of
    the accelerators that it contains, unless the snapshot is newer.
    """
    try:
        live = read_cache(path, now=now or datetime.now(UTC))
    except CacheRefusedError as refused:
        problem = (
            f"The cached live prices are not used: {refused}. The shipped prices are. "
            "Run 'gpu-advisor prices refresh' to fetch new ones."
        )
        return catalog.changed(prices=PriceState(problem=problem))
    if live is None:
        return catalog
    keys = {card.key for card in catalog.accelerators}
    newest = newest_dates(catalog.offers)
    used = [item for item in live.providers if item.date >= newest.get(item.name, "")]
    fresh = [offer for item in used for offer in item.offers if offer.accelerator in keys]
    if not fresh:
        return catalog
    replaced = {(offer.provider, offer.accelerator) for offer in fresh}
    keys_taken = {offer.key for offer in fresh}
    kept = [
        item
        for item in catalog.offers
        if (item.provider, item.accelerator) not in replaced and item.key not in keys_taken
    ]
    return catalog.changed(
        offers=tuple(sorted([*kept, *fresh], key=lambda offer: offer.key)),
        sources={**catalog.sources, SOURCE: _source(live)},
        prices=PriceState(
            live_providers=tuple(sorted(item.name for item in used)),
            fetched_at=live.fetched_at.isoformat(),
            hosted=live.hosted,
        ),
    )


def newest_dates(offers: Sequence[Offer]) -> Mapping[str, str]:
    """Return the newest day of a price of each provider.

    A price with only a month or a year counts from the first day of it. So it does not block a
    list from the same month or year.
    """
    newest: dict[str, str] = {}
    for offer in offers:
        day = first_day(offer.price_date).isoformat()
        newest[offer.provider] = max(newest.get(offer.provider, ""), day)
    return newest


def _source(live: LivePrices) -> Source:
    return Source(
        key=SOURCE,
        title="Live prices: providers' own interfaces, and lists collected by gpuhunt",
        locator="github dstackai/gpuhunt and public price files, fetched by the user",
        date=live.fetched_at.date().isoformat(),
        licence="price facts",
        confidence=Confidence.SECONDARY,
    )
