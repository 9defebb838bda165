"""Time of one optimizer step: a fold of operator times over the table, then the traffic.

The same code serves one configuration and a million.
"""

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.equations.offload import host_update_s
from advisor.equations.training.memory import nf4_bytes, stage_share
from advisor.equations.training.optimizers import update_bytes
from advisor.equations.training.pipeline import (
    bubble_time_s,
    dualpipe_bubble_time_s,
    exposed_time_s,
)
from advisor.equations.training.traffic import slowest_s
from advisor.estimate.candidates import Candidates, Floats, LayoutArrays, Shares
from advisor.estimate.fold import fold_adapters
from advisor.estimate.hardware.caching import step_in_cache
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import copies_time, launch_time, moving_s
from advisor.estimate.host_memory import offloads
from advisor.estimate.together import together
from advisor.estimate.training.delivered import machines_of
from advisor.estimate.training.loading import loading_time
from advisor.estimate.training.memory import stored_per_micro_batch
from advisor.estimate.training.micro_batch import one_micro_batch
from advisor.estimate.training.optimizer_states import optimizer_bytes_per_parameter
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import (
    adapter_units,
    gradient_bytes_per_parameter,
    sharded_units,
    updated_units,
)
from advisor.estimate.training.stages import SHARD_GRAD_OP
from advisor.estimate.training.traffic import (
    data_traffic,
    exposed_exchange,
    local_parameters,
    model_traffic,
)
from advisor.foundation.record import record
from advisor.nouns.layout import Offload
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.links_and_memory import NetworkEfficiency
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import FineTuningMethod, Optimizer


@record
class TrainingTime(Shares):
    """Exclusive shares of one optimizer step, one element per configuration. [s]"""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    recompute: Floats
    launch: Floats
    """Time that the accelerator waits for the host: launches and a step's small copies."""
    tensor_traffic: Floats
    expert_traffic: Floats
    context_traffic: Floats
    pipeline_traffic: Floats
    bubble: Floats
    jitter: Floats
    """Waiting for the slowest of several machines."""
    data_traffic: Floats
    """Gradient and parameter traffic that computation does not hide."""
    optimizer: Floats
    offload: Floats
    """Traffic with the host and the host's update, for offloaded states."""
    software: Floats
    """Host gaps and stragglers of the software stack."""
    input: Floats
    """Time that the step waits for the host to read, decode and augment images."""

    @property
    def step(self) -> Floats:
        """Sum of all shares. [s]"""
        return self.total


@together
def training_time(
    run: TrainingRun, candidates: Candidates, network: NetworkEfficiency, software: SoftwareFacts
) -> TrainingTime:
    """Shares of one optimizer step. [s]

    Infinite if a layout needs a network that the hardware lacks.

    ``candidates``: one element per configuration; hardware rates are for ``run.recipe.compute``.

    Leaves out the reading of tokens, imbalance between experts beyond the software's slowdown, and
    contention between overlapped traffic and kernels.
    """
    layout = candidates.layout
    share = np.asarray(
        stage_share(
            layers=float(run.architecture.num_hidden_layers),
            pipeline=layout.pipeline,
            virtual_stages=layout.virtual_stages,
        )
    )
    micro_batches = np.ceil(run.global_batch / (layout.micro_batch * layout.data))
    tokens = layout.micro_batch * run.tokens_per_sample / layout.context
    one = one_micro_batch(run, candidates, software, share, tokens)
    units = sharded_units(run, candidates, share)
    launch = launch_time(one.launches, one.device, candidates.hardware, software, units=units)
    apart = adapter_units(run, candidates, share) * software.unit_host_s
    hidden = kernel_facts().adapter_cover * (one.device + launch)
    starts = apart * candidates.hardware.host_pace - hidden
    launch = launch + one.host + np.maximum(0.0, starts)
    cover = one.device + launch
    with np.errstate(divide="ignore", invalid="ignore"):
        traffic = model_traffic(run, candidates, network, software, share, tokens)
        exchange = exposed_exchange(traffic.expert, cover, layout, software)
        # Keys and values go round while those that have come are attended to (Liu et al. 2023).
        ring = exposed_time_s(
            traffic_s=traffic.context,
            cover_s=one.attention,
            overlap=network.overlap * software.overlaps_traffic,
        )
        per_micro_batch = cover + traffic.tensor + exchange + ring
        bubble = _bubble(per_micro_batch, layout)
        # Interleaved stages send while they compute another chunk (Narayanan et al. 2021).
        hops = exposed_time_s(
            traffic_s=traffic.pipeline,
            cover_s=np.where((layout.virtual_stages > 1) | layout.dual, per_micro_batch, 0.0),
            overlap=1.0,
        )
        other = traffic.tensor + ring
        data = data_traffic(run, candidates, network, software, share, micro_batches, cover, other)
    update = updated_units(run, candidates, share) * software.unit_host_s
    optimizer, offload = _update(run, candidates, network, share, tokens, micro_batches, cover)
    shares = {
        "matmul": micro_batches * one.matmul,
        "attention": micro_batches * one.attention,
        "elementwise": micro_batches * one.elementwise,
        "recompute": micro_batches * one.recompute,
        "launch": micro_batches * launch
        + update * candidates.hardware.host_pace
        + copies_time(kernel_facts().step_copies, candidates.hardware),
        "tensor_traffic": micro_batches * traffic.tensor,
        "expert_traffic": micro_batches * exchange,
        "context_traffic": micro_batches * ring,
        "pipeline_traffic": micro_batches * hops,
        "bubble": bubble,
        "jitter": np.asarray(
            slowest_s(
                cover_s=micro_batches * cover,
                machines=machines_of(candidates),
                jitter=network.image_jitter if run.unit is Unit.IMAGE else network.jitter,
            )
        ),
        "data_traffic": data,
        "optimizer": optimizer,
        "offload": offload,
    }
    total = np.zeros_like(one.device)
    for value in shares.values():
        total = total + value
    slower = np.where(candidates.hardware.own_host > 0, run.processor_slowdown, 1.0)
    slowdown = slower * software.slowdown_of(samples=run.unit is Unit.IMAGE, adapters=run.frozen)
    waits = np.zeros_like(total)
    if run.loading is not None:
        fed = loading_time(run.loading, run.global_batch, candidates)
        waits = np.maximum(0.0, fed - slowdown * total)
    return TrainingTime(**shares, software=(slowdown - 1) * total, input=waits)


def _bubble(per_micro_batch: Floats, layout: LayoutArrays) -> Floats:
    """Idle time of filling and draining the pipeline. [s]"""
    bubble = np.asarray(
        bubble_time_s(
            micro_batch_s=per_micro_batch,
            pipeline=layout.pipeline,
            virtual_stages=layout.virtual_stages,
        )
    )
    if not layout.dual.any():
        return bubble
    both = dualpipe_bubble_time_s(micro_batch_s=per_micro_batch, pipeline=layout.pipeline)
    return np.where(layout.dual, both, bubble)


def _update(
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    share: Floats,
    tokens: Floats,
    micro_batches: Floats,
    cover: Floats,
) -> tuple[Floats, Floats]:
    """Update of the weights on the accelerator, and waiting for a host with states. [s]"""
    layout = candidates.layout
    updated = _updated_parameters(run, candidates, share)
    near = step_in_cache(run, candidates, tokens)
    optimizer = _optimizer_time(run, near, updated)
    if not (layout.offload.any() or run.optimizer is Optimizer.PAGED_ADAMW_8BIT):
        return optimizer, np.zeros_like(cover)
    offload = offload_time(
        run,
        candidates,
        network,
        updated=updated,
        weights=_shared_out(run.architecture, candidates, share, layout.sharding > SHARD_GRAD_OP),
        micro_batches=micro_batches,
        cover_s=cover,
    )
    return np.where(offloads(layout, Offload.OPTIMIZER), 0.0, optimizer), offload


def _updated_parameters(run: TrainingRun, candidates: Candidates, share: Floats) -> Floats:
    """Parameters that one rank updates. [elements]"""
    layout = candidates.layout
    sharded = layout.sharding >= 1
    if run.frozen:
        dense_adapters, routed_adapters = fold_adapters(run)
        local = (dense_adapters + routed_adapters / layout.expert) / layout.tensor
        return np.asarray(local / layout.pipeline / np.where(sharded, layout.data, 1.0))
    return _shared_out(run.architecture, candidates, share, sharded)


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


def _optimizer_time(run: TrainingRun, candidates: Candidates, updated: Floats) -> Floats:
    """Update of the parameters: memory-bound. [s]"""
    hardware = candidates.hardware
    states = optimizer_bytes_per_parameter(run)
    master = FORMAT_BYTES[run.recipe.master or run.recipe.working]
    gradient = gradient_bytes_per_parameter(run)
    written = FORMAT_BYTES[run.recipe.working] if run.recipe.master else 0.0
    moved = update_bytes(
        gradient_bytes=gradient, master_bytes=master, state_bytes=states, working_bytes=written
    )
    return moving_s(moved * updated, hardware)


def offload_time(
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    *,
    updated: Floats,
    weights: Floats,
    micro_batches: Floats,
    cover_s: Floats,
) -> Floats:
    """Exposed traffic with the host and the host's update, of one step. [s]

    ``weights``: working weights of this rank that are on the host. [elements]

    No computation hides gradients to the host and new weights back. Weights and activations cross
    the link twice in each micro-batch, in parallel with computation. So do gradients in each that
    adds to an earlier one (DeepSpeed's stage3.py, ``partition_grads``). Paged states cross it twice
    in each step. Cards of one machine share its memory; each has its own link.
    """
    layout, hardware = candidates.layout, candidates.hardware
    link = hardware.pcie_bytes_per_s * (network.pcie_bandwidth or network.intra_bandwidth)
    states = optimizer_bytes_per_parameter(run)
    gradient = gradient_bytes_per_parameter(run)
    adapter = run.switches.adapter_format
    working = FORMAT_BYTES[adapter if run.frozen else run.recipe.working]
    base = working
    if run.frozen:
        four_bit = run.method is FineTuningMethod.QLORA
        base = float(nf4_bytes(parameters=1.0)) if four_bit else FORMAT_BYTES["bf16"]
    master = FORMAT_BYTES[adapter if run.frozen else run.recipe.master or run.recipe.working]
    cards = np.minimum(layout.accelerators, hardware.node_accelerators)

    def exposed(moved: Floats) -> Floats:
        shown = exposed_time_s(traffic_s=moved / link, cover_s=cover_s, overlap=network.overlap)
        return np.asarray(micro_batches * shown)

    update = host_update_s(
        parameters=updated * cards,
        bytes_per_parameter=gradient + 2 * (master + states),
        host_bytes_per_s=network.host_bytes_per_s,
    )
    optimizer = offloads(layout, Offload.OPTIMIZER)
    paged = ~optimizer & (run.optimizer is Optimizer.PAGED_ADAMW_8BIT)
    stored = stored_per_micro_batch(run, layout)
    return np.asarray(
        optimizer * (updated * (gradient + working) / link + update)
        + optimizer * exposed(2 * updated * gradient) * (1.0 - 1.0 / micro_batches)
        + paged * (2 * states * updated / link)
        + offloads(layout, Offload.PARAMETERS) * exposed(2 * weights * base)
        + offloads(layout, Offload.ACTIVATIONS) * exposed(2 * stored)
    )
