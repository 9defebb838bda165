"""Time that a step waits for its host, if states or activations are there."""

import numpy as np

from advisor.equations.offload import host_transfer_s, host_update_s
from advisor.equations.training.memory import nf4_bytes
from advisor.equations.training.pipeline import exposed_time_s
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.host_memory import offloads
from advisor.estimate.training.memory import stored_per_micro_batch
from advisor.estimate.training.optimizer_states import optimizer_bytes_per_parameter
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sharded_gathers import gradient_bytes_per_parameter
from advisor.nouns.layout import Offload
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.efficiency import NetworkEfficiency
from advisor.nouns.training_choices import FineTuningMethod, Optimizer


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
    the link twice in each micro-batch, in parallel with computation. Paged states cross it twice
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

    def transfer(moved: Floats) -> Floats:
        return np.asarray(host_transfer_s(moved_bytes=moved, bytes_per_s=link))

    def exposed(moved: Floats) -> Floats:
        hidden = exposed_time_s(traffic_s=transfer(moved), cover_s=cover_s, overlap=network.overlap)
        return np.asarray(micro_batches * hidden)

    update = host_update_s(
        parameters=updated * cards,
        bytes_per_parameter=gradient + 2 * (master + states),
        host_bytes_per_s=network.host_bytes_per_s,
    )
    optimizer = offloads(layout, Offload.OPTIMIZER)
    paged = ~optimizer & (run.optimizer is Optimizer.PAGED_ADAMW_8BIT)
    stored = stored_per_micro_batch(run, layout)
    return np.asarray(
        optimizer * (transfer(updated * (gradient + working)) + update)
        + paged * transfer(2 * states * updated)
        + offloads(layout, Offload.PARAMETERS) * exposed(2 * weights * base)
        + offloads(layout, Offload.ACTIVATIONS) * exposed(2 * stored)
    )
