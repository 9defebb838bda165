"""The files of cluster software: names of cards and clouds, and facts of what they start."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, floor
from typing import Any, ClassVar, Final

from pydantic import Field

from advisor.catalog.records import IsoDay
from advisor.errors import refusal
from advisor.export.filling import Filler, at_path
from advisor.export.formats import Format
from advisor.export.quoting import compose_text, kubernetes_text, yaml_file
from advisor.export.script import PLACE, Launch
from advisor.export.setup import Setup
from advisor.foundation.noun import Noun, read_mapping, shipped
from advisor.foundation.units import GB, GIB, MIB
from advisor.nouns.hardware import Accelerator

FILE: Final = "cluster_names.yaml"


class Names(Noun):
    """Names of one accelerator; None where it has none."""

    kubernetes: str | None = None
    skypilot: str | None = None
    dstack: str | None = None
    dstack_memory_gb: int | None = None
    slices: dict[int, str] = Field(default_factory=dict)


class Clouds(Noun):
    """Names of one provider; None where it has none."""

    skypilot: str | None = None
    dstack: str | None = None
    bare: bool = False
    entered: bool = False


class Reach(Noun):
    """How containers reach the cards of a backend; empty where they do not."""

    visible: str = ""
    docker: str = ""
    apptainer: str = ""
    compose: dict[str, Any] = Field(default_factory=dict)
    kubernetes: str = ""
    kubernetes_by: dict[str, str] = Field(default_factory=dict)


class ClusterNames(Noun):
    """The whole of ``cluster_names.yaml``, which explains its fields."""

    sources: dict[str, str] = Field(min_length=1)
    date: IsoDay
    names: dict[str, Names]
    backends: dict[str, Reach]
    clouds: dict[str, Clouds]


cluster_names = shipped(FILE, ClusterNames)


def reach(backend: str) -> Reach:
    """Return how containers reach the cards of a backend."""
    return cluster_names().backends.get(backend, Reach())


def resource_of(card: Accelerator, backend: str) -> str:
    """Return the resource of a card in Kubernetes; empty if none is known."""
    found = reach(backend)
    return found.kubernetes_by.get(card.architecture, found.kubernetes)


def name_in(software: str, card: Accelerator) -> str:
    """Return the name of an accelerator in SkyPilot or dstack; raise ``InputError`` without one."""
    found = cluster_names().names
    name: str | None = getattr(found.get(card.key, Names()), software.lower())
    if name is None:
        known = [key for key, item in found.items() if getattr(item, software.lower())]
        raise refusal("no_card_name", value=card.key, allowed=known, software=software)
    return name


def dstack_gpu(card: Accelerator, count: int) -> dict[str, object]:
    """Return accelerators as dstack asks for them; raise ``InputError`` if it has no name."""
    name, size = name_in("dstack", card), cluster_names().names[card.key].dstack_memory_gb
    memory = {"memory": f"{size}GB"} if size else {}
    return {"name": name, **memory, "count": count}


LABELS: Final = {
    "NVIDIA": "nvidia.com/gpu.product",
    "AMD": "amd.com/gpu.product-name",
    "Google": "cloud.google.com/gke-tpu-accelerator",
}
"""Labels with the card's name: of GPU feature discovery, AMD's node labeller, and GKE."""
SLICE_LABEL: Final = "cloud.google.com/gke-tpu-topology"


def node_labels(card: Accelerator, cards: int) -> dict[str, str]:
    """Return the labels of a Kubernetes node with cards; empty where none are known."""
    found = cluster_names().names.get(card.key, Names())
    if found.kubernetes is None:
        return {}
    arranged = {SLICE_LABEL: found.slices[cards]} if cards in found.slices else {}
    return {LABELS[card.vendor]: found.kubernetes, **arranged}


def check_slice(card: Accelerator, cards: int) -> None:
    """Refuse a number of chips that no machine of GKE has."""
    slices = cluster_names().names.get(card.key, Names()).slices
    if slices and cards not in slices:
        most = max(slices)
        raise refusal("no_gke_machine", value=cards, allowed=slices, card=card, most=most)


def clouds_of(to: Format) -> dict[str, str]:
    """Return the names of the clouds that a format can rent from, by provider; else empty."""
    return {
        provider: name
        for provider, item in cluster_names().clouds.items()
        if (name := getattr(item, to.value, None))
    }


def takes(to: Format, card: Accelerator) -> bool:
    """Return whether a format has a name for an accelerator, if it needs one."""
    named = to in (Format.SKYPILOT, Format.DSTACK)
    return not named or getattr(cluster_names().names.get(card.key), to.value, None) is not None


HOST_SHARE: Final = 0.8
"""Share of a machine that its pods request. Assumed: the rest is the node's own."""
CPUS_PER_CARD: Final = 4
"""Processors for each card where the machine's are not known. Assumed: an engine process for each
card, and the server's own."""
HOST_MEMORY_BYTES: Final = 16 * GIB
"""Host memory of a server beside one copy of its weights. Assumed. [bytes]"""
Facts = Mapping[str, Callable[[Any], object]]


@dataclass(frozen=True)
class Order:
    """What a file of cluster software starts on one machine, or in one pod."""

    setup: Setup
    launch: Launch
    script: str
    """What a container runs."""
    cards: int
    """In one pod or node."""
    backend: str
    disk_bytes: float
    host_bytes: float
    """Memory of the host, where the machine's is not known. [bytes]"""
    machines: int
    """That work together; each states its place."""
    section: ClassVar[str]
    """Of the file with the parts."""
    facts: ClassVar[Facts]
    """That they name beside the shared ones."""

    @property
    def cpu(self) -> str | None:
        """Processors of a pod: its share of a rented machine, or enough for its cards."""
        offer, known = self.setup.offer, CPUS_PER_CARD * self.cards
        share = HOST_SHARE * self.cards / offer.accelerators * (offer.vcpus or 0) if offer else 0
        return str(max(1, floor(share or known)))

    @property
    def memory(self) -> str:
        """Memory of a pod's host, likewise."""
        offer = self.setup.offer
        share = 0.0
        if offer:
            share = HOST_SHARE * self.cards / offer.accelerators * (offer.host_memory_bytes or 0)
        return f"{max(1, floor((share or self.host_bytes) / GIB))}Gi"

    def cloud(self, to: Format) -> str | None:
        """Return the planned cloud as a format names it; None where it has no name."""
        return clouds_of(to).get(self.setup.estimate.cost.provider or "")

    @cached_property
    def _parts(self) -> Mapping[str, Any]:
        return {**order_parts()["shared"], **order_parts()[self.section]}

    def _value(self, path: str) -> Any:
        """Return a part, a fact, or what is at the end of a path of fields."""
        first, *further = path.split(".")
        if first in self._parts:
            return self.part(first)
        fact = self.facts.get(first) or FACTS.get(first)
        return at_path(fact(self) if fact else getattr(self, first), further)

    def part(self, name: str) -> Any:
        """Return a part of the files with this order's facts; None where it does not apply."""
        return Filler(self._value).content(self._parts[name])

    def file(self, to: Format, *documents: Mapping[str, object]) -> str:
        """Return a file with its notes: these documents, or the part with the format's name."""
        notes = Filler(self._value).texts(self._parts[f"{to.value}_notes"])
        head = (*self.setup.header, *self.launch.notes, *notes)
        return yaml_file(head, *(documents or (self.part(to.value),)))


FACTS: Final[Facts] = {
    "by_memory": lambda one: one.setup.accelerator.vendor == "NVIDIA",
    "cloud": lambda one: one.cloud(Format.SKYPILOT),
    "compose_script": lambda one: compose_text(one.script),
    "disk_gb": lambda one: ceil(one.disk_bytes / GB),
    "dstack_cloud": lambda one: one.cloud(Format.DSTACK),
    "dstack_gpu": lambda one: dstack_gpu(one.setup.accelerator, one.cards),
    "kubernetes_script": lambda one: kubernetes_text(one.script),
    "least_mib": lambda one: str(floor(0.95 * one.setup.accelerator.memory_reported_bytes / MIB)),
    "node_labels": lambda one: node_labels(one.setup.accelerator, one.cards) or None,
    "place": lambda one: PLACE if one.machines > 1 else dict.fromkeys(PLACE),
    "resource": lambda one: resource_of(one.setup.accelerator, one.backend) or None,
    "secret": lambda one: tuple(one.setup.secret),
    "skypilot_name": lambda one: name_in("SkyPilot", one.setup.accelerator),
    "spot_policy": lambda one: "spot" if one.setup.spot else None,
}
"""Facts that servers and training share."""


@cache
def order_parts() -> Mapping[str, Mapping[str, object]]:
    """Return the parts of the files, by section and name."""
    return read_mapping("cluster_files.yaml", dict[str, dict[str, object]])


def cards_of(backend: str, numbers: Iterable[int]) -> dict[str, object]:
    """Return what gives a Compose service its cards, by their numbers."""
    ids = [str(number) for number in numbers]
    found: dict[str, object] = Filler(lambda _: ids).filled(reach(backend).compose)
    return found
