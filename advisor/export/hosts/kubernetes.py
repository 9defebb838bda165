"""Kubernetes manifests of servers: pods on the planned card, probes, scaling on the queue."""

from math import ceil, floor
from typing import Final

from advisor.estimate.beside_results import Day, DayWay
from advisor.export.engines.servers import Servers
from advisor.export.hosts import containers
from advisor.export.hosts.names import check_slice, cluster_names, node_labels, resource_of
from advisor.export.hosts.orders import Content as Manifest
from advisor.export.hosts.orders import host_requests, manifest
from advisor.export.quoting import kubernetes_text, yaml_file
from advisor.export.script import Launch, text_of
from advisor.export.setup import Setup
from advisor.foundation.refusals import refusal
from advisor.foundation.units import GB, GIB, MIB
from advisor.nouns.hardware import Accelerator

MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
"""Label with the card's memory, from GPU feature discovery. [MiB]"""
SHARED_MEMORY: Final = "16Gi"
"""Shared memory of a pod for NCCL. Assumed: a container's 64 MiB are too little."""
CPUS_PER_CARD: Final = 4
"""Processors for each card where the machine's are not known. Assumed: an engine process for each
card, and the server's own."""
HOST_MEMORY_BYTES: Final = 16 * GIB
"""Host memory of a server beside one copy of its weights. Assumed. [bytes]"""
RDMA: Final = (
    "Its pods talk over the cluster's network: for the speed above, add its RDMA resource to their "
    "limits."
)
PROBE_S: Final = 10
"""Time between two probes. [s]"""
LWS_VARIABLES: Final = {"NODE_RANK": "LWS_WORKER_INDEX", "MASTER_ADDR": "LWS_LEADER_ADDRESS"}
"""Our variables and those of LeaderWorkerSet (docs/deployment/frameworks/lws.md of vLLM 0.31.0)."""


def kubernetes_file(setup: Setup) -> str:
    """Return a deployment of the servers with its service, scaling and disruption budget.

    A server that spans machines is a LeaderWorkerSet, which needs that controller.
    """
    servers = Servers(setup, apart=True)
    launch = containers.launch_in_image(servers)
    containers.check_published(servers)
    if not resource_of(setup.accelerator, servers.backend) and servers.backend != "cpu":
        raise refusal(
            "no_resource",
            value=setup.accelerator.name,
            allowed=cluster_names().backends,
            servers=servers,
        )
    notes = [*setup.header, *launch.notes, *_notes(servers)]
    items = [_group(servers, launch) if servers.machines > 1 else _deployment(servers, launch)]
    items += [_service(servers), _budget(servers)]
    if servers.program.queue and servers.machines == 1:
        items.append(scaler(servers))
    return yaml_file(notes, *items)


def _notes(servers: Servers) -> list[str]:
    notes = servers.setup.secret
    if servers.machines > 1:
        notes += ["Needs the LeaderWorkerSet controller (lws.sigs.k8s.io).", RDMA]
    elif servers.program.queue:
        notes += scaling_notes(servers)
    if servers.setup.machines > 1 and servers.machines == 1:
        notes.append("Kubernetes places the pods on the machines.")
    return notes


def _pod(
    servers: Servers, launch: Launch, *, group: bool = False, probes: bool = False
) -> Manifest:
    weights = servers.setup.estimate.memory.weights_bytes.expected * servers.cards_each
    requests = host_requests(
        servers.setup.offer,
        servers.cards_each,
        cpus=CPUS_PER_CARD * servers.cards_each,
        memory=HOST_MEMORY_BYTES + weights,
    )
    card = servers.setup.accelerator
    resource = resource_of(card, servers.backend)
    limits: Manifest = {resource: servers.cards_each} if resource else {}
    renamed = [f'{ours}="${theirs}"' for ours, theirs in LWS_VARIABLES.items()] if group else []
    script = text_of(renamed, containers.container_lines(launch))
    container: Manifest = {
        "name": "server",
        "image": launch.image,
        "command": ["bash", "-c", kubernetes_text(script)],
        "ports": [{"name": "http", "containerPort": servers.program.port}],
        "resources": {
            "requests": {**requests, **limits},
            "limits": {**limits, "memory": requests["memory"]},
        },
        **(_probes(servers) if probes else {}),
    }
    volume = _weights_volume(servers)
    pod = pod_of(card, servers.cards_each, resource, container, volume, containers.WEIGHTS)
    return {**pod, "terminationGracePeriodSeconds": 120}


def pod_of(
    card: Accelerator, cards: int, resource: str, container: Manifest, volume: Manifest, folder: str
) -> Manifest:
    """Return a pod on nodes with the card, with shared memory and a volume at ``folder``."""
    container = {
        **container,
        "envFrom": [{"secretRef": {"name": "hf", "optional": True}}],
        "volumeMounts": [
            {"name": volume["name"], "mountPath": folder},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}}
    pod: Manifest = {"containers": [container], "volumes": [volume, memory]}
    if resource:
        check_slice(card, cards)
        pod |= _placement(card, cards)
        pod["tolerations"] = [{"key": resource, "operator": "Exists"}]
    return pod


def _weights_volume(servers: Servers) -> Manifest:
    """Return the volume of the weights: a claim of each pod, in the cluster's default class."""
    size = f"{ceil(servers.disk_bytes / GB)}G"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"name": "weights", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _placement(card: Accelerator, cards: int) -> Manifest:
    """Return the choice of nodes by their labels; by a card's memory where none are known."""
    if labels := node_labels(card, cards):
        return {"nodeSelector": labels}
    if card.vendor != "NVIDIA":
        return {}
    least = str(floor(0.95 * card.memory_reported_bytes / MIB))
    term = {"matchExpressions": [{"key": MEMORY_LABEL, "operator": "Gt", "values": [least]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _probes(servers: Servers) -> Manifest:
    probe = {"path": servers.program.probe, "port": "http"}
    return {
        "startupProbe": {
            "httpGet": probe,
            "periodSeconds": PROBE_S,
            "failureThreshold": ceil(containers.start_seconds(servers) / PROBE_S),
        },
        "readinessProbe": {"httpGet": probe, "periodSeconds": PROBE_S},
        "livenessProbe": {"httpGet": probe, "periodSeconds": PROBE_S, "failureThreshold": 6},
    }


def _deployment(servers: Servers, launch: Launch) -> Manifest:
    labels = {"app": servers.setup.slug}
    template = {"metadata": {"labels": labels}, "spec": _pod(servers, launch, probes=True)}
    spec = {
        "replicas": servers.count,
        "selector": {"matchLabels": labels},
        # A full cluster has no card to spare for a second server of the same kind.
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": template,
    }
    return manifest(servers.setup.slug, "Deployment", "apps/v1", spec)


def _group(servers: Servers, launch: Launch) -> Manifest:
    """Return the groups of pods that each serve together, led by the one that answers."""
    name = servers.setup.slug
    worker = _pod(servers, launch, group=True)
    answering = _pod(servers, launch, group=True, probes=True)
    labels = {"app": name, "role": "leader"}
    template = {
        "size": servers.machines,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {"metadata": {"labels": labels}, "spec": answering},
        "workerTemplate": {"metadata": {"labels": {"app": name}}, "spec": worker},
    }
    spec = {"replicas": servers.count, "leaderWorkerTemplate": template}
    return manifest(name, "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec)


def _service(servers: Servers) -> Manifest:
    name = servers.setup.slug
    selector = {"app": name, **({"role": "leader"} if servers.machines > 1 else {})}
    port = {"name": "http", "port": servers.program.port, "targetPort": "http"}
    return manifest(name, "Service", "v1", {"selector": selector, "ports": [port]})


def _budget(servers: Servers) -> Manifest:
    name = servers.setup.slug
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    return manifest(name, "PodDisruptionBudget", "policy/v1", spec)


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
