"""Reads the data files into a catalog. Only this module converts their units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from advisor.catalog.catalog import Catalog, ExchangeRate, Source
from advisor.catalog.checks import (
    USD,
    check_accelerator,
    check_capability,
    check_offer,
    check_order,
    check_rate,
)
from advisor.catalog.currency import converted
from advisor.catalog.economy import billing_of
from advisor.catalog.from_prices import with_upper_ends
from advisor.catalog.keys import offer_key
from advisor.catalog.live import cache_file
from advisor.catalog.records import (
    AcceleratorRecord,
    CapabilityRecord,
    CatalogFile,
    MemoryRule,
    OfferRecord,
)
from advisor.foundation.data_records import read_record, read_table
from advisor.foundation.resources import data_path
from advisor.foundation.units import GB, GIB, GIGABIT_PER_S, MIB, TFLOP
from advisor.nouns.hardware import (
    Accelerator,
    Interconnect,
    Offer,
    Provenance,
    Quote,
    SoftwareSupport,
)

CATALOG_FILE = "gpu_catalog.yaml"
OFFERS_FILE = "cloud_offers.csv"

RULE_SOURCE = "reported-memory-rule"
"""Source key of memory figures that a rule derives."""

BOTH_DIRECTIONS = 2.0
"""Vendors publish the rate of links for both directions together; collectives use one."""

ABSENT: Final = (0, 0)
UNKNOWN: Final = (-1, -1)
"""Stamps of a file that does not exist, and of one that cannot be looked up."""

# Field of the record -> field of the noun.
_NOUN_FIELDS: Mapping[str, str] = {
    "memory_gb": "memory_marketed_bytes",
    "memory_reported_mib": "memory_reported_bytes",
    "memory_bandwidth_gb_per_s": "memory_bandwidth_bytes_per_s",
    "cache_mib": "cache_bytes",
    "dense_tflops": "peak_flops_per_s",
    "fp16_accumulate_tflops": "peak_flops_per_s_fp16_accumulate",
    "purchase": "purchase_usd",
}


def load_catalog(directory: Path | None = None) -> Catalog:
    """Load the catalog; a second call with unchanged files returns the same object.

    Parameters
    ----------
    directory : Path, optional
        Folder with ``gpu_catalog.yaml`` and ``cloud_offers.csv``. Default: the shipped data, with
        the live prices that ``gpu-advisor prices refresh`` put into the user's cache.
        ``Catalog.prices`` says which prices are in use.

    Raises
    ------
    CatalogError
        If a file is broken. The message names file, entry, field, value and remedy.
    ResourceError
        If the shipped data are missing.

    Examples
    --------
    >>> catalog = load_catalog()
    >>> catalog is load_catalog()
    True
    """
    if directory is not None:
        folder = directory.resolve()
        return _load(folder / CATALOG_FILE, folder / OFFERS_FILE)
    paths = data_path(CATALOG_FILE), data_path(OFFERS_FILE)
    cache = cache_file()
    return _live(*paths, cache, tuple(map(_stamp, (*paths, cache))))


def load_snapshot() -> Catalog:
    """Load the shipped catalog without live prices.

    Raises
    ------
    CatalogError
        If a file is broken.
    ResourceError
        If the shipped data are missing.
    """
    return _load(data_path(CATALOG_FILE), data_path(OFFERS_FILE))


def _load(catalog_path: Path, offers_path: Path) -> Catalog:
    return _read(catalog_path, offers_path, (_stamp(catalog_path), _stamp(offers_path)))


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file, which change when the file changes."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ABSENT
    except OSError:  # a name too long, a closed folder: its reader says so
        return UNKNOWN
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=2)
def _live(
    catalog_path: Path, offers_path: Path, cache: Path, stamps: tuple[tuple[int, int], ...]
) -> Catalog:
    snapshot = _load(catalog_path, offers_path)
    if stamps[-1] == ABSENT:
        return snapshot
    from advisor.catalog.live.merge import with_live

    return with_live(snapshot, cache)


@lru_cache(maxsize=4)
def _read(catalog_path: Path, offers_path: Path, stamps: tuple[tuple[int, int], ...]) -> Catalog:
    del stamps
    content = read_record(catalog_path, CatalogFile)
    check_order(list(content.accelerators), file=catalog_path.name)
    for key, record in content.accelerators.items():
        check_accelerator(key, record, content, rule_source=RULE_SOURCE, file=catalog_path.name)
    for currency in content.exchange_rates:
        check_rate(currency, content, file=catalog_path.name)
    for capability in content.compute_capabilities:
        check_capability(capability, content, file=catalog_path.name)
    records = read_table(offers_path, OfferRecord)
    for line, offer in enumerate(records, start=2):
        check_offer(offer, content, line=line, file=offers_path.name)
    check_order([_key(offer) for offer in records], file=offers_path.name)

    sources = {
        key: Source(key=key, **record.model_dump()) for key, record in content.sources.items()
    }
    provenance = {
        key: Provenance(source=key, date=source.date, confidence=source.confidence)
        for key, source in sources.items()
    }
    return Catalog(
        accelerators=tuple(
            _accelerator(key, record, content.reported_memory_rules, provenance)
            for key, record in content.accelerators.items()
        ),
        offers=with_upper_ends(
            [_offer(record, content) for record in records], file=offers_path.name
        ),
        sources=sources,
        excluded=content.excluded,
        exchange_rates={
            currency: ExchangeRate(usd=rate.usd, date=content.sources[rate.source].date)
            for currency, rate in content.exchange_rates.items()
        },
        software={
            capability: _software(capability, item, provenance)
            for capability, item in content.compute_capabilities.items()
        },
    )


def _software(
    capability: str, record: CapabilityRecord, provenance: Mapping[str, Provenance]
) -> SoftwareSupport:
    return SoftwareSupport(
        capability=capability,
        cuda=record.cuda,
        last_cuda=record.last_cuda,
        driver=record.driver,
        pytorch=record.pytorch,
        notes=record.notes,
        provenance={field: provenance[source] for field, source in record.sources.items()},
    )


def _accelerator(
    key: str,
    record: AcceleratorRecord,
    rules: Mapping[str, MemoryRule],
    provenance: Mapping[str, Provenance],
) -> Accelerator:
    by_field = {_noun_field(field): provenance[source] for field, source in record.sources.items()}
    if record.memory_reported_rule is not None:
        by_field["memory_reported_bytes"] = provenance[RULE_SOURCE]
    link, purchase = record.interconnect, record.purchase
    return Accelerator(
        key=key,
        name=record.name,
        vendor=record.vendor,
        architecture=record.architecture,
        year=record.year,
        segment=record.segment,
        form_factor=record.form_factor,
        memory_marketed_bytes=record.memory_gb * GB,
        memory_reported_bytes=_reported_bytes(record, rules),
        memory_reported_derived=record.memory_reported_rule is not None,
        memory_type=record.memory_type,
        memory_bandwidth_bytes_per_s=record.memory_bandwidth_gb_per_s * GB,
        cache_bytes=record.cache_mib * MIB if record.cache_mib else None,
        peak_flops_per_s={name: rate * TFLOP for name, rate in record.dense_tflops.items()},
        peak_flops_per_s_fp16_accumulate={
            name: rate * TFLOP for name, rate in record.fp16_accumulate_tflops.items()
        },
        board_power_w=record.board_power_w,
        interconnect=Interconnect(
            name=link.name,
            bytes_per_s=link.bidirectional_gb_per_s * GB / BOTH_DIRECTIONS,
            domain_size=link.domain_size,
        )
        if link
        else None,
        pcie_generation=record.pcie_generation,
        pcie_lanes=record.pcie_lanes,
        compute_capability=record.compute_capability,
        purchase_usd=purchase.usd if purchase else None,
        purchase_date=purchase.date if purchase else None,
        purchase_kind=purchase.kind if purchase else None,
        no_purchase=record.no_purchase,
        provenance=by_field,
        inference_only=record.inference_only,
        notes=record.notes,
    )


def _noun_field(field: str) -> str:
    name, dot, number_format = field.partition(".")
    return _NOUN_FIELDS.get(name, name) + dot + number_format


def _reported_bytes(record: AcceleratorRecord, rules: Mapping[str, MemoryRule]) -> float:
    if record.memory_reported_mib is not None:
        return record.memory_reported_mib * MIB
    # A record has exactly one of the two fields.
    return record.memory_gb * GIB * rules[str(record.memory_reported_rule)].share_of_gib


def _offer(record: OfferRecord, content: CatalogFile) -> Offer:
    memory, network = record.host_memory_gib, record.network_gbit_per_s
    quote = _quote(record, content)
    offer = Offer(
        key=_key(record),
        provider=record.provider,
        instance_type=record.instance_type,
        tier=record.tier,
        region=record.region,
        accelerator=record.accelerator,
        accelerators=record.accelerators,
        vcpus=record.vcpus,
        host_memory_bytes=memory * GIB if memory else None,
        on_demand_usd_per_hour=record.on_demand_per_hour,
        spot_usd_per_hour=record.spot_per_hour,
        billing=billing_of(record.provider),
        quote=quote,
        price_date=record.price_date,
        intra_node=record.intra_node,
        inter_node_bytes_per_s=network * GIGABIT_PER_S if network else None,
        provenance=Provenance(
            source=record.source,
            date=content.sources[record.source].date,
            confidence=record.confidence,
        ),
        notes=record.notes,
    )
    return converted(offer, usd=quote.usd, rate_date=quote.rate_date) if quote else offer


def _quote(record: OfferRecord, content: CatalogFile) -> Quote | None:
    if record.currency == USD:
        return None
    rate = content.exchange_rates[record.currency]
    return Quote(
        currency=record.currency,
        on_demand_per_hour=record.on_demand_per_hour,
        spot_per_hour=record.spot_per_hour,
        usd=rate.usd,
        rate_date=content.sources[rate.source].date,
    )


def _key(record: OfferRecord) -> str:
    return offer_key(record.provider, record.instance_type, record.region, record.tier)
