"""One row of a price list, and the answer of one provider."""

from collections.abc import Mapping

from advisor.foundation.record import record
from advisor.foundation.units import GIB
from advisor.nouns.hardware import Offer

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
