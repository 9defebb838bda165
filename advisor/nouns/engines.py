"""Serving engines: the time and memory that each adds to its kernels, and engines' own kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

from pydantic import Field

from advisor.foundation.noun import Noun

Fraction = Annotated[float, Field(gt=0, le=1)]

# One bound for each unit, far above every measured value.
NonNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]

DIRECT_TIME: Final = "serving_direct"
"""Name of the interval for times per output token of engines with their own kernels."""
DIRECT_FIRST_TOKEN: Final = "serving_direct_first_token"
OTHERS: Final = "default"
"""Section for cards without their own section."""


class BackendFacts(Noun):
    """The kernels of an engine that brings its own, on one kind of card."""

    layer_overhead_s: Seconds
    """Time to launch one layer's kernels, without a captured graph. [s]"""
    prompt_layer_overhead_s: Seconds
    """The same for a chunk of a prompt, which first converts its inputs. [s]"""
    bandwidth: Fraction
    """Share of the memory bandwidth that reading weights reaches."""
    cache_bandwidth: Fraction
    """The same for keys and values."""
    expansion: NonNegative
    """Vector operations to expand one quantised weight, counted at the fp32 peak."""
    expansion_16: NonNegative
    """The same for a 16-bit weight."""
    compute: Positive
    """Rate of products with quantised weights relative to the calibrated 16-bit kernels, with
    fp16 sums if those are faster on the card."""
    wide: Positive
    """Rate of products with 16-bit weights relative to those with quantised weights."""
    attention: Positive
    """Rate of attention relative to the calibrated kernels."""


class ServingFacts(Noun):
    """Time and memory that a serving engine adds to the kernels of a step."""

    step_overhead_s: Seconds
    """Scheduling, sampling and host gaps per engine step. [s]"""
    layer_overhead_s: Seconds
    """Fixed cost per layer and step beyond the modelled kernels. [s]"""
    grouped_compute: Fraction = 1.0
    """Arithmetic rate of routed experts relative to one dense product in the same format."""
    expert_imbalance: Annotated[Positive, Field(ge=1)] = 1.0
    """Time of the busiest rank of an expert group relative to even routing."""
    sequence_overhead_s: Seconds = 0.0
    """Host time per running sequence and step: scheduling, sampling, detokenisation. [s]"""
    prompt_overhead_s: Seconds = 0.0
    """Time that one prompt adds to each layer of the step that carries it, beyond its tokens:
    kernels start one by one, without captured graphs. [s]"""
    request_overhead_s: Seconds = 0.0
    """Time from a request's arrival to its first step: transport, tokenisation, scheduling. [s]"""
    memory_fraction: Fraction
    """Share of the accelerator's memory that the engine may fill."""
    batched_tokens: Count
    """Token limit of one engine step. It bounds the activation peak."""
    small_batched_tokens: Count = 2048
    """The same on accelerators with less than ``large_memory_bytes``."""
    large_memory_bytes: Bytes = 70.0 * 2**30
    """Reported memory from which the engine uses the larger limits (vLLM V1). [bytes]"""
    graph_bytes: Bytes
    """CUDA graphs captured at start-up. [bytes]"""
    driver_bytes: Bytes = 0.0
    """Part of the reported memory that the driver keeps and no process sees. [bytes]"""
    library_bytes: Bytes = 0.0
    """Memory that libraries allocate outside PyTorch in one process. [bytes]"""
    communication_bytes: Bytes = 0.0
    """Buffers of collectives if several accelerators serve one copy. [bytes]"""
    small_communication_bytes: Bytes = 0.0
    """The same on accelerators with less than ``large_memory_bytes``, few of them on NVLink."""
    sampled_sequences: Count = 1024
    """Number of sequences that the engine sizes its sampler for (vLLM ``max_num_seqs``)."""
    small_sampled_sequences: Count = 256
    """The same on accelerators with less than ``large_memory_bytes``."""
    sampling_bytes_per_logit: NonNegative = 18.0
    """Sampler tensors that exist at once, per sequence and vocabulary entry: 16-bit logits, their
    fp32 copy, masked values, probabilities, noise. [bytes]"""
    source: str
    start_wave: Fraction = 0.1
    """Share of a load generator's starting wave that lasts through its run: a tenth (ten rounds)
    if requests fall out of step, more if prompts stop all generation."""
    chunks_follow: bool = False
    """Whether chunks of one prompt follow each other through the stages of a pipeline."""
    backends: dict[str, BackendFacts] = Field(default_factory=dict)
    """Own kernels by generation of the card, ``default`` for the rest. Empty if the engine uses the
    calibrated kernels."""

    def backend(self, generations: Sequence[str]) -> BackendFacts | None:
        """Return the kernels for a card of these generations, narrowest first."""
        names = (name for name in (*generations, OTHERS) if name in self.backends)
        return next((self.backends[name] for name in names), None)


def is_mappings(content: object) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    """Return whether a section holds only sections."""
    return isinstance(content, Mapping) and all(isinstance(x, Mapping) for x in content.values())


def joined_engines(serving: Mapping[str, Any], engines: Mapping[str, Any]) -> dict[str, Any]:
    """Fill missing fields in the sections of ``engines`` from ``serving``.

    Missing fields in a generation's kernels come from ``default``.
    """
    result = {}
    for name, own in engines.items():
        backends = own.get("backends", {})
        common = backends.get(OTHERS, {})
        full = {key: {**common, **kernels} for key, kernels in backends.items()}
        result[name] = {**serving, **own, "backends": full}
    return result
