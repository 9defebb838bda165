"""Files of cluster software, with what servers and training state alike."""

from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Final

from advisor.export.filling import Filler
from advisor.export.formats import Format
from advisor.export.hosts.names import clouds_of, dstack_gpu, name_in, reach
from advisor.export.quoting import compose_text, yaml_file
from advisor.export.script import PLACE
from advisor.export.setup import Setup
from advisor.foundation.units import GB, GIB
from advisor.nouns.hardware import Offer

Content = dict[str, object]
HOST_SHARE: Final = 0.8
"""Share of a machine that its pods request. Assumed: the rest is the node's own."""
RETRY: Final = {"on_events": ["no-capacity", "interruption"], "duration": "1d"}
"""Without it, a dstack run ends with its spot instance (dstack 0.22.5, core/models/profiles.py)."""


def manifest(name: str, kind: str, version: str, spec: Mapping[str, object]) -> Content:
    """Return an object of Kubernetes."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def host_requests(
    offer: Offer | None, cards: int, *, cpus: float | None = None, memory: float | None = None
) -> dict[str, str]:
    """Return processors and memory [bytes] of a pod: its share of a rented machine, or as given.

    Without either, the pod requests none.
    """
    if offer is not None:
        share = HOST_SHARE * cards / offer.accelerators
        cpus = share * offer.vcpus if offer.vcpus else cpus
        memory = share * offer.host_memory_bytes if offer.host_memory_bytes else memory
    found = {}
    if cpus:
        found["cpu"] = str(max(1, floor(cpus)))
    if memory:
        found["memory"] = f"{max(1, floor(memory / GIB))}Gi"
    return found


def compose_service(
    image: str, script: str, *, volume: str, environment: Mapping[str, str], machines: int
) -> Content:
    """Return a Compose service that runs a script.

    Its files are in a volume (``weights:/weights``).

    Several machines work together; each states its place.
    """
    return {
        "image": image,
        "entrypoint": ["bash", "-c"],
        "command": [compose_text(script)],
        "network_mode": "host",
        "ipc": "host",
        "environment": {
            "HF_TOKEN": "${HF_TOKEN:-}",
            **environment,
            **(PLACE if machines > 1 else {}),
        },
        "volumes": [volume],
    }


def compose_cards(backend: str, ids: list[str]) -> Content:
    """Return what gives a Compose service its cards, by their numbers."""
    found: Content = Filler(lambda _: ids).filled(reach(backend).compose)
    return found


def compose_text_of(
    setup: Setup, services: Mapping[str, object], volume: str, notes: Iterable[str]
) -> str:
    """Return a Compose file with one volume."""
    content = {"name": setup.slug, "services": services, "volumes": {volume: {}}}
    return yaml_file((*setup.header, *notes), content)


def skypilot_text(
    setup: Setup,
    content: Mapping[str, object],
    *,
    cards: int,
    disk_bytes: float,
    resources: Mapping[str, object],
    notes: Iterable[str],
) -> str:
    """Return a SkyPilot file on the planned cloud.

    ``cards`` and ``resources``, those besides cards, disk and cloud, are of one node.
    """
    cloud = clouds_of(Format.SKYPILOT).get(setup.estimate.cost.provider or "")
    needed = {
        "accelerators": f"{name_in('SkyPilot', setup.accelerator)}:{cards}",
        "use_spot": setup.spot,
        "disk_size": ceil(disk_bytes / GB),
        **({"infra": cloud} if cloud else {}),
        **resources,
    }
    head = {"name": setup.slug, "envs": {"HF_TOKEN": ""}, "resources": needed}
    return yaml_file((*setup.header, *notes), {**head, **content})


def dstack_text(
    setup: Setup,
    content: Mapping[str, object],
    *,
    cards: int,
    disk_bytes: float,
    notes: Iterable[str],
) -> str:
    """Return a dstack file on the planned cloud; ``cards`` are those of one node."""
    cloud = clouds_of(Format.DSTACK).get(setup.estimate.cost.provider or "")
    whole = {
        "name": setup.slug,
        "shell": "bash",
        "env": ["HF_TOKEN"],
        **content,
        "resources": {
            "gpu": dstack_gpu(setup.accelerator, cards),
            "shm_size": "16GB",
            "disk": f"{ceil(disk_bytes / GB)}GB..",
        },
        **({"backends": [cloud]} if cloud else {}),
        **({"spot_policy": "spot", "retry": RETRY} if setup.spot else {}),
    }
    start = "Start it with: HF_TOKEN=... dstack apply -f .dstack.yml (HF_TOKEN= for open weights)"
    return yaml_file((*setup.header, *notes, start), whole)
