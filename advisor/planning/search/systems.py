"""Hardware to rent or already owned: accelerators in nodes, with their offers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from statistics import median
from typing import Final

from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for, owned_node
from advisor.catalog.offer_list import drift_of
from advisor.catalog.places import chosen
from advisor.catalog.usual_machines import usual_machines
from advisor.errors import refusal
from advisor.foundation.dates import first_day
from advisor.foundation.record import record
from advisor.foundation.units import GB
from advisor.nouns.hardware import (
    LOWEST_ASK,
    YOUR_FILE,
    YOUR_QUOTE,
    Accelerator,
    Node,
    Offer,
    PriceKind,
)
from advisor.nouns.host import Host
from advisor.nouns.limits import Constraints, OwnedHardware
from advisor.nouns.software.stacks import Degree
from advisor.nouns.software.tools import Tool

LADDER = tuple(sorted({step * 2**power for step in (1, 3) for power in range(15)}))
"""Searched numbers of instances: powers of two, and three times powers of two."""

STALE_PRICE_RATIO = 0.3
STALE_PRICE_OFFERS = 3


@record
class System:
    """One kind of node and its offers. Owned hardware has no offers."""

    accelerator: Accelerator
    node: Node
    offers: tuple[Offer, ...]
    counts: tuple[int, ...]
    """Numbers of accelerators to consider, whole instances only."""
    owned: bool = False
    host_bytes: float | None = None
    """Memory of one machine that layouts may fill; None if it has no limit. [bytes]"""
    tool: Tool | None = None
    """What does the work on it; None before the search has chosen."""
    cache: str | None = None
    """Format of the key-value cache that the search chose; None for that of the case."""

    @property
    def host_share_bytes(self) -> float:
        """Memory of the host that layouts may fill for each accelerator. [bytes]"""
        cards = self.node.accelerators
        cards = min(cards, max(self.counts)) if self.owned else cards  # a slot may be empty
        return inf if self.host_bytes is None else self.host_bytes / cards

    @property
    def tool_name(self) -> str:
        """Name of its tool; empty without one."""
        return "" if self.tool is None else self.tool.name

    def divides(self, degree: Degree) -> bool:
        """Whether its serving tool divides a model this way; without a tool, all do."""
        tool = self.tool
        return tool is None or tool.serving is None or tool.divides(self.accelerator, degree)


def price_usd_per_hour(offer: Offer, kind: PriceKind) -> float | None:
    """Return the price of the whole instance, or None if it has no such price. [USD/h]"""
    return offer.on_demand_usd_per_hour if kind is PriceKind.ON_DEMAND else offer.spot_usd_per_hour


def cheapest_regions(offers: Iterable[Offer], kind: PriceKind) -> list[tuple[float, Offer]]:
    """Return offers with their price [USD/h]: one region, the cheapest, of each instance type."""
    cheapest: dict[tuple[str, str, str, str], tuple[float, Offer]] = {}
    for offer in offers:
        price = price_usd_per_hour(offer, kind)
        machine = (offer.provider, offer.instance_type, offer.tier, offer.commitment)
        if price is not None and (machine not in cheapest or price < cheapest[machine][0]):
            cheapest[machine] = price, offer
    return list(cheapest.values())


def implausible_offers(catalog: Catalog, kind: PriceKind) -> frozenset[str]:
    """Return the keys of offers whose price is too low to be credible.

    A price per accelerator under ``STALE_PRICE_RATIO`` of the median over at least
    ``STALE_PRICE_OFFERS`` providers is more often an outdated listing than a real offer. What the
    user's own files state is believed.
    """
    by_accelerator: dict[str, list[tuple[float, str]]] = {}
    hourly = (offer for offer in catalog.offers if not offer.commitment)
    for price, offer in cheapest_regions(hourly, kind):
        each = price / offer.accelerators, offer.provider
        by_accelerator.setdefault(offer.accelerator, []).append(each)
    least = {
        key: STALE_PRICE_RATIO * median(price for price, _ in priced)
        for key, priced in by_accelerator.items()
        if len({provider for _, provider in priced}) >= STALE_PRICE_OFFERS
    }
    return frozenset(
        offer.key
        for offer in catalog.offers
        if (usd := price_usd_per_hour(offer, kind)) is not None
        and usd / offer.accelerators < least.get(offer.accelerator, 0.0)
        and offer.provenance.source != YOUR_FILE
    )


def outdated_offers(catalog: Catalog, kind: PriceKind) -> frozenset[str]:
    """Return the keys of offers whose price is too old for a plan: nobody can rent at it today."""
    days = {offer.key: first_day(offer.price_date) for offer in catalog.offers}
    newest = max(days.values(), default=None)
    return frozenset(
        offer.key
        for offer in catalog.offers
        if newest is not None
        and (longest := drift_of(offer, kind).longest_days) is not None
        and (newest - days[offer.key]).days > longest
    )


def check_names(limits: Constraints, catalog: Catalog) -> None:
    """Raise ``InputError`` for providers, regions or accelerators that the catalog lacks."""
    chosen(catalog, "provider", limits.providers, field="limits.providers")
    chosen(catalog, "region", limits.regions, field="limits.regions")
    for key in (*limits.accelerators, *(item.accelerator for item in limits.owned)):
        catalog.accelerator(key)


def only_lowest_asks(offers: Iterable[Offer]) -> bool:
    """Whether a card has no price but the lowest that one host of a marketplace asked."""
    return all(offer.tier == LOWEST_ASK for offer in offers)


def allowed_offers(catalog: Catalog, limits: Constraints) -> Iterator[Offer]:
    """Yield the credible offers that the limits allow, of their price kind, of one region each."""
    allowed = named = {catalog.accelerator(key).key for key in limits.accelerators}
    if limits.vendors:
        kept = {card.key for card in catalog.accelerators if card.vendor in limits.vendors}
        allowed = (allowed or kept) & kept
        if not allowed:
            return
    providers = chosen(catalog, "provider", limits.providers, field="limits.providers")
    regions = chosen(catalog, "region", limits.regions, field="limits.regions")
    doubtful = catalog.once(implausible_offers, limits.price_kind)
    old = catalog.once(outdated_offers, limits.price_kind)
    asked = {card for card in named if only_lowest_asks(catalog.offers_for(card))}
    possible = []
    for offer in catalog.offers:
        if allowed and offer.accelerator not in allowed:
            continue
        if offer.provider == YOUR_QUOTE:
            possible.append(offer)
            continue
        if providers and offer.provider.casefold() not in providers:
            continue
        if offer.key in old and not providers and offer.accelerator not in named:
            continue
        if offer.tier == LOWEST_ASK and not providers and offer.accelerator not in asked:
            continue
        if regions and offer.region.casefold() not in regions:
            continue
        if offer.key not in doubtful:
            possible.append(offer)
    for _, offer in cheapest_regions(possible, limits.price_kind):
        yield offer


RENTED_BY: Final = ("accelerators", "vendors", "providers", "regions", "price_kind")
"""Limits that choose offers."""


def _rentable(
    catalog: Catalog, asked: tuple[tuple[object, ...], int, bool, bool]
) -> tuple[System, ...]:
    values, most_cards, training, decoding = asked
    limits = Constraints.model_construct().changed(**dict(zip(RENTED_BY, values, strict=True)))
    groups: dict[tuple[str, Node, str], list[Offer]] = {}
    for offer in allowed_offers(catalog, limits):
        accelerator = catalog.accelerator(offer.accelerator)
        if training and accelerator.inference_only:
            continue
        if not training and offer.billing.longest_s is not None:
            continue  # a server stays
        node = node_for(accelerator, offer)
        if not decoding:
            node = node.changed(host_vcpus=None)
        apart = offer.commitment if training else ""  # a run compares it with renting on demand
        groups.setdefault((offer.accelerator, node, apart), []).append(offer)
    systems = []
    for (key, node, _), offers in groups.items():
        per_instance = offers[0].accelerators
        # Replicas of a server need no network between them; one job does.
        several = not training or node.inter_bytes_per_s is not None
        most = most_cards // per_instance
        ladder = sorted({step for step in LADDER if step < most} | {most}) if several else (1,)
        counts = tuple(instances * per_instance for instances in ladder if 1 <= instances <= most)
        if counts:
            systems.append(System(catalog.accelerator(key), node, tuple(offers), counts))
    return tuple(systems)


def find_systems(
    catalog: Catalog, limits: Constraints, *, training: bool, decoding: bool = False
) -> list[System]:
    """Group the offers that the limits allow into systems; owned hardware replaces them all.

    ``training``: leave out accelerators that only serve, and take one machine where no network is
    known. ``decoding``: machines with different numbers of host cores become separate systems.
    """
    if limits.owned:
        owned = [
            _measured_system(
                owned_system(
                    catalog.accelerator(item.accelerator), min(item.count, limits.max_accelerators)
                ),
                item,
            )
            for item in limits.owned
        ]
        return [item for item in owned if not (training and item.accelerator.inference_only)]
    asked = tuple(getattr(limits, name) for name in RENTED_BY)
    return [*catalog.once(_rentable, (asked, limits.max_accelerators, training, decoding))]


def check_owned(limits: Constraints) -> None:
    """Refuse limits on renting if the user owns cards: only those are searched."""
    if not limits.owned:
        return
    for name in ("providers", "regions", "accelerators"):
        if value := getattr(limits, name):
            raise refusal("limit_beside_owned", value=", ".join(value), name=name)
    if limits.price_kind is PriceKind.SPOT:
        raise refusal("spot_beside_owned", value=limits.price_kind.value)


def with_host(systems: Sequence[System], host: Host) -> Sequence[System]:
    """Return systems whose machines have what the user states of them."""
    stated = {
        "host_memory_bytes": host.memory_bytes,
        "host_memory_bandwidth_bytes_per_s": host.memory_bandwidth_bytes_per_s,
        "display_bytes": host.display_bytes,
    }
    update = {name: value for name, value in stated.items() if value is not None}
    if host.memory_bytes and host.memory_bytes > usual_machines().desktop_most_bytes:
        # Only a server or workstation holds as much, in more channels.
        update = usual_machines().memory_of("server") | update
    if not update and host.pcie_lanes is None:
        return systems
    return [
        replace(
            system,
            node=system.node.changed(
                **(update | _slots(system.accelerator, system.node, host.pcie_lanes))
            ),
        )
        for system in systems
    ]


def _slots(card: Accelerator, node: Node, lanes: int | None) -> dict[str, float]:
    """Return the rates of a card's slot with fewer lanes than the card has. [bytes/s]"""
    if lanes is None or lanes >= card.pcie_lanes or card.shares_host_memory:
        return {}
    share = lanes / card.pcie_lanes
    found = {"pcie_bytes_per_s": node.pcie_bytes_per_s * share}
    if node.intra_bytes_per_s == node.pcie_bytes_per_s:  # cards meet over PCIe
        found["intra_bytes_per_s"] = node.intra_bytes_per_s * share
    return found


def by_host_memory(systems: Sequence[System], host: Host, *, serving: bool) -> list[System]:
    """Split systems by the memory of their machines, for layouts that use it.

    What the user states holds for every machine, and what an offer states for its own. Of unknown
    memory, a machine has the usual one of its platform, and the answer says so; one that trains and
    is rented has none, if another offer of its card states its own. An accelerator that works in
    its host's memory has no other memory to use.
    """
    parted = []
    stating = {
        system.accelerator.key
        for system in systems
        if any(offer.host_memory_bytes for offer in system.offers)
    }
    for system in systems:
        if system.accelerator.shares_host_memory:
            continue
        usual = system.node.host_memory_bytes
        unknown = usual if serving or system.accelerator.key not in stating else 0.0
        groups: dict[float, list[Offer]] = {}
        for offer in system.offers:
            size = host.memory_bytes or offer.host_memory_bytes or unknown
            groups.setdefault(size, []).append(offer)
        known = serving or host.memory_bytes or (groups and system.accelerator.key in stating)
        said = () if known else (f"{usual / GB:,.0f} GB of host memory (--host-memory)",)
        assumptions = (*system.node.assumptions, *said)
        parted += [
            replace(
                system,
                offers=tuple(offers),
                host_bytes=size,
                node=system.node.changed(host_memory_bytes=size or usual, assumptions=assumptions),
            )
            for size, offers in (groups or {usual: []}).items()
        ]
    return parted


def owned_system(accelerator: Accelerator, count: int) -> System:
    """Return the system of ``count`` accelerators that the user has."""
    counts = tuple(n for n in range(1, count + 1) if n in LADDER or n == count)
    return System(accelerator, owned_node(accelerator, count), (), counts, owned=True)


def _measured_system(system: System, item: OwnedHardware) -> System:
    """Add the source of measured rates to the assumptions."""
    if item.measured is None:
        return system
    basis = f"rates of {system.accelerator.name} from the {item.measured.kernels.source}"
    assumptions = (*system.node.assumptions, basis)
    return replace(system, node=system.node.changed(assumptions=assumptions))
