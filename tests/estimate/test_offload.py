"""What goes to the host's memory, and what waiting for it costs, by hand."""

from __future__ import annotations

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.peak_moments import TrainingMemory
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.estimate.training.step_time import TrainingTime, training_time
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import FineTuningMethod, Optimizer
from advisor.nouns.workload import FineTuning

MODEL = resolve_model(ModelSource(preset="llama-3.1-8b"))
PARAMETERS = 8_030_261_248
LAYERS, HIDDEN, TOKENS = 32, 4096, 4096
ONE = ParallelLayout(recompute=Recompute.FULL)
CALIBRATION = load_calibration()


def run_of(optimizer: Optimizer = Optimizer.ADAMW, batch: int = 8) -> TrainingRun:
    workload = FineTuning(
        method=FineTuningMethod.FULL,
        sequence_length=TOKENS,
        global_batch=batch,
        optimizer=optimizer,
    )
    return resolve_training(workload, MODEL, RECIPES["bf16_mixed"])


def memory_of(layout: ParallelLayout, optimizer: Optimizer = Optimizer.ADAMW) -> TrainingMemory:
    return training_memory(run_of(optimizer), LayoutArrays.of(layout), CALIBRATION.memory)


def time_of(layout: ParallelLayout, batch: int = 8) -> TrainingTime:
    card = load_catalog().accelerator("h100-sxm")
    kernels, _ = CALIBRATION.kernels_for(card)
    hardware = HardwareArrays.of(card, node_for(card, None), kernels, compute="bf16")
    return training_time(
        run_of(batch=batch),
        Candidates(layout=LayoutArrays.of(layout), hardware=hardware),
        CALIBRATION.network,
        CALIBRATION.software[run_of().software],
    )


def moved(layout: ParallelLayout, *what: Offload) -> ParallelLayout:
    return layout.model_copy(update={"offload": what})


def test_nothing_is_on_the_host_unless_asked() -> None:
    assert float(memory_of(ONE).host[0]) == 0
    assert float(time_of(ONE).offload[0]) == 0


def test_the_host_holds_master_weights_states_and_gradients() -> None:
    """Master 4, two moments of 4, gradients of 2 bytes; the card keeps 16-bit weights."""
    memory = memory_of(moved(ONE, Offload.OPTIMIZER))

    assert float(memory.host[0]) == pytest.approx(14 * PARAMETERS)
    assert float(memory.optimizer[0]) == 0
    assert float(memory.weights[0]) == pytest.approx(2 * PARAMETERS)


def test_shards_go_to_the_host_of_their_rank() -> None:
    layout = ParallelLayout(data=8, sharding=Sharding.ZERO3, recompute=Recompute.FULL)

    memory = memory_of(moved(layout, Offload.OPTIMIZER, Offload.PARAMETERS))

    assert float(memory.host[0]) == pytest.approx(16 * PARAMETERS / 8)
    assert float(memory.weights[0]) == 0


def test_two_layers_of_activations_stay() -> None:
    """Full recomputation keeps one 16-bit vector per token and layer."""
    boundary = 2 * HIDDEN * TOKENS

    memory = memory_of(moved(ONE, Offload.ACTIVATIONS))

    assert float(memory.host[0]) == pytest.approx((LAYERS - 2) * boundary)


def test_paged_states_need_no_memory_of_the_card() -> None:
    """Two states of 1 + 4/256 bytes."""
    memory = memory_of(ONE, Optimizer.PAGED_ADAMW_8BIT)

    assert float(memory.host[0]) == pytest.approx(2.03125 * PARAMETERS)
    assert float(memory.optimizer[0]) == 0


def test_the_update_waits_for_link_and_host() -> None:
    """Gradients and weights of 2 bytes cross; gradient, master and states move on the host."""
    network = CALIBRATION.network
    card = load_catalog().accelerator("h100-sxm")
    share = network.pcie_bandwidth or network.intra_bandwidth
    link = node_for(card, None).pcie_bytes_per_s * share
    expected = 4 * PARAMETERS / link + 26 * PARAMETERS / network.host_bytes_per_s

    # Norms are no part of what is divided: under a hundredth of a percent.
    offloaded = moved(ONE, Offload.OPTIMIZER)
    assert float(time_of(offloaded, batch=1).offload[0]) == pytest.approx(expected, rel=1e-3)
    # DeepSpeed fetches what earlier micro-batches summed, and sends the new sum: at most, if
    # nothing is computed beside it, twice the gradients for each of the other seven.
    longer = float(time_of(offloaded).offload[0]) - expected
    assert 0 < longer < 7 * 2 * 2 * PARAMETERS / link * 1.001


def test_gradients_leave_the_card_as_they_are_made() -> None:
    """ZeRO-Offload keeps 16-bit weights alone: a 13B model trains on a V100 of 32 GB.

    Ren et al. 2021, arXiv:2101.06840, figure 7. Weights, gradients and states would take 16 bytes
    each on the card; half as many bytes as the card has are left for what is computed.
    """
    alone = float(memory_of(ONE).allocated[0])
    offloaded = float(memory_of(moved(ONE, Offload.OPTIMIZER)).allocated[0])

    assert alone - offloaded == pytest.approx(14 * PARAMETERS, rel=0.05)


def test_parameters_of_many_ranks_must_be_sharded_to_be_moved() -> None:
    with pytest.raises(ValueError, match="needs sharding zero3"):
        ParallelLayout(data=2, sharding=Sharding.DDP, offload=(Offload.PARAMETERS,))
