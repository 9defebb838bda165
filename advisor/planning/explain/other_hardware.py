"""Other hardware on which a case may fit: more memory of the host, more cards, larger ones."""

from collections.abc import Iterator
from math import inf
from typing import Final

from advisor.catalog import Catalog
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.foundation.record import record
from advisor.foundation.units import GB
from advisor.nouns.case import Case, Hardware
from advisor.nouns.workload import Serving

MAX_GROWTH: Final = 6
"""Doublings of the number of cards that are tried."""
HOST_GB: Final = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Memory of desktop computers (up to 256 GB) and of servers with one or two processors."""
NARROWEST: Final = 0.6
"""Weights in the narrowest format over those of the format that was tried last."""


@record
class Change:
    """Another case to try."""

    title: str
    sacrifice: str
    case: Case
    precision: str | None = None
    """Weight format, where it changes."""
    room_bytes: float = inf
    """Memory of each card, where it changes."""


def more_host_memory(case: Case, placement: Placement, estimate: Estimate) -> Iterator[Change]:
    """Yield larger memories of the host that can hold what the cards cannot."""
    installed = placement.node.host_memory_bytes
    if placement.accelerator.shares_host_memory or not installed or case.layout is not None:
        return
    machines = -(-placement.count // placement.node.accelerators)
    memory = estimate.memory
    short = (memory.needed_bytes - memory.usable_bytes) * placement.count / machines
    for size in HOST_GB:
        room = size * GB
        if room > installed and room >= NARROWEST * short:
            host = case.host.changed(memory_bytes=room)
            larger = case.changed(host=host)
            yield Change(f"more host memory: {size} GB (--host-memory {size}G)", "host", larger)


def more_cards(case: Case, placement: Placement) -> Iterator[Change]:
    """Yield the same cards in the best layout, then twice as many, and so on."""
    card = placement.accelerator
    if case.layout is not None:
        same = Hardware(accelerator=card.key, count=placement.count)
        yield Change(
            "leave the layout to the advisor", "time", case.changed(hardware=same, layout=None)
        )
    for step in range(1, MAX_GROWTH + 1):
        count = placement.count * 2**step
        if count <= case.limits.max_accelerators:
            hardware = Hardware(accelerator=card.key, count=count)
            more = case.changed(hardware=hardware, layout=None)
            yield Change(f"more cards: {count:,}x {card.name}", "cards", more)


def larger_cards(case: Case, placement: Placement, catalog: Catalog) -> Iterator[Change]:
    """Yield as many cards of the vendor with more memory, to rent or to buy, least memory first.

    Chips that share a computer's memory are no larger cards, except for those that do, too.
    """
    training, own = not isinstance(case.workload, Serving), placement.accelerator
    larger = sorted(
        (
            other
            for other in catalog.accelerators
            if other.vendor == own.vendor
            and other.memory_reported_bytes > own.memory_reported_bytes
            and not (training and other.inference_only)
            and other.shares_host_memory <= own.shares_host_memory
            and (other.purchase_usd or catalog.offers_for(other.key))
        ),
        key=lambda other: other.memory_reported_bytes,
    )
    for other in larger:
        hardware = Hardware(accelerator=other.key, count=placement.count)
        # The layout stays the same: a new layout is a change of its own.
        layout = placement.layout if case.layout is not None else None
        yield Change(
            f"a larger card: {placement.count:,}x {other.name}",
            "cards",
            case.changed(hardware=hardware, layout=layout),
            room_bytes=other.memory_reported_bytes,
        )
