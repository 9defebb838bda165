"""What a buyer has to know of a machine, in words: memory, software, power, condition."""

from typing import Final

from advisor.catalog import load_catalog
from advisor.fleet.machines import CONSUMER_FLOOR_BYTES, PLATFORMS, Machine, below_floor, classics
from advisor.foundation.formatting import money, percent
from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.software.tools import Status, known_tools

OUTLET_W: Final = 1440.0
"""What a circuit of 15 A at 120 V carries for hours: 80 % of it (NFPA 70, 210.20(A)). [W]"""


def software_share(card: Accelerator) -> tuple[int, int]:
    """Return how many of the known tools run on a card, and how many there are."""
    tools = [tool for tool in known_tools().values() if tool.status is not Status.RETIRED]
    return sum(tool.support(card) is not None for tool in tools), len(tools)


def machine_reasons(machine: Machine) -> tuple[str, ...]:
    """Return what a buyer has to know of a machine: memory, software, condition."""
    card, row = machine.card, machine.row
    run, known = software_share(card)
    platform = PLATFORMS.get(card.vendor, card.vendor)
    counted = f"{run} of the {known} tools of the advisor run on {platform} with this card."
    reasons = [f"Software: {row.software or counted}"]
    memory = f"{card.memory_marketed_bytes / GB:,.0f} GB"
    if card.segment is Segment.CONSUMER and not card.shares_host_memory:
        floor = f"{CONSUMER_FLOOR_BYTES / GB:.0f} GB"
        reasons.append(f"Memory: {memory} on each card; consumer cards below {floor} are left out.")
    else:
        reasons.append(f"Memory: {memory} on each accelerator.")
    if not row.rack_units and machine.rated_w > OUTLET_W:
        outlet = f"one of 15 A at 120 V carries {OUTLET_W:,.0f} W for hours"
        reasons.append(f"Power: {machine.rated_w:,.0f} W need 20 A, or 230 V; {outlet}.")
    if row.used:
        reasons.append("Used: no warranty, a shorter life, and a price that differs by offer.")
    return (*reasons, *beside_classics(machine))


def beside_classics(machine: Machine) -> list[str]:
    """Return how the classic budget cards compare with the card of a desktop; empty for others."""
    if machine.row.kind != "desktop":
        return []
    told = []
    for card in classics(load_catalog()):
        share = card.memory_bandwidth_bytes_per_s / machine.card.memory_bandwidth_bytes_per_s
        judged = f"reads its memory at {percent(share)} of this card's rate"
        if below_floor(card):
            judged = f"is below the floor of {CONSUMER_FLOOR_BYTES / GB:.0f} GB"
        price = f"{money(card.purchase_usd or 0.0)}, {card.price_words()}"
        told.append(f"{card.name.removeprefix('NVIDIA GeForce ')} ({price}) {judged}")
    return [f"Classic picks: {'; '.join(told)}."]
