"""Docker Compose, Kubernetes, SkyPilot and dstack files that start servers."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final, Self

from advisor.errors import refusal
from advisor.estimate.beside_results import DayWay
from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.formats import Format
from advisor.export.hosts import orders
from advisor.export.hosts.shell import with_port
from advisor.export.quoting import shell_word
from advisor.export.script import STRICT, Launch, command, installation, preparation, text_of
from advisor.export.setup import Setup

WEIGHTS: Final = "/weights"
"""Folder of the weights in a container."""
LOAD_BYTES_PER_S: Final = 100e6
"""Rate at which weights come from the hub and into memory. Assumed: a gigabit line. [bytes/s]"""
START_S: Final = 300
"""Start of an engine beside the download: image, compilation, captured graphs. Assumed. [s]"""


def start_seconds(servers: Servers) -> int:
    """Return the time that a server may take until it is ready. [s]"""
    return START_S + servers.build.compile_s + ceil(servers.download_bytes / LOAD_BYTES_PER_S)


def _visible(one: "ServerOrder") -> str | None:
    """Return the variable that names a server's cards, where Compose itself gives it none."""
    return orders.reach(one.servers.backend).visible if one.backend != "cuda" else None


def _chat_model(one: "ServerOrder") -> str | None:
    program = one.servers.program
    chats = "generate" in program.tool.does and not program.reads_gguf
    return one.setup.weights if chats else None


FACTS: Final[orders.Facts] = {
    "chat_model": _chat_model,
    "image_id": lambda one: None if one.launch.install else f"docker:{one.launch.image}",
    "installed": lambda one: text_of(installation(one.launch)) if one.launch.install else None,
    "port": lambda one: one.servers.program.port + one.index,
    "start_s": lambda one: start_seconds(one.servers),
    "visible": lambda one: one.servers.visible(one.index),
    "visible_variable": _visible,
}


@dataclass(frozen=True)
class ServerOrder(orders.Order):
    """One server of a plan."""

    servers: Servers
    index: int = 0
    """Among those of its machine."""
    section = "serve"
    facts = FACTS

    @classmethod
    def of(cls, servers: Servers, launch: Launch, script: str, **more: Any) -> Self:
        """Return a server that a script starts."""
        weights = servers.setup.estimate.memory.weights_bytes.expected * servers.cards_each
        return cls(
            setup=servers.setup,
            launch=launch,
            script=script,
            cards=servers.cards_each,
            backend=servers.backend,
            disk_bytes=servers.disk_bytes,
            host_bytes=orders.HOST_MEMORY_BYTES + weights,
            machines=servers.machines,
            servers=servers,
            **more,
        )


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
    launch, services = launch_in_image(servers), {}
    for index in range(servers.on_each_machine):
        own = with_port(launch, index)
        one = ServerOrder.of(servers, own, text_of(container_lines(own)), index=index)
        first = index * servers.cards_each
        cards = orders.cards_of(one.backend, range(first, first + servers.cards_each))
        services[f"server-{index}"] = one.part("compose_service") | cards
    content = {"name": setup.slug, "services": services, "volumes": {"weights": {}}}
    return ServerOrder.of(servers, launch, "").file(Format.COMPOSE, content)


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
        cloud = orders.cluster_names().clouds.get(provider)
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
    return ServerOrder.of(servers, launch, text_of(lines)).file(Format.SKYPILOT)


def dstack_file(setup: Setup) -> str:
    """Return a dstack service: as many replicas as there are servers."""
    servers = _apart(setup)
    launch = launch_in_image(servers)
    if servers.machines > 1:
        raise refusal("dstack_replica_of_machines", servers=servers, setup=setup)
    script = text_of(container_lines(launch, weights=None))
    return ServerOrder.of(servers, launch, script).file(Format.DSTACK)


LWS_VARIABLES: Final = ('NODE_RANK="$LWS_WORKER_INDEX"', 'MASTER_ADDR="$LWS_LEADER_ADDRESS"')
"""Our variables from those of LeaderWorkerSet."""


POD_FACTS: Final[orders.Facts] = {
    **FACTS,
    "answering_role": lambda one: "leader" if one.machines > 1 else None,
    "metric": lambda one: one.servers.program.queue.replace(":", "_"),
    "scaled": lambda one: one.servers.program.queue and one.machines == 1,
    "start_tens": lambda one: ceil(start_seconds(one.servers) / 10),
    "stops": lambda one: one.setup.estimate.day and one.autoscaled.least_replicas == 0,
    "twice_as_many": lambda one: 2 * one.servers.count,
    "worker_pod": lambda one: replace(one, answers=False).part("pod"),
}


@dataclass(frozen=True)
class PodOrder(ServerOrder):
    """One pod of a server."""

    answers: bool = True
    """Whether it has probes: not a worker beside the pod that leads."""
    facts = POD_FACTS

    @property
    def autoscaled(self) -> DayWay:
        """The day with an autoscaler."""
        assert self.setup.estimate.day is not None
        return next(way for way in self.setup.estimate.day.ways if way.name == "autoscaled")

    @property
    def by_day(self) -> dict[str, object]:
        """Bounds and hold of the day, and requests in flight of one server at the plan's peak."""
        estimate, servers, scaled = self.setup.estimate, self.servers, self.autoscaled
        assert estimate.day is not None
        spares = 0 if estimate.serving is None else estimate.serving.spare_replicas
        each = max(1, (estimate.layout.replicas + spares) // servers.count)
        least, most = (
            max(1, -(-number // each)) for number in (scaled.least_replicas, scaled.most_replicas)
        )
        arrivals = None if estimate.serving is None else estimate.serving.arrivals
        found: dict[str, object] = {
            "least": least,
            "most": most,
            "hold_s": round(estimate.day.hold_s),
        }
        if not servers.program.running or arrivals is None:
            return {**found, "share": None}
        share = max(1, ceil(arrivals.in_flight * each / estimate.layout.replicas))
        spare = f" + {share * ceil(spares / each)}" if spares else ""
        return {**found, "share": str(share), "spare": spare}


def kubernetes_file(setup: Setup) -> str:
    """Return a deployment of the servers with its service, scaling and disruption budget.

    A server that spans machines is a LeaderWorkerSet, which needs that controller.
    """
    servers = Servers(setup, apart=True)
    launch = launch_in_image(servers)
    check_published(servers)
    card, several = setup.accelerator, servers.machines > 1
    if not orders.resource_of(card, servers.backend) and servers.backend != "cpu":
        allowed = orders.cluster_names().backends
        raise refusal("no_resource", value=card.name, allowed=allowed, servers=servers)
    orders.check_slice(card, servers.cards_each)
    names = ["group" if several else "deployment", "service", "budget"]
    if servers.program.queue and not several:
        names.append("scaler_by_waiting" if setup.estimate.day is None else "scaler_by_day")
    script = text_of(LWS_VARIABLES * several, container_lines(launch))
    one = PodOrder.of(servers, launch, script)
    return one.file(Format.KUBERNETES, *map(one.part, names))
