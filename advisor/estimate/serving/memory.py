"""Memory of a serving accelerator: weights, cache, the engine's share, and what still fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.operators import OperatorKind, Part
from advisor.equations.serving_memory import (
    forward_peak_bytes,
    longest_in_piece,
    sampler_bytes,
)
from advisor.estimate.assumed_shape import shape_widening
from advisor.estimate.candidates import Floats, LayoutArrays, Shares
from advisor.estimate.serving.demand import (
    SIXTEEN_BIT_BYTES,
    ServedModel,
    ServingLoad,
    batched_tokens,
    bytes_per_parameter,
    cached_bytes_per_sequence,
    communication_bytes,
    model_parallel_ranks,
    sampled_sequences,
    stage_share,
)
from advisor.nouns.efficiency import Calibration

LOADED_SHARE = 0.05
"""Share of the weights that is as uncertain as the engine's own memory: loaders pad, and keep
scales and towers. In start-up logs, vLLM loads up to 2 % more than computed, for gpt-oss-20b 7 %
(Marlin kernels pad expert matrices to tiles), for small models in 4 bits 20 %."""


@dataclass(frozen=True, slots=True)
class ServingMemory(Shares):
    """Expected bytes on the fullest accelerator, one element per configuration."""

    weights: Floats
    kv_cache: Floats
    """At the asked concurrency, every request at its full length."""
    activations: Floats
    logits: Floats
    workspace: Floats
    """CUDA graphs, libraries and collective buffers."""
    context: Floats

    @property
    def engine(self) -> Floats:
        """Return the engine's own memory, without weights and cache."""
        return self.activations + self.logits + self.workspace + self.context


@dataclass(frozen=True, slots=True)
class ServingCapacity:
    """What fits beside the weights, at the high end of the engine's own memory."""

    usable_bytes: Floats
    """Memory that the engine's fraction and the context may fill together, at most what the
    driver leaves. [bytes]"""
    cache_room_bytes: Floats
    """Memory left for the cache of one accelerator; negative if the weights do not fit. [bytes]"""
    low_bytes: Floats
    high_bytes: Floats
    """Bounds of the total at the asked load. [bytes]"""
    fits: NDArray[np.bool_]
    """Whether the high end of the total fits in the usable memory."""
    max_concurrency: Floats
    """Requests of this length that fit the whole deployment at once."""
    max_context_tokens: Floats
    """Longest request at the asked concurrency. [tokens]"""


def serving_memory(
    served: ServedModel,
    load: ServingLoad,
    layout: LayoutArrays,
    memory_bytes: Floats,
    calibration: Calibration,
) -> ServingMemory:
    """Return the memory of the fullest accelerator.

    Parameters
    ----------
    served : ServedModel
        The network as the engine stores it.
    load : ServingLoad
        Requests in flight and their lengths.
    layout : LayoutArrays
        ``data`` ranks share the requests; ``tensor``, ``pipeline`` and ``expert`` divide the
        weights.
    memory_bytes : ndarray
        Memory that the driver reports. [bytes]
    calibration : Calibration
        Facts of the engine and of a process on an accelerator.

    Returns
    -------
    ServingMemory
        One element per configuration.

    Notes
    -----
    The engine sizes its activations for a full step of ``batched_tokens`` tokens. Its peak is
    the larger of two moments. In the blocks: the widest operator's tensors and three copies of
    the residual stream, in 16 bits. After the blocks: the sampler's tensors of
    ``sampled_sequences`` rows of logits and the hidden states. Both reproduce start-up logs of
    vLLM within 5 % (see the tests). Leaves out block rounding of the paged cache, and prefix
    sharing.
    """
    engine, process = calibration.serving, calibration.memory
    hidden = served.model.hidden_size
    step_tokens = batched_tokens(engine, memory_bytes)
    forward = forward_peak_bytes(
        step_tokens=step_tokens,
        bytes_per_element=SIXTEEN_BIT_BYTES,
        widest_elements=_widest(served),
        hidden_size=hidden,
        tensor_parallel=layout.tensor,
    )
    sampler = sampler_bytes(
        sequences=sampled_sequences(engine, memory_bytes),
        vocab_size=float(served.model.vocab_size),
        bytes_per_logit=engine.sampling_bytes_per_logit,
    )
    stream = SIXTEEN_BIT_BYTES * step_tokens * hidden
    sampling = sampler + stream > forward
    length = load.cached_prompt(served) + load.output_tokens
    shape = np.broadcast_shapes(
        layout.tensor.shape, length.shape, load.concurrency.shape, memory_bytes.shape
    )
    terms = {
        "weights": _weights(served, layout),
        "kv_cache": load.per_engine(layout) * cached_bytes_per_sequence(served, layout, length),
        "activations": np.where(sampling, stream, forward),
        "logits": np.where(sampling, sampler, 0.0),
        "workspace": engine.graph_bytes
        + engine.library_bytes
        + communication_bytes(engine, memory_bytes, layout),
        "context": np.asarray(process.context_bytes["expected"]),
    }
    return ServingMemory(**{name: np.broadcast_to(term, shape) for name, term in terms.items()})


def serving_capacity(
    served: ServedModel,
    load: ServingLoad,
    layout: LayoutArrays,
    memory_bytes: Floats,
    calibration: Calibration,
) -> ServingCapacity:
    """Return what fits, with the engine's own memory at the high end of its interval.

    Parameters
    ----------
    served, load, layout, memory_bytes, calibration
        As for :func:`serving_memory`.

    Returns
    -------
    ServingCapacity
        Counts are 0 if the weights alone do not fit.
    """
    memory = serving_memory(served, load, layout, memory_bytes, calibration)
    interval = calibration.interval("serving_memory", measured=True)
    context = calibration.memory.context_bytes
    widening = shape_widening(served.model)
    variable = memory.engine - memory.context
    cache_low, cache_high = memory.kv_cache / widening, memory.kv_cache * widening
    least, most = interval.low / widening, interval.high * widening
    low = memory.weights * loaded_factor(least) + cache_low + variable * least + context["low"]
    filled = memory.weights * loaded_factor(most) + variable * most + context["high"]
    high = filled + cache_high
    # The engine's fraction covers weights, activations, graphs and cache. The driver's context is
    # outside it, if the card has room for both.
    seen = memory_bytes - calibration.serving.driver_bytes
    inside = calibration.serving.memory_fraction * seen
    usable = np.minimum(seen, inside + memory.context)
    room = usable - filled
    spare = np.maximum(room, 0.0) / widening
    length = load.cached_prompt(served) + load.output_tokens
    each = cached_bytes_per_sequence(served, layout, length)
    sequences = np.floor(spare / each)
    longest = _longest(served, layout, spare / load.per_engine(layout))
    limit = served.model.max_position_embeddings
    longest = np.where(room > 0, np.minimum(longest, limit or np.inf), 0.0)
    return ServingCapacity(
        usable_bytes=np.broadcast_to(usable, high.shape),
        cache_room_bytes=room,
        low_bytes=low,
        high_bytes=high,
        fits=high <= usable,
        max_concurrency=sequences * layout.data,
        max_context_tokens=np.floor(longest),
    )


def loaded_factor(factor: float) -> float:
    """Factor on the weights for a factor on the engine's own memory; see ``LOADED_SHARE``."""
    return 1.0 + LOADED_SHARE * (factor - 1.0)


def _weights(served: ServedModel, layout: LayoutArrays) -> Floats:
    """Return the weights of the fullest pipeline stage's rank, in bytes."""
    model = served.model
    part_bytes = {part: np.zeros_like(layout.tensor) for part in Part}
    for row in model.operators:
        each = bytes_per_parameter(row, served.weight_format, model)
        held = row.layers * row.parameters * each / model_parallel_ranks(row.division, layout)
        part_bytes[row.part] = part_bytes[row.part] + held
    blocks = part_bytes[Part.BLOCK] * stage_share(model, layout)
    embedding, head = part_bytes[Part.EMBEDDING], part_bytes[Part.HEAD]
    # A pipeline holds a tied table at both ends, a single stage holds it once.
    last = head + (embedding if model.tied_embeddings else 0.0)
    split = blocks + np.maximum(embedding, last)
    return np.where(layout.pipeline > 1, split, blocks + embedding + head)


def _widest(served: ServedModel) -> float:
    """Return the elements per token of the widest operator of a block, inputs and outputs."""
    blocks = [row for row in served.model.operators if row.part is Part.BLOCK]
    fused = [row.moved_elements_per_token for row in blocks if row.kind is OperatorKind.ACTIVATION]
    products = [
        float((matrix.in_features + matrix.out_features) * matrix.active_experts)
        for matrix in served.matrices
        if matrix.part is Part.BLOCK
    ]
    return max(fused + products, default=0.0)


def _longest(served: ServedModel, layout: LayoutArrays, room: Floats) -> Floats:
    """Return the longest sequence whose cache fits ``room`` bytes; inf where all are windowed.

    The cache grows linearly with the length, with another slope after each window.
    """
    windows = sorted({row.window for row in served.attention if row.window})
    longest = np.zeros_like(room)
    for start, end in zip([0, *windows], [*windows, None], strict=True):
        filled = cached_bytes_per_sequence(served, layout, float(start))
        # One more token gives the slope of the piece that begins here.
        slope = cached_bytes_per_sequence(served, layout, start + 1.0) - filled
        reached = longest_in_piece(
            room_bytes=room, start_tokens=float(start), filled_bytes=filled, slope_bytes=slope
        )
        ending = np.inf if end is None else float(end)
        longest = np.where(room >= filled, np.minimum(reached, ending), longest)
    return longest
