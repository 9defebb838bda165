"""Files for clusters and clouds that start training: Kubernetes, Compose, SkyPilot, dstack."""

from math import ceil
from typing import Final, Self

from advisor.export.formats import Format
from advisor.export.hosts.names import cluster_names
from advisor.export.hosts.orders import HOST_MEMORY_BYTES, Facts, Order, cards_of
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


def _loaded_bytes(setup: Setup) -> float:
    """Return the weights that a run reads into the host's memory, with those of a reference."""
    run = setup.run
    if run.method is None:
        return 0
    each = 2 * STORED_BYTES if run.recipe.working == "fp32" else STORED_BYTES
    models = 2 if run.preference is Preference.DPO and not run.frozen else 1
    return models * each * setup.estimate.parameters.total


def _bare(setup: Setup) -> bool:
    """Whether SkyPilot starts no images on the planned cloud, or for the card."""
    cloud = cluster_names().clouds.get(setup.estimate.cost.provider or "")
    return setup.accelerator.vendor == "Google" or (cloud is not None and cloud.bare)


FACTS: Final[Facts] = {
    "access": lambda one: "ReadWriteOnce" if one.setup.machines == 1 else "ReadWriteMany",
    "all_gaudi": lambda one: "all" if one.backend == "gaudi" else None,
    # Checkpoints have to outlive spot machines.
    "bucket": lambda one: BUCKET if one.setup.spot and "OUTPUT" in one.launch.variables else None,
    "disk_gib": lambda one: ceil(one.disk_bytes / GIB),
    "images": lambda one: folder_bytes(one.setup) > 0,
    "image_id": lambda one: None if _bare(one.setup) else f"docker:{one.launch.image}",
    "installed": lambda one: text_of(installation(one.launch)),
    "restarts": lambda one: one.setup.machines == 1 and one.setup.tool.says.resumes,
}


class RunOrder(Order):
    """A run on one machine."""

    section = "train"
    facts = FACTS

    @classmethod
    def of(cls, setup: Setup, launch: Launch, script: str, backend: str = "") -> Self:
        """Return the part of a run that a script starts."""
        hosted = setup.estimate.memory.host_bytes.high * setup.per_machine
        return cls(
            setup=setup,
            launch=launch,
            script=script,
            cards=setup.per_machine,
            backend=backend,
            disk_bytes=disk_bytes(setup),
            host_bytes=HOST_MEMORY_BYTES * setup.per_machine + hosted + _loaded_bytes(setup),
            machines=machines_of(setup, launch),
        )


def kubernetes_file(setup: Setup) -> str:
    """Return a job with a pod for each machine, its volume, and the service of the first pod."""
    backend = _backend(setup)
    launch, name = launch_of(setup), setup.slug
    script = _script(
        setup,
        launch,
        f"cd {FOLDER}",
        f"export HF_HOME={FOLDER}/hub",
        rank=Variable("JOB_COMPLETION_INDEX"),
        host=f"{name}-0.{name}",
    )
    one = RunOrder.of(setup, launch, script, backend)
    names = ["claim", *["first"] * (setup.machines > 1), "job"]
    return one.file(Format.KUBERNETES, *map(one.part, names))


def compose_file(setup: Setup) -> str:
    """Return a Compose file with one service; every machine runs the same one."""
    backend = _backend(setup)
    launch = launch_of(setup)
    one = RunOrder.of(setup, launch, _script(setup, launch), backend)
    service = one.part("compose_service") | cards_of(backend, range(setup.per_machine))
    content = {"name": setup.slug, "services": {"train": service}, "volumes": {"training": {}}}
    return one.file(Format.COMPOSE, content)


def skypilot_file(setup: Setup) -> str:
    """Return a SkyPilot task on the planned cloud."""
    launch = launch_of(setup)
    host = 'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    run = [STRICT, host, *preparation(launch)]
    run += start(setup, launch, rank=Variable("SKYPILOT_NODE_RANK"))
    return RunOrder.of(setup, launch, text_of(run)).file(Format.SKYPILOT)


def dstack_file(setup: Setup) -> str:
    """Return a dstack task on the planned cloud, one node for each machine."""
    launch = launch_of(setup)
    rank, host = Variable("DSTACK_NODE_RANK"), Variable("DSTACK_MASTER_NODE_IP")
    script = _script(setup, launch, rank=rank, host=host)
    return RunOrder.of(setup, launch, script).file(Format.DSTACK)
