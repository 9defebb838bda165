"""Finds the catalog in use: shipped or of a folder, with live prices and your own facts."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from advisor.catalog.api_prices import ApiPrice, load_api_prices
from advisor.catalog.catalog import Catalog, ExchangeRate, Source
from advisor.catalog.files import checks
from advisor.catalog.files.convert import RULE_SOURCE, accelerator_of, offer_of, software_of
from advisor.catalog.files.rows import AcceleratorRecord, CatalogFile, OfferRecord, with_upper_ends
from advisor.catalog.live import cache_file
from advisor.catalog.own.facts import own_files, stated_discounts, uploads
from advisor.foundation.data_files import kept
from advisor.foundation.noun import read_record, read_table
from advisor.foundation.record import by_identity
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Provenance

CATALOG_FILE = "gpu_catalog.yaml"
OFFERS_FILE = "cloud_offers.csv"


ABSENT: Final = (0, 0)
UNKNOWN: Final = (-1, -1)
"""Stamps of a file that does not exist, and of one that cannot be looked up."""


def load_catalog(directory: Path | None = None) -> Catalog:
    """Load the catalog; a second call with unchanged files returns the same object.

    ``directory``: folder with ``gpu_catalog.yaml`` and ``cloud_offers.csv``. Default: the shipped
    data, with the live prices that ``gpu-advisor prices refresh`` put into the user's cache.
    ``Catalog.prices`` says which prices are in use.

    Raises CatalogError if a file is broken. The message names file, entry, field, value and remedy.
    Raises ResourceError if the shipped data are missing.

    >>> catalog = load_catalog()
    >>> catalog is load_catalog()
    True
    """
    if directory is not None:
        folder = directory.resolve()
        return _load(folder / CATALOG_FILE, folder / OFFERS_FILE)
    shipped = _shipped()
    files, discounts, uploaded = own_files(), stated_discounts(), uploads()
    if not files and not discounts and not uploaded:
        return shipped
    # `at` tells one day's catalog and one refresh from another.
    paths = (data_path(CATALOG_FILE), data_path(OFFERS_FILE), *files)
    at = (shipped.prices.fetched_at, *map(_stamp, paths))
    return _with_own(files, discounts, uploaded, at)


def load_snapshot() -> Catalog:
    """Load the shipped catalog without live prices."""
    return _load(data_path(CATALOG_FILE), data_path(OFFERS_FILE))


def load_hosted() -> tuple[ApiPrice, ...]:
    """Load the prices of hosted models: the shipped ones, or live ones that are not older."""
    return _newest(load_api_prices(), load_catalog().prices.hosted)


@by_identity(4)
def _newest(shipped: tuple[ApiPrice, ...], fetched: tuple[ApiPrice, ...]) -> tuple[ApiPrice, ...]:
    live = {item.name: item for item in fetched}
    pairs = ((item, live.get(item.name, item)) for item in shipped)
    return tuple(new if new.price_date >= item.price_date else item for item, new in pairs)


def _load(catalog_path: Path, offers_path: Path) -> Catalog:
    return _read(catalog_path, offers_path, (_stamp(catalog_path), _stamp(offers_path)))


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file, which change when the file changes."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):  # a name too long or with NUL: its reader says so
        return UNKNOWN
    return status.st_mtime_ns, status.st_size


def _shipped() -> Catalog:
    paths = data_path(CATALOG_FILE), data_path(OFFERS_FILE), cache_file()
    return _live(*paths, tuple(map(_stamp, paths)))


@lru_cache(maxsize=2)
def _live(
    catalog_path: Path, offers_path: Path, cache: Path, stamps: tuple[tuple[int, int], ...]
) -> Catalog:
    snapshot = _load(catalog_path, offers_path)
    if stamps[-1] == ABSENT:
        return snapshot
    from advisor.catalog.live.prices import with_live

    return with_live(snapshot, cache)


def shipped_content() -> CatalogFile:
    """Return the shipped file of accelerators, checked."""
    path = data_path(CATALOG_FILE)
    return _content(path, _stamp(path))


@lru_cache(maxsize=1)
def _content(path: Path, stamp: tuple[int, int]) -> CatalogFile:
    del stamp
    return read_content(path)


@lru_cache(maxsize=4)
def _read(catalog_path: Path, offers_path: Path, stamps: tuple[tuple[int, int], ...]) -> Catalog:
    del stamps
    read = partial(read_catalog, catalog_path, offers_path)
    return kept("checked_catalog", read, catalog_path, offers_path, data_path("billing.csv"))


@lru_cache(maxsize=8)
def _with_own(
    files: tuple[Path, ...],
    discounts: tuple[str, ...],
    uploaded: tuple[tuple[str, bytes], ...],
    at: object,
) -> Catalog:
    """Put your files and discounts over the shipped catalog with its live prices."""
    del at
    from advisor.catalog.own.facts import discount_facts, parse_own_facts, read_own_facts
    from advisor.catalog.own.overlay import with_own_facts

    catalog = _shipped()
    for file in files:
        catalog = with_own_facts(catalog, read_own_facts(file), shipped_content(), name=file.name)
    for name, content in uploaded:
        facts = parse_own_facts(content, name=name)
        catalog = with_own_facts(catalog, facts, shipped_content(), name=name)
    stated = discount_facts(discounts)
    return with_own_facts(catalog, stated, shipped_content(), name="--discount")


def read_content(path: Path) -> CatalogFile:
    """Return the file of accelerators, checked; every size of memory is an entry of its own."""
    content = read_record(path, CatalogFile)
    checks.check_order(list(content.accelerators), file=path.name)
    for key, record in content.accelerators.items():
        checks.check_accelerator(key, record, content, rule_source=RULE_SOURCE, file=path.name)
    for currency in content.exchange_rates:
        checks.check_rate(currency, content, file=path.name)
    for capability in content.compute_capabilities:
        checks.check_capability(capability, content, file=path.name)
    whole = dict[str, AcceleratorRecord]()
    for key, record in content.accelerators.items():
        whole |= record.of_sizes(key)
    return content.changed(accelerators=dict(sorted(whole.items())))


def read_catalog(catalog_path: Path, offers_path: Path) -> Catalog:
    """Return the catalog of two files. Raises CatalogError if one is broken."""
    content = read_content(catalog_path)
    records = read_table(offers_path, OfferRecord)
    for line, offer in enumerate(records, start=2):
        checks.check_offer(offer, content, line=line, file=offers_path.name)
    offers = [offer_of(record, content) for record in records]
    checks.check_order([offer.key for offer in offers], file=offers_path.name)

    sources = {
        key: Source(key=key, **record.model_dump()) for key, record in content.sources.items()
    }
    provenance = {
        key: Provenance(source=key, date=source.date, confidence=source.confidence)
        for key, source in sources.items()
    }
    return Catalog(
        accelerators=tuple(
            accelerator_of(key, record, content.reported_memory_rules, provenance)
            for key, record in content.accelerators.items()
        ),
        offers=with_upper_ends(offers, file=offers_path.name),
        sources=sources,
        excluded=content.excluded,
        exchange_rates={
            currency: ExchangeRate(usd=rate.usd, date=content.sources[rate.source].date)
            for currency, rate in content.exchange_rates.items()
        },
        software={
            capability: software_of(capability, item, provenance)
            for capability, item in content.compute_capabilities.items()
        },
    )
