"""What hosts start for sharded states, counted by others."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.architecture.presets import load_preset
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates
from advisor.estimate.training.run import resolve_training
from advisor.estimate.training.sharded_gathers import adapter_units, sharded_units, updated_units
from advisor.nouns.layout import ParallelLayout, Sharding
from advisor.nouns.precision import recipe_named
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning

CARD = load_catalog().accelerator("h100-sxm")
KERNELS = load_calibration().kernels_for(CARD)[0]


@pytest.mark.parametrize(
    ("software", "sharding", "adapters", "layers"),
    [
        # 217 units: the root, 24 layers and 24 x 4 x 2 matrices of adapters (MakazhanAlpamys/Soup,
        # benchmarks/gate-h100-validation.md, step 20). Those that train are scattered as well.
        ("huggingface", Sharding.ZERO3, 3 * 192, 2 * 24),
        ("huggingface", Sharding.DDP, 0, 0),
        # torchtune's recipe and DeepSpeed do not have PEFT's policy.
        ("plain", Sharding.ZERO3, 0, 2 * 24),
    ],
)
def test_peft_makes_every_adapter_matrix_a_unit(
    software: str, sharding: Sharding, adapters: int, layers: int
) -> None:
    recipe = recipe_named("bf16_mixed")
    workload = FineTuning(
        method=FineTuningMethod.LORA,
        lora_targets=("q", "k", "v", "o"),
        sequence_length=512,
        global_batch=16,
        tokens=1e6,
        software=software,
    )
    run = resolve_training(workload, load_preset("qwen2.5-0.5b"), recipe)
    layout = ParallelLayout(data=4, sharding=sharding, micro_batch=4)
    place = Candidates.of([layout], CARD, node_for(CARD, None), KERNELS, compute=recipe.compute)
    share = np.ones(1)
    assert adapter_units(run, place, share).tolist() == [adapters]
    assert sharded_units(run, place, share).tolist() == [layers]


@pytest.mark.parametrize(
    ("software", "sharding", "sharded", "updated"),
    [
        # deepspeed/runtime/zero/stage_1_and_2.py has both levels; stage3.py gathers and scatters.
        ("deepspeed", Sharding.DDP, 0, 0),
        ("deepspeed", Sharding.ZERO1, 0, 24),
        ("deepspeed", Sharding.ZERO2, 0, 24),
        ("deepspeed", Sharding.ZERO3, 3 * 24, 24),
        ("huggingface", Sharding.ZERO2, 24, 0),
    ],
)
def test_deepspeeds_host_handles_every_layer(
    software: str, sharding: Sharding, sharded: int, updated: int
) -> None:
    recipe = recipe_named("bf16_mixed")
    full = FineTuningMethod.FULL
    workload = FineTuning(
        method=full, sequence_length=512, global_batch=16, tokens=1e6, software=software
    )
    run = resolve_training(workload, load_preset("qwen2.5-0.5b"), recipe)
    layout = ParallelLayout(data=4, sharding=sharding, micro_batch=4)
    place = Candidates.of([layout], CARD, node_for(CARD, None), KERNELS, compute=recipe.compute)
    share = np.ones(1)
    assert sharded_units(run, place, share).tolist() == [sharded]
    assert updated_units(run, place, share).tolist() == [updated]
