"""Docker Compose, SkyPilot and dstack files that start servers."""

from __future__ import annotations

from math import ceil
from typing import Final

from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.formats import Format, cannot
from advisor.export.hosts.names import clouds_of, dstack_gpu, skypilot_name
from advisor.export.hosts.shell import VISIBLE, with_port
from advisor.export.quoting import comments, compose_text, shell_word, yaml_text
from advisor.export.script import (
    STRICT,
    Launch,
    command,
    installation,
    preparation,
    text_of,
)
from advisor.export.setup import Setup
from advisor.foundation.units import GB

WEIGHTS: Final = "/weights"
"""Folder of the weights in a container."""
LOAD_BYTES_PER_S: Final = 100e6
"""Rate at which weights come from the hub and into memory. Assumed: a gigabit line. [bytes/s]"""
START_S: Final = 300
"""Start of an engine beside the download: image, compilation, captured graphs. Assumed. [s]"""


def start_seconds(servers: Servers) -> int:
    """Return the time that a server may take until it is ready. [s]"""
    return START_S + ceil(servers.download_bytes / LOAD_BYTES_PER_S)


def container_lines(launch: Launch, *, weights: str | None = WEIGHTS) -> list[str]:
    """Return the script of one server in a container of its image.

    Parameters
    ----------
    weights : str, optional
        Folder of a volume, for weights and for files that the launch writes. None: the home.
    """
    enter = [f"cd {weights}", f"export HF_HOME={weights}"] if weights else []
    return [
        STRICT,
        *enter,
        *(" ".join(map(shell_word, words)) for words in launch.image_extra),
        *preparation(launch),
        *launch.before,
        *command(launch.program, launch.options),
    ]


def check_image(servers: Servers, launch: Launch) -> None:
    """Refuse a program without an image for the card.

    Raises
    ------
    InputError
        If ``serving_tools.yaml`` names none.
    """
    if not launch.image:
        raise cannot(
            f"{servers.program.title} has no container image for {servers.setup.accelerator.name}",
            value=servers.program.name,
            allowed=f"--to {servers.program.name}",
            remedy=f"Choose --to {servers.program.name}, which writes a script.",
        )


def compose_file(setup: Setup) -> str:
    """Return a Compose file with one service for each server of a machine."""
    servers = Servers(setup)
    launch = server_launch(servers)
    check_image(servers, launch)
    services = {
        f"server-{index}": _service(servers, with_port(launch, index), index)
        for index in range(servers.on_each_machine)
    }
    content: dict[str, object] = {
        "name": setup.slug,
        "services": services,
        "volumes": {"weights": {}},
    }
    notes = [*setup.header, *launch.notes]
    if setup.machines > 1:
        notes.append(f"Start it on each of the {setup.machines} machines.")
    if servers.count > 1:
        notes.append(f"{servers.count} servers: put a load balancer in front.")
    notes.append("Start it with: docker compose up -d; watch it with: docker compose logs -f")
    if servers.program.reads_gguf and setup.checkpoint is None:
        notes.append("Put the file of weights into the volume, or mount its folder there.")
    return text_of(comments(notes)) + yaml_text(content)


def _service(servers: Servers, launch: Launch, index: int) -> dict[str, object]:
    backend = servers.backend
    first = index * servers.cards_each
    ids = [str(card) for card in range(first, first + servers.cards_each)]
    environment = {"HF_TOKEN": "${HF_TOKEN:-}"}
    if servers.machines > 1:
        environment["NODE_RANK"] = "${NODE_RANK:?number of this machine, from 0}"
        environment["MASTER_ADDR"] = "${MASTER_ADDR:?name of the first machine}"
    variable = VISIBLE.get(backend)
    if variable and backend != "cuda":
        environment[variable] = ",".join(ids)
    script = text_of(container_lines(launch))
    service: dict[str, object] = {
        "image": launch.image,
        "entrypoint": ["bash", "-c"],
        "command": [compose_text(script)],
        "network_mode": "host",
        "ipc": "host",
        "environment": environment,
        "volumes": [f"weights:{WEIGHTS}"],
        "restart": "unless-stopped",
    }
    return service | compose_cards(backend, ids)


def compose_cards(backend: str, ids: list[str]) -> dict[str, object]:
    """Return what gives a Compose service its cards, by their numbers."""
    if backend == "cuda":
        device = {"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu"]}
        return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if backend == "rocm":
        return {
            "devices": ["/dev/kfd", "/dev/dri"],
            "group_add": ["video"],
            "security_opt": ["seccomp:unconfined"],
        }
    if backend in ("vulkan", "xpu"):
        return {"devices": ["/dev/dri"], "group_add": ["video"]}
    return {}


def skypilot_file(setup: Setup) -> str:
    """Return a SkyPilot service: as many replicas as there are servers."""
    servers = Servers(setup)
    if servers.on_each_machine > 1:
        servers = Servers(setup, apart=True)
    launch = server_launch(servers)
    if not launch.install:
        check_image(servers, launch)
    resources: dict[str, object] = {
        "accelerators": f"{skypilot_name(setup.accelerator)}:{servers.cards_each}",
        "use_spot": setup.spot,
        "ports": servers.program.port,
        "disk_size": ceil(servers.disk_bytes / GB),
    }
    cloud = clouds_of(Format.SKYPILOT).get(setup.estimate.cost.provider or "")
    if cloud:
        resources["infra"] = cloud
    if not launch.install:
        resources["image_id"] = f"docker:{launch.image}"
    lines = [STRICT]
    if servers.machines > 1:
        lines += [
            'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
            'NODE_RANK="$SKYPILOT_NODE_RANK"',
        ]
    lines += [*preparation(launch), *launch.before, *command(launch.program, launch.options)]
    content: dict[str, object] = {
        "name": setup.slug,
        "envs": {"HF_TOKEN": ""},
        "num_nodes": servers.machines,
        "service": {
            "readiness_probe": {
                "path": servers.program.probe,
                "initial_delay_seconds": start_seconds(servers),
            },
            "replicas": servers.count,
        },
        "resources": resources,
        **({"setup": text_of(installation(launch))} if launch.install else {}),
        "run": text_of(lines),
    }
    notes = (*setup.header, *launch.notes, "Start it with: sky serve up sky.yaml --env HF_TOKEN")
    return text_of(comments(notes)) + yaml_text(content)


def dstack_file(setup: Setup) -> str:
    """Return a dstack service: as many replicas as there are servers.

    Raises
    ------
    InputError
        If a server spans machines, or the program has no image for the card.
    """
    servers = Servers(setup)
    if servers.on_each_machine > 1:
        servers = Servers(setup, apart=True)
    launch = server_launch(servers)
    check_image(servers, launch)
    if servers.machines > 1:
        raise cannot(
            "a replica of a dstack service runs on one machine",
            value=f"{servers.machines} machines",
            allowed=f"up to {setup.per_machine} accelerators for a copy",
            remedy="Choose --to kubernetes, skypilot or slurm.",
        )
    content: dict[str, object] = {
        "type": "service",
        "name": setup.slug,
        "image": launch.image,
        "shell": "bash",
        "env": ["HF_TOKEN"],
        "commands": [text_of(container_lines(launch, weights=None))],
        "port": servers.program.port,
        "replicas": servers.count,
        "probes": [{"type": "http", "url": servers.program.probe}],
        "resources": {
            "gpu": dstack_gpu(setup.accelerator, servers.cards_each),
            "shm_size": "16GB",
            "disk": f"{ceil(servers.disk_bytes / GB)}GB..",
        },
    }
    if "generate" in servers.program.tool.does and not servers.program.reads_gguf:
        content["model"] = setup.weights
    cloud = clouds_of(Format.DSTACK).get(setup.estimate.cost.provider or "")
    if cloud:
        content["backends"] = [cloud]
    if setup.spot:
        content["spot_policy"] = "spot"
    notes = (*setup.header, *launch.notes, "Start it with: dstack apply -f .dstack.yml")
    return text_of(comments(notes)) + yaml_text(content)
