"""Titles, formulas and sources of the terms of a serving estimate."""

import numpy as np

from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.serving.demand import (
    ServedModel,
    batched_tokens,
    cached_bytes_per_sequence,
    mean_bytes_per_parameter,
    sampled_sequences,
)
from advisor.estimate.terms import TermText
from advisor.foundation.units import MB, MICROSECOND, MILLISECOND, TB
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.workload import Serving

SERVING_MEMORY: dict[str, TermText] = {
    "weights": TermText(
        "Weights",
        "matrices x bytes per parameter + (embedding, head, norms) x 2 bytes (GGUF: each in its "
        "own type), / (tensor x pipeline x expert)",
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
    "logits": TermText("Sampler", "sampled sequences x vocabulary x bytes per logit", "kwon2023"),
    "workspace": TermText(
        "CUDA graphs, library workspaces and collective buffers",
        "graphs + matmul workspace + collective buffers",
        None,
    ),
    "context": TermText("Driver context and loaded kernels", "constant per process", None),
}

SERVING_TIME: dict[str, TermText] = {
    "weights": TermText(
        "Reading weights", "weight bytes / (bandwidth x e); only experts in use", "pope2022"
    ),
    "cache": TermText(
        "Reading keys and values",
        "running requests x mean context x bytes per token / (bandwidth x e)",
        "pope2022",
    ),
    "compute": TermText(
        "Arithmetic that reading does not hide, norms and activations",
        "sqrt(arithmetic^2 + reading^2) - reading",
        "williams2009",
    ),
    "network": TermText(
        "Traffic between accelerators",
        "layers x 2 x (2 latency + 2 (t - 1)/t x tokens x hidden x 2 bytes / link)",
        "aiconfigurator2026",
    ),
    "fixed": TermText(
        "Overheads of kernels, layers, steps and scheduling",
        "kernels x t0 + layers x t_layer + requests x t_sequence + t_step",
        "aiconfigurator2026",
    ),
    "host": TermText(
        "Layers and experts in the host's memory",
        "bytes / (host bandwidth x e), for long prompts bytes / (link x e), + layers x t0",
        "llamacpp2026",
    ),
    "drafts": TermText(
        "Drafting tokens for speculative decoding",
        "share x step without drafts / accepted tokens",
        None,
    ),
    "prefill": TermText(
        "Prompts of other requests in the same steps", "d / (1 - X E) - d", "agrawal2024"
    ),
}


def memory_substitutions(
    served: ServedModel,
    workload: Serving,
    layout: ParallelLayout,
    engine: ServingFacts,
    memory_bytes: float,
) -> dict[str, str]:
    """Return the formulas of ``SERVING_MEMORY`` with this case's values."""
    model = served.model
    split = f"tensor {layout.tensor} x pipeline {layout.pipeline}"
    if layout.expert > 1:
        split += f" x expert {layout.expert} (routed experts)"
    length = (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens
    card = np.array([memory_bytes])
    step = float(batched_tokens(engine, card)[0])
    sequences = float(sampled_sequences(engine, card)[0])
    return {
        "weights": (
            f"{model.total_parameters:,} parameters, {served.weight_format.name} at "
            f"{mean_bytes_per_parameter(model, served.weight_format):.4g} bytes, / ({split})"
        ),
        "kv_cache": (
            f"{_requests(workload, layout):,} requests x {length:,} tokens x "
            f"{model.cache_elements_per_token:,.0f} elements x "
            f"{served.cache_bytes_per_element:g} bytes / ({split})"
        ),
        "activations": f"{step:,.0f} tokens, hidden {model.hidden_size:,}, tensor {layout.tensor}",
        "logits": (
            f"{sequences:,.0f} x {model.vocab_size:,} x {engine.sampling_bytes_per_logit:g} bytes"
        ),
    }


def time_substitutions(
    served: ServedModel,
    workload: Serving,
    layout: ParallelLayout,
    engine: ServingFacts,
    accelerator: Accelerator,
) -> dict[str, str]:
    """Return the formulas of ``SERVING_TIME`` with this case's values."""
    model = served.model
    requests = _requests(workload, layout)
    batch = -(-requests // layout.pipeline)
    bandwidth = f"{accelerator.memory_bandwidth_bytes_per_s / TB:.3g} TB/s"
    context = (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens / 2
    cached = float(cached_bytes_per_sequence(served, LayoutArrays.of(layout), context)[0])
    return {
        "weights": (
            f"{served.weight_format.name} weights of {layout.tensor} ranks, {batch} rows, "
            f"{bandwidth} each"
        ),
        "cache": (
            f"{batch} requests x {cached * layout.pipeline / MB:,.4g} MB at {context:,.0f} tokens, "
            f"{bandwidth}"
        ),
        "network": (
            f"{model.num_hidden_layers} layers, tensor {layout.tensor}, {batch} tokens x "
            f"{model.hidden_size:,} x 2 bytes"
        ),
        "fixed": (
            f"{model.num_hidden_layers} layers x {engine.layer_overhead_s / MICROSECOND:g} us + "
            f"{batch} requests x {engine.sequence_overhead_s / MICROSECOND:g} us + "
            f"{engine.step_overhead_s / MILLISECOND:g} ms + kernels"
        ),
        "prefill": (
            f"prompts of {workload.input_tokens:,} tokens from {requests - 1} other requests, one "
            f"for every {workload.output_tokens:,} tokens"
        ),
    }


def _requests(workload: Serving, layout: ParallelLayout) -> int:
    """Return the requests on the busiest data-parallel rank."""
    return -(-workload.concurrency // layout.data)
