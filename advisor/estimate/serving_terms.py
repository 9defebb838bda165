"""What the terms of a serving estimate are called, their formulas and sources."""

from __future__ import annotations

from advisor.estimate.terms import TermText

SERVING_MEMORY: dict[str, TermText] = {
    "weights": TermText(
        "Weights",
        "matrices x bytes per parameter + (embedding, head, norms) x 2 bytes, / (tensor x "
        "pipeline x expert)",
        "pope2022",
    ),
    "kv_cache": TermText(
        "Keys and values (or latent and state) of all requests at full length",
        "requests x (input + output tokens) x layers x ceil(heads / tensor) x elements x bytes",
        "kwon2023",
    ),
    "activations": TermText(
        "Activations of a full step",
        "batched tokens x (widest operator / tensor + 3 x hidden) x 2 bytes",
        "kwon2023",
    ),
    "logits": TermText(
        "Sampler",
        "sampled sequences x vocabulary x bytes per logit",
        "kwon2023",
    ),
    "workspace": TermText(
        "CUDA graphs, library workspaces and collective buffers",
        "graphs + matmul workspace + collective buffers",
        None,
    ),
    "context": TermText("Driver context and loaded kernels", "constant per process", None),
}

SERVING_TIME: dict[str, TermText] = {
    "weights": TermText(
        "Reading weights", "weight bytes / (bandwidth x e), experts touched only", "pope2022"
    ),
    "cache": TermText(
        "Reading keys and values",
        "running requests x mean context x bytes per token / (bandwidth x e)",
        "pope2022",
    ),
    "compute": TermText(
        "Arithmetic beyond the reading time, norms and activations",
        "sqrt(arithmetic^2 + reading^2) - reading part",
        "williams2009",
    ),
    "network": TermText(
        "Traffic between accelerators",
        "layers x 2 x (2 latency + 2 (t - 1)/t x tokens x hidden x 2 bytes / link)",
        "aiconfigurator2026",
    ),
    "fixed": TermText(
        "Kernel, layer, step and scheduling overheads",
        "kernels x t0 + layers x t_layer + requests x t_sequence + t_step",
        "aiconfigurator2026",
    ),
    "prefill": TermText(
        "Prompts of other requests in the same steps",
        "d / (1 - X E) - d",
        "kwon2023",
    ),
}
