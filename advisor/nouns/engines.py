"""Serving engines: what each adds to its kernels, and the kernels of those that bring their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

from pydantic import Field

from advisor.foundation.noun import Noun

Fraction = Annotated[float, Field(gt=0, le=1)]

# One bound for each unit, far beyond what was ever measured.
NonNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]

DIRECT_TIME: Final = "serving_direct"
"""Interval of times per output token of engines with kernels of their own."""
DIRECT_FIRST_TOKEN: Final = "serving_direct_first_token"
OTHERS: Final = "default"
"""Cards without a section of their own."""


class BackendFacts(Noun):
    """The kernels of an engine that does not use the vendor's, on one kind of card."""

    layer_overhead_s: Seconds
    """Launches of one layer, none of them captured in a graph. [s]"""
    prompt_layer_overhead_s: Seconds
    """The same for a chunk of a prompt, whose inputs are converted first. [s]"""
    bandwidth: Fraction
    """Share of the memory bandwidth at which weights are read."""
    cache_bandwidth: Fraction
    """The same of keys and values."""
    expansion: NonNegative
    """Vector operations to expand one quantised weight, counted at the fp32 peak."""
    expansion_16: NonNegative
    """The same of a 16-bit weight."""
    compute: Positive
    """Rate of products with quantised weights over that of the calibrated 16-bit kernels, with
    fp16 sums where the card has them faster."""
    wide: Positive
    """Rate of products with 16-bit weights over that with quantised ones."""
    attention: Positive
    """Rate of attention over that of the calibrated kernels."""


class ServingFacts(Noun):
    """What a serving engine adds to the kernels of a step."""

    step_overhead_s: Seconds
    """Scheduler, sampling and host gaps per engine step."""
    layer_overhead_s: Seconds
    """Fixed cost per layer and step beyond the modelled kernels."""
    grouped_compute: Fraction = 1.0
    """Arithmetic rate of routed experts over that of one dense product of the same format."""
    expert_imbalance: Annotated[Positive, Field(ge=1)] = 1.0
    """Time of the busiest rank of an expert group over that of even routing."""
    sequence_overhead_s: Seconds = 0.0
    """Host time per running sequence and step: scheduling, sampling, detokenisation."""
    prompt_overhead_s: Seconds = 0.0
    """What one prompt adds to each layer of the step that carries it, beyond its tokens: kernels
    are launched one by one, without captured graphs."""
    request_overhead_s: Seconds = 0.0
    """From a request's arrival to its first step: transport, tokenisation, scheduling."""
    memory_fraction: Fraction
    """Share of the accelerator's memory the engine may fill."""
    batched_tokens: Count
    """Token limit of one engine step, which bounds its activation peak."""
    small_batched_tokens: Count = 2048
    """The same on accelerators with less than ``large_memory_bytes``."""
    large_memory_bytes: Bytes = 70.0 * 2**30
    """Reported memory from which the engine takes the larger limit (vLLM V1). [bytes]"""
    graph_bytes: Bytes
    """CUDA graphs captured at start-up. [bytes]"""
    driver_bytes: Bytes = 0.0
    """What the driver keeps of its reported memory, so that no process sees it. [bytes]"""
    library_bytes: Bytes = 0.0
    """What libraries allocate outside PyTorch in one process. [bytes]"""
    communication_bytes: Bytes = 0.0
    """Buffers of collectives where several accelerators serve one copy. [bytes]"""
    small_communication_bytes: Bytes = 0.0
    """The same on accelerators with less than ``large_memory_bytes``, few of them on NVLink."""
    sampled_sequences: Count = 1024
    """Sequences for which the engine sizes its sampler at start-up (vLLM ``max_num_seqs``)."""
    small_sampled_sequences: Count = 256
    """The same on accelerators with less than ``large_memory_bytes``."""
    sampling_bytes_per_logit: NonNegative = 18.0
    """Sampler tensors alive at once, per sequence and vocabulary entry: 16-bit logits, their
    fp32 copy, masked values, probabilities, noise. [bytes]"""
    source: str
    start_wave: Fraction = 0.1
    """Share of the wave with which a load generator starts that lasts through its run: one in
    ten rounds for requests that fall out of step, more where prompts stop all generation."""
    chunks_follow: bool = False
    """Chunks of one prompt follow each other through the stages of a pipeline."""
    backends: dict[str, BackendFacts] = Field(default_factory=dict)
    """Kernels by generation of the card, ``default`` for the others; empty for the calibrated."""

    def backend(self, generations: Sequence[str]) -> BackendFacts | None:
        """Return the kernels for a card of these generations, narrowest first."""
        names = (name for name in (*generations, OTHERS) if name in self.backends)
        return next((self.backends[name] for name in names), None)


def is_mappings(content: object) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    """Return whether a section holds sections alone."""
    return isinstance(content, Mapping) and all(isinstance(x, Mapping) for x in content.values())


def joined_engines(serving: Mapping[str, Any], engines: Mapping[str, Any]) -> dict[str, Any]:
    """Fill what the sections of ``engines`` leave out from ``serving``, and kernels likewise.

    The kernels of a generation take what they leave out from those of ``default``.
    """
    result = {}
    for name, own in engines.items():
        backends = own.get("backends", {})
        common = backends.get(OTHERS, {})
        full = {key: {**common, **kernels} for key, kernels in backends.items()}
        result[name] = {**serving, **own, "backends": full}
    return result
