"""Files for clusters and clouds that start training: Kubernetes, Compose, SkyPilot, dstack."""

from dataclasses import replace
from math import ceil
from typing import Final

from advisor.export.hosts import orders
from advisor.export.hosts.kubernetes import CPUS_PER_CARD, HOST_MEMORY_BYTES, RDMA, pod_of
from advisor.export.hosts.names import cluster_names, resource_of
from advisor.export.quoting import kubernetes_text, yaml_file
from advisor.export.script import STRICT, Launch, Variable, installation, preparation, text_of
from advisor.export.setup import Setup
from advisor.export.training.samples import folder_bytes
from advisor.export.training.starts import launch_of, machines_of, start
from advisor.foundation.refusals import refusal
from advisor.foundation.units import GB, GIB
from advisor.nouns.software.tools import backends_of
from advisor.nouns.training_choices import Preference

BACKENDS: Final = ("cuda", "rocm", "gaudi")
"""What carries kernels to the cards for which there are images."""
FOLDER: Final = "/training"
"""Folder of the volume that keeps downloads and checkpoints."""
BUCKET: Final = "/checkpoints"
"""Where a bucket is mounted that outlives spot machines."""
BASE_BYTES: Final = 100 * GB
"""Room for image, packages and data. Assumed. [bytes]"""
STORED_BYTES: Final = 2
"""Of one weight in the hub. [bytes]"""
STATE_BYTES: Final = 14
"""Of one trained weight in a checkpoint: 16 bits, its fp32 copy, AdamW's two moments. [bytes]"""
CHECKPOINTS: Final = 2
"""Kept at the same time: the last and the one being written. Assumed."""
TAKEN_AWAY: Final = {
    "podFailurePolicy": {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }
        ]
    }
}
"""A pod that its machine loses (spot, an update) starts again and counts as no failure; of several
machines, the others would wait for it in vain."""

LOST: Final = "Checkpoints go with a spot instance: mount a volume, and set OUTPUT to its folder."


def disk_bytes(setup: Setup) -> float:
    """Return the disk that a run needs on each machine: weights, checkpoints and the rest."""
    counted = setup.estimate.parameters
    loaded = 0 if setup.run.method is None else STORED_BYTES * counted.total
    kept = loaded + CHECKPOINTS * STATE_BYTES * counted.trainable
    return BASE_BYTES + kept + folder_bytes(setup)


def _script(setup: Setup, launch: Launch, *further: str, **where: Variable | str) -> str:
    shared = bool(further) and setup.machines > 1
    lines = [STRICT, *further, *installation(launch, shared=shared), *preparation(launch)]
    return text_of([*lines, *start(setup, launch, **where)])


def _backend(setup: Setup) -> str:
    """Return what carries kernels to the card; raise ``InputError`` if no container reaches it."""
    backend = backends_of(setup.accelerator)[0]
    if backend not in BACKENDS:
        raise refusal(
            "no_training_image", value=setup.accelerator.name, allowed=BACKENDS, remedy=setup.native
        )
    return backend


def kubernetes_file(setup: Setup) -> str:
    """Return a job with a pod for each machine, its volume, and the service of the first pod."""
    backend = _backend(setup)
    launch = launch_of(setup)
    notes = [*setup.header, *launch.notes, *setup.secret]
    notes += [RDMA] if setup.machines > 1 else []
    if folder_bytes(setup):
        notes.append(f"Fill the volume {setup.slug} with the images before the run, or set DATA.")
    return yaml_file(notes, *_manifests(setup, launch, backend))


def _manifests(setup: Setup, launch: Launch, backend: str) -> list[orders.Content]:
    name, labels = setup.slug, {"app": setup.slug}
    resumes = setup.tool is not None and setup.tool.says.resumes
    spec = {
        "completionMode": "Indexed",
        "completions": setup.machines,
        "parallelism": setup.machines,
        "backoffLimit": 0,
        **(TAKEN_AWAY if setup.machines == 1 and resumes else {}),
        "template": {"metadata": {"labels": labels}, "spec": _pod(setup, launch, backend)},
    }
    volume = {
        "accessModes": ["ReadWriteOnce" if setup.machines == 1 else "ReadWriteMany"],
        "resources": {"requests": {"storage": f"{ceil(disk_bytes(setup) / GIB)}Gi"}},
    }
    first = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True}
    return [
        orders.manifest(name, "PersistentVolumeClaim", "v1", volume),
        *([orders.manifest(name, "Service", "v1", first)] if setup.machines > 1 else []),
        orders.manifest(name, "Job", "batch/v1", spec),
    ]


def _loaded_bytes(setup: Setup) -> float:
    """Return the weights that a run reads into the host's memory, with those of a reference."""
    run = setup.run
    if run.method is None:
        return 0
    each = 2 * STORED_BYTES if run.recipe.working == "fp32" else STORED_BYTES
    models = 2 if run.preference is Preference.DPO and not run.frozen else 1
    return models * each * setup.estimate.parameters.total


def _pod(setup: Setup, launch: Launch, backend: str) -> orders.Content:
    name, resource = setup.slug, resource_of(setup.accelerator, backend)
    cards = {resource: setup.per_machine}
    hosted = setup.estimate.memory.host_bytes.high * setup.per_machine
    requests = orders.host_requests(
        setup.offer,
        setup.per_machine,
        cpus=CPUS_PER_CARD * setup.per_machine,
        memory=HOST_MEMORY_BYTES * setup.per_machine + hosted + _loaded_bytes(setup),
    )
    script = _script(
        setup,
        launch,
        f"cd {FOLDER}",
        f"export HF_HOME={FOLDER}/hub",
        rank=Variable("JOB_COMPLETION_INDEX"),
        host=f"{name}-0.{name}",
    )
    container: orders.Content = {
        "name": name,
        "image": launch.image,
        "command": ["bash", "-c", kubernetes_text(script)],
        "resources": {"requests": {**requests, **cards}, "limits": cards},
    }
    volume: orders.Content = {"name": "training", "persistentVolumeClaim": {"claimName": name}}
    pod = pod_of(setup.accelerator, setup.per_machine, resource, container, volume, FOLDER)
    return {**pod, "restartPolicy": "Never", "subdomain": name}


def compose_file(setup: Setup) -> str:
    """Return a Compose file with one service; every machine runs the same one."""
    backend = _backend(setup)
    launch = launch_of(setup)
    ids = [str(card) for card in range(setup.per_machine)]
    environment = {"HF_HOME": f"{FOLDER}/hub"}
    if backend == "gaudi":
        environment["HABANA_VISIBLE_DEVICES"] = "all"
    service = orders.compose_service(
        launch.image,
        _script(setup, launch),
        volume=f"training:{FOLDER}",
        environment=environment,
        machines=machines_of(setup, launch),
    )
    services = {"train": {**service, "working_dir": FOLDER, **orders.compose_cards(backend, ids)}}
    notes = (*launch.notes, "Start it with: docker compose up")
    return orders.compose_text_of(setup, services, "training", notes)


def skypilot_file(setup: Setup) -> str:
    """Return a SkyPilot task on the planned cloud."""
    launch = launch_of(setup)
    host = 'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    run = [STRICT, host, *preparation(launch)]
    run += start(setup, launch, rank=Variable("SKYPILOT_NODE_RANK"))
    begin = "sky jobs launch" if setup.spot else f"sky launch -c {setup.slug}"
    kept: orders.Content = {}
    if setup.spot and "OUTPUT" in launch.variables:
        note = "A bucket's name is unique in the world: put yours under file_mounts."
        launch = replace(launch, notes=(*launch.notes, note))
        bucket = {"name": f"{setup.slug}-checkpoints", "mode": "MOUNT"}
        kept = {"envs": {"HF_TOKEN": "", "OUTPUT": BUCKET}, "file_mounts": {BUCKET: bucket}}
    cloud = cluster_names().clouds.get(setup.estimate.cost.provider or "")
    bare = setup.accelerator.vendor == "Google" or (cloud is not None and cloud.bare)
    steps = {"num_nodes": setup.machines, "setup": text_of(installation(launch))}
    return orders.skypilot_text(
        setup,
        {**kept, **steps, "run": text_of(run)},
        cards=setup.per_machine,
        disk_bytes=disk_bytes(setup),
        resources={} if bare else {"image_id": f"docker:{launch.image}"},
        notes=(*launch.notes, f"Start it with: {begin} sky.yaml --env HF_TOKEN"),
    )


def dstack_file(setup: Setup) -> str:
    """Return a dstack task on the planned cloud, one node for each machine."""
    launch = launch_of(setup)
    rank, host = Variable("DSTACK_NODE_RANK"), Variable("DSTACK_MASTER_NODE_IP")
    if setup.spot and "OUTPUT" in launch.variables:
        launch = replace(launch, notes=(*launch.notes, LOST))
    return orders.dstack_text(
        setup,
        {
            "type": "task",
            "nodes": setup.machines,
            "image": launch.image,
            "commands": [_script(setup, launch, rank=rank, host=host)],
        },
        cards=setup.per_machine,
        disk_bytes=disk_bytes(setup),
        notes=launch.notes,
    )
