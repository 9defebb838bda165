"""Time of one optimizer step: a fold of operator times over the table, then the traffic.

The same code serves one configuration and a million.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.table.sample import Unit
from advisor.equations.memory import stage_share
from advisor.equations.pipeline import bubble_time_s, dualpipe_bubble_time_s, exposed_time_s
from advisor.equations.roofline import bandwidth_time_s
from advisor.estimate.caching import step_in_cache
from advisor.estimate.candidates import Candidates, Floats, Shares
from advisor.estimate.fold import (
    adapted,
    fold_adapters,
    fold_flops,
    made_again,
    remade_by_selection,
)
from advisor.estimate.host_memory import offloads
from advisor.estimate.kernel_times import (
    adapter_forward,
    attention_passes,
    dequantise_time,
    elementwise_forward,
    is_product,
    matmul_forward,
    recurrence_passes,
    scan_forward,
)
from advisor.estimate.launching import STEP_COPIES, copies_time, launch_time
from advisor.estimate.training.loading import loading_time
from advisor.estimate.training.offload import offload_time
from advisor.estimate.training.optimizer_states import optimizer_bytes_per_parameter
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import gradient_bytes_per_parameter
from advisor.estimate.training.stages import SHARD_GRAD_OP
from advisor.estimate.training.traffic import (
    data_traffic,
    exposed_exchange,
    local_parameters,
    model_traffic,
)
from advisor.nouns.efficiency import NetworkEfficiency
from advisor.nouns.layout import Offload
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.stacks import SoftwareFacts
from advisor.nouns.workload import AttentionKernel, FineTuningMethod, Optimizer

ELEMENTWISE_BACKWARD = 2.0
"""Backward over forward traffic of memory-bound rows: the gradient comes and goes besides the
saved input."""
ADAPTER_LAUNCHES = 8.0
"""Kernels of one adapter forward: dropout, two products, scale, sum, and three changes of format
under autocast (PEFT, ``lora.Linear``)."""
SCAN_BACKWARD = 2.0
"""Backward over forward FLOPs of a chunked recurrence: two products for each one, as for any
matrix product (Dao and Gu 2024, arXiv:2405.21060, section 6)."""


@dataclass(frozen=True, slots=True)
class TrainingTime(Shares):
    """Exclusive shares of one optimizer step, one element per configuration. [s]"""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    recompute: Floats
    launch: Floats
    """The accelerator waits for the host: for launches, and for a step's small copies."""
    tensor_traffic: Floats
    expert_traffic: Floats
    context_traffic: Floats
    pipeline_traffic: Floats
    bubble: Floats
    data_traffic: Floats
    """Gradient and parameter traffic that computation does not hide."""
    optimizer: Floats
    offload: Floats
    """Traffic with the host and the host's update, where something lives there."""
    software: Floats
    """Host gaps and stragglers of the software stack."""
    input: Floats
    """The rest waits for the host to read, decode and augment."""

    @property
    def step(self) -> Floats:
        """Sum of all shares. [s]"""
        return self.total


@dataclass(slots=True)
class _Pass:
    """Times of one micro-batch through one stage, accumulated over rows. [s]"""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    recompute: Floats
    launches: Floats
    host: Floats
    """While the device waits."""


def training_time(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    software: SoftwareFacts,
) -> TrainingTime:
    """Shares of one optimizer step.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    candidates : Candidates
        One element per configuration; hardware rates are for ``run.recipe.compute``.
    network : NetworkEfficiency
    software : SoftwareFacts

    Returns
    -------
    TrainingTime
        Infinite where a layout needs a network that the hardware lacks. [s]

    Notes
    -----
    Leaves out the reading of tokens, imbalance between experts beyond the software's slowdown, and
    contention between overlapped traffic and kernels.
    """
    layout = candidates.layout
    share = np.asarray(
        stage_share(
            layers=float(architecture.num_hidden_layers),
            pipeline=layout.pipeline,
            virtual_stages=layout.virtual_stages,
        )
    )
    micro_batches = np.ceil(run.global_batch / (layout.micro_batch * layout.data))
    tokens = layout.micro_batch * run.tokens_per_sample / layout.context
    one = one_micro_batch(architecture, run, candidates, software, share, tokens)
    kernels = one.matmul + one.attention + one.elementwise + one.recompute
    launch = launch_time(one.launches, kernels, candidates.hardware, software) + one.host
    with np.errstate(divide="ignore", invalid="ignore"):
        traffic = model_traffic(architecture, run, candidates, network, software, share, tokens)
        exchange = exposed_exchange(traffic.expert, kernels + launch, layout, software)
        per_micro_batch = kernels + launch + traffic.tensor + exchange + traffic.context
        bubble = np.asarray(
            bubble_time_s(
                micro_batch_s=per_micro_batch,
                pipeline=layout.pipeline,
                virtual_stages=layout.virtual_stages,
            )
        )
        if np.any(layout.dual):
            both = dualpipe_bubble_time_s(micro_batch_s=per_micro_batch, pipeline=layout.pipeline)
            bubble = np.where(layout.dual, both, bubble)
        # Interleaved stages send while they compute another chunk (Narayanan et al. 2021).
        hops = exposed_time_s(
            traffic_s=traffic.pipeline,
            cover_s=np.where((layout.virtual_stages > 1) | layout.dual, per_micro_batch, 0.0),
            overlap=1.0,
        )
        exposed = data_traffic(
            architecture, run, candidates, network, share, micro_batches, kernels + launch
        )
    updated = _updated_parameters(architecture, run, candidates, share)
    near = step_in_cache(architecture, run, candidates, tokens)
    optimizer = _optimizer_time(architecture, run, near, updated)
    offload = np.zeros_like(kernels)
    if np.any(layout.offload) or run.optimizer is Optimizer.PAGED_ADAMW_8BIT:
        offload = offload_time(
            architecture,
            run,
            candidates,
            network,
            updated=updated,
            weights=_held_weights(architecture, candidates, share),
            micro_batches=micro_batches,
            cover_s=kernels + launch,
        )
        optimizer = np.where(offloads(layout, Offload.OPTIMIZER), 0.0, optimizer)
    shares = {
        "matmul": micro_batches * one.matmul,
        "attention": micro_batches * one.attention,
        "elementwise": micro_batches * one.elementwise,
        "recompute": micro_batches * one.recompute,
        "launch": micro_batches * launch + copies_time(STEP_COPIES, candidates.hardware),
        "tensor_traffic": micro_batches * traffic.tensor,
        "expert_traffic": micro_batches * exchange,
        "context_traffic": micro_batches * traffic.context,
        "pipeline_traffic": micro_batches * hops,
        "bubble": bubble,
        "data_traffic": exposed,
        "optimizer": optimizer,
        "offload": offload,
    }
    total = np.zeros_like(kernels)
    for value in shares.values():
        total = total + value
    slowdown = software.slowdown_of(samples=run.unit is Unit.IMAGE)
    waits = np.zeros_like(total)
    if run.loading is not None:
        fed = loading_time(run.loading, run.global_batch, candidates)
        waits = np.maximum(0.0, fed - slowdown * total)
    return TrainingTime(**shares, software=(slowdown - 1) * total, input=waits)


def one_micro_batch(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    software: SoftwareFacts,
    share: Floats,
    tokens: Floats,
) -> _Pass:
    """Kernels of one micro-batch through a stage with ``share`` of the layers, and launches.

    Each sum is affine in ``share`` and does not depend on data parallelism.
    """
    candidates = step_in_cache(architecture, run, candidates, tokens)
    layout = candidates.layout
    zero = np.zeros(np.broadcast_shapes(tokens.shape, candidates.hardware.memory_bytes.shape))
    total = _Pass(*(zero.copy() for _ in fields(_Pass)))
    recomputes_all = layout.recompute >= 2
    recomputes_some = layout.recompute >= 1
    reference = run.reference_passes
    selected = frozenset(op.name for op in remade_by_selection(architecture, run))
    for op in architecture.operators:
        held = op.layers * share if op.part is Part.BLOCK else float(op.layers)
        block = op.part is Part.BLOCK
        again_all = made_again(op, architecture)
        if is_product(op):
            forward = matmul_forward(op, run, candidates, software, tokens)
            products = 1.0 + op.input_gradient + (not run.frozen and not op.frozen)
            total.matmul += held * forward * (products + reference)
            adapter = adapter_forward(op, run, candidates, software, tokens)
            expanded = np.zeros_like(adapter)
            if run.method is FineTuningMethod.QLORA and block:
                expanded = dequantise_time(op, run, candidates)
            # Adapters train, so their backward is twice their forward; frozen 4-bit weights are
            # expanded once for each pass.
            total.elementwise += held * (3.0 * adapter + (2.0 + reference) * expanded)
            if again_all:
                again = recomputes_some if op.name in selected else recomputes_all
                total.recompute += np.where(again, held * (forward + adapter + expanded), 0.0)
        elif op.kind is OperatorKind.ATTENTION:
            forward, backward = attention_passes(op, run, candidates, software, tokens)
            total.attention += held * (forward * (1 + reference) + backward)
            again = recomputes_some if run.attention is AttentionKernel.EAGER else recomputes_all
            total.recompute += np.where(again & again_all, held * forward, 0.0)
        elif op.kind is OperatorKind.SCAN:
            forward = scan_forward(op, run, candidates, software, tokens)
            total.attention += held * forward * (1 + SCAN_BACKWARD)
            total.recompute += np.where(recomputes_all & again_all, held * forward, 0.0)
        elif op.kind is OperatorKind.RECURRENCE:
            forward, backward = recurrence_passes(op, run, candidates, software, tokens)
            total.matmul += held * (forward + backward)
            total.recompute += np.where(recomputes_all & again_all, held * forward, 0.0)
        else:
            forward = elementwise_forward(op, run, candidates, software, tokens)
            back = 0.0 if op.frozen else ELEMENTWISE_BACKWARD
            total.elementwise += held * forward * (1 + reference + back)
            if again_all:
                total.recompute += np.where(recomputes_some, held * forward, 0.0)
        launches = _launches(op, run, candidates, software)
        once = 1.0 if op.frozen else 3.0
        passes = once + reference + (recomputes_all if again_all else 0.0)
        total.launches += held * launches * passes
        if op.host_s and not software.fused_elementwise:
            total.host += held * op.host_s * tokens
    total.elementwise /= candidates.hardware.fresh_memory
    return total


def _launches(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts
) -> Floats | float:
    """Kernels that the host launches for one row in one layer and pass."""
    if op.kind is OperatorKind.MATMUL and op.experts > 1 and FORMAT_BYTES[run.recipe.compute] <= 1:
        return np.maximum(1.0, software.expert_launches * op.experts / candidates.layout.expert)
    launches = 1.0 if software.fused_elementwise else float(op.launches)
    if adapted(op, run):
        launches += ADAPTER_LAUNCHES
    return launches * run.sequence_length if op.kind is OperatorKind.RECURRENCE else launches


def _updated_parameters(
    architecture: ModelArchitecture, run: TrainingRun, candidates: Candidates, share: Floats
) -> Floats:
    """Parameters that one rank updates. [elements]"""
    layout = candidates.layout
    sharded = layout.sharding >= 1
    if run.frozen:
        dense_adapters, routed_adapters = fold_adapters(architecture, run)
        local = (dense_adapters + routed_adapters / layout.expert) / layout.tensor
        return np.asarray(local / layout.pipeline / np.where(sharded, layout.data, 1.0))
    return _shared_out(architecture, candidates, share, sharded)


def _held_weights(architecture: ModelArchitecture, candidates: Candidates, share: Floats) -> Floats:
    """Parameters that one rank holds. [elements]"""
    return _shared_out(architecture, candidates, share, candidates.layout.sharding > SHARD_GRAD_OP)


def _shared_out(
    architecture: ModelArchitecture,
    candidates: Candidates,
    share: Floats,
    sharded: NDArray[np.bool_],
) -> Floats:
    layout = candidates.layout
    group = layout.data * layout.context
    dense, expert = local_parameters(architecture, candidates, share)
    return np.asarray(
        dense / np.where(sharded, group, 1.0)
        + expert / np.where(sharded, group / layout.expert, 1.0)
    )


def _optimizer_time(
    architecture: ModelArchitecture, run: TrainingRun, candidates: Candidates, updated: Floats
) -> Floats:
    """Update of the parameters: memory-bound. [s]"""
    hardware = candidates.hardware
    states = optimizer_bytes_per_parameter(architecture, run)
    master = FORMAT_BYTES[run.recipe.master or run.recipe.working]
    gradient = gradient_bytes_per_parameter(run)
    written = FORMAT_BYTES[run.recipe.working] if run.recipe.master else 0.0
    moved = gradient + 2 * (master + states) + written
    return np.asarray(
        bandwidth_time_s(
            moved_bytes=moved * updated,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.elementwise_bandwidth,
            overhead_s=hardware.matmul_overhead_s,
        )
    )


def model_flops_per_token(architecture: ModelArchitecture, run: TrainingRun) -> float:
    """Forward and backward FLOPs of one trained token, without recomputation. [FLOPs]

    The forward pass of a preference's reference model counts too.
    """
    fold = fold_flops(architecture, run.sequence_length, run)
    reference = run.reference_passes * (fold.forward - fold.adapters)
    # Nobody asks for the gradient of an image, nor for any of a frozen row.
    spared = sum(
        op.layers * op.flops_per_token * (1 + (op.frozen and not run.frozen))
        for op in architecture.operators
        if not op.input_gradient
    )
    if run.frozen:
        return 2 * fold.forward - spared + fold.block_attention + fold.adapters + reference
    return 3 * fold.forward - spared + reference


def hardware_flops_per_token(
    architecture: ModelArchitecture, run: TrainingRun, recompute: Floats
) -> Floats:
    """Model FLOPs and recomputation, per trained token. [FLOPs]"""
    every = tuple(op for op in architecture.operators if made_again(op, architecture))
    some, again = (
        fold_flops(
            architecture.model_copy(update={"operators": remade}), run.sequence_length, run
        ).forward
        for remade in (remade_by_selection(architecture, run), every)
    )
    once_more = np.where(recompute >= 2, again, np.where(recompute >= 1, some, 0.0))
    return model_flops_per_token(architecture, run) + once_more
