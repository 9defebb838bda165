"""Files that start training: scripts, Slurm, Kubernetes, Compose, SkyPilot and dstack."""

from dataclasses import replace
from math import ceil
from typing import Final, Self

from advisor.errors import refusal
from advisor.export.formats import Format
from advisor.export.hosts.orders import HOST_MEMORY_BYTES, Facts, Order, cards_of, cluster_names
from advisor.export.quoting import comments, yaml_file
from advisor.export.script import (
    START,
    STRICT,
    Launch,
    Variable,
    Word,
    command,
    installation,
    needs,
    place_lines,
    preparation,
    started,
    text_of,
    written_file,
)
from advisor.export.setup import Setup
from advisor.export.training.described import launch as described
from advisor.export.training.described import sharing
from advisor.export.training.samples import folder_bytes
from advisor.foundation.units import GB, GIB
from advisor.nouns.software.tools import backends_of
from advisor.nouns.training_choices import Preference

FIRST_HOST: Final = Variable("MASTER_ADDR")
RANK: Final = Variable("NODE_RANK")
DAY_H: Final = 24
PART_H: Final = 23
"""Hours of a day that a chained job trains. Assumed: the rest is start-up, and the steps after its
last checkpoint."""
SHARING: Final = {"--deepspeed", "--fsdp", "--fsdp_config"}
"""Options in place of which Accelerate's configuration says how states are shared out."""


def launch_of(setup: Setup) -> Launch:
    """Return the program that trains as the file says."""
    assert setup.tool is not None
    return described(setup.tool, setup)


def start(setup: Setup, launch: Launch, *, rank: Word = RANK, host: Word = FIRST_HOST) -> list[str]:
    """Return the command for one machine."""
    return started(
        launch, machines=setup.machines, per_machine=setup.per_machine, rank=rank, host=host
    )


def machines_of(setup: Setup, launch: Launch) -> int:
    """Return how many machines a starter joins: one if the program needs none."""
    return setup.machines if launch.starter else 1


def shell_file(setup: Setup) -> str:
    """Return a script for each machine."""
    launch = launch_of(setup)
    head = comments((*setup.header, *launch.notes, *needs(launch)))
    return text_of(
        START,
        head,
        (STRICT,),
        place_lines(machines_of(setup, launch)),
        preparation(launch),
        start(setup, launch),
    )


def config_file(setup: Setup) -> str:
    """Return the one file that a program reads, with the command that starts it above."""
    launch = launch_of(setup)
    assert launch.config is not None
    head = _started_by(setup, launch, start(setup, launch))
    return text_of(comments(head)) + launch.files[launch.config]


def _started_by(setup: Setup, launch: Launch, use: list[str]) -> tuple[str, ...]:
    """Return the head of a file that a command reads, with the command."""
    place = "On every machine, with its $NODE_RANK and the first one's $MASTER_ADDR:"
    lines = (*preparation(replace(launch, files={})), *use)
    start_with = place if setup.machines > 1 else "Start it with:"
    shown = (f"  {line}" for line in lines)
    return (*setup.header, *launch.notes, *needs(launch), start_with, *shown)


def accelerate_file(setup: Setup) -> str:
    """Return Accelerate's configuration with the command that uses it above."""
    launch = launch_of(setup)
    name, several = Format.ACCELERATE.file_name, setup.machines > 1
    options = tuple(option for option in launch.options if option[0] not in SHARING)
    place = ("--machine_rank", RANK, "--main_process_ip", FIRST_HOST) if several else ()
    program = ("accelerate", "launch", "--config_file", name, *place, *launch.program)
    head = _started_by(setup, launch, command(program, options))
    return yaml_file(head, sharing(setup, "accelerate"))


def slurm_file(setup: Setup) -> str:
    """Return a job with one task on each machine; a long run that resumes is a chain of days."""
    assert setup.estimate.time is not None
    assert setup.tool is not None
    launch, longest = launch_of(setup), setup.estimate.time.run_hours.high
    days, hours = divmod(ceil(longest), DAY_H)
    resumes = setup.tool.says.resumes
    chained = resumes and longest > DAY_H
    orders = setup.slurm_orders("1-00:00:00" if chained else f"{days}-{hours:02d}:00:00")
    if resumes:
        orders += ["#SBATCH --requeue", "#SBATCH --open-mode=append"]
    if chained:
        parts = ceil(longest / PART_H)
        orders.append("#SBATCH --dependency=singleton")
        note = (
            "A day for each job, as clusters accept; Slurm runs one at a time, and each goes on "
            f"from the last checkpoint. Submit {parts}: "
            f"for part in $(seq {parts}); do sbatch {Format.SLURM.file_name}; done"
        )
        launch = replace(launch, notes=(*launch.notes, note))
    first = 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
    # Every task expands its own rank, so the command needs its own script.
    job = text_of((STRICT,), start(setup, launch, rank=Variable("SLURM_NODEID")))
    return text_of(
        START,
        orders,
        comments((*setup.header, *launch.notes, *needs(launch))),
        (STRICT,),
        preparation(launch),
        (first, "export MASTER_ADDR"),
        [*written_file("job.sh", job), "srun bash job.sh"],
    )


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
