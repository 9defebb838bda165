"""The machine that a card is bought with: which assumptions of ``owning_defaults.csv`` hold."""

import math
from typing import Final

from advisor.catalog.economy import Default, Economy
from advisor.catalog.nodes import sold_together
from advisor.catalog.usual_machines import usual_machines
from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Segment

KIT_BYTES: Final = 32 * GB
"""Memory in the price of a computer, and of each kit beyond. [bytes]"""
WORKSTATION_SLOTS: Final = 4
"""Most cards in a workstation; more of them need a server."""
SMALL_SERVER_SLOTS: Final = 4
"""Most cards in a plain server; more of them need one that is built for eight."""

WHOLE_COMPUTERS: Final = frozenset({"APU", "SoC", "desktop"})
"""Form factors whose price includes a complete computer."""


def groups_of(accelerator: Accelerator, per_machine: int = 1) -> tuple[str, ...]:
    """Return the groups of defaults that apply to an accelerator, most specific first.

    ``per_machine``: cards in one machine; a computer has no room for more than a workstation.
    """
    segment = accelerator.segment
    if segment is Segment.CPU:
        server = usual_machines().is_server_processor(accelerator)
        return ("cpu", "server" if server else "desktop")
    if segment is Segment.EDGE:
        return ("edge", "desktop")
    if accelerator.form_factor in WHOLE_COMPUTERS:
        return ("computer", "desktop")
    if per_machine > WORKSTATION_SLOTS or segment not in (Segment.WORKSTATION, Segment.CONSUMER):
        return ("server",)
    return ("workstation", "desktop") if segment is Segment.WORKSTATION else ("desktop",)


def host_default(
    economy: Economy, accelerator: Accelerator, per_machine: int, host_bytes: float = 0.0
) -> Default:
    """Return the price of the rest of one machine with its spread and source. [USD]

    A computer without a rack gets as much memory as its cards have, or ``host_bytes``, and a supply
    for its rated power. A part of a baseboard or rack takes its part of the price.
    """
    groups, pack = groups_of(accelerator), sold_together(accelerator)
    if groups == ("server",) and pack > 1:
        rack = pack == usual_machines().rack_domain
        whole = economy.default("host_usd", "rack" if rack else "baseboard")
        part = min(1.0, per_machine / pack)
        return _summed(whole, (part, whole))
    host = economy.default("host_usd", *_host_groups(groups, per_machine))
    if host.group not in ("desktop", "dual", "workstation"):
        return host
    held = max(host_bytes, per_machine * accelerator.memory_marketed_bytes)
    kits = max(0, math.ceil(held / KIT_BYTES) - 1)
    memory = economy.default("memory_usd_per_32gb", "desktop")
    supply = economy.default("supply_usd_per_w", "desktop")
    share = economy.default("host_power_share", *groups).expected
    watts = per_machine * (accelerator.board_power_w or 0.0) * (1 + share)
    more = f"; {kits} x 32 GB more: {memory.source}" if kits else ""
    more += f"; for {watts:,.0f} W: {supply.source}"
    return _summed(host, (1, host), (kits, memory), (watts, supply), more=more)


def _summed(first: Default, *parts: tuple[float, Default], more: str = "") -> Default:
    """Return the first default with the sum of all, each times its number."""
    ends = ("low", "expected", "high")
    sums = {end: sum(number * getattr(item, end) for number, item in parts) for end in ends}
    return first.model_copy(update={**sums, "source": first.source + more})


def _host_groups(groups: tuple[str, ...], per_machine: int) -> tuple[str, ...]:
    """Return the groups of ``host_usd``: more cards need a workstation, then a server."""
    if groups[0] in ("cpu", "computer", "edge"):
        return groups
    if groups[-1] == "desktop" and per_machine <= WORKSTATION_SLOTS:
        return (("desktop", "dual", "workstation", "workstation")[max(0, per_machine - 1)],)
    return ("server" if per_machine <= SMALL_SERVER_SLOTS else "large_server",)
