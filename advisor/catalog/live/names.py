"""Maps the names of ``gpuhunt`` to the catalog's accelerators by a table, without guessing."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from advisor.catalog.records import Count, Gigabytes, Key, Record, Text
from advisor.foundation.data_records import read_table, refuse, shipped
from advisor.foundation.resources import data_path

FILE: Final = "gpuhunt_names.csv"
MEMORY_TOLERANCE: Final = 0.1
"""Providers state GiB as the driver shows or GB as marketed. Fractions of a card differ by more."""


class GcpParts(Record):
    """What Google bills for machines whose name starts so."""

    machine: Text
    cpu: Text
    card: Text
    disk_gib: float = 0.0
    """For each card. [GiB]"""


class Feeds(Record):
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
"""Returns how prices are read."""

PROVIDERS: Final = feeds().listed
MARKETPLACES: Final = feeds().marketplaces
ONLINE: Final = feeds().online | MARKETPLACES
TITLES: Final = PROVIDERS | ONLINE


class Name(Record):
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
