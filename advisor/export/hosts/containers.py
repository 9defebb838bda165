"""Docker Compose, SkyPilot and dstack files that start servers."""

from math import ceil
from typing import Final

from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.hosts import orders
from advisor.export.hosts.names import cluster_names, reach
from advisor.export.hosts.shell import with_port
from advisor.export.quoting import shell_word
from advisor.export.script import STRICT, Launch, command, installation, preparation, text_of
from advisor.export.setup import Setup
from advisor.foundation.refusals import refusal

WEIGHTS: Final = "/weights"
"""Folder of the weights in a container."""
LOAD_BYTES_PER_S: Final = 100e6
"""Rate at which weights come from the hub and into memory. Assumed: a gigabit line. [bytes/s]"""
START_S: Final = 300
"""Start of an engine beside the download: image, compilation, captured graphs. Assumed. [s]"""


def start_seconds(servers: Servers) -> int:
    """Return the time that a server may take until it is ready. [s]"""
    return START_S + servers.build.compile_s + ceil(servers.download_bytes / LOAD_BYTES_PER_S)


def container_lines(launch: Launch, *, weights: str | None = WEIGHTS) -> list[str]:
    """Return the script of one server in a container of its image.

    Weights, and files that the launch writes, go to the folder ``weights`` of a volume, else home.
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


def launch_in_image(servers: Servers) -> Launch:
    """Return the command for one server; refuse a program without an image for the card."""
    launch = server_launch(servers)
    if not launch.image:
        raise refusal("no_image_for_card", value=servers.program.name, servers=servers)
    return launch


def compose_file(setup: Setup) -> str:
    """Return a Compose file with one service for each server of a machine."""
    servers = Servers(setup)
    launch = launch_in_image(servers)
    services = {
        f"server-{index}": _service(servers, with_port(launch, index), index)
        for index in range(servers.on_each_machine)
    }
    notes = [*launch.notes]
    if setup.machines > 1:
        notes.append(f"Start it on each of the {setup.machines} machines.")
    if servers.count > 1:
        notes.append(f"{servers.count} servers: put a load balancer in front.")
    notes.append("Start it with: docker compose up -d; watch it with: docker compose logs -f")
    if servers.program.reads_gguf and setup.checkpoint is None:
        notes.append("Put the file of weights into the volume, or mount its folder there.")
    return orders.compose_text_of(setup, services, "weights", notes)


def _service(servers: Servers, launch: Launch, index: int) -> orders.Content:
    backend = servers.backend
    first = index * servers.cards_each
    ids = [str(card) for card in range(first, first + servers.cards_each)]
    variable = reach(backend).visible
    service = orders.compose_service(
        launch.image,
        text_of(container_lines(launch)),
        volume=f"weights:{WEIGHTS}",
        environment={variable: servers.visible(index)} if variable and backend != "cuda" else {},
        machines=servers.machines,
    )
    watched = {"restart": "unless-stopped", "healthcheck": _health(servers, index)}
    return {**service, **watched, **orders.compose_cards(backend, ids)}


def _health(servers: Servers, shift: int) -> orders.Content:
    """Return Compose's check of a server, by the shell alone: few images have curl."""
    program, port = servers.program, servers.program.port + shift
    ask = (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {program.probe} HTTP/1.0\\r\\n\\r\\n' >&3"
    )
    return {
        "test": ["CMD", "bash", "-c", f"{ask}; grep -q '^HTTP/.* 200' <&3"],
        "interval": "10s",
        "start_period": f"{start_seconds(servers)}s",
    }


def check_published(servers: Servers) -> None:
    """Refuse a file of weights that a person makes: a new machine lacks it."""
    if servers.program.reads_gguf and servers.setup.checkpoint is None:
        raise refusal("weights_not_published", value=servers.setup.model.name)


def _apart(setup: Setup) -> Servers:
    """Return the servers of a file that multiplies them: on each machine only one."""
    servers = Servers(setup)
    check_published(servers)
    return Servers(setup, apart=True) if servers.on_each_machine > 1 else servers


def skypilot_file(setup: Setup) -> str:
    """Return a SkyPilot service: as many replicas as there are servers."""
    servers = _apart(setup)
    launch = server_launch(servers)
    if not launch.install:
        launch = launch_in_image(servers)
        provider = setup.estimate.cost.provider or ""
        cloud = cluster_names().clouds.get(provider)
        if cloud and (cloud.bare or cloud.entered):
            raise refusal(
                "image_not_started", value=launch.image, servers=servers, provider=provider
            )
    lines = [STRICT]
    if servers.machines > 1:
        lines += [
            'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
            'NODE_RANK="$SKYPILOT_NODE_RANK"',
        ]
    lines += [*preparation(launch), *launch.before, *command(launch.program, launch.options)]
    probe = {"path": servers.program.probe, "initial_delay_seconds": start_seconds(servers)}
    return orders.skypilot_text(
        setup,
        {
            "num_nodes": servers.machines,
            "service": {"readiness_probe": probe, "replicas": servers.count},
            **({"setup": text_of(installation(launch))} if launch.install else {}),
            "run": text_of(lines),
        },
        cards=servers.cards_each,
        disk_bytes=servers.disk_bytes,
        resources={
            "ports": servers.program.port,
            **({} if launch.install else {"image_id": f"docker:{launch.image}"}),
        },
        notes=(*launch.notes, "Start it with: sky serve up sky.yaml --env HF_TOKEN"),
    )


def dstack_file(setup: Setup) -> str:
    """Return a dstack service: as many replicas as there are servers."""
    servers = _apart(setup)
    launch = launch_in_image(servers)
    if servers.machines > 1:
        raise refusal("dstack_replica_of_machines", servers=servers, setup=setup)
    content: orders.Content = {
        "type": "service",
        "image": launch.image,
        "commands": [text_of(container_lines(launch, weights=None))],
        "port": servers.program.port,
        "replicas": servers.count,
        "probes": [{"type": "http", "url": servers.program.probe}],
    }
    if "generate" in servers.program.tool.does and not servers.program.reads_gguf:
        content["model"] = setup.weights
    return orders.dstack_text(
        setup, content, cards=servers.cards_each, disk_bytes=servers.disk_bytes, notes=launch.notes
    )
