"""Scaling of servers under Kubernetes: by KEDA through a day, by the HPA otherwise."""

from math import ceil
from typing import Final

from advisor.estimate.beside_results import Day, DayWay
from advisor.export.engines.servers import Servers
from advisor.export.hosts.orders import Content as Manifest
from advisor.export.hosts.orders import manifest

WAITING: Final = 4
"""Waiting requests of one server from which another is started. Assumed."""
MOST_TIMES: Final = 2
"""Most servers relative to the plan's. Assumed; it bounds the bill."""
PROMETHEUS: Final = "http://prometheus-operated.monitoring.svc:9090"
"""Prometheus of kube-prometheus-stack in the namespace ``monitoring``."""
KEDA: Final = "2.19"
"""Release whose fields are written: its pages *ScaledObject specification* and *Prometheus* (read
on 2026-11-22)."""
POLLING_S: Final = 15
"""Between two looks at the metrics: as often as the HPA looks. [s]"""


def scaler(servers: Servers) -> Manifest:
    """Return the scaling of the servers, which run on one machine each."""
    day = servers.setup.estimate.day
    return _by_waiting(servers) if day is None else _through_the_day(servers, day)


def scaling_notes(servers: Servers) -> list[str]:
    """Return what the scaling needs, one sentence each."""
    day, queue = servers.setup.estimate.day, servers.program.queue
    if day is None:
        return [
            (
                f"Scaling needs prometheus-adapter with a rule that names {queue} of a pod "
                f"{_metric(queue)}; without it the number of servers stays."
            )
        ]
    needs = (
        f"Scaling needs KEDA {KEDA} or newer, and a Prometheus that reads /metrics of the pods "
        "and keeps their names as the label pod. Set serverAddress to it."
    )
    notes = [needs]
    if _autoscaled(day).least_replicas == 0:
        notes.append(
            "One server stays, though the bill lets the last one stop: a stopped server reports no "
            "waiting requests. Stopping it needs a gateway that counts them."
        )
    return notes


def _metric(queue: str) -> str:
    return queue.replace(":", "_")


def _target(servers: Servers) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": servers.setup.slug}


def _autoscaled(day: Day) -> DayWay:
    return next(way for way in day.ways if way.name == "autoscaled")


def _by_waiting(servers: Servers) -> Manifest:
    """Return an autoscaler on waiting requests, from the plan's servers to twice as many."""
    pods = {
        "metric": {"name": _metric(servers.program.queue)},
        "target": {"type": "AverageValue", "averageValue": str(WAITING)},
    }
    spec = {
        "scaleTargetRef": _target(servers),
        "minReplicas": servers.count,
        "maxReplicas": MOST_TIMES * servers.count,
        "metrics": [{"type": "Pods", "pods": pods}],
    }
    name = servers.setup.slug
    return manifest(name, "HorizontalPodAutoscaler", "autoscaling/v2", spec)


def _through_the_day(servers: Servers, day: Day) -> Manifest:
    """Return a scaled object with the bounds and the hold of the day.

    KEDA takes the larger of two needs. Requests in flight over those of a server at the plan's peak
    give the servers that the load needs; a queue asks for more at once. The queue alone would let
    busy servers go as soon as nobody waits.
    """
    estimate, program = servers.setup.estimate, servers.program
    spares = 0 if estimate.serving is None else estimate.serving.spare_replicas
    each = max(1, (estimate.layout.replicas + spares) // servers.count)
    scaled = _autoscaled(day)
    least, most = (
        max(1, -(-number // each)) for number in (scaled.least_replicas, scaled.most_replicas)
    )
    # Names of pods begin with that of their Deployment; slugs have letters, digits and hyphens.
    labels = f'{{pod=~"{servers.setup.slug}-.*"}}'
    waiting = f"sum({program.queue}{labels})"
    triggers = [_trigger(waiting, WAITING)]
    arrivals = None if estimate.serving is None else estimate.serving.arrivals
    if program.running and arrivals is not None:
        share = max(1, ceil(arrivals.in_flight * each / estimate.layout.replicas))
        spare = f" + {share * ceil(spares / each)}" if spares else ""
        flight = f"sum({program.running}{labels}) + {waiting}{spare}"
        triggers.insert(0, _trigger(flight, share))
    hold = {"scaleDown": {"stabilizationWindowSeconds": round(day.hold_s)}}
    spec = {
        "scaleTargetRef": _target(servers),
        "pollingInterval": POLLING_S,
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": hold}},
        "triggers": triggers,
    }
    return manifest(servers.setup.slug, "ScaledObject", "keda.sh/v1alpha1", spec)


def _trigger(query: str, threshold: int) -> Manifest:
    values = {"serverAddress": PROMETHEUS, "query": query, "threshold": str(threshold)}
    return {"type": "prometheus", "metadata": values}
