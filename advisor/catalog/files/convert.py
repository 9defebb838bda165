"""Turns records of the data files into nouns. Only this module converts their units."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from advisor.catalog.economy import billing_of
from advisor.catalog.files import rows
from advisor.catalog.files.checks import USD
from advisor.catalog.files.rows import converted
from advisor.foundation.noun import Noun
from advisor.foundation.units import GB, GIB, GIGABIT_PER_S, MIB, TFLOP
from advisor.nouns import hardware

RULE_SOURCE = "reported-memory-rule"
"""Source key of memory figures that a rule derives."""

BOTH_DIRECTIONS = 2.0
"""Vendors publish the rate of links for both directions together; collectives use one."""

# Field of the record -> field of the noun.
_NOUN_FIELDS: Mapping[str, str] = {
    "memory_gb": "memory_marketed_bytes",
    "memory_reported_mib": "memory_reported_bytes",
    "memory_bandwidth_gb_per_s": "memory_bandwidth_bytes_per_s",
    "cache_mib": "cache_bytes",
    "network_gbit_per_s": "network_bytes_per_s",
    "dense_tflops": "peak_flops_per_s",
    "fp16_accumulate_tflops": "peak_flops_per_s_fp16_accumulate",
    "purchase": "purchase_usd",
}


def _shared(record: Noun, noun: type[Noun], *others: str) -> dict[str, Any]:
    """Return the fields that a record shares with its noun, without ``others``."""
    names = type(record).model_fields.keys() & noun.model_fields.keys() - {*others}
    return {name: getattr(record, name) for name in names}


def software_of(
    capability: str, record: rows.CapabilityRecord, provenance: Mapping[str, hardware.Provenance]
) -> hardware.SoftwareSupport:
    """Return what software a compute capability needs."""
    return hardware.SoftwareSupport(
        capability=capability,
        **_shared(record, hardware.SoftwareSupport),
        provenance={field: provenance[source] for field, source in record.sources.items()},
    )


def accelerator_of(
    key: str,
    record: rows.AcceleratorRecord,
    rules: Mapping[str, rows.MemoryRule],
    provenance: Mapping[str, hardware.Provenance],
) -> hardware.Accelerator:
    """Return an accelerator in SI units.

    ``rules`` derive the memory which the driver shows; ``provenance`` has the keys of the sources.
    """
    by_field = {_noun_field(field): provenance[source] for field, source in record.sources.items()}
    if record.memory_reported_rule is not None:
        by_field["memory_reported_bytes"] = provenance[RULE_SOURCE]
    link, purchase = record.interconnect, record.purchase
    return hardware.Accelerator(
        key=key,
        **_shared(record, hardware.Accelerator, "interconnect"),
        memory_marketed_bytes=record.memory_gb * GB,
        memory_reported_bytes=_reported_bytes(record, rules),
        memory_reported_derived=record.memory_reported_rule is not None,
        memory_bandwidth_bytes_per_s=record.memory_bandwidth_gb_per_s * GB,
        cache_bytes=record.cache_mib * MIB if record.cache_mib else None,
        peak_flops_per_s={name: rate * TFLOP for name, rate in record.dense_tflops.items()},
        peak_flops_per_s_fp16_accumulate={
            name: rate * TFLOP for name, rate in record.fp16_accumulate_tflops.items()
        },
        interconnect=hardware.Interconnect(
            name=link.name,
            bytes_per_s=link.bidirectional_gb_per_s * GB / BOTH_DIRECTIONS,
            domain_size=link.domain_size,
        )
        if link
        else None,
        network_bytes_per_s=record.network_gbit_per_s * GIGABIT_PER_S
        if record.network_gbit_per_s
        else None,
        purchase_usd=purchase.usd if purchase else None,
        purchase_date=purchase.date if purchase else None,
        purchase_kind=purchase.kind if purchase else None,
        provenance=by_field,
    )


def _noun_field(field: str) -> str:
    name, dot, number_format = field.partition(".")
    return _NOUN_FIELDS.get(name, name) + dot + number_format


def _reported_bytes(record: rows.AcceleratorRecord, rules: Mapping[str, rows.MemoryRule]) -> float:
    if record.memory_reported_mib is not None:
        return record.memory_reported_mib * MIB
    # A record has exactly one of the two fields.
    rule = rules[str(record.memory_reported_rule)]
    return record.memory_gb * GIB * rule.share(record.memory_gb)


def offer_of(record: rows.OfferRecord, content: rows.CatalogFile) -> hardware.Offer:
    """Return an offer in SI units and US dollars, at the rates of the catalog's file."""
    memory, network = record.host_memory_gib, record.network_gbit_per_s
    quote, billing = _quote(record, content), billing_of(record.provider, record.tier)
    offer = hardware.Offer(
        key=offer_key(record.provider, record.instance_type, record.region, record.tier),
        **_shared(record, hardware.Offer),
        host_memory_bytes=memory * GIB if memory else None,
        on_demand_usd_per_hour=_with_host(record.on_demand_per_hour, billing, record),
        spot_usd_per_hour=_with_host(record.spot_per_hour, billing, record),
        billing=billing,
        commitment=billing.commitment,
        quote=quote,
        inter_node_bytes_per_s=network * GIGABIT_PER_S if network else None,
        provenance=_provenance(
            record.source, content.sources[record.source].date, record.confidence
        ),
    )
    return converted(offer, usd=quote.usd, rate_date=quote.rate_date) if quote else offer


def _with_host(
    price: float | None, billing: hardware.Billing, record: rows.OfferRecord
) -> float | None:
    """Return a price with the cores and memory that are billed apart. [USD/h]"""
    return None if price is None else price + billing.host_usd_per_hour * record.accelerators


@lru_cache(maxsize=1024)
def _provenance(source: str, date: str, confidence: hardware.Confidence) -> hardware.Provenance:
    return hardware.Provenance(source=source, date=date, confidence=confidence)


def _quote(record: rows.OfferRecord, content: rows.CatalogFile) -> hardware.Quote | None:
    if record.currency == USD:
        return None
    rate = content.exchange_rates[record.currency]
    return hardware.Quote(
        currency=record.currency,
        on_demand_per_hour=record.on_demand_per_hour,
        spot_per_hour=record.spot_per_hour,
        usd=rate.usd,
        rate_date=content.sources[rate.source].date,
    )


@lru_cache(maxsize=4096)
def slug(text: str) -> str:
    """Return the text as lower-case words joined by dashes.

    >>> slug("gpu-h100-sxm 8gpu-128vcpu")
    'gpu-h100-sxm-8gpu-128vcpu'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def offer_key(provider: str, instance_type: str, region: str, tier: str) -> str:
    """Return the key of an offer: its four names as slugs.

    >>> offer_key("AWS", "p5.48xlarge", "us-east-1", "on-demand list")
    'aws/p5-48xlarge/us-east-1/on-demand-list'
    """
    return "/".join(map(slug, (provider, instance_type, region, tier)))
