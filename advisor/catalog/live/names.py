"""From the names of ``gpuhunt`` to the catalog's accelerators: a table, never a guess."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from advisor.errors import CatalogError
from advisor.foundation.resources import data_path

FILE: Final = "gpuhunt_names.csv"
MEMORY_TOLERANCE: Final = 0.1
"""Providers give GiB that the driver shows or GB as marketed; fractions of a card are far off."""

PROVIDERS: Final = {
    "aws": "AWS",
    "azure": "Azure",
    "cloudrift": "CloudRift",
    "gcp": "GCP",
    "lambdalabs": "Lambda",
    "nebius": "Nebius",
    "oci": "OCI",
    "runpod": "RunPod",
    "verda": "Verda (DataCrunch)",
}
"""Offline catalogs of gpuhunt and the catalog's names for their providers."""
ONLINE: Final = {
    "digitalocean": "DigitalOcean",
    "hotaisle": "Hot Aisle",
    "jarvislabs": "JarvisLabs",
    "vultr": "Vultr",
}
"""Providers that gpuhunt asks itself, most with a key from the environment. Left out: Vast.ai and
Lium (single machines that come and go), Seeweb (prices in euro given as dollars), Daytona
(sandboxes) and Crusoe (a table typed by hand, in part estimated)."""
TITLES: Final = PROVIDERS | ONLINE


@dataclass(frozen=True, slots=True)
class Name:
    """One line of the table; ``*`` in a pattern stands for anything."""

    provider: str
    instance: str
    gpu_name: str
    gpu_memory_gb: float
    accelerator: str
    devices: int
    """Accelerators of the catalog in one that gpuhunt counts (a TPU slice, a two-die module)."""

    def fits(self, provider: str, instance: str, gpu_name: str, gpu_memory_gb: float) -> bool:
        """Whether this line is about such an instance."""
        return (
            fnmatchcase(gpu_name, self.gpu_name)
            and abs(gpu_memory_gb / self.gpu_memory_gb - 1) <= MEMORY_TOLERANCE
            and fnmatchcase(provider, self.provider)
            and fnmatchcase(instance, self.instance)
        )


def find_name(provider: str, instance: str, gpu_name: str, gpu_memory_gb: float) -> Name | None:
    """Return the first line of the table that fits, or None.

    Parameters
    ----------
    provider, instance, gpu_name : str
        As gpuhunt spells them.
    gpu_memory_gb : float
        Of one GPU. [GB or GiB]

    Examples
    --------
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
    """Return the table in its order.

    Raises
    ------
    CatalogError
        If a line is broken; names it.
    """
    path = data_path(FILE)
    found = []
    with path.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            try:
                found.append(
                    Name(
                        provider=row["provider"],
                        instance=row["instance"],
                        gpu_name=row["gpu_name"],
                        gpu_memory_gb=float(row["gpu_memory_gb"]),
                        accelerator=row["accelerator"],
                        devices=int(row["devices"]),
                    )
                )
            except (KeyError, TypeError, ValueError):
                raise CatalogError(
                    file=FILE,
                    entry=f"line {line}",
                    field="",
                    value=",".join(str(value) for value in row.values()),
                    remedy="Give the six columns of the first line.",
                ) from None
    return tuple(found)


def check_names(known: Collection[str]) -> None:
    """Refuse a table that leads to accelerators which the catalog lacks.

    Parameters
    ----------
    known : collection of str
        Keys of the catalog's accelerators.

    Raises
    ------
    CatalogError
        With the line's accelerator.
    """
    for name in names():
        if name.accelerator not in known:
            raise CatalogError(
                file=FILE,
                entry=name.gpu_name,
                field="accelerator",
                value=name.accelerator,
                remedy="Use a key of gpu_catalog.yaml, or add the accelerator there first.",
            )
