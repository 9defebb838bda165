"""What cluster software calls an accelerator or a cloud, from ``data/cluster_names.yaml``."""

from typing import Any, Final

from pydantic import Field

from advisor.catalog.records import IsoDay
from advisor.export.formats import Format
from advisor.foundation.data_records import shipped
from advisor.foundation.noun import Noun
from advisor.foundation.refusals import refusal
from advisor.nouns.hardware import Accelerator

FILE: Final = "cluster_names.yaml"


class Names(Noun):
    """Names of one accelerator; None where it has none."""

    kubernetes: str | None = None
    """Value of the label that the vendor's software puts on a node."""
    skypilot: str | None = None
    dstack: str | None = None
    dstack_memory_gb: int | None = None
    """If one name of dstack stands for cards of several sizes."""
    slices: dict[int, str] = Field(default_factory=dict)
    """Chips of a TPU on one machine -> GKE's name of their arrangement."""


class Clouds(Noun):
    """Names of one provider; None where it has none."""

    skypilot: str | None = None
    dstack: str | None = None
    bare: bool = False
    """Whether SkyPilot starts no images there."""
    entered: bool = False
    """Whether an image's own entrypoint gets SkyPilot's command there."""


class Reach(Noun):
    """How containers reach the cards of a backend; empty where they do not."""

    visible: str = ""
    """Variable that names the accelerators that a program sees."""
    docker: str = ""
    """Options of ``docker run``."""
    apptainer: str = ""
    compose: dict[str, Any] = Field(default_factory=dict)
    """Of a service; ``{ids}`` are the numbers of its cards."""
    kubernetes: str = ""
    """Resource that the vendor's device plugin registers."""
    kubernetes_by: dict[str, str] = Field(default_factory=dict)
    """The same by architecture, where it differs."""


class ClusterNames(Noun):
    """The whole of ``cluster_names.yaml``."""

    sources: dict[str, str] = Field(min_length=1)
    date: IsoDay
    names: dict[str, Names]
    """By catalog key."""
    backends: dict[str, Reach]
    clouds: dict[str, Clouds]
    """By provider."""


cluster_names = shipped(FILE, ClusterNames)
"""Returns the names."""


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
