"""Why a machine is in a plan, in words: memory, software, condition."""

from __future__ import annotations

from advisor.fleet.machines import CONSUMER_FLOOR_BYTES, Machine
from advisor.fleet.platform_names import PLATFORMS
from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.software.tools import Status, known_tools


def software_share(card: Accelerator) -> tuple[int, int]:
    """Return how many of the known tools run on a card, and how many there are."""
    tools = [tool for tool in known_tools().values() if tool.status is not Status.RETIRED]
    return sum(tool.support(card) is not None for tool in tools), len(tools)


def machine_reasons(machine: Machine) -> tuple[str, ...]:
    """Return what a buyer has to know of a machine: memory, software, condition."""
    card, row = machine.card, machine.row
    run, known = software_share(card)
    platform = PLATFORMS.get(card.vendor, card.vendor)
    reasons = [
        (
            f"Software: {run} of the {known} tools that the advisor knows run on {platform} with "
            "this card."
        ),
    ]
    memory = f"{card.memory_marketed_bytes / GB:,.0f} GB"
    if card.segment is Segment.CONSUMER and not card.shares_host_memory:
        floor = f"{CONSUMER_FLOOR_BYTES / GB:.0f} GB"
        reasons.append(f"Memory: {memory} on each card; consumer cards below {floor} are left out.")
    else:
        reasons.append(f"Memory: {memory} on each accelerator.")
    if row.used:
        reasons.append("Used: no warranty, a shorter life, and a price that differs by offer.")
    return tuple(reasons)
