"""Traffic of a training step between accelerators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.collectives import (
    all_gather_time_s,
    all_reduce_time_s,
    expert_exchange_time_s,
    point_to_point_time_s,
    tree_gather_time_s,
)
from advisor.equations.memory import nf4_bytes
from advisor.equations.pipeline import dualpipe_pair_time_s, exposed_time_s
from advisor.estimate.candidates import Candidates, Floats, LayoutArrays
from advisor.estimate.fold import block_matrices, fold_adapters, fold_parameters
from advisor.estimate.links import exchange_links, group_link
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import gradient_bytes_per_parameter
from advisor.nouns.efficiency import NetworkEfficiency
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.stacks import SoftwareFacts
from advisor.nouns.workload import AttentionKernel, FineTuningMethod, GradientSync


@dataclass(frozen=True, slots=True)
class ModelTraffic:
    """Traffic of one micro-batch, by parallelism. [s]"""

    tensor: Floats
    expert: Floats
    context: Floats
    pipeline: Floats


def model_traffic(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    software: SoftwareFacts,
    share: Floats,
    tokens: Floats,
) -> ModelTraffic:
    """Traffic of one micro-batch: tensor, expert, context and pipeline parallelism. [s]"""
    layout = candidates.layout
    layers = architecture.num_hidden_layers * share
    branches = architecture.branches * share
    hidden = 2.0 * tokens * architecture.hidden_size
    again = layout.recompute >= 2
    one = np.ones_like(layout.tensor)

    def nothing_for_one(ranks: Floats, time: Floats) -> Floats:
        return np.where(ranks > 1, time, 0.0)

    bandwidth, latency = group_link(candidates, network, layout.tensor, one)
    reduce = np.asarray(
        all_reduce_time_s(
            message_bytes=hidden, ranks=layout.tensor, bytes_per_s=bandwidth, latency_s=latency
        )
    )
    # Scattered sequences travel in pieces beside the products that make and use them, over links
    # that write into each other's memory (NVLink). Software with unfused attention is older than
    # that: Korthikanti et al. 2022 measured without.
    overlap = 0.0 if run.attention is AttentionKernel.EAGER else software.tensor_overlap
    beside = (layout.sequence_parallel > 0) & (layout.tensor <= candidates.hardware.intra_domain)
    shown = np.where(beside, 1.0 - overlap, 1.0)
    # One reduction forward and one backward in each branch (Narayanan et al. 2021).
    tensor = nothing_for_one(layout.tensor, branches * (2.0 + again) * reduce * shown)

    expert = np.zeros_like(tokens)
    routed = [op for op in architecture.operators if op.experts > 1]
    if routed:
        moe_layers = max(op.layers for op in routed) * share
        _, latency = group_link(candidates, network, layout.expert, layout.tensor)
        local, inside, inter = exchange_links(candidates, network, layout.expert, layout.tensor)
        exchange = np.asarray(
            expert_exchange_time_s(
                # Experts may work in a narrower space, to which tokens are projected before.
                token_bytes=_exchanged_bytes(run, layout)
                * tokens
                * routed[0].in_features
                / layout.tensor,
                active_experts=float(routed[0].active_experts),
                expert_groups=float(routed[0].expert_groups),
                active_groups=float(routed[0].active_groups),
                ranks=layout.expert,
                local=local,
                inside_bytes_per_s=inside,
                inter_bytes_per_s=inter,
                latency_s=latency,
            )
        )
        # Dispatch and combine, forward and backward.
        expert = nothing_for_one(layout.expert, moe_layers * (4.0 + 2.0 * again) * exchange)

    bandwidth, latency = group_link(candidates, network, layout.context, layout.tensor)
    cache = sum(op.cache_elements_per_token for op in architecture.operators if op.heads)
    rows = max(1, sum(1 for op in architecture.operators if op.heads))
    keys_values = 2.0 * tokens * layout.context * cache / rows / layout.tensor
    ring = np.asarray(
        all_gather_time_s(
            message_bytes=keys_values,
            ranks=layout.context,
            bytes_per_s=bandwidth,
            latency_s=latency,
        )
    )
    # Keys and values forward; they and their gradients backward.
    context = nothing_for_one(layout.context, layers * (3.0 + again) * ring)

    stride = layout.tensor * layout.context * layout.data
    bandwidth, latency = group_link(candidates, network, one * 2, stride)
    spread = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
    hop = np.asarray(
        point_to_point_time_s(
            message_bytes=hidden / spread, bytes_per_s=bandwidth, latency_s=latency
        )
    )
    pipeline = nothing_for_one(layout.pipeline, 2.0 * layout.virtual_stages * hop)
    return ModelTraffic(tensor=tensor, expert=expert, context=context, pipeline=pipeline)


def _exchanged_bytes(run: TrainingRun, layout: LayoutArrays) -> Floats:
    """Bytes of one element on its way to an expert or back, on average over the four ways.

    DualPipe's code dispatches activations and gradients in the format of the products (DeepSeek-V3,
    section 3.3.3) and combines in 16 bits; others do both in 16 bits.
    """
    dispatched = min(2.0, FORMAT_BYTES[run.recipe.compute])
    return np.where(layout.dual, (dispatched + 2.0) / 2, 2.0)


def exposed_exchange(
    exchange_s: Floats, cover_s: Floats | float, layout: LayoutArrays, software: SoftwareFacts
) -> Floats:
    """Expert traffic of one micro-batch that its schedule does not hide. [s]

    Parameters
    ----------
    exchange_s, cover_s : ndarray
        The exchanges on their own, and the computation of the same micro-batch. [s]
    layout : LayoutArrays
    software : SoftwareFacts

    Returns
    -------
    ndarray
        With what the computation loses to the exchanges. [s]
    """
    beside = np.maximum(0.0, exchange_s - np.minimum(software.expert_overlap * exchange_s, cover_s))
    found = np.where(layout.overlapped, beside, exchange_s)
    if not np.any(layout.dual):
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
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    share: Floats,
    micro_batches: Floats,
    cover: Floats,
) -> Floats:
    """Gradient and parameter traffic of one step that computation does not hide. [s]"""
    layout = candidates.layout
    dense, expert = local_parameters(architecture, candidates, share)
    group = layout.data * layout.context
    gradient = gradient_bytes_per_parameter(run)
    weight = 2.0 if run.recipe.compute != "fp32" else 4.0
    if run.frozen:
        dense_adapters, routed_adapters = fold_adapters(architecture, run)
        trained_dense = dense_adapters / (layout.tensor * layout.pipeline)
        trained_expert = routed_adapters / (layout.tensor * layout.pipeline * layout.expert)
    else:
        trained_dense, trained_expert = dense, expert

    def gathers(ranks: Floats, stride: Floats) -> Callable[[Floats], Floats]:
        """Return the time of gathering a message over one kind of group."""
        bandwidth, latency = group_link(candidates, network, ranks, stride)

        def gather(message: Floats) -> Floats:
            time = tree_gather_time_s(
                message_bytes=message, ranks=ranks, bytes_per_s=bandwidth, latency_s=latency
            )
            return np.where((ranks > 1) & (message > 0), np.asarray(time), 0.0)

        return gather

    of_dense = gathers(group, layout.tensor)
    grads = of_dense(gradient * trained_dense)
    trained = of_dense(weight * trained_dense)
    # A 4-bit base is gathered as it is held.
    spared = (weight - nf4_bytes(parameters=1.0)) * (run.method is FineTuningMethod.QLORA)
    matrices, routed = block_matrices(architecture)
    cut = layout.tensor * layout.pipeline
    whole = of_dense(weight * dense - spared * matrices / cut)
    if architecture.num_experts > 1:
        of_experts = gathers(group / layout.expert, layout.tensor * layout.expert)
        grads = grads + of_experts(gradient * trained_expert)
        trained = trained + of_experts(weight * trained_expert)
        whole = whole + of_experts(weight * expert - spared * routed / (cut * layout.expert))
    # DDP and ZeRO-1: gradients reduced and (for DDP: gradients again, else parameters) gathered
    # once per step, behind one micro-batch. ZeRO-2 scatters gradients in every micro-batch, unless
    # whole ones wait. ZeRO-3 also gathers parameters, for forward and for backward. In a
    # pipeline neither does: what is gathered stays, and gradients are summed until the last
    # micro-batch (Llama team 2024, arXiv:2407.21783, section 3.3.2).
    gathered = np.where(layout.sharding >= 3, whole, trained)
    once = grads + np.where(layout.sharding >= 1, gathered, grads)
    each = 0.0 * grads if run.switches.gradient_sync is GradientSync.LAST else grads

    def exposed(traffic: Floats) -> Floats:
        return np.asarray(exposed_time_s(traffic_s=traffic, cover_s=cover, overlap=network.overlap))

    hidden_once = exposed(once)
    hidden_every = (micro_batches - 1) * exposed(2 * whole + each) + exposed(2 * whole + grads)
    # The updated parameters share one micro-batch's computation with its gradients.
    scattered = (micro_batches - 1) * exposed(each) + exposed(grads + trained)
    level = np.where(layout.pipeline > 1, np.minimum(layout.sharding, 1), layout.sharding)
    sharded = np.where(level >= 2, scattered, hidden_once)
    return np.where(level >= 3, hidden_every, sharded)
