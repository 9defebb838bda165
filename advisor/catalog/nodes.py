"""What joins the accelerators of an offer, or of a standard machine where none is rented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from advisor.hardware import Accelerator, Interconnect, Node, Offer, Segment
from advisor.units import GB, GIGABIT_PER_S

PCIE_X16_BYTES_PER_S: Final = {3: 15.75 * GB, 4: 31.5 * GB, 5: 63.0 * GB, 6: 121.0 * GB}
"""PCIe x16 per direction after line coding, by generation: PCI-SIG Base Specifications 3.0 to
6.0 (8, 16, 32 GT/s with 128b/130b; 64 GT/s with flits). [bytes/s]"""
ASSUMED_PCIE_GENERATION: Final = 4
RACK_SCALE: Final = 32
"""Link domains larger than any single server: they span nodes (NVL72, TPU pods)."""

_SEGMENTS_WITH_HOST_MEMORY = frozenset({Segment.CPU, Segment.EDGE})


@dataclass(frozen=True, slots=True)
class _Standard:
    accelerators: int
    network_gbit_per_s: float | None
    """For each accelerator and direction; None: no network worth the name."""
    reason: str


# The vendors' own reference servers, by architecture of the accelerator.
_SERVERS: Final = {
    "Pascal": _Standard(8, 50, "DGX-1 P100: four 100 Gbit/s ports for eight accelerators"),
    "Volta": _Standard(8, 50, "DGX-1 V100: four 100 Gbit/s ports for eight accelerators"),
    "Ampere": _Standard(8, 200, "DGX A100: eight 200 Gbit/s ports"),
    "Hopper": _Standard(8, 400, "DGX H100: eight 400 Gbit/s ports"),
    "Blackwell": _Standard(8, 400, "DGX B200: eight 400 Gbit/s ports"),
    "Blackwell Ultra": _Standard(8, 800, "DGX B300: eight 800 Gbit/s ports"),
    "CDNA2": _Standard(8, 100, "four packages of two devices share four 200 Gbit/s ports"),
    "Gaudi": _Standard(8, 300, "three of 24 Ethernet ports of each card leave the server"),
    "NeuronCore-v2": _Standard(16, 50, "trn1.32xlarge: 800 Gbit/s for 16 accelerators"),
    "NeuronCore-v3": _Standard(16, 200, "trn2.48xlarge: 3200 Gbit/s for 16 accelerators"),
}
_SERVER = _Standard(8, 400, "eight accelerators with a 400 Gbit/s port each")
_TRAY = {
    "gb200": _Standard(4, 400, "a GB200 NVL72 tray: four accelerators, 400 Gbit/s each"),
    "gb300": _Standard(4, 800, "a GB300 NVL72 tray: four accelerators, 800 Gbit/s each"),
    "gh200-96gb": _Standard(1, 400, "one GH200 with a 400 Gbit/s port"),
    "gh200-144gb": _Standard(1, 400, "one GH200 with a 400 Gbit/s port"),
}
_PCIE_SERVER = _Standard(4, 100, "a server with four cards and one 400 Gbit/s port")
_WORKSTATION = _Standard(4, None, "a workstation with four cards and no fast network")
_DESKTOP = _Standard(2, None, "a desktop with two cards and no fast network")
_SINGLE = _Standard(1, None, "one device without a fast network")
_CPU_SERVER = _Standard(2, 50, "a server with two sockets and one 100 Gbit/s port")
_POD_HOST = _Standard(4, 25, "a host of four chips with one 100 Gbit/s port")


def node_for(accelerator: Accelerator, offer: Offer | None) -> Node:
    """Return the node that an offer rents, or the standard node of owned hardware.

    Parameters
    ----------
    accelerator : Accelerator
    offer : Offer or None
        None for owned or bought hardware.

    Returns
    -------
    Node
        Over PCIe alone ``intra_domain`` is 1 and ``intra_bytes_per_s`` the PCIe rate.
        ``assumptions`` names all that neither the offer nor the catalog states.

    Examples
    --------
    >>> from advisor.catalog import load_catalog
    >>> node = node_for(load_catalog().accelerator("h100-sxm"), None)
    >>> node.accelerators, node.intra_domain, node.intra_bytes_per_s, node.inter_bytes_per_s
    (8, 8, 450000000000.0, 50000000000.0)
    """
    pcie, assumptions = _pcie(accelerator)
    if offer is None:
        return _standard(accelerator, pcie, assumptions)
    count = offer.accelerators
    domain = _rented_domain(accelerator, offer, assumptions)
    inter = offer.inter_node_bytes_per_s
    if inter is not None:
        inter /= count
    elif _spans_nodes(accelerator) and domain > count:
        inter = (_POD_HOST.network_gbit_per_s or 0.0) * GIGABIT_PER_S
        assumptions.append(
            f"The network between pods is not stated: {_POD_HOST.reason} is assumed."
        )
    elif count > 1 or accelerator.segment is not Segment.CONSUMER:
        assumptions.append("The offer states no network between instances: one instance only.")
    return _node(accelerator, count, domain, inter, pcie, assumptions)


def _standard(accelerator: Accelerator, pcie: float, assumptions: list[str]) -> Node:
    standard = _standard_machine(accelerator)
    link = accelerator.interconnect
    domain = 1
    if link is not None and link.domain_size > 1:
        if _spans_nodes(accelerator):
            domain = link.domain_size
        elif _is_bridge(link) and accelerator.segment is not Segment.DATACENTER:
            assumptions.append(f"No {link.name} is fitted: cards meet over PCIe.")
        else:
            domain = min(link.domain_size, standard.accelerators)
            if _is_bridge(link):
                assumptions.append(f"Groups of {domain} cards are joined by {link.name}.")
    network = standard.network_gbit_per_s
    assumptions.append(f"Owned hardware stands in a standard machine: {standard.reason}.")
    return _node(
        accelerator,
        standard.accelerators,
        domain,
        None if network is None else network * GIGABIT_PER_S,
        pcie,
        assumptions,
    )


def _standard_machine(accelerator: Accelerator) -> _Standard:
    segment, form = accelerator.segment, accelerator.form_factor
    if accelerator.key in _TRAY:
        return _TRAY[accelerator.key]
    if segment is Segment.CPU:
        desktop = accelerator.memory_type.startswith("2ch")
        return _SINGLE if desktop else _CPU_SERVER
    if segment is Segment.TPU:
        return _POD_HOST
    if not form.startswith("PCIe"):
        single = segment in (Segment.EDGE, Segment.CONSUMER, Segment.WORKSTATION)
        return _SINGLE if single else _SERVERS.get(accelerator.architecture, _SERVER)
    if segment is Segment.CONSUMER:
        return _DESKTOP
    return _WORKSTATION if segment is Segment.WORKSTATION else _PCIE_SERVER


def _rented_domain(accelerator: Accelerator, offer: Offer, assumptions: list[str]) -> int:
    """Accelerators of one link domain, from the offer's own words."""
    link, count = accelerator.interconnect, offer.accelerators
    if link is None:
        return 1
    if _spans_nodes(accelerator):
        return link.domain_size
    if count == 1:
        return 1
    words = offer.intra_node.casefold()
    if "bridge" in words:
        pair = 2 if "nvlink" in words else link.domain_size
        return min(pair, count)
    if "nvswitch" in words and not _is_bridge(link):
        return count
    if words.startswith("pcie") or words in ("", "n/a", "host dependent") or " if " in words:
        if not words.startswith("pcie"):
            assumptions.append("The offer does not state the link between cards: PCIe is assumed.")
        return 1
    return min(link.domain_size, count)


def _node(
    accelerator: Accelerator,
    count: int,
    domain: int,
    inter: float | None,
    pcie: float,
    assumptions: list[str],
) -> Node:
    link = accelerator.interconnect
    return Node(
        accelerators=count,
        intra_bytes_per_s=link.bytes_per_s if link is not None and domain > 1 else pcie,
        intra_domain=domain,
        inter_bytes_per_s=inter,
        pcie_bytes_per_s=pcie,
        assumptions=tuple(assumptions),
    )


def _pcie(accelerator: Accelerator) -> tuple[float, list[str]]:
    """Host link per direction, and what is assumed about it. [bytes/s]"""
    if accelerator.segment in _SEGMENTS_WITH_HOST_MEMORY or _is_unified(accelerator):
        # No copy crosses a bus, so that the memory itself is the limit.
        return accelerator.memory_bandwidth_bytes_per_s, ["Host and accelerator share one memory."]
    generation = accelerator.pcie_generation
    assumptions = []
    if generation is None:
        generation = ASSUMED_PCIE_GENERATION
        assumptions.append(f"PCIe generation {generation} x16 is assumed: none is published.")
    lanes = 0.5 if "x8" in accelerator.form_factor else 1.0
    return PCIE_X16_BYTES_PER_S[generation] * lanes, assumptions


def _is_unified(accelerator: Accelerator) -> bool:
    return any(word in accelerator.memory_type for word in ("unified", "shared"))


def _spans_nodes(accelerator: Accelerator) -> bool:
    link = accelerator.interconnect
    return link is not None and link.domain_size > RACK_SCALE


def _is_bridge(link: Interconnect) -> bool:
    return "bridge" in link.name
