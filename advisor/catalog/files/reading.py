"""Reads and checks the files of a catalog."""

from pathlib import Path

from advisor.catalog.catalog import Catalog, ExchangeRate, Source
from advisor.catalog.files import checks
from advisor.catalog.files.convert import RULE_SOURCE, accelerator_of, offer_of, software_of
from advisor.catalog.files.quotes import with_upper_ends
from advisor.catalog.files.rows import CatalogFile, OfferRecord
from advisor.foundation.data_records import read_record, read_table
from advisor.nouns.hardware import Provenance


def read_content(path: Path) -> CatalogFile:
    """Return the file of accelerators as it is written, checked."""
    content = read_record(path, CatalogFile)
    checks.check_order(list(content.accelerators), file=path.name)
    for key, record in content.accelerators.items():
        checks.check_accelerator(key, record, content, rule_source=RULE_SOURCE, file=path.name)
    for currency in content.exchange_rates:
        checks.check_rate(currency, content, file=path.name)
    for capability in content.compute_capabilities:
        checks.check_capability(capability, content, file=path.name)
    return content


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
