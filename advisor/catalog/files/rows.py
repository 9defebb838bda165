"""Rows of the catalog's files as people write them: in human units, which the field names state."""

from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from advisor.catalog.records import (
    Count,
    Gigabits,
    Gigabytes,
    IsoDate,
    Key,
    Mebibytes,
    Name,
    PerHour,
    Teraflops,
    Text,
    Usd,
    Watts,
)
from advisor.foundation import names
from advisor.foundation.noun import Noun, refuse
from advisor.nouns.hardware import FIRM_TIER, Confidence, Offer, Segment

Version = Annotated[str, Field(pattern=r"^\d+\.\d+$")]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Format = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]


class SourceRecord(Noun):
    """An entry of the registry of sources."""

    title: Text
    locator: Text
    """Address, or repository with commit and path."""
    date: IsoDate
    """Date of the source, or the date on which it was read."""
    licence: Text
    confidence: Confidence
    """Confidence in every accelerator value that cites this source. Offers state their own."""


class MemoryRule(Noun):
    """How the memory that the driver shows follows from the marketed size."""

    share_of_gib: Annotated[float, Field(gt=0, le=1.05)]
    """Reported bytes over the marketed number of GB read as GiB."""
    small_gb: Gigabytes | None = None
    """Up to this size the share is ``small_share_of_gib``."""
    small_share_of_gib: Annotated[float, Field(gt=0, le=1.05)] | None = None
    basis: Text
    """The cards it was read from, or why it is assumed."""

    def share(self, memory_gb: float) -> float:
        """Return the share of a marketed size that the driver shows."""
        small = self.small_gb is not None and memory_gb <= self.small_gb
        return self.small_share_of_gib or self.share_of_gib if small else self.share_of_gib


class InterconnectRecord(Noun):
    """Fast links, as published: both directions together."""

    name: Name
    bidirectional_gb_per_s: Gigabytes
    """Per accelerator. [GB/s]"""
    domain_size: Annotated[Count, Field(ge=2)]


class PurchaseRecord(Noun):
    """Price of one accelerator."""

    usd: Usd
    date: IsoDate
    kind: Literal["msrp", "street", "estimate"]


class AcceleratorRecord(Noun):
    """One entry of ``gpu_catalog.yaml``."""

    name: Name
    vendor: Name
    architecture: Name
    year: Annotated[int, Field(ge=2010, le=2035)]
    segment: Segment
    form_factor: Name
    memory_gb: Annotated[Gigabytes, Field(ge=0.1)]
    """As marketed. [GB]"""
    memory_sizes_gb: tuple[Gigabytes, ...] = ()
    """Smaller sizes of the same chip on sale: each is an accelerator too, without a price."""
    memory_reported_mib: Mebibytes | None = None
    """As the driver shows it. [MiB]"""
    memory_reported_rule: Key | None = None
    """Rule that derives the reported memory if no figure is published."""
    memory_type: Name
    memory_bandwidth_gb_per_s: Annotated[Gigabytes, Field(ge=0.1)]
    cache_mib: Mebibytes | None = None
    """Last-level cache of a processor. [MiB]"""
    dense_tflops: Annotated[dict[Format, Teraflops], Field(min_length=1)]
    """Dense, fp32 accumulation; TOPS for integers. [TFLOPS]"""
    fp16_accumulate_tflops: dict[Format, Teraflops] = Field(default={})
    """Dense with fp16 accumulation, where that differs. [TFLOPS]"""
    unusual_rates: Text | None = None
    """Why a rate above twice that of the next wider format is dense all the same."""
    board_power_w: Watts | None = None
    interconnect: InterconnectRecord | None = None
    network_gbit_per_s: Gigabits | None = None
    """Network of each accelerator beyond its link domain, where the maker builds it in."""
    pcie_generation: Annotated[int, Field(ge=1, le=6)] | None = None
    pcie_lanes: Literal[1, 4, 8, 16] = 16
    """Lanes that the card connects, whatever the slot offers."""
    compute_capability: Text | None = None
    purchase: PurchaseRecord | None = None
    no_purchase: Text | None = None
    """Why the catalog has no purchase price."""
    sources: dict[Name, Key]
    """From field (or ``dense_tflops.fp32``) to key of the registry; ``default`` for the rest."""
    inference_only: bool = False
    """True for parts without a training software stack."""
    notes: names.Text = ""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        pairs = ("memory_reported_mib", "memory_reported_rule"), ("purchase", "no_purchase")
        for one, other in pairs:
            if (getattr(self, one) is None) == (getattr(self, other) is None):
                raise ValueError(f"give exactly one of {one} and {other}")
        if any(size >= self.memory_gb for size in self.memory_sizes_gb):
            raise ValueError("memory_sizes_gb are smaller than memory_gb")
        return self

    def of_sizes(self, key: str) -> "dict[str, AcceleratorRecord]":
        """Return the entry and one for each smaller size of memory, by key."""
        smaller = {
            f"{key}-{size:g}gb": self.changed(
                name=f"{self.name} {size:g} GB",
                memory_gb=size,
                memory_sizes_gb=(),
                purchase=None,
                no_purchase="no price of this size was read",
                sources={name: at for name, at in self.sources.items() if "purchase" not in name},
                notes=f"{self.name} with less memory.",
            )
            for size in self.memory_sizes_gb
        }
        return {key: self} | smaller


class RateRecord(Noun):
    """What one unit of a currency is worth; its date is that of the source."""

    usd: Usd
    source: Key


class CapabilityRecord(Noun):
    """Software that a compute capability needs."""

    cuda: Version
    """Lowest toolkit that targets it."""
    last_cuda: Version | None = None
    """Last toolkit that targets it; None if current ones do."""
    driver: Text
    """Lowest driver for that toolkit on Linux x86_64."""
    pytorch: Version
    """First release whose wheels run on it."""
    sources: dict[Name, Key]
    """From field to key of the registry; ``default`` for the rest."""
    notes: names.Text = ""


class CatalogFile(Noun):
    """The whole of ``gpu_catalog.yaml``."""

    sources: dict[Key, SourceRecord]
    reported_memory_rules: dict[Key, MemoryRule]
    exchange_rates: dict[Currency, RateRecord] = Field(default={})
    """By currency; US dollars need none."""
    compute_capabilities: dict[Version, CapabilityRecord] = Field(default={})
    excluded: dict[Key, Text] = Field(default={})
    """Accelerators left out on purpose, with the reason."""
    accelerators: Annotated[dict[Key, AcceleratorRecord], Field(min_length=1)]


class OfferRecord(Noun):
    """One line of ``cloud_offers.csv``; ``data/README.md`` explains each column."""

    provider: Name
    instance_type: Name
    region: Name = ""
    tier: Name
    accelerator: Name
    accelerators: Count
    vcpus: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] | None = None
    host_memory_gib: Gigabytes | None = None
    currency: Currency
    on_demand_per_hour: PerHour | None = None
    spot_per_hour: PerHour | None = None
    price_date: IsoDate
    intra_node: names.Text = ""
    network_gbit_per_s: Gigabytes | None = None
    source: Key
    confidence: Confidence
    notes: names.Text = ""

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if self.on_demand_per_hour is None and self.spot_per_hour is None:
            raise ValueError("Give on_demand_per_hour or spot_per_hour")
        return self


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
