"""Checks across fields of the catalog: order of keys, known sources, rates that look sparse."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from advisor.foundation.noun import refuse

if TYPE_CHECKING:
    from advisor.catalog.files.rows import AcceleratorRecord, CatalogFile, OfferRecord

USD = "USD"
"""Every price inside the engine is in this currency."""

WIDEST_STEP = 2.05
"""Largest plausible ratio of a dense rate to that of the next wider format, with room for rounding.
Tensor cores double their rate when the width halves; sparsity would double it once more."""

PRICE_BOUNDS = (0.005, 200.0)
"""Plausible prices of one accelerator; one far outside is in cents or for a month. [USD/h]"""
SLOWEST_READ = 0.1
"""Least share of its memory that a card reads in a second (in the catalog 0.5). [1/s]"""


def check_order(keys: Sequence[str], *, file: str) -> None:
    """Refuse keys of a file that appear twice or out of order.

    The message says where to move them.
    """
    for before, key, *following in itertools.zip_longest(keys, keys[1:], keys[2:], fillvalue=""):
        if not key or before < key:
            continue
        # One that stands too early is smaller than nothing that follows it.
        stray = before if "" < following[0] < before else key
        if keys.count(stray) > 1:
            value, remedy = "given twice", "Remove one of the two."
        else:
            after = max((other for other in keys if other < stray), default=None)
            value = "out of order"
            remedy = f"Move `{stray}` after `{after}`." if after else f"Move `{stray}` to the top."
        refuse(file, value, remedy, entry=stray, field="key")


def check_accelerator(
    key: str, record: AcceleratorRecord, content: CatalogFile, *, rule_source: str, file: str
) -> None:
    """Refuse an entry with unknown sources or rules, or with rates that look sparse."""
    known = record.model_fields_set | {f"dense_tflops.{name}" for name in record.dense_tflops}
    _check_cited(key, record.sources, known, content=content, file=file)
    rule = record.memory_reported_rule
    if rule is not None and rule not in content.reported_memory_rules:
        remedy = f"Use one of {', '.join(content.reported_memory_rules)}."
        refuse(file, rule, remedy, entry=key, field="memory_reported_rule")
    if rule is not None and rule_source not in content.sources:
        remedy = f"Add the source `{rule_source}`, which derived figures cite, to `sources`."
        refuse(file, rule, remedy, entry=key, field="memory_reported_rule")
    bandwidth, least = record.memory_bandwidth_gb_per_s, SLOWEST_READ * record.memory_gb
    if bandwidth < least:
        remedy = f"{record.memory_gb:g} GB go with {least:g} GB/s or more: look at the units."
        refuse(file, bandwidth, remedy, entry=key, field="memory_bandwidth_gb_per_s")
    if not record.unusual_rates:
        _check_rates(key, record, file=file)


def check_offer(record: OfferRecord, content: CatalogFile, *, line: int, file: str) -> None:
    """Refuse an offer, in a line of a file, of an unknown accelerator or from an unknown source."""
    entry = f"line {line} ({record.instance_type})"
    if record.accelerator not in content.accelerators:
        remedy = "Use a key of gpu_catalog.yaml, or add the accelerator there first."
        refuse(file, record.accelerator, remedy, entry=entry, field="accelerator")
    if record.source not in content.sources:
        remedy = "Add it to `sources` in gpu_catalog.yaml, or correct the key."
        refuse(file, record.source, remedy, entry=entry, field="source")
    if record.currency != USD and record.currency not in content.exchange_rates:
        remedy = "Add its rate to `exchange_rates` in gpu_catalog.yaml."
        refuse(file, record.currency, remedy, entry=entry, field="currency")
    low, high = (bound * record.accelerators for bound in PRICE_BOUNDS)
    for field in ("on_demand_per_hour", "spot_per_hour"):
        price = getattr(record, field)
        if price is not None and not low <= price <= high:
            remedy = f"Write the price of one hour of the whole instance ({low:g} to {high:g})."
            refuse(file, price, remedy, entry=entry, field=field)


def check_rate(currency: str, content: CatalogFile, *, file: str) -> None:
    """Refuse an exchange rate from an unknown source with a ``CatalogError``."""
    source = content.exchange_rates[currency].source
    if source not in content.sources:
        remedy = "Add the source to the top-level `sources`, or correct the key."
        refuse(file, source, remedy, entry=currency, field="source")


def check_capability(capability: str, content: CatalogFile, *, file: str) -> None:
    """Refuse a compute capability that cites unknown sources or fields with a ``CatalogError``."""
    record = content.compute_capabilities[capability]
    _check_cited(capability, record.sources, record.model_fields_set, content=content, file=file)


def _check_cited(
    entry: str,
    sources: Mapping[str, str],
    known: AbstractSet[str],
    *,
    content: CatalogFile,
    file: str,
) -> None:
    """Refuse sources without a default, for missing fields, or missing from the registry."""
    if "default" not in sources:
        remedy = "Add `default`: the source of all fields that have no source of their own."
        refuse(file, ", ".join(sources), remedy, entry=entry, field="sources")
    for field, source in sources.items():
        if field != "default" and field not in known:
            remedy = "The entry has no such field; correct the name or remove it."
        elif source not in content.sources:
            remedy = "Add the source to the top-level `sources`, or correct the key."
        else:
            continue
        refuse(file, source, remedy, entry=entry, field=f"sources.{field}")


def _check_rates(key: str, record: AcceleratorRecord, *, file: str) -> None:
    # Some cards halve their rate with fp32 accumulation: compare their full rate.
    rates: Mapping[str, float] = dict(
        [*record.dense_tflops.items(), *record.fp16_accumulate_tflops.items()]
    )
    wide = max((rates[name] for name in ("fp16", "bf16") if name in rates), default=None)
    steps = (("fp8", wide), ("int8", wide), ("fp4", rates.get("fp8")), ("int4", rates.get("int8")))
    for name, wider in steps:
        rate = rates.get(name)
        if rate is None or wider is None or rate <= WIDEST_STEP * wider:
            continue
        remedy = (
            f"{rate / wider:.1f} times the next wider format's {wider:g} looks sparse: halve "
            "it, or say in `unusual_rates` why it is dense."
        )
        refuse(file, rate, remedy, entry=key, field=f"dense_tflops.{name}")
