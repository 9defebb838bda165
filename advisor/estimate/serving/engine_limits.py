"""Limits that an engine sets itself by the memory of its card: tokens, sequences and buffers."""

import numpy as np

from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.nouns.software.engines import ServingFacts


def batched_tokens(engine: ServingFacts, memory_bytes: Floats) -> Floats:
    """Return the token limit of one engine step; larger cards have a larger limit."""
    return _by_size(engine, memory_bytes, engine.batched_tokens, engine.small_batched_tokens)


def sampled_sequences(engine: ServingFacts, memory_bytes: Floats) -> Floats:
    """Return the sequences whose logits the engine reserves; more on larger cards."""
    return _by_size(engine, memory_bytes, engine.sampled_sequences, engine.small_sampled_sequences)


def running_sequences(engine: ServingFacts, memory_bytes: Floats) -> Floats:
    """Return the sequences that the engine runs at the same time at most, by its defaults."""
    if engine.running_sequences is not None:
        return np.full_like(memory_bytes, float(engine.running_sequences))
    return sampled_sequences(engine, memory_bytes)


def communication_bytes(engine: ServingFacts, memory_bytes: Floats, layout: LayoutArrays) -> Floats:
    """Return the buffers of collectives; 0 on a single accelerator. [bytes]"""
    size = _by_size(
        engine, memory_bytes, engine.communication_bytes, engine.small_communication_bytes
    )
    together = layout.tensor * layout.pipeline * layout.expert > 1
    return np.where(together, size, 0.0)


def _by_size(engine: ServingFacts, memory_bytes: Floats, large: float, small: float) -> Floats:
    return np.where(memory_bytes >= engine.large_memory_bytes, float(large), float(small))
