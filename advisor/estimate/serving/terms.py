"""The facts of a case in the formulas of a serving estimate (``data/terms.yaml``)."""

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


def memory_facts(
    served: ServedModel,
    workload: Serving,
    layout: ParallelLayout,
    engine: ServingFacts,
    memory_bytes: float,
) -> dict[str, object]:
    """Return the facts in the formulas of the memory."""
    model = served.model
    outside, inside = (int(one[0]) for one in served.padded_to)
    split = f"tensor {layout.tensor} x pipeline {layout.pipeline}"
    if layout.expert > 1:
        split += f" x expert {layout.expert} (routed experts)"
    card, requests = np.array([memory_bytes]), _requests(workload, layout)
    return {
        "parameters": model.total_parameters,
        "format": served.weight_format.name,
        "stored": trimmed(mean_bytes_per_parameter(model, served.weight_format), 4),
        "split": split,
        "padded": f", experts padded to {outside} and {inside}" if outside > 1 else "",
        "requests": requests,
        "length": (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens,
        "elements": model.cache_elements_per_token,
        "cache_bytes": float(served.cache_bytes[0]),
        "step": float(batched_tokens(engine, card)[0]),
        "hidden": model.hidden_size,
        "tensor": layout.tensor,
        "sequences": min(float(sampled_sequences(engine, card)[0]), requests),
        "vocabulary": model.vocab_size,
        "logit_bytes": engine.sampling_bytes_per_logit,
    }


def time_facts(
    served: ServedModel,
    workload: Serving,
    layout: ParallelLayout,
    engine: ServingFacts,
    accelerator: Accelerator,
) -> dict[str, object]:
    """Return the facts in the formulas of the time of a token."""
    model, requests = served.model, _requests(workload, layout)
    batch = ceil(requests / pipeline_batches(stages=layout.pipeline, share=engine.pipeline_share))
    context = (0 if served.reads_apart else workload.input_tokens) + workload.output_tokens / 2
    cached = float(cached_bytes_per_sequence(served, LayoutArrays.of(layout), context)[0])
    share = engine.short_layer_share if engine.short_layers(generations(accelerator)) else 1.0
    return {
        "format": served.weight_format.name,
        "tensor": layout.tensor,
        "batch": batch,
        "bandwidth": f"{trimmed(accelerator.memory_bandwidth_bytes_per_s / TB, 3)} TB/s",
        "cached_mb": trimmed(cached * layout.pipeline / MB, 4),
        "context": context,
        "layers": model.num_hidden_layers,
        "hidden": model.hidden_size,
        "layer_us": trimmed(engine.layer_overhead_s * share / MICROSECOND, 3),
        "sequence_us": engine.sequence_overhead_s / MICROSECOND,
        "step_ms": trimmed(engine.step_overhead_s * share / MILLISECOND, 3),
        "prompt": workload.input_tokens,
        "others": requests - 1,
        "answer": workload.output_tokens,
    }


def _requests(workload: Serving, layout: ParallelLayout) -> int:
    """Return the requests on the busiest data-parallel rank."""
    return -(-workload.concurrency // layout.data)
