"""Serving engines: the time and memory that each adds to its kernels, and engines' own kernels."""

import math
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
DIRECT_ROUTED: Final = "serving_direct_routed"
"""The same for models with routed experts."""
DIRECT_FIRST_TOKEN: Final = "serving_direct_first_token"
DIRECT: Final = frozenset({DIRECT_TIME, DIRECT_ROUTED, DIRECT_FIRST_TOKEN})
TAIL: Final = "_tail"
"""Behind the name of an interval: that of the time that 95 or 99 % of the requests stay below."""
HOST_TIME: Final = "serving_host"
"""Name of the interval for all times if the host's memory holds layers or experts."""
YEAR: Final = 4
"""Digits of a date that is a year."""
OTHERS: Final = "default"
"""Section for cards without their own section."""
PROCESSOR: Final = "processor"
"""Section for processors, and the last name of a processor's generations."""


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
    shared_reading: NonNegative = 0.0
    """Time in which one more query head of a group reads what the first has read from memory, over
    the time of that."""
    expansion: NonNegative
    """Vector operations to expand one quantised weight, counted at the fp32 peak."""
    expansion_16: NonNegative = 0.0
    """The same for a 16-bit weight."""
    compute: Positive
    """Rate of products with quantised weights relative to the calibrated 16-bit kernels, with
    fp16 sums if those are faster on the card."""
    wide: Positive = 1.0
    """Rate of products with 16-bit weights relative to those with quantised weights."""
    attention: Positive
    """Rate of attention relative to the calibrated kernels."""
    grouped_half_rows: NonNegative = 0.0
    """Rows of a prompt in each routed expert at which its products reach half of their rate: tiles
    of a product are filled only in part, and each expert's weights are read and expanded."""
    norm_layer_overhead_s: Seconds = 0.0
    """Time of each norm of a layer besides the one before each branch. [s]"""
    routed_layer_overhead_s: Seconds = 0.0
    """Time that the launches of routed experts add to a layer. [s]"""
    scan_layer_overhead_s: Seconds = 0.0
    """Time that the launches of a recurrence add to a layer. [s]"""
    state_passes: NonNegative = 0.0
    """Times that kernels pass over a recurrence's state besides reading it and writing it back."""
    bf16_expert_passes: NonNegative = 0.0
    """Times that a single token reads its routed experts in BF16 besides once: llama.cpp's Vulkan
    multiplies them as matrices."""
    beam_layer_overhead_s: Seconds = 0.0
    """Time that several tokens of a sequence in one step add to a layer. [s]"""


class HostFacts(Noun):
    """How an engine computes layers or experts that the host's memory holds."""

    bandwidth: Fraction = 0.7
    """Share of the host's memory bandwidth at which its cores read weights."""
    layer_overhead_s: Seconds = 2e-5
    """Time that each layer takes more of which the host holds a part. [s]"""
    launch_s: Seconds = 0.0
    """Time that every layer of the model takes more if the host holds any. [s]"""
    link: Fraction = 0.8
    """Share of the link's rate at which weights come to the card for a long prompt."""
    flops_per_s: Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
    """Rate of the host's products on short prompts. [FLOPs/s]"""
    streamed_tokens: Count
    """Prompt tokens in a step from which weights come to the card instead."""


class ImageKernels(Noun):
    """How fast an engine runs an image network whose layers it has compiled and fused.

    One kernel for each product; norms, functions and sums run inside it.
    """

    compute: Fraction
    """Share of the dense peak of the format."""
    bandwidth: Fraction
    """Share of the memory bandwidth."""
    kernel_s: Seconds
    """Fixed cost of a kernel. [s]"""
    shared_memory_s: Seconds
    """Fixed cost of a batch on boards that share memory with a slow host. [s]"""
    generations: tuple[str, ...]
    """Of the runs on which these were fitted."""
    largest_batch: Annotated[int, Field(ge=1)]
    """Of those runs."""
    convolutions: Fraction
    """Least share of convolutions in the FLOPs of the networks of those runs."""
    source: str


AHEAD: Final = 1.5
"""Steps for which a prompt waits on average if a scheduler works ahead and looks in each."""


class ServingFacts(Noun):
    """Time and memory that a serving engine adds to the kernels of a step."""

    step_overhead_s: Seconds
    """Scheduling, sampling and host gaps per engine step. [s]"""
    layer_overhead_s: Seconds
    """Fixed cost per layer and step beyond the modelled kernels. [s]"""
    short_layer_share: Fraction = 1.0
    """That cost, and that of a step, on ``short_layer_cards`` relative to other cards."""
    short_layer_cards: tuple[str, ...] = ()
    """Generations on which they are smaller."""
    grouped_compute: Fraction = 1.0
    """Arithmetic rate of routed experts relative to one dense product in the same format."""
    unpacked_compute: Fraction = 1.0
    """Arithmetic rate of 16-bit products with weights stored in fewer bits, relative to 16-bit
    weights: kernels unpack the weights on the way."""
    sparse_heads: Count = 1
    """Heads to which kernels of attention with an index pad those of a rank."""
    expert_imbalance: Annotated[Positive, Field(ge=1)] = 1.0
    """Rows of the busiest rank of an expert group over those of even routing. The weights that a
    rank reads do not grow with its rows."""
    index_overhead_s: Seconds = 0.0
    """Fixed cost per step of each layer whose attention picks keys by an index, beyond the index's
    products: kernels that round, score and pick the keys of every sequence. [s]"""
    general_experts_s: Seconds = 0.0
    """What general kernels of routed experts in 8 bits or more add to each such layer of a step,
    over kernels that are tuned for the card: they sort tokens and add up results in launches of
    their own. [s]"""
    sequence_overhead_s: Seconds = 0.0
    """Host time per running sequence and step: scheduling, sampling, detokenisation. [s]"""
    waited_sequence_s: Seconds = 0.0
    """What that time has besides in releases whose scheduler does not work ahead, so that the card
    waits for it: none of today's. [s]"""
    prompt_overhead_s: Seconds = 0.0
    """Time that one prompt adds to each layer of the step that carries it, beyond its tokens:
    kernels start one by one, without captured graphs. [s]"""
    delta_prompt_s: Seconds = 0.0
    """Time that each recurrence by the delta rule adds to the step that carries a prompt: many
    small kernels, which the host starts one by one. [s]"""
    request_overhead_s: Seconds = 0.0
    """Time from a request's arrival to its first step: transport, tokenisation, scheduling. [s]"""
    routed_request_overhead_s: Seconds = 0.0
    """What each layer of routed experts adds to that time. [s]"""
    latent_request_overhead_s: Seconds = 0.0
    """What each layer of latent attention adds to it. [s]"""
    stops_generation: bool = False
    """Whether a step that reads prompts carries no running sequence."""
    ends_together: bool = False
    """Whether answers that start in one step end in one, as a load generator's of one length do."""
    gathering_steps: NonNegative = 0.0
    """Steps of the others that a prompt waits for on average: half of the running one, the next if
    the scheduler works ahead, and more if it collects prompts or looks for new ones after every few
    steps only."""
    template_s: Seconds = 0.0
    """Time of the host to render a chat in a release that reads its template anew each time. [s]"""
    admission_s: Seconds = 0.0
    """Time of the host to take in one of many requests that arrive together. [s]"""
    burst_slowdown: Positive = 1.0
    """Time of a finite burst's ramp and tail over that of their steps: start-up, prompts that
    collide."""
    memory_fraction: Fraction
    """Share of the accelerator's memory that the engine may fill."""
    batched_tokens: Count
    """Token limit of one engine step. It bounds the activation peak."""
    small_batched_tokens: Count = 2048
    """The same on accelerators with less than ``large_memory_bytes``."""
    large_memory_bytes: Bytes = 70.0 * 2**30
    """Reported memory from which the engine uses the larger limits (vLLM V1). [bytes]"""
    small_step_cards: tuple[str, ...] = ()
    """Generations on which an engine that is started without limits takes the small ones, however
    large the memory. Exports state their limits."""
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
    shares_prefixes: bool = True
    """Whether requests in flight share the cache of a common start of their prompts."""
    most_sequences: Count | None = None
    """Sequences that one server can hold at all, where its build fixes that."""
    running_sequences: Count | None = None
    """Sequences that run at the same time at most, by the engine's defaults; None takes
    ``sampled_sequences``."""
    sampling_bytes_per_logit: NonNegative = 18.0
    """Sampler tensors that exist at once, per sequence and vocabulary entry: 16-bit logits, their
    fp32 copy, masked values, probabilities, noise. [bytes]"""
    source: str
    start_wave: Fraction = 0.1
    """Share of a load generator's starting wave that lasts through its run: a tenth (ten rounds)
    if requests fall out of step, more if prompts stop all generation."""
    loop_variation: NonNegative = 1.0
    """Variation of arrivals and prompts in a load generator's closed loop: 1 if both are as random
    as exponential times, less for prompts alike that follow each other."""
    prompts_in_step: NonNegative = 0.0
    """Prompts for which another waits in a closed loop of equal lengths: requests that started one
    after another end so, and their next prompts meet again."""
    loaded_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the weights that no formula fixes: loaders keep scales and towers."""
    loose_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The same of the engine's own memory."""
    loose_bytes: Bytes = 0.0
    """Memory of graphs, kernels and the allocator that no formula fixes. [bytes]"""
    loads_tower: bool = False
    """Whether it loads a model's vision tower for requests without images too."""
    host_embedding: bool = False
    """Whether the embedding stays in the host's memory, unless it is the output matrix too."""
    step_buffers: bool = False
    """Whether the engine's only buffers besides the cache hold one step: its residual stream and
    its logits in fp32."""
    context_bytes: dict[str, Bytes] | None = None
    """Driver context and kernels of the engine: low, expected, high; None takes those of a
    process with PyTorch. [bytes]"""
    divides_layers: bool = False
    """Whether several cards share a model by whole layers alone."""
    host: HostFacts | None = None
    """How it computes layers in the host's memory; None if it cannot."""
    pipeline_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of a pipeline's further stages that work at the same time: 1 if a scheduler divides its
    sequences evenly among the stages, 0 if they travel together."""
    chunks_follow: bool = False
    """Whether chunks of one prompt follow each other through the stages of a pipeline."""
    backends: dict[str, BackendFacts] = Field(default_factory=dict)
    """Own kernels by generation of the card, ``default`` for the rest. Empty if the engine uses the
    calibrated kernels. A name may end with an interface that is not the generation's usual one:
    ``RDNA3 hip``."""
    title: str = ""
    """Name of the engine as people write it."""
    image_kernels: ImageKernels | None = None
    """None where image networks run as plain eager code."""
    built: str = ""
    """Months of the builds behind the constants: ``2025-03 to 2026-08``. Empty if unknown."""
    like: str = ""
    """Engine that it is like in all that its own section does not hold."""
    builds_of: str = ""
    """Engine whose earlier builds these are; empty for today's builds."""
    until: str = ""
    """Last month of these builds; empty for today's."""
    cards: tuple[str, ...] = ()
    """Generations on which these builds differ from later ones; empty for all."""
    recurrent: bool = False
    """Whether they differ for networks with a recurrence alone."""

    @property
    def steps_between(self) -> float:
        """Steps between two that take in prompts; infinite where answers end together."""
        if not self.stops_generation:
            return 1.0
        return math.inf if self.ends_together else max(2 * (self.gathering_steps - AHEAD), 1.0)

    def short_layers(self, generations: Sequence[str]) -> bool:
        """Return whether a card of these generations has the smaller cost per layer."""
        return not set(generations).isdisjoint(self.short_layer_cards)

    def backend(self, generations: Sequence[str], interface: str = "") -> BackendFacts | None:
        """Return the kernels for a card of these generations, narrowest first.

        ``interface`` is ``cuda``, ``hip``, ``vulkan``, ``metal`` or ``sycl``; by default the usual
        one. A processor's are never those of other cards.
        """
        others = () if PROCESSOR in generations else (OTHERS,)
        names = (*(f"{name} {interface}" for name in generations if interface), *generations)
        return next(
            (self.backends[name] for name in (*names, *others) if name in self.backends), None
        )


def builds_at(
    engines: Mapping[str, ServingFacts],
    name: str,
    date: str,
    generations: Sequence[str],
    *,
    recurrent: bool,
) -> str:
    """Return the section for the builds that an engine had at a date, on cards of some generations.

    The date is ``2024-05`` or longer; a year alone means its end, an empty text today.
    ``recurrent``: whether the network has a recurrence.
    """
    month = f"{date}-12" if len(date) == YEAR else date
    earlier = sorted(
        (facts.until, own)
        for own, facts in engines.items()
        if facts.builds_of == name
        and (not facts.cards or set(facts.cards) & set(generations))
        and (recurrent or not facts.recurrent)
    )
    return next((own for until, own in earlier if month and month[: len(until)] <= until), name)


def is_mappings(content: object) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    """Return whether a section holds only sections."""
    return isinstance(content, Mapping) and all(isinstance(x, Mapping) for x in content.values())


Constants = Mapping[str, Any]


def layered(kin: Mapping[str, Constants], own: Mapping[str, Constants]) -> dict[str, Constants]:
    """Lay an engine's ``own`` constants of kernels over those of its ``kin``, by generation.

    A constant of ``default`` reaches each generation that has the default's so far.
    """
    usual, changed = kin.get(OTHERS, {}), own.get(OTHERS, {})
    result: dict[str, Constants] = {}
    for name in {**kin, **own}:
        base = kin.get(name, usual)
        follows = {key: changed[key] for key in changed if base.get(key) == usual.get(key)}
        result[name] = {**base, **follows, **own.get(name, {})}
    return result


def joined_engines(serving: Mapping[str, Any], engines: Mapping[str, Any]) -> dict[str, Any]:
    """Fill missing fields in the sections of ``engines`` from ``serving``.

    An engine that is ``like`` another takes what it misses from the other's section.
    """
    result: dict[str, Any] = {}
    for name, own in sorted(engines.items(), key=lambda item: bool(item[1].get("like"))):
        base = result.get(own.get("like", ""), serving)
        kin = {} if base is serving else base.get("backends", {})
        joined = {**base, **own, "backends": layered(kin, own.get("backends", {}))}
        if own.get("host"):
            joined["host"] = {**(base.get("host") or {}), **own["host"]}
        result[name] = joined
    return result
