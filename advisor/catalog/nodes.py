"""Links inside a machine and between machines, from an offer or by assumption."""

from typing import Final

from advisor.foundation.units import GB, GIGABIT_PER_S
from advisor.nouns.hardware import (
    DESKTOP_BYTES_PER_S,
    DESKTOP_MEMORY_BYTES,
    LAPTOP_MEMORY_BYTES,
    Accelerator,
    Node,
    Offer,
    Segment,
    UnlikeCards,
)

PCIE_X16_BYTES_PER_S: Final[dict[int, float]] = {
    1: 4.0 * GB,
    2: 8.0 * GB,
    3: 15.75 * GB,
    4: 31.5 * GB,
    5: 63.0 * GB,
    6: 121.0 * GB,
}
"""Rate of sixteen lanes per direction, by generation, after the line code: 8b/10b, from generation
3 on 128b/130b, in generation 6 242 of the 256 bytes of a flit (PCI-SIG, PCI Express base
specifications 1.0 to 6.0). [bytes/s]"""

ASSUMED_PCIE_GENERATION: Final = 3
"""Used if the catalog states none: the oldest in use, so that transfers do not look too fast."""

PORT_GBIT_PER_S: Final[dict[int, float]] = {3: 100.0, 4: 200.0, 5: 400.0, 6: 800.0}
"""One network port for each accelerator, by PCIe generation: the fastest Ethernet or InfiniBand
port that sixteen lanes can feed. DGX A100 has 8 x 200, DGX H100 8 x 400. [Gbit/s]"""

PCIE_SERVER_GBIT_PER_S: Final = 100.0
"""Network share of one PCIe card in a server with four cards and two 200 Gbit/s ports. [Gbit/s]"""

MODULES_PER_NODE: Final = 8
"""SXM and OAM baseboards (HGX, UBB) hold eight."""

MOST_PER_MACHINE: Final = 16
"""Most accelerators in one machine (Google A2-megagpu, AWS trn1)."""

RACK_DOMAIN: Final = 72
"""Link domain of racks built from trays of four (NVL72, Helios)."""

SERVER_MEMORY_BYTES: Final = 100.0 * GB
"""A processor with more host memory than this in the catalog is a server part."""

DISPLAY_BYTES: Final = 0.6 * GB
"""Memory that a desktop and its programs take from the card that drives the screen. Assumed."""
SERVER_HOST_BYTES: Final = 512.0 * GB
"""Memory of a server with accelerators. Assumed."""
SERVER_HOST_BYTES_PER_S: Final = 307.2 * GB
"""Eight channels of DDR5-4800, one socket. [bytes/s]"""

OFFICE_GBIT_PER_S: Final = 10.0
"""Network of an owned machine if the user states none: one 10GBASE-T port (IEEE 802.3an), usual on
workstation boards and on desktop computers with unified memory. [Gbit/s]"""

_LINK_WORDS = ("nvlink", "infinity", "neuronlink", "roce", "ici", "xe link")
_MODULE_FORMS = ("SXM", "OAM", "dual-die")
_UNIFIED_FORMS = ("SoC", "APU", "module", "desktop", "socket")
_SMALL_MACHINES = (Segment.CONSUMER, Segment.WORKSTATION, Segment.EDGE, Segment.CPU)


def node_for(accelerator: Accelerator, offer: Offer | None = None) -> Node:
    """Return the machine of an offer, or the standard machine of an accelerator that is owned.

    ``assumptions`` lists what the sources do not state. An accelerator without fast links, or an
    offer that does not name them, gets PCIe between its accelerators and a link domain of one.
    ``inter_bytes_per_s`` is None if no network is stated. Raises ValueError if the offer is for
    another accelerator.

    Examples
    --------
    >>> from advisor.catalog import load_catalog
    >>> node = node_for(load_catalog().accelerator("h100-sxm"))
    >>> node.accelerators, node.intra_bytes_per_s, node.inter_bytes_per_s
    (8, 450000000000.0, 50000000000.0)
    """
    if offer is None:
        return _standard_node(accelerator)
    if offer.accelerator != accelerator.key:
        msg = f"offer {offer.key} is for {offer.accelerator}, not for {accelerator.key}"
        raise ValueError(msg)
    return _offered_node(accelerator, offer)


def owned_node(accelerator: Accelerator, count: int) -> Node:
    """Return the machines of ``count`` owned accelerators that work together.

    The standard machine. If that has no network, up to ``MODULES_PER_NODE`` cards share one
    machine. Office Ethernet joins further machines, and chips that are machines of their own.
    ``assumptions`` says so.

    Examples
    --------
    >>> from advisor.catalog import load_catalog
    >>> node = owned_node(load_catalog().accelerator("rtx-4090"), 16)
    >>> node.accelerators, node.inter_bytes_per_s
    (8, 156250000.0)
    """
    node = _standard_node(accelerator)
    reach = max(node.accelerators, node.intra_domain)
    if node.inter_bytes_per_s is not None or count <= reach:
        return node
    slots = 1 if accelerator.form_factor in _UNIFIED_FORMS else MODULES_PER_NODE
    _, notes = _pcie_bytes_per_s(accelerator)
    if count <= slots:
        notes.append(f"Machine: all {count} in one, over PCIe.")
        return node.model_copy(update={"accelerators": count, "assumptions": tuple(notes)})
    notes.append(f"Machines: {slots} in each, joined by {OFFICE_GBIT_PER_S:.0f} Gbit/s Ethernet.")
    network = OFFICE_GBIT_PER_S * GIGABIT_PER_S / slots
    return node.model_copy(
        update={"accelerators": slots, "inter_bytes_per_s": network, "assumptions": tuple(notes)}
    )


def sold_together(accelerator: Accelerator) -> int:
    """Return how many accelerators are sold together: a baseboard of 8, a rack of 72, or 1.

    Examples
    --------
    >>> from advisor.catalog import load_catalog
    >>> [sold_together(load_catalog().accelerator(key)) for key in ("h100-sxm", "gb200", "l4")]
    [8, 72, 1]
    """
    link = accelerator.interconnect
    if link is not None and link.domain_size == RACK_DOMAIN:
        return RACK_DOMAIN
    return MODULES_PER_NODE if accelerator.form_factor.startswith(_MODULE_FORMS) else 1


def _offered_node(accelerator: Accelerator, offer: Offer) -> Node:
    count, network = offer.accelerators, offer.inter_node_bytes_per_s
    pcie, assumptions = _pcie_bytes_per_s(accelerator)
    link, words = accelerator.interconnect, offer.intra_node.casefold()
    linked = count > 1 and any(word in words for word in _LINK_WORDS)
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
        # A rented card mostly drives no screen; it leaves as much free, so that it holds what the
        # same card at home holds.
        display_bytes=DISPLAY_BYTES if _drives_screen(accelerator) else 0.0,
        **_host_memory(accelerator),
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
        display_bytes=DISPLAY_BYTES if _drives_screen(accelerator) else 0.0,
        **_host_memory(accelerator),
        assumptions=tuple(assumptions),
    )


def _drives_screen(accelerator: Accelerator) -> bool:
    """Whether a screen usually hangs on the card. Unified memory leaves room for it already."""
    return accelerator.segment is Segment.CONSUMER and not accelerator.shares_host_memory


def _host_memory(accelerator: Accelerator) -> dict[str, float]:
    """Return size [bytes] and bandwidth [bytes/s] of the host's memory."""
    if accelerator.shares_host_memory:
        size, rate = accelerator.memory_raised_bytes, accelerator.memory_bandwidth_bytes_per_s
    elif accelerator.segment is Segment.DATACENTER:
        size, rate = SERVER_HOST_BYTES, SERVER_HOST_BYTES_PER_S
    else:
        laptop = accelerator.form_factor == "laptop"
        size = LAPTOP_MEMORY_BYTES if laptop else DESKTOP_MEMORY_BYTES
        rate = DESKTOP_BYTES_PER_S
    return {"host_memory_bytes": size, "host_memory_bandwidth_bytes_per_s": rate}


def _standard_shape(accelerator: Accelerator) -> tuple[int, float | None, str]:
    """Return accelerators per machine, network of each [Gbit/s], and the machine in words."""
    form, link = accelerator.form_factor, accelerator.interconnect
    small = accelerator.stands_alone or accelerator.segment in _SMALL_MACHINES
    if form in _UNIFIED_FORMS or small:
        return _small_shape(accelerator)
    generation = accelerator.pcie_generation or ASSUMED_PCIE_GENERATION
    port = PORT_GBIT_PER_S[max(generation, ASSUMED_PCIE_GENERATION)]
    if accelerator.segment is Segment.TPU:
        rate = accelerator.network_bytes_per_s
        network = rate / GIGABIT_PER_S if rate else None
        return 4, network, "a host with four chips of one slice"
    if "superchip" in form.casefold() and link is None:
        return 1, port, "a superchip with one port"
    if link is not None and link.domain_size == RACK_DOMAIN:
        return 4, port, "a tray of four in a rack, one port for each"
    if form == "board" and link is not None:
        count = min(link.domain_size, MOST_PER_MACHINE)
        return count, port, f"{count} on one machine, one port for each"
    if form == "SH5 socket":
        return 4, port, "four sockets, one port for each"
    if form.startswith(_MODULE_FORMS):
        count = MODULES_PER_NODE
        if link is not None and count < link.domain_size <= MOST_PER_MACHINE:
            count = link.domain_size  # two boards behind one switch: DGX-2
        return count, port, f"a baseboard of {count}, one port for each"
    return 4, PCIE_SERVER_GBIT_PER_S, "a server with four cards"


def _small_shape(accelerator: Accelerator) -> tuple[int, float | None, str]:
    """Return the same for processors, desktops, workstations and chips with unified memory."""
    server = accelerator.memory_marketed_bytes > SERVER_MEMORY_BYTES
    if accelerator.segment is Segment.CPU and server:
        return 1, PCIE_SERVER_GBIT_PER_S, "a server with one processor"
    if isinstance(accelerator, UnlikeCards):
        return 1, None, "one computer with all these cards"
    if accelerator.stands_alone or accelerator.form_factor in _UNIFIED_FORMS:
        return 1, None, "one of them"
    if accelerator.segment is Segment.CONSUMER:
        return 2, None, "a desktop computer with two cards"
    return 4, None, "a workstation with four cards"


def _links_leave_machine(accelerator: Accelerator) -> bool:
    """Whether the link domain is larger than a machine: racks of 72, TPU slices."""
    link = accelerator.interconnect
    return link is not None and link.domain_size > MOST_PER_MACHINE


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
    generation, assumptions = accelerator.pcie_generation, []
    if generation is None:
        generation = ASSUMED_PCIE_GENERATION
        assumptions = [f"Host link unknown: PCIe generation {generation} assumed."]
    whole = PCIE_X16_BYTES_PER_S[generation]
    return whole * accelerator.pcie_lanes / 16, assumptions
