"""Records in human units to nouns in SI units: the one door of the catalog."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from advisor.catalog.catalog import Catalog, CatalogSource
from advisor.catalog.reading import offer_key, read_catalog, read_offers
from advisor.catalog.records import (
    AcceleratorRecord,
    GpuCatalogFile,
    MemoryRule,
    OfferRecord,
    SourceRecord,
)
from advisor.errors import CatalogError
from advisor.hardware import Accelerator, Confidence, Interconnect, Offer, Provenance
from advisor.resources import data_path
from advisor.units import GB, GIB, GIGABIT_PER_S, MIB, TFLOP

ACCELERATORS_FILE = "gpu_catalog.yaml"
OFFERS_FILE = "cloud_offers.csv"

FIELDS = {
    "memory": ("memory_marketed_bytes", "memory_type"),
    "memory_reported": ("memory_reported_bytes",),
    "bandwidth": ("memory_bandwidth_bytes_per_s",),
    "power": ("board_power_w",),
    "interconnect": ("interconnect",),
    "purchase": ("purchase_usd", "purchase_date", "purchase_kind"),
    "form_factor": ("form_factor",),
    "default": ("default",),
}
"""Names of the noun's fields by the names that the file's ``provenance`` uses; formats of
``peak_flops_per_s`` appear as ``peak_flops_per_s.<format>``."""


def load_catalog(directory: Path | None = None) -> Catalog:
    """Read the catalog, once for each state of its files.

    Parameters
    ----------
    directory : Path, optional
        Folder with ``gpu_catalog.yaml`` and ``cloud_offers.csv``; None takes the files that
        ship with the package.

    Returns
    -------
    Catalog

    Raises
    ------
    CatalogError
        If a file is broken; the message names file, entry, field, value and how to mend it.
    ResourceError
        If the package's own files are missing.

    Examples
    --------
    >>> load_catalog().accelerator("h100-sxm").memory_reported_bytes / 2**20
    81559.0
    """
    if directory is None:
        paths = (data_path(ACCELERATORS_FILE), data_path(OFFERS_FILE))
    else:
        paths = (directory / ACCELERATORS_FILE, directory / OFFERS_FILE)
    return _load(*(path.resolve() for path in paths), *(_changed(path) for path in paths))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError as error:
        raise CatalogError(
            file=path.name,
            entry="",
            field="file",
            value=str(path),
            remedy="Give a folder that holds the file.",
        ) from error


@lru_cache(maxsize=4)
def _load(accelerators: Path, offers: Path, _first: int, _second: int) -> Catalog:
    """Read the two files; the times of their last change make new versions new entries."""
    content = read_catalog(accelerators)
    rows = read_offers(offers, content)
    return Catalog(
        accelerators=tuple(_accelerator(item, content) for item in content.accelerators),
        offers=tuple(_offer(row) for row in rows),
        sources={key: _source(key, item) for key, item in content.sources.items()},
    )


def _source(key: str, record: SourceRecord) -> CatalogSource:
    return CatalogSource(
        key=key,
        title=record.title,
        locator=record.locator,
        date=record.date,
        licence=record.licence,
    )


def _accelerator(record: AcceleratorRecord, content: GpuCatalogFile) -> Accelerator:
    rule = (
        None
        if record.memory_reported_rule is None
        else content.memory_rules[record.memory_reported_rule]
    )
    link, purchase = record.interconnect, record.purchase
    return Accelerator(
        key=record.key,
        name=record.name,
        vendor=record.vendor,
        architecture=record.architecture,
        year=record.year,
        segment=record.segment,
        form_factor=record.form_factor,
        memory_marketed_bytes=record.memory_gb * GB,
        memory_reported_bytes=_reported(record, rule),
        memory_reported_derived=rule is not None,
        memory_type=record.memory_type,
        memory_bandwidth_bytes_per_s=record.bandwidth_gb_per_s * GB,
        peak_flops_per_s={name: rate * TFLOP for name, rate in record.dense_tflops.items()},
        peak_flops_per_s_fp16_accumulate={
            name: rate * TFLOP for name, rate in record.dense_tflops_fp16_accumulate.items()
        },
        board_power_w=record.power_w,
        interconnect=None
        if link is None
        else Interconnect(
            name=link.name,
            bytes_per_s=link.bidirectional_gb_per_s * GB / 2,
            domain_size=link.domain,
        ),
        pcie_generation=record.pcie_generation,
        compute_capability=record.compute_capability,
        purchase_usd=purchase.usd if purchase else None,
        purchase_date=purchase.date if purchase else None,
        purchase_kind=purchase.kind if purchase else None,
        provenance=_provenance(record, content, rule),
        notes=record.notes,
    )


def _reported(record: AcceleratorRecord, rule: MemoryRule | None) -> float:
    """Memory that the driver shows: published, or by the rule of its memory class. [bytes]"""
    if rule is None:
        return (record.memory_reported_mib or 0) * MIB
    return float(round(record.memory_gb * rule.gib_per_marketed_gb * GIB / MIB)) * MIB


def _provenance(
    record: AcceleratorRecord, content: GpuCatalogFile, rule: MemoryRule | None
) -> dict[str, Provenance]:
    result: dict[str, Provenance] = {}
    for name, cited in record.provenance.items():
        source, _, confidence = cited.partition("/")
        value = Provenance(
            source=source,
            date=content.sources[source].date,
            confidence=Confidence(confidence),
        )
        for field in FIELDS.get(name, (f"peak_flops_per_s.{name}",)):
            result[field] = value
    if rule is not None:
        memory = result.get("memory_marketed_bytes", result["default"])
        order = list(Confidence)
        weakest = max(memory.confidence, rule.confidence, key=order.index)
        result["memory_reported_bytes"] = memory.model_copy(update={"confidence": weakest})
    return result


def _offer(record: OfferRecord) -> Offer:
    network = record.network_gbit_per_s
    memory = record.host_memory_gib
    return Offer(
        key=offer_key(record),
        provider=record.provider,
        instance_type=record.instance_type,
        tier=record.tier,
        region=record.region,
        accelerator=record.accelerator,
        accelerators=record.accelerators,
        vcpus=record.vcpus,
        host_memory_bytes=None if memory is None else memory * GIB,
        on_demand_usd_per_hour=record.on_demand_usd_per_hour,
        spot_usd_per_hour=record.spot_usd_per_hour,
        price_date=record.price_date,
        intra_node=record.intra_node,
        inter_node_bytes_per_s=None if network is None else network * GIGABIT_PER_S,
        provenance=Provenance(
            source=record.source, date=record.price_date, confidence=record.confidence
        ),
        notes=record.notes,
    )
