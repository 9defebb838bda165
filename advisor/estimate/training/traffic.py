"""Traffic of a training step between accelerators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.collectives import (
    all_gather_time_s,
    all_reduce_time_s,
    expert_exchange_time_s,
    ring_start_s,
)
from advisor.equations.training.memory import nf4_bytes
from advisor.equations.training.pipeline import dualpipe_pair_time_s, exposed_time_s
from advisor.equations.training.traffic import (
    contention_of,
    context_traffic_s,
    expert_traffic_s,
    key_value_message_bytes,
    overlapped_exchange_s,
    pipeline_traffic_s,
    tensor_traffic_s,
)
from advisor.estimate.candidates import Candidates, Floats, LayoutArrays
from advisor.estimate.fold import block_matrices, fold_adapters, fold_parameters
from advisor.estimate.hardware.links import exchange_links, group_link, machines_of
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import gradient_bytes_per_parameter
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.links_and_memory import NetworkEfficiency
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import AttentionKernel, FineTuningMethod, GradientSync


@record
class ModelTraffic:
    """Traffic of one micro-batch, by parallelism. [s]"""

    tensor: Floats
    expert: Floats
    context: Floats
    pipeline: Floats


@record
class _Part:
    """Computation of one micro-batch on one rank, and the links that it uses."""

    run: TrainingRun
    candidates: Candidates
    network: NetworkEfficiency
    share: Floats
    """Of the layers."""
    tokens: Floats

    @property
    def layout(self) -> LayoutArrays:
        return self.candidates.layout

    @property
    def remade(self) -> Floats:
        """1 if the forward pass runs twice, otherwise 0."""
        return np.asarray(self.layout.recompute >= 2, dtype=np.float64)

    @property
    def hidden_bytes(self) -> Floats:
        """The residual stream between blocks, in 16 bits."""
        architecture = self.run.architecture
        return 2.0 * self.tokens * architecture.hidden_size * architecture.stream_positions

    def link(self, ranks: Floats, stride: Floats) -> tuple[Floats, Floats]:
        """Return rate and latency of a group. [bytes/s], [s]"""
        return group_link(self.candidates, self.network, ranks, stride, staged=True)


def model_traffic(
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    software: SoftwareFacts,
    share: Floats,
    tokens: Floats,
) -> ModelTraffic:
    """Traffic of one micro-batch: tensor, expert, context and pipeline parallelism. [s]"""
    part, layout = _Part(run, candidates, network, share, tokens), candidates.layout
    routed = any(op.experts > 1 for op in run.architecture.operators)
    return ModelTraffic(
        tensor=_between(layout.tensor, lambda: _tensor_traffic(part, software)),
        expert=_between(layout.expert, lambda: _expert_traffic(part) if routed else 0.0 * tokens),
        context=_between(layout.context, lambda: _context_traffic(part, software)),
        pipeline=pipeline_traffic(run, candidates, network, share, tokens),
    )


def _between(ranks: Floats, times: Callable[[], Floats]) -> Floats:
    """Return the times of traffic between ranks, 0 for one alone."""
    several = ranks > 1
    return np.where(several, times(), 0.0) if several.any() else np.zeros_like(ranks)


def _tensor_traffic(part: _Part, software: SoftwareFacts) -> Floats:
    layout = part.layout
    bandwidth, latency = part.link(layout.tensor, np.ones_like(layout.tensor))
    reduce = all_reduce_time_s(
        message_bytes=part.hidden_bytes,
        ranks=layout.tensor,
        bytes_per_s=bandwidth,
        latency_s=latency,
    )
    # Over links that write into another card's memory (NVLink), scattered sequences move in pieces
    # while their products run. Software with unfused attention is older and does not do this:
    # Korthikanti et al. 2022 measured without it.
    eager = part.run.attention is AttentionKernel.EAGER
    overlap = 0.0 if eager else software.tensor_overlap
    near = layout.tensor <= part.candidates.hardware.intra_domain
    return np.asarray(
        tensor_traffic_s(
            branches=part.run.architecture.branches * part.share,
            all_reduce_s=reduce,
            remade=part.remade,
            exposed=np.where((layout.sequence_parallel > 0) & near, 1.0 - overlap, 1.0),
        )
    )


def _expert_traffic(part: _Part) -> Floats:
    layout = part.layout
    routed = [op for op in part.run.architecture.operators if op.experts > 1]
    _, latency = part.link(layout.expert, layout.tensor)
    local, inside, inter = exchange_links(
        part.candidates, part.network, layout.expert, layout.tensor
    )
    # Experts may work in a narrower space; tokens are projected into it first.
    first, tokens = routed[0], part.tokens * routed[0].in_features / layout.tensor
    exchange = expert_exchange_time_s(
        token_bytes=_exchanged_bytes(part.run, layout) * tokens,
        active_experts=float(first.active_experts),
        expert_groups=float(first.expert_groups),
        active_groups=float(first.active_groups),
        ranks=layout.expert,
        local=local,
        inside_bytes_per_s=inside,
        inter_bytes_per_s=inter,
        latency_s=latency,
    )
    layers = max(op.layers for op in routed) * part.share
    return np.asarray(expert_traffic_s(layers=layers, exchange_s=exchange, remade=part.remade))


def _context_traffic(part: _Part, software: SoftwareFacts) -> Floats:
    layout, rows = part.layout, [op for op in part.run.architecture.operators if op.heads]
    bandwidth, latency = part.link(layout.context, layout.tensor)
    # PyTorch's own attention has them repeated for every query head (torchtitan, ``repeat_kv``).
    repeated = software.portable_attention
    elements = sum(
        op.flops_per_token_per_key / 2.0 if repeated else op.cache_elements_per_token for op in rows
    )
    message = key_value_message_bytes(
        tokens=part.tokens,
        context=layout.context,
        elements_per_token=elements,
        rows=max(1, len(rows)),
        tensor=layout.tensor,
    )
    ring = all_gather_time_s(
        message_bytes=message, ranks=layout.context, bytes_per_s=bandwidth, latency_s=latency
    )
    layers = part.run.architecture.num_hidden_layers * part.share
    return np.asarray(context_traffic_s(layers=layers, ring_s=ring, remade=part.remade))


def pipeline_traffic(
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    share: Floats,
    tokens: Floats,
) -> Floats:
    """Hops of one micro-batch between pipeline stages. [s]"""
    layout, part = candidates.layout, _Part(run, candidates, network, share, tokens)

    def hops() -> Floats:
        stride = layout.tensor * layout.context * layout.data
        bandwidth, latency = part.link(2.0 * np.ones_like(layout.tensor), stride)
        spread = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
        hop = latency + part.hidden_bytes / spread / bandwidth
        return np.asarray(pipeline_traffic_s(virtual_stages=layout.virtual_stages, hop_s=hop))

    return _between(layout.pipeline, hops)


def _exchanged_bytes(run: TrainingRun, layout: LayoutArrays) -> Floats:
    """Bytes of one element to an expert or back, on average over the four exchanges.

    DualPipe's code dispatches activations and gradients in the format of the products (DeepSeek-V3,
    section 3.3.3) and combines in 16 bits; others do both in 16 bits.
    """
    dispatched = min(2.0, FORMAT_BYTES[run.recipe.compute])
    return np.where(layout.dual, (dispatched + 2.0) / 2, 2.0)


def exposed_exchange(
    exchange_s: Floats, cover_s: Floats | float, layout: LayoutArrays, software: SoftwareFacts
) -> Floats:
    """Expert traffic of one micro-batch that its schedule does not hide. [s]

    Includes the time by which the exchanges slow the computation.

    ``exchange_s`` and ``cover_s``: the exchanges on their own, and the computation of the same
    micro-batch. [s]
    """
    beside = overlapped_exchange_s(
        exchange_s=exchange_s, cover_s=cover_s, overlap=software.expert_overlap
    )
    found = np.where(layout.overlapped, beside, exchange_s)
    if not layout.dual.any():
        return found
    dual = dualpipe_pair_time_s(compute_s=cover_s, exchange_s=exchange_s) - cover_s
    return np.where(layout.dual, np.where(exchange_s > 0, dual, 0.0), found)


def local_parameters(
    architecture: ModelArchitecture, candidates: Candidates, share: Floats
) -> tuple[Floats, Floats]:
    """Dense and expert parameters of the fullest stage's rank. [elements]"""
    layout = candidates.layout
    fold = fold_parameters(architecture)
    both = fold.embedding_divided + fold.head_divided
    larger = max(fold.embedding_divided, fold.head_divided)
    ends = np.where(layout.pipeline > 1, larger, both)
    dense = share * (fold.block_divided / layout.tensor + fold.block_replicated)
    dense = dense + ends / layout.tensor
    return dense, share * fold.block_expert / (layout.tensor * layout.expert)


def data_traffic(
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    software: SoftwareFacts,
    share: Floats,
    micro_batches: Floats,
    cover: Floats,
    other_s: Floats,
) -> Floats:
    """Gradient and parameter traffic of one step that nothing else hides. [s]

    ``cover`` and ``other_s``: computation of one micro-batch, and the traffic of its tensor and
    context parallelism. Where that stays on links inside a machine and the gradients leave it, both
    run at once. [s]

    Gradients are summed behind a backward pass. DDP and ZeRO-1 do so once per step; ZeRO-2 and 3
    scatter them in every micro-batch, unless whole gradients wait. ZeRO-1 and 2 gather updated
    parameters behind the next forward pass, if the software can. ZeRO-3 gathers parameters for each
    forward and each backward pass. In a pipeline, gathered parameters stay and gradients are summed
    until the last micro-batch (Llama team 2024, arXiv:2407.21783, section 3.3.2).
    """
    layout, hardware = candidates.layout, candidates.hardware
    near = layout.tensor * layout.context <= hardware.intra_domain
    leaves = layout.tensor * layout.context * layout.data > hardware.intra_domain
    cover = cover + np.where(near & leaves, other_s, 0.0)
    gradients, trained, weights = _gathers(run, candidates, network, share)
    link_share = np.where(hardware.intra_domain > 1, network.link_contention, 0.0)
    host_share = np.where(hardware.staged > 0, network.contention, 0.0)
    level = np.where(layout.pipeline > 1, np.minimum(layout.sharding, 1), layout.sharding)
    alone = _alone(run, candidates, software, share, level)
    # DeepSpeed gathers one module ahead, too late for a network. Adapters' own pace holds this.
    late = leaves & (level >= 3) & (run.stack.runs_deepspeed and not run.frozen)
    overlap = np.where(late, 0.0, network.overlap)
    back = (1.0 if run.frozen else 2.0) + (layout.recompute >= 2)
    forward, backward = cover / (1.0 + back), cover * back / (1.0 + back)

    def shown(traffic: Floats, beside: Floats) -> Floats:
        contention = contention_of(
            traffic_s=traffic[0],
            on_links_s=traffic[1],
            link_share=link_share,
            host_share=host_share,
        )
        shown_s = exposed_time_s(
            traffic_s=traffic[0],
            cover_s=beside,
            overlap=overlap,
            contention=contention,
            alone=alone,
        )
        return np.asarray(shown_s)

    scattered = gradients * (run.switches.gradient_sync is not GradientSync.LAST)
    # An all-reduce scatters sums and gathers them (ZeRO, 2020, section 7).
    summed = shown(gradients * np.where(layout.sharding >= 1, 1.0, 2.0), backward)
    held = np.where(layout.sharding >= 3, weights, trained)
    gathered = shown(held, forward) if software.gathers_beside else held[0]
    once = summed + np.where(layout.sharding >= 1, gathered, 0.0)
    if not (level >= 2).any():
        return np.asarray(once)
    half = (micro_batches - 1) * shown(scattered, backward) + once
    found = np.where(level >= 2, half, once)
    if not (level >= 3).any():
        return found
    full = (
        micro_batches * shown(weights, forward)
        + (micro_batches - 1) * shown(weights + scattered, backward)
        + shown(weights + gradients, backward)
    )
    return np.where(level >= 3, full, found)


def _alone(
    run: TrainingRun,
    candidates: Candidates,
    software: SoftwareFacts,
    share: Floats,
    level: Floats,
) -> Floats:
    """Share of gradients (or weights) in the last message, which nothing hides. [fraction]

    A bucket, or a layer under ZeRO-3, but at least the input table, whose gradient comes last.
    """
    layout = candidates.layout
    held = sum(local_parameters(run.architecture, candidates, share))
    layer = held / (run.architecture.num_hidden_layers * share)
    table = fold_parameters(run.architecture).embedding_divided / layout.tensor
    table = np.where((layout.pipeline > 1) | run.frozen, 0.0, table)
    last = np.maximum(np.where(level >= 3, layer, software.bucket_elements), table)
    return np.asarray(np.minimum(1.0, last / held))


def _start_s(
    candidates: Candidates,
    network: NetworkEfficiency,
    ranks: Floats,
    stride: Floats,
    latency: Floats,
    messages: Floats,
) -> Floats:
    """Latency of gathering (or scattering) what a rank holds of a model. [s]

    From ZeRO-2 on, every layer is a message of its own round a ring. Below, a few large buckets
    are reduced over trees.
    """
    ring = ring_start_s(
        ranks=ranks,
        machines=machines_of(candidates, ranks, stride),
        inside_s=network.intra_latency_s,
        between_s=network.inter_latency_s,
    )
    return np.where(candidates.layout.sharding > 1, messages * ring, np.log2(ranks) * latency)


def _gathers(
    run: TrainingRun, candidates: Candidates, network: NetworkEfficiency, share: Floats
) -> Floats:
    """Times of gathering gradients, weights that the optimizer updates, and all weights. [s]

    Each over the group's links, and at the rate of those inside a machine. Dense and expert ones
    are gathered over their own groups, one after the other.
    """
    layout = candidates.layout
    dense, expert = local_parameters(run.architecture, candidates, share)
    trained_dense, trained_expert = dense, expert
    cut = layout.tensor * layout.pipeline
    if run.frozen:
        dense_adapters, routed_adapters = fold_adapters(run)
        trained_dense = dense_adapters / cut
        trained_expert = routed_adapters / (cut * layout.expert)
    gradient = gradient_bytes_per_parameter(run)
    weight = run.recipe.element_bytes
    # A 4-bit base is gathered in 4 bits.
    spared = (weight - nf4_bytes(parameters=1.0)) * (run.method is FineTuningMethod.QLORA)
    matrices, routed = block_matrices(run.architecture)
    group = layout.data * layout.context
    messages = run.architecture.num_hidden_layers * share
    inside = candidates.hardware.intra_bytes_per_s * network.intra_bandwidth

    def times(trained: Floats, whole: Floats, ranks: Floats, stride: Floats) -> Floats:
        bandwidth, latency = group_link(candidates, network, ranks, stride, staged=True)
        start = _start_s(candidates, network, ranks, stride, latency, messages)
        rates = np.stack([bandwidth, np.maximum(bandwidth, inside)])

        def gather(message: Floats) -> Floats:
            time = start + all_gather_time_s(
                message_bytes=message, ranks=ranks, bytes_per_s=rates, latency_s=0.0
            )
            return np.where((ranks > 1) & (message > 0), np.asarray(time), 0.0)

        return np.stack([gather(gradient * trained), gather(weight * trained), gather(whole)])

    held = weight * dense - spared * matrices / cut
    found = times(trained_dense, held, group, layout.tensor)
    if run.architecture.num_experts > 1:
        held = weight * expert - spared * routed / (cut * layout.expert)
        stride = layout.tensor * layout.expert
        found = found + times(trained_expert, held, group / layout.expert, stride)
    return found
