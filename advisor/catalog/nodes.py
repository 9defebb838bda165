"""Links inside a machine and between machines, from an offer or by assumption."""

import math
from typing import Final

from advisor.catalog.economy import Default, Economy
from advisor.catalog.usual_machines import usual_machines
from advisor.foundation.units import GB, GIGABIT_PER_S, MICROSECOND
from advisor.nouns.hardware import Accelerator, Node, Offer, Segment, UnlikeCards

_MODULE_FORMS = ("SXM", "OAM", "dual-die")
_UNIFIED_FORMS = ("SoC", "APU", "module", "desktop", "socket")
_SMALL_MACHINES = (Segment.CONSUMER, Segment.WORKSTATION, Segment.EDGE, Segment.CPU)


def node_for(accelerator: Accelerator, offer: Offer | None = None) -> Node:
    """Return the machine of an offer, or the standard machine of an accelerator that is owned.

    ``assumptions`` lists what the sources do not state. An accelerator without fast links, or an
    offer that does not name them, gets PCIe between its accelerators and a link domain of one.
    ``inter_bytes_per_s`` is None if no network is stated. Raises ValueError if the offer is for
    another accelerator.

    >>> from advisor.catalog import load_catalog
    >>> node = node_for(load_catalog().accelerator("h100-sxm"))
    >>> node.accelerators, node.intra_bytes_per_s, node.inter_bytes_per_s
    (8, 450000000000.0, 50000000000.0)
    """
    if offer is None:
        return _standard_node(accelerator)
    if offer.accelerator != accelerator.key:
        raise ValueError(f"offer {offer.key} is for {offer.accelerator}, not for {accelerator.key}")
    return _offered_node(accelerator, offer)


def owned_node(accelerator: Accelerator, count: int) -> Node:
    """Return the machines of ``count`` owned accelerators that work together.

    The standard machine. If that has no network, as many cards as a baseboard holds share one
    machine. Office Ethernet joins further machines, and chips that are machines of their own.
    ``assumptions`` says so.

    >>> from advisor.catalog import load_catalog
    >>> node = owned_node(load_catalog().accelerator("rtx-4090"), 16)
    >>> node.accelerators, node.inter_bytes_per_s
    (8, 156250000.0)
    """
    node = _standard_node(accelerator)
    reach = max(node.accelerators, node.intra_domain)
    if node.inter_bytes_per_s is not None or count <= reach:
        return node
    usual = usual_machines()
    office = usual.network.office_gbit_per_s
    unified = accelerator.form_factor in _UNIFIED_FORMS
    slots = 1 if unified else usual.machines["baseboard"].accelerators
    note, network = f"Machine: all {count} in one, over PCIe.", None
    if count > slots:
        note = f"Machines: {slots} in each, joined by {office:.0f} Gbit/s Ethernet."
        network = office * GIGABIT_PER_S / slots
    return node.changed(
        accelerators=min(count, slots),
        inter_bytes_per_s=network,
        assumptions=(*_pcie_bytes_per_s(accelerator)[1], note),
    )


def sold_together(accelerator: Accelerator) -> int:
    """Return how many accelerators are sold together: a baseboard of 8, a rack of 72, or 1.

    >>> from advisor.catalog import load_catalog
    >>> [sold_together(load_catalog().accelerator(key)) for key in ("h100-sxm", "gb200", "l4")]
    [8, 72, 1]
    """
    usual, link = usual_machines(), accelerator.interconnect
    if link is not None and link.domain_size == usual.rack_domain:
        return usual.rack_domain
    modules = accelerator.form_factor.startswith(_MODULE_FORMS)
    return usual.machines["baseboard"].accelerators if modules else 1


def _offered_node(accelerator: Accelerator, offer: Offer) -> Node:
    count, network = offer.accelerators, offer.inter_node_bytes_per_s
    pcie, assumptions = _pcie_bytes_per_s(accelerator)
    link, words = accelerator.interconnect, offer.intra_node.casefold()
    linked = count > 1 and any(word in words for word in usual_machines().link_words)
    intra, domain = pcie, 1
    if linked and link is not None:
        intra, domain = link.bytes_per_s, min(count, link.domain_size)
        if "nvswitch" in words and count > link.domain_size:
            domain = count
        if _links_leave_machine(accelerator):
            domain = link.domain_size
            assumptions.append(
                f"{link.name} joins {domain} accelerators across machines: the rented machines "
                "are assumed to share it."
            )
        assumptions += _mesh_note(accelerator)
    elif linked:
        assumptions.append(
            f"Rate of {offer.intra_node} unknown: PCIe assumed between accelerators."
        )
    elif count > 1 and not words:
        assumptions.append("The offer names no link between its accelerators: PCIe assumed.")
    if network is None:
        assumptions.append("the offer states no network: a job or a replica stays on one machine")
    return Node(
        accelerators=count,
        intra_bytes_per_s=intra,
        intra_domain=domain,
        inter_bytes_per_s=network / count if network is not None else None,
        pcie_bytes_per_s=pcie,
        host_vcpus=offer.vcpus,
        **_host(accelerator),
        assumptions=tuple(assumptions),
    )


def _standard_node(accelerator: Accelerator) -> Node:
    pcie, assumptions = _pcie_bytes_per_s(accelerator)
    count, network, machine = _standard_shape(accelerator)
    wire = f"{network:.0f} Gbit/s of network for each" if network else "no network between machines"
    assumptions.append(f"Machine: {machine}; {wire}.")
    link = accelerator.interconnect
    intra, domain = pcie, 1
    if link is not None and accelerator.segment is Segment.CONSUMER and "bridge" in link.name:
        assumptions.append(f"{link.name}: sold apart, so PCIe is assumed between the cards.")
    elif link is not None:
        intra = link.bytes_per_s
        beyond = _links_leave_machine(accelerator) or count == 1
        domain = link.domain_size if beyond else min(count, link.domain_size)
        assumptions += _mesh_note(accelerator)
    return Node(
        accelerators=count,
        intra_bytes_per_s=intra,
        intra_domain=domain,
        inter_bytes_per_s=network * GIGABIT_PER_S if network else None,
        pcie_bytes_per_s=pcie,
        **_host(accelerator),
        assumptions=tuple(assumptions),
    )


def _host(accelerator: Accelerator) -> dict[str, float]:
    """Return what is assumed of the host: its cores, its memory, and the screen on the card."""
    usual = usual_machines()
    # A rented card mostly drives no screen; it leaves as much free, so that it holds what the
    # same card at home holds. Unified memory leaves room for a screen already.
    screen = accelerator.segment is Segment.CONSUMER and not accelerator.shares_host_memory
    if accelerator.shares_host_memory:
        memory = {
            "host_memory_bytes": accelerator.memory_raised_bytes,
            "host_memory_bandwidth_bytes_per_s": accelerator.memory_bandwidth_bytes_per_s,
        }
    elif accelerator.segment is Segment.DATACENTER:
        memory = usual.memory_of("server")
    else:
        memory = usual.memory_of("laptop" if accelerator.form_factor == "laptop" else "desktop")
    if accelerator.segment is Segment.EDGE:
        memory["launch_s"] = usual.host.board_launch_us * MICROSECOND
    return memory | {
        "vcpus_per_accelerator": float(usual.host.vcpus_per_accelerator),
        "display_bytes": usual.host.display_gb * GB if screen else 0.0,
    }


def _standard_shape(accelerator: Accelerator) -> tuple[int, float | None, str]:
    """Return accelerators per machine, network of each [Gbit/s], and the machine in words."""
    usual = usual_machines()
    name, count = _machine(accelerator)
    shape = usual.machines[name]
    oldest = usual.pcie.assumed_generation
    rate = accelerator.network_bytes_per_s
    network = {
        "port": usual.network.port_gbit_per_s[max(accelerator.pcie_generation or oldest, oldest)],
        "card": usual.network.card_gbit_per_s,
        "own": rate / GIGABIT_PER_S if rate else None,
        "none": None,
    }[shape.network]
    count = count or shape.accelerators
    title = shape.title.format(count=count)
    if accelerator.shares_host_memory and accelerator.segment is not Segment.CPU:
        title += f", with {accelerator.memory_marketed_bytes / GB:.0f} GB of memory (--host-memory)"
    return count, network, title


def _machine(accelerator: Accelerator) -> tuple[str, int | None]:
    """Return the kind of machine, and how many accelerators it holds where that varies."""
    usual = usual_machines()
    form, link, segment = accelerator.form_factor, accelerator.interconnect, accelerator.segment
    domain = link.domain_size if link is not None else 0
    if form in _UNIFIED_FORMS or accelerator.stands_alone or segment in _SMALL_MACHINES:
        return _small_machine(accelerator), None
    if segment is Segment.TPU:
        return "slice", None
    if "superchip" in form.casefold() and link is None:
        return "superchip", None
    if domain == usual.rack_domain:
        return "rack", None
    if form == "board" and link is not None:
        return "board", min(domain, usual.most_per_machine)
    if form == "SH5 socket":
        return "sockets", None
    if form.startswith(_MODULE_FORMS):
        two_boards = usual.machines["baseboard"].accelerators < domain <= usual.most_per_machine
        return "baseboard", domain if two_boards else None  # behind one switch: DGX-2
    return "cards", None


def _small_machine(accelerator: Accelerator) -> str:
    """Return the kind of processors, desktops, workstations and chips with unified memory."""
    if usual_machines().is_server_processor(accelerator):
        return "processor"
    if isinstance(accelerator, UnlikeCards):
        return "unlike"
    if accelerator.stands_alone or accelerator.form_factor in _UNIFIED_FORMS:
        return "alone"
    return "desktop" if accelerator.segment is Segment.CONSUMER else "workstation"


def _links_leave_machine(accelerator: Accelerator) -> bool:
    """Whether the link domain is larger than a machine: racks of 72, TPU slices."""
    link = accelerator.interconnect
    return link is not None and link.domain_size > usual_machines().most_per_machine


def _mesh_note(accelerator: Accelerator) -> list[str]:
    link = accelerator.interconnect
    if link is None or "full mesh" not in link.name:
        return []
    share = f"1/{link.domain_size - 1}"
    return [f"{link.name}: the rate is that of all links; a group of two gets {share} of it."]


def _pcie_bytes_per_s(accelerator: Accelerator) -> tuple[float, list[str]]:
    """Return the host link's rate per direction, and the assumptions.

    The rate is the memory bandwidth if host and accelerator share one memory.
    """
    if accelerator.form_factor in _UNIFIED_FORMS:
        return accelerator.memory_bandwidth_bytes_per_s, []
    usual = usual_machines()
    generation, assumptions = accelerator.pcie_generation, []
    if generation is None:
        generation = usual.pcie.assumed_generation
        assumptions = [f"Host link unknown: PCIe generation {generation} assumed."]
    return usual.x16_bytes_per_s()[generation] * accelerator.pcie_lanes / 16, assumptions


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
        return ("liquid", "server") if "liquid" in accelerator.form_factor else ("server",)
    return ("workstation", "desktop") if segment is Segment.WORKSTATION else ("desktop",)


def host_default(
    economy: Economy, accelerator: Accelerator, per_machine: int, host_bytes: float = 0.0
) -> Default:
    """Return the price of the rest of one machine with its spread and source. [USD]

    A computer without a rack gets as much memory as its cards have, or ``host_bytes``, and a supply
    for its rated power. A part of a baseboard or rack takes its part of the price.
    """
    groups, pack = groups_of(accelerator), sold_together(accelerator)
    if groups[-1] == "server" and pack > 1:
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
    return first.changed(**sums, source=first.source + more)


def _host_groups(groups: tuple[str, ...], per_machine: int) -> tuple[str, ...]:
    """Return the groups of ``host_usd``: more cards need a workstation, then a server."""
    if groups[0] in ("cpu", "computer", "edge"):
        return groups
    if groups[-1] == "desktop" and per_machine <= WORKSTATION_SLOTS:
        return (("desktop", "dual", "workstation", "workstation")[max(0, per_machine - 1)],)
    return ("server" if per_machine <= SMALL_SERVER_SLOTS else "large_server",)
