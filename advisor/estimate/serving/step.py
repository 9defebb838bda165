"""Time of one step of a serving engine: a fold over the table, the same for prompt and decode.

A step carries the running sequences, one token each, and any number of prompt tokens. Prompt
tokens share the weights that the running sequences read anyway.
"""

from collections.abc import Iterator

import numpy as np

from advisor.equations.collectives import all_gather_time_s, direct_all_reduce_time_s
from advisor.equations.offload import host_layers_s
from advisor.equations.serving.continuous_batching import pipeline_batches
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, Shares
from advisor.estimate.hardware.links import group_link
from advisor.estimate.serving.demand import ServedModel
from advisor.estimate.serving.host_parts import HostParts, host_parts
from advisor.estimate.serving.row_times import (
    StepContent,
    attention_time,
    elementwise_time,
    products,
)
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.foundation.record import record
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.links_and_memory import NetworkEfficiency

BRANCHES_PER_BLOCK = 2.0
"""Attention and feed-forward: the engine's overhead per layer was fitted on blocks with both. Each
branch ends in one reduction (Narayanan et al. 2021, section 2.3)."""

RUNNING_STEP = 0.5
"""Steps for which a prompt waits on average where no scheduler works ahead."""

EIGHT_BIT_BYTES = 1.0
"""Of one stored parameter."""

EXPERT_EXCHANGES = 2.0
"""Dispatch to the experts and return."""


@record
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


def engine_step(
    served: ServedModel,
    content: StepContent,
    candidates: Candidates,
    engine: ServingFacts,
    network: NetworkEfficiency,
) -> StepShares:
    """Return the exclusive shares of one step from its start to its sampled tokens. [s]

    Infinite if the card lacks the format or a group needs a missing network.

    ``candidates``: hardware rates are for the compute format of the stored weights.

    Pipeline stages run one after another. Leaves out overlap of traffic with computation, and
    quantisation of activations (part of the fitted overheads).
    """
    hardware = candidates.hardware
    shape = np.broadcast_shapes(
        content.tokens.shape, content.context_last.shape, hardware.memory_bytes.shape
    )
    parts = host_parts(served.model, candidates.layout)
    # From a length on, the card computes with weights that come over the link.
    streams = content.tokens >= (engine.host.streamed_tokens if engine.host else np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = products(served, content, candidates, engine, parts, streams, shape)
        reading, scores = attention_time(served, content, candidates, engine)
        moved = reading * hardware.memory_bandwidth_bytes_per_s * hardware.cache_bandwidth
        held = found.held_bytes + np.where(streams, 0.0, parts.layers * moved)
        overheads = _overheads(served, content, candidates, engine)
        host_s = _host_s(served, content, hardware, engine, parts, held, found.held_flops)
        return StepShares(
            weights=found.weights,
            # The host holds the cache of its layers.
            cache=np.zeros(shape) + (1.0 - parts.layers) * reading,
            compute=found.compute + scores + elementwise_time(served, content, candidates),
            network=np.broadcast_to(traffic_s(served, content.tokens, candidates, network), shape),
            fixed=sum(overheads, found.fixed),
            host=np.broadcast_to(host_s, shape),
        )


def _overheads(
    served: ServedModel, content: StepContent, candidates: Candidates, engine: ServingFacts
) -> Iterator[Floats]:
    """Yield the fixed costs of a step besides those of its products, in s."""
    hardware = candidates.hardware
    # One scheduler serves all micro-batches of a pipeline, one after the other.
    apart = pipeline_batches(stages=candidates.layout.pipeline, share=engine.pipeline_share)
    short = 1.0 - hardware.short_layers * (1.0 - engine.short_layer_share)
    # The host samples each beam.
    sampled = content.sampled * (content.verified if served.reads_apart else 1.0)
    # Engines with kernels of their own are called directly.
    waits = not engine.backends and engine.gathering_steps <= RUNNING_STEP
    waited = engine.waited_sequence_s if waits else 0.0
    sequence_s = engine.sequence_overhead_s + waited
    yield apart * (engine.step_overhead_s * short + sequence_s * sampled)
    common = engine.layer_overhead_s * short
    prompt = hardware.prompt_layer_overhead_s
    decode = common + hardware.layer_overhead_s
    blocks = served.model.branches / BRANCHES_PER_BLOCK
    if served.reads_apart:
        # The host is ahead of an encoder's long kernels.
        yield np.where(content.prompt_tokens > 0, served.encoder_layers * prompt, 0.0)
        decode = decode + hardware.beam_layer_overhead_s * (content.verified > 1)
        yield np.where(content.sequences > 0, blocks * decode, 0.0)
    else:
        yield blocks * np.where(content.prompt_tokens > 0, common + prompt, decode)
        yield hardware.norm_layer_overhead_s * served.further_norms
    yield np.asarray(engine.index_overhead_s * served.index_layers)
    wide = served.weight_format.bytes_per_parameter >= EIGHT_BIT_BYTES
    general_s = engine.general_experts_s if wide else 0.0
    yield (hardware.routed_layer_overhead_s + general_s) * served.routed_layers
    yield hardware.scan_layer_overhead_s * served.scan_layers


def _host_s(
    served: ServedModel,
    content: StepContent,
    hardware: HardwareArrays,
    engine: ServingFacts,
    parts: HostParts,
    held_bytes: Floats,
    flops: Floats,
) -> Floats:
    """Return the time of the layers and experts in the host's memory, in s."""
    host = engine.host
    if host is None:
        return np.zeros(1)
    return np.asarray(
        host_layers_s(
            held_bytes=held_bytes,
            flops=flops,
            tokens=content.tokens,
            layers=served.model.num_hidden_layers * parts.touched,
            host_bytes_per_s=hardware.host_bytes_per_s * host.bandwidth,
            host_flops_per_s=host.flops_per_s,
            link_bytes_per_s=hardware.pcie_bytes_per_s * host.link,
            streamed_tokens=host.streamed_tokens,
            layer_overhead_s=host.layer_overhead_s,
            launches_s=served.model.num_hidden_layers * host.launch_s,
        )
    )


def traffic_s(
    served: ServedModel, tokens: Floats, candidates: Candidates, network: NetworkEfficiency
) -> Floats:
    """Return the time of all exchanges between accelerators in a step of ``tokens``. [s]"""
    layout = candidates.layout
    one = np.ones_like(layout.tensor)
    hidden = SIXTEEN_BIT_BYTES * served.model.hidden_size * tokens
    # Cards without peer-to-peer reduce through the host, as in training.
    bandwidth, latency = group_link(candidates, network, layout.tensor, one, staged=True)
    fast = layout.tensor <= candidates.hardware.intra_domain
    gain = 1.0 + fast * network.rank_gain * np.log2(np.maximum(layout.tensor / 2, 1.0))
    reduction = direct_all_reduce_time_s(
        message_bytes=hidden, ranks=layout.tensor, bytes_per_s=bandwidth * gain, latency_s=latency
    )
    total = served.model.branches * np.asarray(reduction)

    routed = [matrix for matrix in served.matrices if matrix.experts > 1]
    if routed:
        bandwidth, latency = group_link(candidates, network, layout.expert, layout.tensor)
        # A token travels once to each rank that holds one of its experts.
        copies = np.minimum(float(routed[0].active_experts), layout.expert)
        exchange = all_gather_time_s(
            message_bytes=hidden * copies / layout.tensor,
            ranks=layout.expert,
            bytes_per_s=bandwidth,
            latency_s=latency / np.maximum(layout.expert - 1, 1.0),
        )
        layers = max(matrix.layers for matrix in routed)
        total = total + np.where(
            layout.expert > 1, EXPERT_EXCHANGES * layers * np.asarray(exchange), 0.0
        )

    # Neighbouring stages are one tensor-parallel group apart.
    bandwidth, latency = group_link(candidates, network, 2 * one, layout.tensor)
    hop = latency + hidden / bandwidth
    return total + np.where(layout.pipeline > 1, (layout.pipeline - 1) * hop, 0.0)
