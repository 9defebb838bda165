"""What released software kept or cast, against published peaks: arithmetic first, then a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.operators import Part
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.activations import fold_saved_bytes
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.optimizer_states import gradient_cast_bytes
from advisor.estimate.training.report import hardware_flops_per_token
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.foundation.units import GIB
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import LORA_TARGETS, CrossEntropy, FineTuningMethod
from advisor.nouns.workload import FineTuning

MODEL = resolve_model(ModelSource(preset="llama-2-7b"))
PARAMETERS = 6_738_415_616


def tuned(method: FineTuningMethod, stack: str, recipe: str) -> TrainingRun:
    workload = FineTuning(
        method=method,
        lora_rank=8,
        lora_targets=("q", "v"),
        sequence_length=1304,
        global_batch=8,
        software=stack,
    )
    return resolve_training(workload, MODEL, RECIPES[recipe])


@pytest.mark.parametrize(
    ("sharding", "cast_elements"),
    [(Sharding.DDP, PARAMETERS), (Sharding.ZERO2, PARAMETERS / 4), (Sharding.ZERO3, 1e9)],
)
def test_deepspeed_casts_the_gradients_of_a_rank_at_once(
    sharding: Sharding, cast_elements: float
) -> None:
    """2 bytes laid end to end, 4 of the cast; a billion elements at a time under ZeRO-3."""
    run = tuned(FineTuningMethod.FULL, "deepspeed", "bf16_mixed")
    layout = LayoutArrays.of(ParallelLayout(data=4, sharding=sharding))
    partition = np.array([PARAMETERS / (1 if sharding is Sharding.DDP else 4)])
    assert gradient_cast_bytes(run, layout, partition) == pytest.approx(6 * cast_elements)


def test_hugging_face_computes_every_expert_of_llama_4() -> None:
    """modeling_llama4.py repeats its input for 16 experts; three matrices of 5,120 x 8,192 each.

    Beside one expert of Megatron's, 15 more on each of 48 layers: 2 FLOPs a weight, in the forward
    pass, for the input's gradient and once again.
    """
    scout = resolve_model(ModelSource(preset="llama-4-scout"))
    workload = FineTuning(
        method=FineTuningMethod.QLORA, lora_targets=("q", "v"), sequence_length=4096, global_batch=1
    )
    runs = [
        resolve_training(
            workload.model_copy(update={"software": stack}), scout, RECIPES["bf16_amp"]
        )
        for stack in ("megatron", "huggingface", "liger", "deepspeed")
    ]
    flops = [float(hardware_flops_per_token(run, np.array([2]))[0]) for run in runs]

    assert all("all 16 experts" in " ".join(run.assumptions) for run in runs[1:])
    assert not any("experts" in sentence for sentence in runs[0].assumptions)
    for found in flops[1:]:
        assert found - flops[0] == pytest.approx(3 * 2 * 15 * 48 * 3 * 5120 * 8192)


def test_old_bitsandbytes_keeps_the_inputs_of_every_product() -> None:
    """Beside what LoRA on q and v needs (the input of both), those of gate and up, and of down."""
    run = tuned(FineTuningMethod.QLORA, "plain", "bf16_pure")
    switches = replace(run.switches, adapter_format="bf16")
    run, old = (
        replace(run, switches=replace(switches, base_inputs_kept=kept)) for kept in (False, True)
    )
    block = MODEL.in_part(Part.BLOCK)
    more = (
        fold_saved_bytes(block, old).per_token_bytes - fold_saved_bytes(block, run).per_token_bytes
    )
    assert more == 32 * 2 * (4096 + 11_008)


def test_old_transformers_copy_the_shifted_logits() -> None:
    """Two RTX 4090, NF4 with FSDP, ten sequences of 2,048: 20.97 GiB with transformers 4.37.

    AnswerDotAI/fsdp_qlora at 23fafdfb, benchmarks_03_2024.md; rank 64 on all projections. The
    copy has 4 bytes for each token and entry of the vocabulary (32,000).
    """
    workload = FineTuning(
        method=FineTuningMethod.QLORA,
        lora_rank=64,
        lora_targets=LORA_TARGETS,
        sequence_length=2048,
        global_batch=20,
        software="huggingface",
        cross_entropy=CrossEntropy.PLAIN,
    )
    run = resolve_training(workload, MODEL, RECIPES["bf16_pure"])
    layout = LayoutArrays.of(
        ParallelLayout(data=2, sharding=Sharding.ZERO3, recompute=Recompute.FULL, micro_batch=10)
    )
    facts = load_calibration().memory
    switches = replace(run.switches, adapter_format="bf16")
    new, old = (
        float(
            training_memory(
                replace(run, switches=replace(switches, shifted_logits=shifted)), layout, facts
            ).allocated[0]
        )
        for shifted in (False, True)
    )
    assert old - new == pytest.approx(4 * 10 * 2048 * 32_000)
    # The published figure counts the allocator's reserve too.
    assert 20.97 / 1.2 < old / GIB < 20.97
    assert new / GIB < 20.97 / 1.3


def test_peak_of_litgpt_on_a_four_bit_base() -> None:
    """Lightning-AI/litgpt, tutorials/resource-tables.md at 0cc02afa: Llama 2 7B, nf4, 13.169 GiB.

    Single-copy bf16 with LoRA of rank 8 on q and v and dropout, one sequence of up to 1,304 tokens.
    """
    run = tuned(FineTuningMethod.QLORA, "plain", "bf16_pure")
    switches = replace(
        run.switches, adapter_format="bf16", base_inputs_kept=True, adapter_dropout=True
    )
    layout = LayoutArrays.of(ParallelLayout(recompute=Recompute.NONE))
    facts = load_calibration().memory
    memory = training_memory(replace(run, switches=switches), layout, facts)
    assert float(memory.allocated[0]) / GIB == pytest.approx(13.169, rel=0.05)


def test_a_four_bit_base_is_gathered_as_it_is_held() -> None:
    """Two layers of 4.13 bits instead of 16, and the largest matrix unpacked (2 bytes, 1/16 codes).

    pytorch/ao, torchao/dtypes/nf4tensor.py: ``fsdp_pre_all_gather`` hands on the packed tensors.
    """
    layout = LayoutArrays.of(
        ParallelLayout(data=8, sharding=Sharding.ZERO3, recompute=Recompute.FULL, micro_batch=8)
    )
    facts = load_calibration().memory
    # Without logits the fullest moment is a block's backward pass.
    runs = (
        replace(tuned(method, "plain", "bf16_pure"), cross_entropy=CrossEntropy.LINEAR)
        for method in (FineTuningMethod.LORA, FineTuningMethod.QLORA)
    )
    sixteen, four = (float(training_memory(run, layout, facts).workspace[0]) for run in runs)
    layer = (PARAMETERS - 2 * 32_000 * 4096 - 4096) / 32
    expected = 2 * layer * (2 - 8452 / 16_384) - (2 + 1 / 16) * 4096 * 11_008
    assert sixteen - four == pytest.approx(expected, rel=1e-6)
