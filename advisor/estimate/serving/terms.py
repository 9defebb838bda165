"""The formulas of a serving estimate with the values of a case."""

from math import ceil

import numpy as np

from advisor.equations.serving.continuous_batching import pipeline_batches
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.serving.cache import cached_bytes_per_sequence
from advisor.estimate.serving.demand import ServedModel
from advisor.estimate.serving.engine_limits import batched_tokens, sampled_sequences
from advisor.estimate.serving.stored_bytes import mean_bytes_per_parameter
from advisor.foundation.units import MB, MICROSECOND, MILLISECOND, TB, trimmed
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.kernels import generations
from advisor.nouns.workload import Serving


def memory_substitutions(
    served: ServedModel,
    workload: Serving,
    layout: ParallelLayout,
    engine: ServingFacts,
    memory_bytes: float,
) -> dict[str, str]:
    """Return the formulas of the memory with this case's values."""
    model = served.model
    outside, inside = (int(one[0]) for one in served.padded_to)
    padded = f", experts padded to {outside} and {inside}" if outside > 1 else ""
    split = f"tensor {layout.tensor} x pipeline {layout.pipeline}"
    if layout.expert > 1:
        split += f" x expert {layout.expert} (routed experts)"
    length = (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens
    card = np.array([memory_bytes])
    step = float(batched_tokens(engine, card)[0])
    sequences = min(float(sampled_sequences(engine, card)[0]), _requests(workload, layout))
    return {
        "weights": (
            f"{model.total_parameters:,} parameters, {served.weight_format.name} at "
            f"{trimmed(mean_bytes_per_parameter(model, served.weight_format), 4)} bytes, "
            f"/ ({split}){padded}"
        ),
        "kv_cache": (
            f"{_requests(workload, layout):,} requests x {length:,} tokens x "
            f"{model.cache_elements_per_token:,.0f} elements x "
            f"{float(served.cache_bytes[0]):g} bytes / ({split})"
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
    """Return the formulas of the time of a token with this case's values."""
    model = served.model
    requests = _requests(workload, layout)
    batch = ceil(requests / pipeline_batches(stages=layout.pipeline, share=engine.pipeline_share))
    bandwidth = f"{trimmed(accelerator.memory_bandwidth_bytes_per_s / TB, 3)} TB/s"
    context = (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens / 2
    cached = float(cached_bytes_per_sequence(served, LayoutArrays.of(layout), context)[0])
    share = engine.short_layer_share if engine.short_layers(generations(accelerator)) else 1.0
    layer_us = engine.layer_overhead_s * share / MICROSECOND
    return {
        "weights": (
            f"{served.weight_format.name} weights of {layout.tensor} ranks, {batch} rows, "
            f"{bandwidth} each"
        ),
        "cache": (
            f"{batch} requests x {trimmed(cached * layout.pipeline / MB, 4)} MB at "
            f"{context:,.0f} tokens, {bandwidth}"
        ),
        "network": (
            f"{model.num_hidden_layers} layers, tensor {layout.tensor}, {batch} tokens x "
            f"{model.hidden_size:,} x 2 bytes"
        ),
        "fixed": (
            f"{model.num_hidden_layers} layers x {trimmed(layer_us, 3)} us + "
            f"{batch} requests x {engine.sequence_overhead_s / MICROSECOND:g} us + "
            f"{trimmed(engine.step_overhead_s * share / MILLISECOND, 3)} ms + kernels"
        ),
        "prefill": (
            f"prompts of {workload.input_tokens:,} tokens from {requests - 1} other requests, one "
            f"for every {workload.output_tokens:,} tokens"
        ),
    }


def _requests(workload: Serving, layout: ParallelLayout) -> int:
    """Return the requests on the busiest data-parallel rank."""
    return -(-workload.concurrency // layout.data)
