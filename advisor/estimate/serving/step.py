"""Time of one step of a serving engine: a fold over the table, the same for prompt and decode.

A step carries the running sequences, one token each, and any number of prompt tokens. Prompt
tokens share the weights that the running sequences read anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.architecture.table.operators import Division, Part, Phase
from advisor.equations.continuous_batching import pipeline_batches
from advisor.equations.offload import host_layers_s
from advisor.equations.roofline import (
    attention_time_s,
    bandwidth_time_s,
    matmul_time_s,
    memory_roof_s,
    product_bytes,
)
from advisor.equations.serving import (
    experts_touched,
    mean_attended_tokens,
)
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays, Shares
from advisor.estimate.serving.demand import (
    SIXTEEN_BIT_BYTES,
    ServedMatrix,
    ServedModel,
    host_parts,
    row_cache_share,
)
from advisor.estimate.serving.traffic import traffic_s
from advisor.nouns.software.efficiency import NetworkEfficiency
from advisor.nouns.software.engines import ServingFacts

BRANCHES_PER_BLOCK = 2.0
"""Attention and feed-forward: the engine's overhead per layer was fitted on blocks with both. Each
branch ends in one reduction (Narayanan et al. 2021, section 2.3)."""


@dataclass(frozen=True, slots=True)
class StepShares(Shares):
    """Exclusive shares of one step in seconds, one element per configuration."""

    weights: Floats
    """Reading weights and activations for the matrix products."""
    cache: Floats
    """Reading keys and values."""
    compute: Floats
    """Arithmetic that reading does not hide, prompt attention, memory-bound rows."""
    network: Floats
    fixed: Floats
    """Kernel, layer and step overheads."""
    host: Floats
    """Layers and experts in the host's memory: its reading, or bringing them to the card."""


@dataclass(frozen=True, slots=True)
class StepContent:
    """Tokens and sequences of one step on each data-parallel rank. Fields broadcast."""

    sequences: Floats
    """Running sequences, one token each."""
    context_first: Floats
    """Cached tokens of a sequence when it starts to generate. [tokens]"""
    context_last: Floats
    """Cached tokens of a sequence when it ends. [tokens]"""
    prompt_tokens: Floats
    """Prompt tokens in the step. [tokens]"""
    prompt_length: Floats
    """Length of the prompt of these tokens, with what was cached before. [tokens]"""
    prompt_cached: Floats
    """Tokens of that prompt that were cached before. [tokens]"""
    verified: Floats | float = 1.0
    """Tokens of a running sequence, with its drafts."""

    @property
    def checked(self) -> Floats:
        """Return the tokens of the running sequences."""
        return self.sequences * self.verified

    @property
    def tokens(self) -> Floats:
        """Return the rows of the block matrices."""
        return self.checked + self.prompt_tokens

    def of(self, part: Part, phase: Phase) -> Floats:
        """Return the rows of a matrix of this part that runs in this phase."""
        if phase is Phase.PROMPT:
            return self.prompt_tokens
        if part is Part.HEAD:
            return self.checked + np.minimum(self.prompt_tokens, 1.0)
        return self.checked if phase is Phase.ANSWER else self.tokens

    @property
    def sampled(self) -> Floats:
        """Return the sequences that the host samples: the running ones and a prompt."""
        return self.sequences + np.minimum(self.prompt_tokens, 1.0)


def engine_step(
    served: ServedModel,
    content: StepContent,
    candidates: Candidates,
    engine: ServingFacts,
    network: NetworkEfficiency,
) -> StepShares:
    """Return the exclusive shares of one step from its start to its sampled tokens.

    Parameters
    ----------
    served : ServedModel
        The network as the engine stores it.
    content : StepContent
        Tokens and sequences in the step.
    candidates : Candidates
        Hardware rates are for the compute format of the stored weights.
    engine : ServingFacts
        Overheads of the engine.
    network : NetworkEfficiency
        Shares and latencies of the links.

    Returns
    -------
    StepShares
        Infinite if the card lacks the format or a group needs a missing network. [s]

    Notes
    -----
    Pipeline stages run one after another. Leaves out overlap of traffic with computation, and
    quantisation of activations (part of the fitted overheads).
    """
    hardware = candidates.hardware
    shape = np.broadcast_shapes(
        content.tokens.shape, content.context_last.shape, hardware.memory_bytes.shape
    )
    weights, compute, cache, fixed = (np.zeros(shape) for _ in range(4))
    parts = host_parts(served.model, candidates.layout)
    held, flops = np.zeros(shape), np.zeros(shape)
    # From a length on, the card computes with weights that come over the link.
    host = engine.host
    streams = content.tokens >= (host.streamed_tokens if host else np.inf)
    unquantised = hardware.in_16_bits()
    served_wide = served.weight_format.bytes_per_parameter >= SIXTEEN_BIT_BYTES
    with np.errstate(divide="ignore", invalid="ignore"):
        for matrix in served.matrices:
            wide = matrix.bytes_per_parameter >= SIXTEEN_BIT_BYTES
            kernels = unquantised if wide else hardware
            if matrix.experts > 1 and wide is served_wide:
                kernels = kernels.for_experts()
            if not wide and not engine.backends:
                kernels = _unpacking(kernels, engine)
            # Several rows write expanded weights out in 16 bits and read them again.
            several = content.of(matrix.part, matrix.phase) > 1
            expanded = served.weight_format.expanded and not wide
            written = np.where(several & expanded, 2 * SIXTEEN_BIT_BYTES, 0.0)
            total, memory = _matrix_time(
                matrix, content, candidates.layout, kernels, engine, written
            )
            # A matrix without rows in its phase is neither computed nor read.
            runs = np.where(content.of(matrix.part, matrix.phase) > 0, 1.0, 0.0)
            total = np.where(runs > 0, total, 0.0)
            away = parts.share(matrix.part, routed=matrix.experts > 1)
            held = held + matrix.layers * away * _held_bytes(matrix, content, candidates, runs)
            flops = flops + matrix.layers * away * runs * _flops(matrix, content)
            own = matrix.layers * (1.0 - away)
            reading = memory_roof_s(total_s=total, memory_s=memory)
            weights = weights + own * reading
            compute = compute + (own + matrix.layers * away * streams) * (total - reading)
            fixed = fixed + matrix.layers * kernels.matmul_overhead_s * runs
        reading, scores = _attention_time(served, content, candidates)
        # The host holds the cache of its layers.
        cache = cache + (1.0 - parts.layers) * reading
        moved = reading * hardware.memory_bandwidth_bytes_per_s * hardware.cache_bandwidth
        held = held + np.where(streams, 0.0, parts.layers * moved)
        compute = compute + scores + _elementwise_time(served, content, candidates)
        # One scheduler serves all micro-batches of a pipeline, one after the other.
        apart = pipeline_batches(stages=candidates.layout.pipeline, share=engine.pipeline_share)
        host_s = engine.step_overhead_s + engine.sequence_overhead_s * content.sampled
        fixed = fixed + apart * host_s
        blocks = served.model.branches / BRANCHES_PER_BLOCK
        each = engine.layer_overhead_s + np.where(
            content.prompt_tokens > 0, hardware.prompt_layer_overhead_s, hardware.layer_overhead_s
        )
        fixed = fixed + each * blocks
        fixed = fixed + hardware.routed_layer_overhead_s * served.routed_layers
        fixed = fixed + hardware.scan_layer_overhead_s * served.scan_layers
        traffic = traffic_s(served, content.tokens, candidates, network)
        waited = np.zeros(shape)
        if host is not None:
            waited = np.asarray(
                host_layers_s(
                    held_bytes=held,
                    flops=flops,
                    tokens=content.tokens,
                    layers=served.model.num_hidden_layers * parts.touched,
                    host_bytes_per_s=hardware.host_bytes_per_s * host.bandwidth,
                    host_flops_per_s=host.flops_per_s,
                    link_bytes_per_s=hardware.pcie_bytes_per_s * host.link,
                    streamed_tokens=host.streamed_tokens,
                    layer_overhead_s=host.layer_overhead_s,
                )
            )
    return StepShares(
        weights=weights,
        cache=cache,
        compute=compute,
        network=np.broadcast_to(traffic, shape),
        fixed=fixed,
        host=np.broadcast_to(waited, shape),
    )


def _unpacking(hardware: HardwareArrays, engine: ServingFacts) -> HardwareArrays:
    """Return the rates of narrow weights: kernels unpack them for 16-bit arithmetic."""
    if engine.unpacked_compute == 1.0:
        return hardware
    native = hardware.peak_flops_per_s > hardware.peak16_flops_per_s
    share = np.where(native, 1.0, engine.unpacked_compute)
    return replace(hardware, matmul_compute=hardware.matmul_compute * share)


def _flops(matrix: ServedMatrix, content: StepContent) -> Floats:
    """Return the operations of one matrix in one layer."""
    rows = content.of(matrix.part, matrix.phase) * matrix.active_experts
    return 2.0 * rows * matrix.in_features * matrix.out_features


def _held_bytes(
    matrix: ServedMatrix, content: StepContent, candidates: Candidates, runs: Floats
) -> Floats:
    """Return the weights of one matrix in one layer that a step reads, in bytes."""
    touched = experts_touched(
        experts=float(matrix.experts),
        active_experts=float(matrix.active_experts),
        tokens=content.of(matrix.part, matrix.phase),
    )
    count = touched if matrix.experts > 1 else 1.0
    size = matrix.in_features * matrix.out_features * matrix.bytes_per_parameter
    return np.asarray(runs * count * size)


def _matrix_time(
    matrix: ServedMatrix,
    content: StepContent,
    layout: LayoutArrays,
    hardware: HardwareArrays,
    engine: ServingFacts,
    written: Floats,
) -> tuple[Floats, Floats]:
    """Return the time of one matrix without its fixed cost, and its part for reading, in s.

    Each weight moves ``written`` bytes beside its own.
    """
    tokens = content.of(matrix.part, matrix.phase)
    split = np.ones_like(layout.tensor)
    if matrix.division is not Division.REPLICATED:
        split = layout.tensor
    depth = matrix.in_features / split if matrix.input_divided else float(matrix.in_features)
    width = float(matrix.out_features) if matrix.input_divided else matrix.out_features / split
    # Ranks of an expert group share their tokens, and each holds a part of the experts.
    if matrix.experts > 1:
        pooled = tokens * layout.expert
        touched = experts_touched(
            experts=float(matrix.experts),
            active_experts=float(matrix.active_experts),
            tokens=pooled,
        )
        held = np.maximum(touched / layout.expert, 1.0)
        each = np.maximum(pooled * matrix.active_experts / np.maximum(touched, 1.0), 1.0)
        half = np.where(content.prompt_tokens > 0, engine.grouped_half_rows, 0.0)
        efficiency = hardware.matmul_compute * engine.grouped_compute / (1.0 + half / each)
    else:
        held = np.ones_like(tokens)
        efficiency = hardware.matmul_compute
    rows = tokens * matrix.active_experts
    moved = product_bytes(
        rows=rows,
        depth=depth,
        width=width,
        matrices=held,
        bytes_per_parameter=matrix.bytes_per_parameter + written,
        bytes_per_activation=SIXTEEN_BIT_BYTES,
    )
    time = matmul_time_s(
        flops=2.0 * rows * depth * width,
        moved_bytes=moved,
        output_elements=rows * width,
        depth=depth,
        peak_flops_per_s=hardware.peak_flops_per_s,
        bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
        overhead_s=0.0,
        compute=efficiency,
        bandwidth=hardware.matmul_bandwidth,
        half_tiles=hardware.matmul_half_tiles,
        half_depth=hardware.matmul_half_depth,
    )
    reading = moved / (hardware.memory_bandwidth_bytes_per_s * hardware.matmul_bandwidth)
    expansion = held * depth * width * hardware.weight_expansion_s
    if matrix.experts > 1:
        busiest = np.where(layout.expert > 1, engine.expert_imbalance, 1.0)
        time, reading = time * busiest, reading * busiest
    return np.asarray(time) + expansion, np.asarray(reading)


def _attention_time(
    served: ServedModel, content: StepContent, candidates: Candidates
) -> tuple[Floats, Floats]:
    """Return the time to read the cache, and the time of attention arithmetic, in s."""
    layout, hardware = candidates.layout, candidates.hardware
    reading = np.zeros(np.broadcast_shapes(content.tokens.shape, hardware.memory_bytes.shape))
    scores = np.zeros_like(reading)
    for row in served.attention:
        window = float(row.window) if row.window else np.inf
        keys = mean_attended_tokens(
            first=content.context_first, last=content.context_last, window=window
        )
        keys = float(row.keys) if row.keys else keys
        elements = row.cache_elements_per_token * row_cache_share(row, layout)
        state = row.state_elements_per_sequence * row.state_bytes_per_element / layout.tensor
        # Each step reads the state and writes it back.
        per_sequence = elements * keys * served.cache_bytes_per_element + 2.0 * state
        read = bandwidth_time_s(
            moved_bytes=content.sequences * per_sequence,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.cache_bandwidth,
            overhead_s=0.0,
        )
        reading = reading + row.layers * np.asarray(read)
        attended = mean_attended_tokens(
            first=content.prompt_cached, last=content.prompt_length, window=window
        )
        if row.phase is Phase.PROMPT:
            # An encoder sees the whole prompt at each of its tokens.
            attended = content.prompt_length
        per_token = attended * row.flops_per_token_per_key + row.flops_per_token
        scored = 0.0 if row.phase is Phase.ANSWER else content.prompt_tokens
        prompt = scored * per_token / layout.tensor
        score = attention_time_s(
            flops=prompt,
            # The rate of a recurrence does not depend on keys; without keys there is no work.
            keys=np.where((row.flops_per_token_per_key > 0) & (attended > 0), attended, np.inf),
            peak_flops_per_s=hardware.peak16_flops_per_s,
            efficiency=hardware.attention_forward,
            half_keys=hardware.attention_half_keys,
            overhead_s=0.0,
        )
        scores = scores + row.layers * np.asarray(score)
    return reading, scores


def _elementwise_time(served: ServedModel, content: StepContent, candidates: Candidates) -> Floats:
    """Return the time of norms, activations and residuals, in s."""
    layout, hardware = candidates.layout, candidates.hardware
    elements = np.zeros(np.broadcast_shapes(content.tokens.shape, layout.tensor.shape))
    for row in served.elementwise:
        tokens = content.of(row.part, row.phase)
        split = 1.0 if row.division is Division.REPLICATED else layout.tensor
        elements = elements + row.layers * row.moved_elements_per_token * tokens / split
    return np.asarray(
        bandwidth_time_s(
            moved_bytes=SIXTEEN_BIT_BYTES * elements,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.elementwise_bandwidth,
            overhead_s=0.0,
        )
    )
