"""Kubernetes manifests of servers: pods on the planned card, probes, scaling on the queue."""

from math import ceil, floor
from typing import Final

from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.formats import cannot
from advisor.export.hosts.containers import WEIGHTS, check_image, container_lines, start_seconds
from advisor.export.hosts.names import node_label
from advisor.export.hosts.orders import Content as Manifest
from advisor.export.hosts.orders import host_requests, manifest
from advisor.export.hosts.scaling import scaler, scaling_notes
from advisor.export.quoting import kubernetes_text, yaml_file
from advisor.export.script import Launch, text_of
from advisor.export.setup import Setup
from advisor.foundation.units import GB, GIB, MIB

RESOURCES: Final = {
    "cuda": "nvidia.com/gpu",
    "rocm": "amd.com/gpu",
    "gaudi": "habana.ai/gaudi",
    "xpu": "gpu.intel.com/i915",
    "vulkan": "gpu.intel.com/i915",
}
"""Resource names that the vendors' device plugins register."""
LABELS: Final = {"NVIDIA": "nvidia.com/gpu.product", "AMD": "amd.com/gpu.product-name"}
"""Labels with the card's name, from GPU feature discovery and from AMD's node labeller."""
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
    launch = server_launch(servers)
    check_image(servers, launch)
    if servers.backend not in (*RESOURCES, "cpu"):
        raise cannot(
            "Kubernetes has no known resource name for the accelerator",
            value=setup.accelerator.name,
            allowed=", ".join(RESOURCES),
            remedy=f"Choose --to {servers.program.name}, which writes a script.",
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
    if servers.program.reads_gguf and servers.setup.checkpoint is None:
        notes.append(f"Put the file of weights into the claim's volume, at {WEIGHTS}.")
    if servers.setup.machines > 1 and servers.machines == 1:
        notes.append("Kubernetes places the pods on the machines.")
    return notes


def _pod(
    servers: Servers, launch: Launch, *, group: bool = False, probes: bool = False
) -> Manifest:
    backend = servers.backend
    weights = servers.setup.estimate.memory.weights_bytes.expected * servers.cards_each
    requests = host_requests(
        servers.setup.offer,
        servers.cards_each,
        cpus=CPUS_PER_CARD * servers.cards_each,
        memory=HOST_MEMORY_BYTES + weights,
    )
    limits: Manifest = {}
    if backend in RESOURCES:
        limits[RESOURCES[backend]] = servers.cards_each
    renamed = [f'{ours}="${theirs}"' for ours, theirs in LWS_VARIABLES.items()] if group else []
    script = text_of(renamed, container_lines(launch))
    container: Manifest = {
        "name": "server",
        "image": launch.image,
        "command": ["bash", "-c", kubernetes_text(script)],
        "envFrom": [{"secretRef": {"name": "hf", "optional": True}}],
        "ports": [{"name": "http", "containerPort": servers.program.port}],
        "resources": {
            "requests": {**requests, **limits},
            "limits": {**limits, "memory": requests["memory"]},
        },
        "volumeMounts": [
            {"name": "weights", "mountPath": WEIGHTS},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    if probes:
        container |= _probes(servers)
    pod: Manifest = {
        "containers": [container],
        "terminationGracePeriodSeconds": 120,
        "volumes": [
            _weights_volume(servers),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        ],
    }
    if backend in RESOURCES:
        pod |= _placement(servers)
        pod["tolerations"] = [{"key": RESOURCES[backend], "operator": "Exists"}]
    return pod


def _weights_volume(servers: Servers) -> Manifest:
    """Return the volume of the weights: a claim of each pod, in the cluster's default class."""
    size = f"{ceil(servers.disk_bytes / GB)}G"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"name": "weights", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _placement(servers: Servers) -> Manifest:
    """Return the choice of nodes by the card's label; by its memory where no label is known."""
    card = servers.setup.accelerator
    label = node_label(card)
    if label is not None:
        return {"nodeSelector": {LABELS[card.vendor]: label}}
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
            "failureThreshold": ceil(start_seconds(servers) / PROBE_S),
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
