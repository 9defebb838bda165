"""Memory of a serving accelerator: weights, cache, the engine's share, and what still fits."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part
from advisor.architecture.weights.gguf_bytes import TOKENS
from advisor.equations.serving.memory import longest_in_piece
from advisor.equations.training.memory import adapter_parameters
from advisor.estimate.candidates import Columns, Floats, LayoutArrays, Shares
from advisor.estimate.serving.cache import block_share, cached_bytes_per_sequence
from advisor.estimate.serving.demand import INPUT_DIVIDED_TARGETS, ServedModel, ServingLoad
from advisor.estimate.serving.engine_limits import communication_bytes
from advisor.estimate.serving.host_parts import host_parts
from advisor.estimate.serving.images import tower_bytes
from advisor.estimate.serving.step_peak import step_peak
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.estimate.terms import shape_widening
from advisor.foundation.record import record
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.engines import ServingFacts


@record
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


@record
class ServingCapacity(Columns):
    """What fits beside the weights, at the high end of the engine's own memory."""

    usable_bytes: Floats
    """Memory that the engine's fraction and the context may fill together, at most what the
    driver leaves. [bytes]"""
    cache_room_bytes: Floats
    """Memory left for the cache of one accelerator; negative if the weights do not fit. [bytes]"""
    spare_bytes: Floats
    """What requests may surely fill of it, beside the start that all share; at least 0. [bytes]"""
    low_bytes: Floats
    high_bytes: Floats
    """Bounds of the total at the asked load. [bytes]"""
    fits: NDArray[np.bool_]
    """Whether the high end of the total fits in the usable memory."""
    max_concurrency: Floats
    """Requests of this length that fit the whole deployment at once."""
    expected_concurrency: Floats
    """The same at the expected value of the engine's own memory."""
    possible_concurrency: Floats
    """The same at the low end of the engine's own memory. More requests surely wait."""
    host_bytes: Floats
    """Weights and cache in the host's memory. [bytes]"""
    memory: ServingMemory
    """At its expected value."""


def serving_memory(
    served: ServedModel,
    load: ServingLoad,
    layout: LayoutArrays,
    memory_bytes: Floats,
    calibration: Calibration,
    cache: tuple[Floats, Floats] | None = None,
) -> ServingMemory:
    """Return the memory of the fullest accelerator.

    One element per configuration.

    ``layout``: ``data`` ranks share the requests; ``tensor``, ``pipeline`` and ``expert`` divide
    the weights. ``cache``: of :func:`_cache`, if the caller has it already.

    A server is started for the requests that it is asked to run at once, at most
    ``sampled_sequences``. Leaves out block rounding of the paged cache.
    """
    engine = calibration.engine_for(served.weight_format)
    peak = step_peak(served, load, layout, memory_bytes, engine)
    activations, logits = peak.terms(load.per_engine(layout))
    each, once = cache or _cache(served, load, layout, engine)
    shape = np.broadcast_shapes(each.shape, load.concurrency.shape, memory_bytes.shape)
    tower = tower_bytes(served.model) if engine.loads_tower else 0.0
    terms = {
        "weights": _weights(served, layout, on_host=engine.host_embedding)
        + adapters_bytes(served, load, layout)
        + np.maximum(load.tower_bytes, tower) / layout.tensor,
        "kv_cache": load.per_engine(layout) * each + once,
        "activations": activations,
        "logits": logits,
        "workspace": engine.graph_bytes
        + engine.library_bytes
        + communication_bytes(engine, memory_bytes, layout),
        "context": np.asarray(context_of(engine, calibration)["expected"]),
    }
    return ServingMemory(**{name: np.broadcast_to(term, shape) for name, term in terms.items()})


def serving_capacity(
    served: ServedModel,
    load: ServingLoad,
    layout: LayoutArrays,
    memory_bytes: Floats,
    calibration: Calibration,
    host_memory_bytes: Floats | float = np.inf,
) -> ServingCapacity:
    """Return what fits, with the engine's own memory at the high end of its interval.

    Counts are 0 if the weights alone do not fit.

    ``host_memory_bytes``: memory of the host, which layers and experts may fill. [bytes]
    """
    engine = calibration.engine_for(served.weight_format)
    each, once = cache = _cache(served, load, layout, engine)
    memory = serving_memory(served, load, layout, memory_bytes, calibration, cache)
    interval = calibration.interval("serving_memory", measured=True)
    context = context_of(engine, calibration)
    widening = shape_widening(served.model)
    variable = memory.engine - memory.context
    cache_low, cache_high = memory.kv_cache / widening, memory.kv_cache * widening
    least, most = buffer_factors(engine, interval)
    loose = sum(loose_part(engine, name, getattr(memory, name)) for name in LOOSE)
    low = memory.weights + cache_low + context["low"]
    low = low + (variable + loose * (least - 1.0)) / widening
    filled = memory.weights + context["high"] + (variable + loose * (most - 1.0)) * widening
    high = filled + cache_high
    # The engine's fraction covers weights, activations, graphs and cache. The driver's context is
    # outside it, if the card has room for both.
    seen = memory_bytes - engine.driver_bytes
    inside = engine.memory_fraction * seen
    usable = np.minimum(seen, inside + memory.context)
    room = usable - filled
    spare = np.maximum(room / widening - once, 0.0)
    # A host that holds every layer holds all of the cache.
    servable = np.inf if engine.most_sequences is None else engine.most_sequences
    unused = usable - memory.weights - once
    held = _held_by_host(served, load, layout)
    enough = held <= HOST_SHARE * host_memory_bytes
    # More than are asked run in a server that is started for more.
    peak, step = step_peak(served, load, layout, memory_bytes, engine), memory.activations
    step = step + memory.logits

    def together(room: Floats, factor: Floats | float) -> Floats:
        return peak.sequences(room + factor * step, each, servable, factor) * layout.data

    lighter, heavier = (1.0 + engine.loose_share * (bound - 1.0) for bound in (least, most))
    return ServingCapacity(
        usable_bytes=np.broadcast_to(usable, high.shape),
        cache_room_bytes=room,
        spare_bytes=spare,
        low_bytes=low,
        high_bytes=high,
        fits=(high <= usable) & enough & (load.per_engine(layout) <= servable),
        max_concurrency=together(room / widening - once, heavier),
        expected_concurrency=together(unused - memory.engine, 1.0),
        possible_concurrency=together(usable - (low - cache_low) - once, lighter / widening),
        host_bytes=np.broadcast_to(held, high.shape),
        memory=memory,
    )


def _cache(
    served: ServedModel, load: ServingLoad, layout: LayoutArrays, engine: ServingFacts
) -> tuple[Floats, Floats]:
    """Return the cache of each request, and of the start that all prompts share. [bytes]"""
    shared = load.kept_once(served, engine)
    length = load.cached_prompt(served) + load.cached_answers() - shared
    each = cached_bytes_per_sequence(served, layout, length)
    if not shared.any():
        return each, np.zeros(1)
    start = cached_bytes_per_sequence(served, layout, shared)
    return each, np.where(shared > 0, start, 0.0)


HOST_SHARE = 0.9
"""Share of the host's memory that layers may fill; the system and the file's cache need the rest.
Assumed: DeepSeek-R1 in Q4_K_M (377 GiB) runs with 512 GB; gpt-oss-120b (59 GiB) pages with 64."""


def _held_by_host(served: ServedModel, load: ServingLoad, layout: LayoutArrays) -> Floats:
    """Return the weights and the cache in the host's memory, in bytes."""
    model = served.model
    parts = host_parts(model, layout)
    weights = np.zeros_like(layout.tensor)
    if not parts.touched.any():
        return weights
    for row, each in zip(model.operators, served.row_bytes, strict=True):
        share = parts.share(row.part, routed=row.division is Division.EXPERT)
        weights = weights + share * row.layers * row.parameters * each
    length = load.cached_prompt(served) + load.cached_answers()
    whole = replace(layout, gpu_layers=np.full_like(layout.gpu_layers, np.inf))
    cache = load.per_engine(layout) * cached_bytes_per_sequence(served, whole, length)
    return weights + parts.layers * cache * layout.pipeline


def context_of(engine: ServingFacts, calibration: Calibration) -> Mapping[str, float]:
    """Return the driver's context under an engine: low, expected, high. [bytes]"""
    return engine.context_bytes or calibration.memory.context_bytes


STEP_BUFFERS = (0.3, 1.0)
"""Buffers of one step over ``step_buffer_bytes``, which is the most: builds of 2026 reserve the
logits of fewer tokens (82 MiB for Gemma 3 1B at 512 tokens, 0.16 of it)."""


def buffer_factors(engine: ServingFacts, interval: Interval) -> tuple[float, float]:
    """Return the bounds of the loose part of an engine's memory over the expected one."""
    return STEP_BUFFERS if engine.step_buffers else (interval.low, interval.high)


LOOSE = ("weights", "activations", "logits", "workspace")
"""Terms of :class:`ServingMemory` with a part that no formula fixes."""


def loose_part(engine: ServingFacts, name: str, value: Floats | float) -> Floats:
    """Return the part of a term of the memory that no formula fixes. [bytes]"""
    share = engine.loaded_share if name == "weights" else engine.loose_share
    return np.asarray(share * value + (engine.loose_bytes if name == "workspace" else 0.0))


def _ranks(division: Division, layout: LayoutArrays) -> Floats:
    """Ranks that share one layer's parameters of this division."""
    if division is Division.REPLICATED:
        return np.ones_like(layout.tensor)
    return layout.tensor * layout.expert if division is Division.EXPERT else layout.tensor


def _weights(served: ServedModel, layout: LayoutArrays, *, on_host: bool) -> Floats:
    """Return the weights of the fullest pipeline stage's rank, in bytes.

    ``on_host``: embeddings stay in the host's memory, except one that is the output matrix too.
    """
    model = served.model
    part_bytes = {part: np.zeros_like(layout.tensor) for part in Part}
    parts = host_parts(model, layout)
    padded = bool((served.padded_to > 1).any())
    for row, each in zip(model.operators, served.row_bytes, strict=True):
        if on_host and row.kind is OperatorKind.EMBEDDING and row.name != TOKENS:
            continue
        held = row.layers * row.parameters * each / _ranks(row.division, layout)
        if padded and row.division is Division.EXPERT and row.in_features:
            held = held * _padding(row, served, layout)
        held = held * (1.0 - parts.share(row.part, routed=row.division is Division.EXPERT))
        part_bytes[row.part] = part_bytes[row.part] + held
    blocks = part_bytes[Part.BLOCK] * block_share(model, layout)
    embedding, head = part_bytes[Part.EMBEDDING], part_bytes[Part.HEAD]
    if on_host:
        head = head + (embedding if model.tied_embeddings else 0.0)
        return blocks + head
    # A pipeline holds a tied table at both ends, a single stage holds it once.
    last = head + (embedding if model.tied_embeddings else 0.0)
    split = blocks + np.maximum(embedding, last)
    return np.where(layout.pipeline > 1, split, blocks + embedding + head)


def _padding(row: Operator, served: ServedModel, layout: LayoutArrays) -> Floats:
    """Return what a rank holds of a routed matrix with its padding, over what it has without."""
    inner = row.target in INPUT_DIVIDED_TARGETS
    ends = (row.out_features, row.in_features) if inner else (row.in_features, row.out_features)

    def padded(width: Floats | float, multiple: Floats) -> Floats:
        return np.where(multiple > 1, np.ceil(width / multiple) * multiple / width, 1.0)

    outside, inside = served.padded_to
    return padded(float(ends[0]), outside) * padded(ends[1] / layout.tensor, inside)


def adapters_bytes(served: ServedModel, load: ServingLoad, layout: LayoutArrays) -> Floats:
    """Return the LoRA adapters on the fullest card, on every matrix of the blocks. [bytes]

    In 16 bits, at the rank reserved for each. A layer divided over cards keeps one of its two
    low-rank matrices whole (vLLM 0.14, ``vllm/config/lora.py``: ``fully_sharded_loras``, by default
    off). Leaves out adapters of the embedding and of the head, and copies in the host's memory.
    """
    total = np.zeros_like(layout.tensor)
    if not np.any(load.adapter_rank > 0):
        return total
    for row in served.model.operators:
        if row.kind is not OperatorKind.MATMUL or row.part is not Part.BLOCK or not row.target:
            continue
        routed = row.division is Division.EXPERT
        tensor = 1.0 if row.division is Division.REPLICATED else layout.tensor
        inner = row.target in INPUT_DIVIDED_TARGETS
        one = adapter_parameters(
            rank=load.adapter_rank,
            in_features=row.in_features / (tensor if inner else 1.0),
            out_features=row.out_features / (1.0 if inner else tensor),
        )
        experts = row.experts / layout.expert if routed else 1.0
        total = total + row.layers * experts * (SIXTEEN_BIT_BYTES * one)
    return total * block_share(served.model, layout)


def longest_request(
    served: ServedModel, load: ServingLoad, layout: LayoutArrays, capacity: ServingCapacity
) -> Floats:
    """Return the longest request at the asked concurrency, 0 if the weights do not fit. [tokens]

    The cache grows linearly with the length, with another slope after each window.
    """
    room = capacity.spare_bytes / load.per_engine(layout)
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
    longest = np.minimum(longest / load.beams, served.model.max_position_embeddings or np.inf)
    return np.floor(np.where(capacity.cache_room_bytes > 0, longest, 0.0))
