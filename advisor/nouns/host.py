"""The computer around the accelerators, as far as the user states it."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun
from advisor.nouns.inputs import SERVING, WRITING, Reads, asked

Bytes = Annotated[float, Field(ge=1e9, le=1e15, allow_inf_nan=False)]


class Host(Noun):
    """Memory of the host, its slots, and what its screen takes; None: the platform's default."""

    memory_bytes: Bytes | None = asked(
        "size of the host's memory, for layers, experts or training states there, 64GB (a desktop "
        "computer: 64 GB, a server: 512 GB; a rented machine that trains: what its offer states); "
        "of a named Mac, chip or processor, its memory",
        "--host-memory",
        label="Host memory",
        unit="bytes",
        reads=Reads.BYTES,
        networks=WRITING,
        blank="As usual for the card",
    )
    memory_bandwidth_bytes_per_s: Bytes | None = asked(
        "bandwidth of the host's memory, all channels together: 89.6GB/s (two channels of "
        "DDR5-5600; a server: eight of DDR5-4800)",
        "--host-bandwidth",
        metavar="BYTES/S",
        reads=Reads.BYTES,
        tasks=SERVING,
    )
    display_bytes: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = asked(
        "memory that screen and desktop take from each card (none, but 0.6GB of a consumer card "
        "with llama.cpp)",
        "--display-memory",
        reads=Reads.BYTES,
    )
    pcie_lanes: Annotated[int, Field(ge=1, le=16)] | None = asked(
        "lanes of the slot of each card, where they are fewer than the card has: 8, 4 (an "
        "external box over Thunderbolt 3 or 4: 4)"
    )
