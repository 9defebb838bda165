"""Files for clusters and clouds that start training: Kubernetes, Compose, SkyPilot, dstack."""

from __future__ import annotations

from math import ceil, floor
from typing import Final

from advisor.export.formats import Format, cannot
from advisor.export.hosts.containers import compose_cards
from advisor.export.hosts.kubernetes import HOST_SHARE, LABELS, SHARED_MEMORY
from advisor.export.hosts.names import clouds_of, dstack_gpu, node_label, skypilot_name
from advisor.export.quoting import comments, compose_text, kubernetes_text, yaml_text
from advisor.export.script import (
    STRICT,
    Launch,
    Variable,
    installation,
    preparation,
    text_of,
)
from advisor.export.setup import Setup
from advisor.export.training.starts import launch_of, machine_lines, start
from advisor.foundation.units import GB, GIB

RESOURCES: Final = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Intel": "habana.ai/gaudi",
}
"""Resource names that the vendors' device plugins register with Kubernetes."""
FOLDER: Final = "/training"
"""Folder of the volume that keeps downloads and checkpoints."""
BASE_BYTES: Final = 100 * GB
"""Room for image, packages and data. Assumed. [bytes]"""
STORED_BYTES: Final = 2
"""Of one weight in the hub. [bytes]"""
STATE_BYTES: Final = 14
"""Of one trained weight in a checkpoint: 16 bits, its fp32 copy, AdamW's two moments. [bytes]"""
CHECKPOINTS: Final = 2
"""Kept at the same time: the last and the one being written. Assumed."""


def disk_bytes(setup: Setup) -> float:
    """Return the disk that a run needs on each machine: weights, checkpoints and the rest."""
    counted = setup.estimate.parameters
    loaded = 0 if setup.run.method is None else STORED_BYTES * counted.total
    return BASE_BYTES + loaded + CHECKPOINTS * STATE_BYTES * counted.trainable


def _script(setup: Setup, launch: Launch, *further: str, **where: Variable | str) -> str:
    lines = [STRICT, *further, *installation(launch), *preparation(launch)]
    return text_of([*lines, *start(setup, launch, **where)])


def _check_vendor(setup: Setup) -> None:
    if setup.accelerator.vendor not in RESOURCES:
        raise cannot(
            "containers reach only NVIDIA's and AMD's cards and Gaudi",
            value=setup.accelerator.name,
            allowed=", ".join(RESOURCES),
            remedy=setup.native,
        )


def kubernetes_file(setup: Setup) -> str:
    """Return a job with a pod for each machine, its volume, and the service of the first pod."""
    _check_vendor(setup)
    launch = launch_of(setup)
    token = "Gated weights need: kubectl create secret generic hf --from-literal=HF_TOKEN=..."
    head = text_of(comments((*setup.header, *launch.notes, token)))
    return head + "---\n".join(yaml_text(item) for item in _manifests(setup, launch))


def _manifests(setup: Setup, launch: Launch) -> list[dict[str, object]]:
    name, labels = setup.slug, {"app": setup.slug}
    job: dict[str, object] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": setup.machines,
            "parallelism": setup.machines,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": _pod(setup, launch)},
        },
    }
    claim: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce" if setup.machines == 1 else "ReadWriteMany"],
            "resources": {"requests": {"storage": f"{ceil(disk_bytes(setup) / GIB)}Gi"}},
        },
    }
    if setup.machines == 1:
        return [claim, job]
    service: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True},
    }
    return [claim, service, job]


def _pod(setup: Setup, launch: Launch) -> dict[str, object]:
    name, vendor = setup.slug, setup.accelerator.vendor
    cards = {RESOURCES[vendor]: setup.per_machine}
    script = _script(
        setup,
        launch,
        f"cd {FOLDER}",
        f"export HF_HOME={FOLDER}/hub",
        rank=Variable("JOB_COMPLETION_INDEX"),
        host=f"{name}-0.{name}",
    )
    pod: dict[str, object] = {
        "containers": [
            {
                "name": name,
                "image": launch.image,
                "command": ["bash", "-c", kubernetes_text(script)],
                "resources": {"requests": {**_requests(setup), **cards}, "limits": cards},
                "volumeMounts": [
                    {"name": "shm", "mountPath": "/dev/shm"},
                    {"name": "training", "mountPath": FOLDER},
                ],
                "envFrom": [{"secretRef": {"name": "hf", "optional": True}}],
            }
        ],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
            {"name": "training", "persistentVolumeClaim": {"claimName": name}},
        ],
        "restartPolicy": "Never",
        "subdomain": name,
    }
    label = node_label(setup.accelerator)
    if label and vendor in LABELS:
        pod["nodeSelector"] = {LABELS[vendor]: label}
    return pod


def _requests(setup: Setup) -> dict[str, str]:
    """Return processors and memory of a pod: its share of the machine, if that is known."""
    offer = setup.offer
    if offer is None:
        return {}
    share = HOST_SHARE * setup.per_machine / offer.accelerators
    found = {}
    if offer.vcpus:
        found["cpu"] = str(max(1, floor(share * offer.vcpus)))
    if offer.host_memory_bytes:
        found["memory"] = f"{max(1, floor(share * offer.host_memory_bytes / GIB))}Gi"
    return found


def compose_file(setup: Setup) -> str:
    """Return a Compose file with one service; every machine runs the same one."""
    _check_vendor(setup)
    launch = launch_of(setup)
    ids = [str(card) for card in range(setup.per_machine)]
    environment = {"HF_TOKEN": "${HF_TOKEN:-}", "HF_HOME": f"{FOLDER}/hub"}
    if machine_lines(setup, launch):
        environment["NODE_RANK"] = "${NODE_RANK:?number of this machine, from 0}"
        environment["MASTER_ADDR"] = "${MASTER_ADDR:?name of the first machine}"
    service: dict[str, object] = {
        "image": launch.image,
        "entrypoint": ["bash", "-c"],
        "command": [compose_text(_script(setup, launch))],
        "working_dir": FOLDER,
        "network_mode": "host",
        "ipc": "host",
        "environment": environment,
        "volumes": [f"training:{FOLDER}"],
    }
    if backend := {"NVIDIA": "cuda", "AMD": "rocm"}.get(setup.accelerator.vendor):
        service |= compose_cards(backend, ids)
    else:
        service |= {"runtime": "habana", "cap_add": ["SYS_NICE"]}
        environment["HABANA_VISIBLE_DEVICES"] = "all"
    content: dict[str, object] = {
        "name": setup.slug,
        "services": {"train": service},
        "volumes": {"training": {}},
    }
    notes = (*setup.header, *launch.notes, "Start it with: docker compose up")
    return text_of(comments(notes)) + yaml_text(content)


def skypilot_file(setup: Setup) -> str:
    """Return a SkyPilot task on the planned cloud."""
    launch = launch_of(setup)
    resources: dict[str, object] = {
        "accelerators": f"{skypilot_name(setup.accelerator)}:{setup.per_machine}",
        "use_spot": setup.spot,
        "disk_size": ceil(disk_bytes(setup) / GB),
    }
    cloud = clouds_of(Format.SKYPILOT).get(setup.estimate.cost.provider or "")
    if cloud:
        resources["infra"] = cloud
    host = 'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    run = [STRICT, host, *preparation(launch)]
    run += start(setup, launch, rank=Variable("SKYPILOT_NODE_RANK"))
    content: dict[str, object] = {
        "name": setup.slug,
        "envs": {"HF_TOKEN": ""},
        "num_nodes": setup.machines,
        "resources": resources,
        "setup": text_of(installation(launch)),
        "run": text_of(run),
    }
    begin = "sky jobs launch" if setup.spot else f"sky launch -c {setup.slug}"
    notes = (*setup.header, *launch.notes, f"Start it with: {begin} sky.yaml --env HF_TOKEN")
    return text_of(comments(notes)) + yaml_text(content)


def dstack_file(setup: Setup) -> str:
    """Return a dstack task on the planned cloud, one node for each machine."""
    launch = launch_of(setup)
    card = setup.accelerator
    script = _script(
        setup,
        launch,
        rank=Variable("DSTACK_NODE_RANK"),
        host=Variable("DSTACK_MASTER_NODE_IP"),
    )
    content: dict[str, object] = {
        "type": "task",
        "name": setup.slug,
        "nodes": setup.machines,
        "image": launch.image,
        "shell": "bash",
        "env": ["HF_TOKEN"],
        "commands": [script],
        "resources": {
            "gpu": dstack_gpu(card, setup.per_machine),
            "shm_size": "16GB",
            "disk": f"{ceil(disk_bytes(setup) / GB)}GB..",
        },
    }
    cloud = clouds_of(Format.DSTACK).get(setup.estimate.cost.provider or "")
    if cloud:
        content["backends"] = [cloud]
    if setup.spot:
        content["spot_policy"] = "spot"
    notes = (*setup.header, *launch.notes, "Start it with: dstack apply -f .dstack.yml")
    return text_of(comments(notes)) + yaml_text(content)
