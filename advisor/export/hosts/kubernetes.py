"""Kubernetes manifests of servers: pods on the planned card, probes, scaling on the queue."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from advisor.estimate.beside_results import DayWay
from advisor.export.engines.servers import Servers
from advisor.export.formats import Format
from advisor.export.hosts import containers
from advisor.export.hosts.names import check_slice, cluster_names, resource_of
from advisor.export.hosts.orders import Facts
from advisor.export.script import text_of
from advisor.export.setup import Setup
from advisor.foundation.refusals import refusal

LWS_VARIABLES: Final = ('NODE_RANK="$LWS_WORKER_INDEX"', 'MASTER_ADDR="$LWS_LEADER_ADDRESS"')
"""Our variables from those of LeaderWorkerSet."""


FACTS: Final[Facts] = {
    **containers.FACTS,
    "answering_role": lambda one: "leader" if one.machines > 1 else None,
    "metric": lambda one: one.servers.program.queue.replace(":", "_"),
    "scaled": lambda one: one.servers.program.queue and one.machines == 1,
    "start_tens": lambda one: ceil(containers.start_seconds(one.servers) / 10),
    "stops": lambda one: one.setup.estimate.day and one.autoscaled.least_replicas == 0,
    "twice_as_many": lambda one: 2 * one.servers.count,
    "worker_pod": lambda one: replace(one, answers=False).part("pod"),
}


@dataclass(frozen=True)
class PodOrder(containers.ServerOrder):
    """One pod of a server."""

    answers: bool = True
    """Whether it has probes: not a worker beside the pod that leads."""
    facts = FACTS

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
    launch = containers.launch_in_image(servers)
    containers.check_published(servers)
    card, several = setup.accelerator, servers.machines > 1
    if not resource_of(card, servers.backend) and servers.backend != "cpu":
        allowed = cluster_names().backends
        raise refusal("no_resource", value=card.name, allowed=allowed, servers=servers)
    check_slice(card, servers.cards_each)
    names = ["group" if several else "deployment", "service", "budget"]
    if servers.program.queue and not several:
        names.append("scaler_by_waiting" if setup.estimate.day is None else "scaler_by_day")
    script = text_of(LWS_VARIABLES * several, containers.container_lines(launch))
    one = PodOrder.of(servers, launch, script)
    return one.file(Format.KUBERNETES, *map(one.part, names))
