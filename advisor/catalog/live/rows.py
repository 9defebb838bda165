"""Rows of providers' price lists: the table that maps their names, and offers made of them."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from pydantic import ValidationError

from advisor.catalog.economy import billing_of
from advisor.catalog.files.checks import PRICE_BOUNDS
from advisor.catalog.files.convert import offer_key, slug
from advisor.catalog.live.prices import SOURCE
from advisor.catalog.records import Count, Gigabytes, Key, Text
from advisor.errors import InputError
from advisor.foundation.names import display_name
from advisor.foundation.noun import Noun, read_table, refuse, shipped
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.foundation.units import GIB
from advisor.nouns.hardware import LOWEST_ASK, Confidence, Offer, Provenance

Machines = Mapping[str, Offer]
"""A provider's machines of the catalog, by the name of the instance."""


@record
class Row:
    """A price of one machine in one region."""

    instance: str
    region: str
    usd_per_hour: float
    vcpus: float
    memory_gib: float
    gpus: int
    gpu_name: str
    gpu_memory_gb: float
    spot: bool
    flags: tuple[str, ...] = ()
    accelerator: str = ""
    """Key of the catalog, where the machine is one of it; else the table of names decides."""
    notes: str = ""


@record
class Fetched:
    """The answer of one provider."""

    version: str | None = None
    """Version of its list, which begins with its day; None for prices of this moment."""
    rows: tuple[Row, ...] = ()
    malformed: int = 0
    """Rows that could not be read."""
    error: str = ""
    """Why there are no rows, or which part of them is missing."""
    whole: bool = True
    """Whether the answer covers all regions of the provider."""


def row_of(machine: Offer, region: str, usd: float, *, spot: bool, notes: str = "") -> Row:
    """Return a price of a machine of the catalog in a region."""
    return Row(
        instance=machine.instance_type,
        region=region,
        usd_per_hour=usd,
        vcpus=machine.vcpus or 0.0,
        memory_gib=(machine.host_memory_bytes or 0.0) / GIB,
        gpus=machine.accelerators,
        gpu_name=machine.accelerator,
        gpu_memory_gb=0.0,
        spot=spot,
        accelerator=machine.accelerator,
        notes=notes,
    )


FILE: Final = "gpuhunt_names.csv"
MEMORY_TOLERANCE: Final = 0.1
"""Providers state GiB as the driver shows or GB as marketed. Fractions of a card differ by more."""


class GcpParts(Noun):
    """What Google bills for machines whose name starts so."""

    machine: Text
    cpu: Text
    card: Text
    disk_gib: float = 0.0
    """For each card. [GiB]"""


class Feeds(Noun):
    """The content of ``price_feeds.yaml``, which explains its fields."""

    addresses: dict[str, str]
    listed: dict[str, str]
    online: dict[str, str]
    marketplaces: dict[str, str]
    currencies: dict[str, str]
    aws_rows: dict[str, tuple[str, ...]]
    aws_spot_regions: dict[str, str]
    gcp_parts: tuple[GcpParts, ...]


feeds = shipped("price_feeds.yaml", Feeds)

PROVIDERS: Final = feeds().listed
MARKETPLACES: Final = feeds().marketplaces
ONLINE: Final = feeds().online | MARKETPLACES
TITLES: Final = PROVIDERS | ONLINE


class Name(Noun):
    """One line of the table; ``*`` in a pattern stands for anything."""

    provider: Text
    instance: Text
    gpu_name: Text
    gpu_memory_gb: Gigabytes
    accelerator: Key
    devices: Count
    """Catalog accelerators in one device that gpuhunt counts (a TPU slice, a two-die module)."""

    def fits(self, provider: str, instance: str, gpu_name: str, gpu_memory_gb: float) -> bool:
        """Whether this line matches an instance."""
        return (
            fnmatchcase(gpu_name, self.gpu_name)
            and abs(gpu_memory_gb / self.gpu_memory_gb - 1) <= MEMORY_TOLERANCE
            and fnmatchcase(provider, self.provider)
            and fnmatchcase(instance, self.instance)
        )


def find_name(provider: str, instance: str, gpu_name: str, gpu_memory_gb: float) -> Name | None:
    """Return the first line of the table for names and memory [GB or GiB] as gpuhunt states them.

    >>> find_name("aws", "p4d.24xlarge", "A100", 40.0).accelerator
    'a100-sxm-40gb'
    >>> find_name("azure", "Standard_NV6ads_A10_v5", "A10", 4.0) is None  # a sixth of a card
    True
    """
    for name in names():
        if name.fits(provider, instance, gpu_name, gpu_memory_gb):
            return name
    return None


@cache
def names() -> tuple[Name, ...]:
    """Return the lines of the table in file order; raises ``CatalogError`` if one is broken."""
    pattern = ("provider", "instance", "gpu_name", "gpu_memory_gb")
    return tuple(read_table(data_path(FILE), Name, key=pattern))


def check_names(known: Collection[str]) -> None:
    """Refuse a table that names an accelerator outside the catalog."""
    for name in names():
        if name.accelerator not in known:
            remedy = "Use a key of gpu_catalog.yaml, or add the accelerator there first."
            refuse(FILE, name.accelerator, remedy, entry=name.gpu_name, field="accelerator")


MOST_GPUS: Final = 64
MOST: Final = 1e6
"""Largest plausible number of vCPUs, GiB of memory or US dollars per hour."""
CLUSTER_FLAG: Final = "runpod-cluster"
"""Flag of clusters that start at two machines: a single instance is not for rent."""
COUNTRY: Final = re.compile(r"[A-Z]{2}")
"""RunPod lists its community cloud by country and its secure cloud by data centre."""


Links = tuple[str, float | None]
"""Name of the link between an instance's accelerators, and the instance's network [bytes/s]."""


@record
class Converted:
    """Offers of one provider, with counts of the rows that were left out."""

    offers: tuple[Offer, ...]
    """Ordered by key."""
    refused: int
    """Rows with impossible values."""
    unknown: Mapping[str, int]
    """Number of rows whose GPU is not in the table of names, by GPU and memory."""


@record
class _Named:
    row: Row
    accelerator: str
    accelerators: int


def convert(
    rows: Iterable[Row], *, provider: str, date: str, snapshot: Sequence[Offer]
) -> Converted:
    """Turn the rows of one provider, as gpuhunt spells it, into offers of a day.

    ``snapshot``, the shipped offers, supplies links and network, which gpuhunt does not state:
    first from the provider's instance of the same name, then from its instances with the same
    number of the same accelerator, if all of those agree.
    """
    unknown: Counter[str] = Counter()
    refused = 0
    named: dict[tuple[str, str, str, int], list[_Named]] = defaultdict(list)
    for row in rows:
        if CLUSTER_FLAG in row.flags:
            continue
        if not _possible(row):
            refused += 1
            continue
        found = _Named(row, row.accelerator, row.gpus)
        if not row.accelerator:
            name = find_name(provider, row.instance, row.gpu_name, row.gpu_memory_gb)
            if name is None:
                unknown[f"{row.gpu_name} {row.gpu_memory_gb:g} GB"] += 1
                continue
            found = _Named(row, name.accelerator, row.gpus * name.devices)
        low, high = PRICE_BOUNDS
        if not low <= found.row.usd_per_hour / found.accelerators <= high:
            refused += 1
            continue
        named[row.instance, row.region, found.accelerator, found.accelerators].append(found)
    several = _ambiguous(named)
    links = _known_links(snapshot)
    offers = []
    for group in named.values():
        counted = group[0].row.instance in several
        try:
            offers.append(_offer(group, provider=provider, date=date, counted=counted))
        except ValidationError:  # each name may stand, and their key is too long
            refused += len(group)
    joined = [_with_links(offer, links) for offer in offers]
    unique = {offer.key: offer for offer in joined}
    return Converted(
        offers=tuple(unique[key] for key in sorted(unique)),
        refused=refused,
        unknown=dict(unknown.most_common()),
    )


def _possible(row: Row) -> bool:
    sizes = (row.usd_per_hour, row.vcpus, row.memory_gib, row.gpu_memory_gb)
    return (
        all(_within(value, MOST) for value in sizes)
        and row.usd_per_hour > 0
        and _within(row.gpus, MOST_GPUS)
        and row.gpus >= 1
        and all(map(_nameable, (row.instance, row.region, row.gpu_name)))
    )


def _nameable(text: str) -> bool:
    """Whether a name is safe to show in tables and write to files."""
    try:
        return bool(display_name(text, field="the name"))
    except InputError:
        return False


def _within(value: object, most: float) -> bool:
    """Whether a value of the feed is a number from 0 to ``most``. NaN is not."""
    return isinstance(value, int | float) and 0 <= value <= most


def _ambiguous(named: Mapping[tuple[str, str, str, int], object]) -> set[str]:
    """Return instance names that mean several machines with different accelerators or counts."""
    machines: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for instance, _, accelerator, count in named:
        machines[instance].add((accelerator, count))
    return {instance for instance, kinds in machines.items() if len(kinds) > 1}


def _offer(group: Sequence[_Named], *, provider: str, date: str, counted: bool) -> Offer:
    """Return one offer with the on-demand and the spot price of the cheapest zone for each."""
    first = min(group, key=lambda item: item.row.usd_per_hour)
    row = first.row
    on_demand = min((item.row.usd_per_hour for item in group if not item.row.spot), default=None)
    spot = min((item.row.usd_per_hour for item in group if item.row.spot), default=None)
    community = provider == "runpod" and COUNTRY.fullmatch(row.region)
    tier = "community marketplace" if community else "on-demand list"
    tier = LOWEST_ASK if provider in MARKETPLACES else tier
    title = TITLES[provider]
    instance = row.instance
    if counted:
        instance = f"{row.gpus}x {row.gpu_name} on {row.instance}"
        instance = instance if row.gpu_name not in row.instance else f"{row.gpus}x {row.instance}"
    return Offer(
        key=offer_key(title, instance, row.region, tier),
        provider=title,
        instance_type=instance,
        tier=tier,
        region=row.region,
        accelerator=first.accelerator,
        accelerators=first.accelerators,
        vcpus=row.vcpus or None,
        host_memory_bytes=row.memory_gib * GIB or None,
        on_demand_usd_per_hour=on_demand,
        spot_usd_per_hour=spot,
        billing=billing_of(title),
        price_date=date,
        intra_node="",
        inter_node_bytes_per_s=None,
        provenance=Provenance(source=SOURCE, date=date, confidence=Confidence.SECONDARY),
        notes=next((item.row.notes for item in group if item.row.notes), ""),
    )


def _known_links(snapshot: Sequence[Offer]) -> Mapping[tuple[str, str, int], set[Links]]:
    """Return links and network by provider, by name or accelerator, and by accelerator count."""
    known: dict[tuple[str, str, int], set[Links]] = defaultdict(set)
    for offer in snapshot:
        for name in (slug(offer.instance_type), offer.accelerator):
            links = (offer.intra_node, offer.inter_node_bytes_per_s)
            known[offer.provider, name, offer.accelerators].add(links)
    return known


def _with_links(offer: Offer, known: Mapping[tuple[str, str, int], set[Links]]) -> Offer:
    for name in (slug(offer.instance_type), offer.accelerator):
        found = known.get((offer.provider, name, offer.accelerators), set())
        if len(found) != 1:
            continue
        [(intra_node, network)] = found
        noted = filter(None, (offer.notes, "links and network as in the shipped snapshot"))
        return offer.changed(
            intra_node=intra_node, inter_node_bytes_per_s=network, notes="; ".join(noted)
        )
    return offer
