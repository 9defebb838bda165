"""Title, formula in symbols and source of every term."""

from typing import Final, NamedTuple

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.quantities import Evidence, Term

ASSUMED_SHAPE_WIDENING: Final = 1.1
"""A parameter count alone gives weights and FLOPs, but not the shape: the bounds widen by this
factor. Llama, Mistral, Qwen and Gemma models of 7 to 9 billion parameters differ by about
this factor in activation bytes per token."""


def shape_widening(architecture: ModelArchitecture) -> float:
    """Factor by which bounds widen if the shape is assumed."""
    return ASSUMED_SHAPE_WIDENING if architecture.evidence is Evidence.ASSUMED else 1.0


class TermText(NamedTuple):
    """Static text of one term."""

    title: str
    formula: str
    reference: str | None


TRAINING_MEMORY: dict[str, TermText] = {
    "weights": TermText(
        "Weights (working copy and fp32 master)",
        "P_local x b_working / n(zero3) + P_local x b_master / n(zero1..3)",
        "rajbhandari2020",
    ),
    "gradients": TermText("Gradients", "P_local x b_gradient / n(zero2..3)", "rajbhandari2020"),
    "optimizer": TermText(
        "Optimizer states", "P_local x b_states / n(zero1..3)", "rajbhandari2020"
    ),
    "activations": TermText(
        "Activations kept for the backward pass",
        "micro-batch tokens x bytes per token and layer x layers x micro-batches in flight",
        "korthikanti2022",
    ),
    "logits": TermText(
        "Logits and loss",
        "micro-batch tokens x vocabulary x bytes per entry / tensor",
        "korthikanti2022",
    ),
    "workspace": TermText(
        "Workspaces: gathered blocks, gradient buckets and library buffers",
        "2 gathered blocks (zero3) + gradient bucket + matmul workspace",
        "zhao2023",
    ),
    "context": TermText(
        "Driver context, loaded kernels and collective buffers",
        "constant per process + buffers x ways of parallelism in use",
        None,
    ),
    "fragmentation": TermText(
        "Allocator fragmentation", "allocated x (reserved / allocated - 1)", None
    ),
}

TRAINING_TIME: dict[str, TermText] = {
    "matmul": TermText(
        "Matrix products",
        "t0 + sqrt((FLOPs / (peak e_c) (1 + x_h/x) (1 + k_h/k))^2 + (bytes / (bandwidth e_m))^2), "
        "forward once, backward twice",
        "aiconfigurator2026",
    ),
    "attention": TermText(
        "Attention", "FLOPs / (16-bit peak x e); backward 2.5 x forward", "dao2023"
    ),
    "elementwise": TermText(
        "Norms, activations, residuals, adapters", "bytes / (bandwidth e_m)", "williams2009"
    ),
    "recompute": TermText(
        "Recomputation",
        "forward pass of the layers whose activations are not kept",
        "korthikanti2022",
    ),
    "launch": TermText(
        "Waiting for kernel launches",
        "max(0, launches x launch time - kernel time) + small copies; processors: launches x "
        "dispatch",
        None,
    ),
    "tensor_traffic": TermText(
        "Tensor-parallel traffic",
        "layers x 4 all-reduces of micro-batch tokens x hidden x 2 bytes",
        "narayanan2021",
    ),
    "expert_traffic": TermText(
        "Expert all-to-all",
        "MoE layers x 4 all-to-alls of tokens x experts per token x hidden x 2 bytes",
        "thakur2005",
    ),
    "context_traffic": TermText(
        "Context-parallel traffic", "layers x 3 gathers of keys and values", "thakur2005"
    ),
    "pipeline_traffic": TermText(
        "Pipeline messages", "2 v messages of tokens x hidden x 2 bytes", "narayanan2021"
    ),
    "jitter": TermText(
        "Waiting for the slowest machine of each step",
        "jitter x sqrt(2 kernels ln(machines))",
        "hoefler2010",
    ),
    "bubble": TermText("Pipeline bubble", "(p - 1) / v x time of one micro-batch", "narayanan2021"),
    "data_traffic": TermText(
        "Data-parallel traffic that computation does not hide, or that slows it",
        "max(0, (n - 1)/n x bytes / bandwidth + messages x latency - overlap x computation) "
        "+ contention x what is hidden through the host's memory",
        "rajbhandari2020",
    ),
    "optimizer": TermText("Optimizer update", "state bytes moved / bandwidth", "williams2009"),
    "offload": TermText(
        "Waiting for the host",
        "states moved / PCIe + update on the host + moves of weights and activations that "
        "computation does not hide",
        "ren2021",
    ),
    "software": TermText(
        "Software overhead: idle gaps and slow ranks", "(slowdown - 1) x sum of the above", None
    ),
    "input": TermText(
        "Waiting for images",
        "max(0, images / (workers x images per second of one, or of storage) - sum of the above)",
        "mohan2021",
    ),
}


RUN_TIME: dict[str, TermText] = {
    "startup": TermText(
        "Start-up", "from renting to the first step: boot, data, compilation", None
    ),
    "training": TermText("Training steps", "steps x time of a step", None),
    "evaluation": TermText(
        "Evaluation", "evaluation tokens / tokens per step x time of a step x forward share", None
    ),
    "stragglers": TermText(
        "Waiting for slow machines",
        "time of the steps x slowdown x (1 - (1 - share of slow machines)^machines)",
        "jiang2024",
    ),
    "operation": TermText(
        "Lost against a tuned benchmark",
        "time of the steps x share that published whole runs lost x (1 - exp(-(machines - 1) / "
        "ramp)): real data, contention, settings, evaluation, time between jobs",
        None,
    ),
    "checkpoints": TermText(
        "Saving checkpoints", "time of the steps x time to save / best interval", "daly2006"
    ),
    "lost_work": TermText(
        "Work repeated after failures",
        "half an interval for each failure; failures grow with the number of accelerators",
        "daly2006",
    ),
    "restarts": TermText("Restarts", "failures x time to restart", "llama3"),
    "spot": TermText(
        "Interruptions of spot instances",
        "sum of the above x (checkpoints, repeated work and restarts for an hour of work)",
        "daly2006",
    ),
}


def term(
    registry: dict[str, TermText], name: str, value: float, unit: str, substituted: str = ""
) -> Term:
    """Return the term ``name`` with a value."""
    text = registry[name]
    return Term(
        name=name,
        title=text.title,
        value=value,
        unit=unit,
        formula=text.formula,
        substituted=substituted,
        reference=text.reference,
    )
