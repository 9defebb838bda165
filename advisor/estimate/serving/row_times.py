"""What one step of a serving engine carries, and the time of the table's rows in it."""

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.operators import Division, Part, Phase
from advisor.equations.roofline import (
    attention_time_s,
    bandwidth_time_s,
    matmul_time_s,
    memory_roof_s,
)
from advisor.equations.serving.engine import experts_touched, mean_attended_tokens
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.serving.cache import row_cache_share
from advisor.estimate.serving.demand import ServedMatrix, ServedModel
from advisor.estimate.serving.host_parts import HostParts
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.foundation.record import record
from advisor.nouns.software.engines import ServingFacts


@record
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


@record
class Products:
    """Matrix products of one step: their shares of its time, and what the host holds of them."""

    weights: Floats
    compute: Floats
    fixed: Floats
    held_bytes: Floats
    """Weights that the host reads or sends."""
    held_flops: Floats


def products(
    served: ServedModel,
    content: StepContent,
    candidates: Candidates,
    engine: ServingFacts,
    parts: HostParts,
    streams: NDArray[np.bool_],
    shape: tuple[int, ...],
) -> Products:
    """Return the matrix products of a step.

    ``parts``: shares of the layers in the host's memory. ``streams``: whether their weights come to
    the card, which then computes.
    """
    weights, compute, fixed, held, flops = (np.zeros(shape) for _ in range(5))
    hardware, hosted = candidates.hardware, bool(np.any(parts.touched))
    served_wide = served.weight_format.bytes_per_parameter >= SIXTEEN_BIT_BYTES

    @cache
    def kernels_of(wide: bool, routed: bool) -> HardwareArrays:
        found = hardware.in_16_bits() if wide else hardware
        found = found.for_experts() if routed and wide is served_wide else found
        return found if wide or engine.backends else _unpacking(found, engine)

    for matrix, size in zip(served.matrices, served.matrix_bytes, strict=True):
        kernels = kernels_of(matrix.wide, matrix.experts > 1)
        rows = content.of(matrix.part, matrix.phase)
        moved = size
        if served.weight_format.expanded and not matrix.wide:
            # Several rows write expanded weights out in 16 bits and read them again.
            moved = size + np.where(rows > 1, 2 * SIXTEEN_BIT_BYTES, 0.0)
        if matrix.experts > 1 and served.weight_format.name == "bf16":
            again = np.where(content.prompt_tokens > 0, 0.0, hardware.bf16_expert_passes)
            moved = moved * (1.0 + again)
        total, memory = _matrix_time(matrix, content, candidates.layout, kernels, engine, moved)
        # A matrix without rows in its phase is neither computed nor read.
        runs = np.where(rows > 0, 1.0, 0.0)
        total = np.where(rows > 0, total, 0.0)
        reading = memory_roof_s(total_s=total, memory_s=memory)
        fixed = fixed + matrix.layers * kernels.matmul_overhead_s * runs
        if not hosted:
            weights = weights + matrix.layers * reading
            compute = compute + matrix.layers * (total - reading)
            continue
        away = parts.share(matrix.part, routed=matrix.experts > 1)
        own = matrix.layers * (1.0 - away)
        away = matrix.layers * away
        weights = weights + own * reading
        compute = compute + (own + away * streams) * (total - reading)
        held = held + away * _held_bytes(matrix, rows, runs, size)
        flops = flops + away * runs * _flops(matrix, rows)
    return Products(weights, compute, fixed, held, flops)


def _unpacking(hardware: HardwareArrays, engine: ServingFacts) -> HardwareArrays:
    """Return the rates of narrow weights: kernels unpack them for 16-bit arithmetic.

    Such kernels use the instructions of the generation before, as portable attention does.
    """
    if np.all(engine.unpacked_compute == 1.0):
        return hardware
    native = hardware.peak_flops_per_s > hardware.peak16_flops_per_s
    share = np.where(native, 1.0, engine.unpacked_compute * hardware.portable_products)
    return replace(hardware, matmul_compute=hardware.matmul_compute * share)


def _flops(matrix: ServedMatrix, rows: Floats) -> Floats:
    """Return the operations of one matrix in one layer."""
    return 2.0 * (rows * matrix.active_experts) * matrix.in_features * matrix.out_features


def _held_bytes(matrix: ServedMatrix, rows: Floats, runs: Floats, each: Floats) -> Floats:
    """Return the weights of one matrix in one layer that a step reads, in bytes.

    ``each``: of one parameter.
    """
    touched = experts_touched(
        experts=float(matrix.experts), active_experts=float(matrix.active_experts), tokens=rows
    )
    count = touched if matrix.experts > 1 else 1.0
    size = matrix.in_features * matrix.out_features * each
    return np.asarray(runs * count * size)


def _matrix_time(
    matrix: ServedMatrix,
    content: StepContent,
    layout: LayoutArrays,
    hardware: HardwareArrays,
    engine: ServingFacts,
    weight_bytes: Floats,
) -> tuple[Floats, Floats]:
    """Return the time of one matrix without its fixed cost, and its part for reading, in s.

    ``weight_bytes``: that each weight moves.
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
        half = np.where(content.prompt_tokens > 0, hardware.grouped_half_rows, 0.0)
        busiest = np.where(layout.expert > 1, engine.expert_imbalance, 1.0)
        slower = (1.0 + half / each) * busiest
        efficiency = hardware.matmul_compute * engine.grouped_compute / slower
    else:
        held = np.ones_like(tokens)
        efficiency = hardware.matmul_compute
    rows = tokens * matrix.active_experts
    # Each matrix is read once, and each token's input and output for every expert that it visits.
    moved = held * depth * width * weight_bytes + rows * (depth + width) * SIXTEEN_BIT_BYTES
    time = matmul_time_s(
        flops=2.0 * rows * depth * width,
        moved_bytes=moved,
        output_elements=rows * width,
        depth=depth,
        peak_flops_per_s=hardware.peak_flops_per_s,
        bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
        compute=efficiency,
        bandwidth=hardware.matmul_bandwidth,
        half_tiles=hardware.matmul_half_tiles,
        half_depth=hardware.matmul_half_depth,
    )
    reading = moved / (hardware.memory_bandwidth_bytes_per_s * hardware.matmul_bandwidth)
    expansion = held * depth * width * hardware.weight_expansion_s
    return np.asarray(time) + expansion, np.asarray(reading)


def attention_time(
    served: ServedModel, content: StepContent, candidates: Candidates, engine: ServingFacts
) -> tuple[Floats, Floats]:
    """Return the time to read the cache, and the time of attention arithmetic, in s."""
    layout, hardware = candidates.layout, candidates.hardware
    reading = np.zeros(np.broadcast_shapes(content.tokens.shape, hardware.memory_bytes.shape))
    scores = np.zeros_like(reading)
    for row in served.attention:
        window = float(row.window) if row.window else np.inf
        # Servers gather the keys that sparse attention picks; other engines read them all.
        picked = float(row.read_keys) if row.read_keys and not engine.backends else window
        keys = mean_attended_tokens(
            first=content.context_first, last=content.context_last, window=picked
        )
        keys = float(row.keys) if row.keys else keys
        elements = row.cache_elements_per_token * row_cache_share(row, layout)
        state = row.state_elements_per_sequence * row.state_bytes_per_element / layout.tensor
        # Each step reads the state and writes it back, and so does each further pass.
        passes = 2.0 * (1.0 + hardware.state_passes)
        per_sequence = elements * keys * served.cache_bytes + passes * state
        read = bandwidth_time_s(
            moved_bytes=content.sequences * per_sequence,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.cache_bandwidth,
            overhead_s=0.0,
        )
        reading = reading + row.layers * np.asarray(read)
        # Each query head reads what its group shares: the first from memory, the others on chip.
        shared = np.maximum(row.flops_per_token_per_key / 2 / layout.tensor - elements, 0.0)
        again = content.sequences * shared * keys * served.cache_bytes * hardware.shared_reading
        scores = scores + row.layers * again / hardware.memory_bandwidth_bytes_per_s
        attended = mean_attended_tokens(
            first=content.prompt_cached, last=content.prompt_length, window=window
        )
        if row.phase is Phase.PROMPT:
            # An encoder sees the whole prompt at each of its tokens.
            attended = content.prompt_length
        per_token = attended * row.flops_per_token_per_key + row.flops_per_token
        scored = 0.0 if row.phase is Phase.ANSWER else content.prompt_tokens
        # Every rank scores all keys for the heads of an indexer.
        split = 1.0 if row.division is Division.REPLICATED else layout.tensor
        if served.index_layers:
            split = np.minimum(split, np.maximum(row.heads / engine.sparse_heads, 1.0))
        prompt = scored * per_token / split
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


def elementwise_time(served: ServedModel, content: StepContent, candidates: Candidates) -> Floats:
    """Return the time of norms, activations and residuals, in s."""
    layout, hardware = candidates.layout, candidates.hardware
    elements = np.zeros(np.broadcast_shapes(content.tokens.shape, layout.tensor.shape))
    for row in served.elementwise:
        tokens = content.of(row.part, row.phase)
        split = 1.0 if row.division is Division.REPLICATED else layout.tensor
        moved = row.moved_elements_served or row.moved_elements_per_token
        elements = elements + row.layers * moved * tokens / split
    return np.asarray(
        bandwidth_time_s(
            moved_bytes=SIXTEEN_BIT_BYTES * elements,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.elementwise_bandwidth,
            overhead_s=0.0,
        )
    )
