"""Writes the files that start a program on the machines: shell, Slurm, Kubernetes, SkyPilot."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from advisor.export.formats import Format
from advisor.export.hosts.names import skypilot_name
from advisor.export.hosts.writers import server_file
from advisor.export.megatron import megatron_launch
from advisor.export.quoting import comments, kubernetes_text, yaml_text
from advisor.export.script import (
    START,
    STRICT,
    Launch,
    Variable,
    Word,
    command,
    installation,
    preparation,
    text_of,
    torchrun,
    written_file,
)
from advisor.export.setup import Setup, check_startable
from advisor.export.trl import accelerate_config, deepspeed_config, trl_launch
from advisor.foundation.units import HOUR_S, MINUTE_S
from advisor.nouns.workload import Serving

FIRST_HOST: Final = Variable("MASTER_ADDR")
RANK: Final = Variable("NODE_RANK")
RESOURCES: Final = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
"""Resource names that the vendors' device plugins register with Kubernetes."""
SHARED_MEMORY: Final = "16Gi"
"""Shared memory of a pod for NCCL and data loaders. Assumed: Docker's 64 MiB are too little."""
SLACK: Final = 1.5
"""Time limit of a Slurm job relative to the high end of its range. Assumed, so that it can end."""


def launch_file(setup: Setup, to: Format) -> str:
    """Return the content of a launch configuration.

    Raises
    ------
    InputError
        If it would not start. The message says why, and what would start.
    """
    check_startable(setup, to)
    if isinstance(setup.workload, Serving):
        return server_file(setup, to)
    return _WRITERS[to](setup)


def _launch(setup: Setup) -> Launch:
    """Return the program that trains as planned."""
    layout, run = setup.estimate.layout, setup.run
    split = layout.tensor * layout.pipeline * layout.context * layout.expert > 1
    pretrains = run.method is None and "pipeline" in run.stack.divides
    if pretrains or split or run.stack.launcher == "megatron":
        return megatron_launch(setup)
    return trl_launch(setup)


def _start(
    setup: Setup, launch: Launch, *, rank: Word = RANK, host: Word = FIRST_HOST
) -> list[str]:
    """Return the command for one machine."""
    return torchrun(
        launch, machines=setup.machines, per_machine=setup.per_machine, rank=rank, host=host
    )


def _shell(setup: Setup) -> str:
    launch = _launch(setup)
    head = comments((*setup.header, *launch.notes, *_installed(launch)))
    several: list[str] = []
    if setup.machines > 1:
        several = [
            ': "${NODE_RANK:?number of this machine, from 0}"',
            ': "${MASTER_ADDR:?name of the first machine}"',
        ]
    return text_of(START, head, (STRICT,), several, preparation(launch), _start(setup, launch))


def _installed(launch: Launch) -> tuple[str, ...]:
    return ("Needs: " + "; ".join(installation(launch)),)


def _accelerate(setup: Setup) -> str:
    launch = trl_launch(setup, deepspeed=False)
    on_each = "On every machine, with its --machine_rank and --main_process_ip:"
    use = command(
        ("accelerate", "launch", "--config_file", "accelerate.yaml", *launch.program),
        launch.options,
    )
    head = (
        *setup.header,
        *launch.notes,
        *_installed(launch),
        on_each if setup.machines > 1 else "Start it with:",
        *(f"  {line}" for line in (*preparation(launch), *use)),
    )
    return text_of(comments(head)) + accelerate_config(setup)


def _slurm(setup: Setup) -> str:
    launch = _launch(setup)
    orders = [
        f"#SBATCH --job-name={setup.slug}",
        f"#SBATCH --nodes={setup.machines}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={setup.per_machine}",
        "#SBATCH --exclusive",
    ]
    if setup.estimate.time is not None:
        minutes = ceil(SLACK * setup.estimate.time.run_hours.high * HOUR_S / MINUTE_S)
        orders.append(f"#SBATCH --time={minutes}")
    first = 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
    # Every task expands its own rank, so the command needs its own script.
    job = text_of((STRICT,), _start(setup, launch, rank=Variable("SLURM_NODEID")))
    return text_of(
        START,
        orders,
        comments((*setup.header, *launch.notes, *_installed(launch))),
        (STRICT,),
        preparation(launch),
        (first, f"export MASTER_ADDR {' '.join(launch.variables)}".rstrip()),
        [*written_file("job.sh", job), "srun bash job.sh"],
    )


def _skypilot(setup: Setup) -> str:
    launch = _launch(setup)
    resources: dict[str, object] = {
        "accelerators": f"{skypilot_name(setup.accelerator)}:{setup.per_machine}",
        "use_spot": setup.spot,
    }
    host = 'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    run = [STRICT, host, *preparation(launch)]
    run += _start(setup, launch, rank=Variable("SKYPILOT_NODE_RANK"))
    content = {
        "name": setup.slug,
        "num_nodes": setup.machines,
        "resources": resources,
        "setup": text_of(installation(launch)),
        "run": text_of(run),
    }
    return text_of(comments((*setup.header, *launch.notes))) + yaml_text(content)


def _kubernetes(setup: Setup) -> str:
    launch = _launch(setup)
    head = text_of(comments((*setup.header, *launch.notes)))
    return head + "---\n".join(yaml_text(item) for item in _job(setup, launch))


def _pod(setup: Setup, launch: Launch, lines: list[str]) -> dict[str, object]:
    name = setup.slug
    cards: dict[str, object] = {RESOURCES[setup.accelerator.vendor]: setup.per_machine}
    return {
        "containers": [
            {
                "name": name,
                "image": launch.image,
                "command": ["bash", "-c", kubernetes_text(text_of(lines))],
                "resources": {"limits": cards},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                # Gated weights need a token: kubectl create secret generic hf --from-literal=...
                "envFrom": [{"secretRef": {"name": "hf", "optional": True}}],
            }
        ],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}}],
    }


def _job(setup: Setup, launch: Launch) -> list[dict[str, object]]:
    """Return a job with one pod for each machine, and the service that leads to the first pod."""
    name, labels = setup.slug, {"app": setup.slug}
    host = f"{name}-0.{name}"
    lines = [STRICT, *installation(launch), *preparation(launch)]
    lines += _start(setup, launch, rank=Variable("JOB_COMPLETION_INDEX"), host=host)
    pod = {**_pod(setup, launch, lines), "restartPolicy": "Never", "subdomain": name}
    job: dict[str, object] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": setup.machines,
            "parallelism": setup.machines,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    if setup.machines == 1:
        return [job]
    service: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True},
    }
    return [service, job]


_WRITERS: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.TORCHRUN: _shell,
    Format.ACCELERATE: _accelerate,
    Format.DEEPSPEED: deepspeed_config,
    Format.SLURM: _slurm,
    Format.KUBERNETES: _kubernetes,
    Format.SKYPILOT: _skypilot,
}
