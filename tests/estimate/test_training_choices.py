"""What a choice of loss, of preference pairs or of a reference model adds, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.peak_moments import TrainingMemory
from advisor.estimate.training.report import model_flops_per_token
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import CrossEntropy, FineTuningMethod, Optimizer, Preference
from advisor.nouns.workload import FineTuning, Pretraining, Training

MODEL = resolve_model(ModelSource(preset="llama-3.1-8b"))
PARAMETERS = 8_030_261_248
TOKENS, VOCABULARY = 8192, 128_256
FULL = ParallelLayout(recompute=Recompute.FULL)


def run_of(
    method: FineTuningMethod = FineTuningMethod.FULL,
    *,
    cross_entropy: CrossEntropy | None = None,
    preference: Preference | None = None,
) -> TrainingRun:
    workload = FineTuning(
        method=method,
        sequence_length=TOKENS,
        cross_entropy=cross_entropy,
        preference=preference,
        software="huggingface",
    )
    return resolve_training(workload, MODEL, RECIPES["bf16_pure"])


def memory_of(run: TrainingRun, layout: ParallelLayout = FULL) -> TrainingMemory:
    return training_memory(run, LayoutArrays.of(layout), load_calibration().memory)


@pytest.mark.parametrize(
    ("loss", "bytes_per_entry"),
    [(CrossEntropy.PLAIN, 12), (CrossEntropy.FUSED, 4), (CrossEntropy.CHUNKED, 3.25)],
)
def test_the_loss_decides_what_exists_of_the_logits(
    loss: CrossEntropy, bytes_per_entry: float
) -> None:
    memory = memory_of(run_of(FineTuningMethod.LORA, cross_entropy=loss))

    assert float(memory.logits[0]) == pytest.approx(bytes_per_entry * TOKENS * VOCABULARY)


def test_a_reference_model_is_one_more_copy_in_sixteen_bits() -> None:
    alone = memory_of(run_of(preference=Preference.ORPO))
    beside = memory_of(run_of(preference=Preference.DPO))

    assert float(beside.weights[0] - alone.weights[0]) == pytest.approx(2 * PARAMETERS)


def test_a_sharded_reference_model_is_divided() -> None:
    layout = ParallelLayout(data=8, sharding=Sharding.ZERO3, recompute=Recompute.FULL)
    alone = memory_of(run_of(preference=Preference.ORPO), layout)
    beside = memory_of(run_of(preference=Preference.DPO), layout)

    assert float(beside.weights[0] - alone.weights[0]) == pytest.approx(2 * PARAMETERS / 8)


def test_adapters_are_their_own_reference() -> None:
    pairs = memory_of(run_of(FineTuningMethod.LORA, preference=Preference.DPO))
    without = memory_of(run_of(FineTuningMethod.LORA, preference=Preference.ORPO))

    assert float(pairs.weights[0]) == float(without.weights[0])


def test_a_pair_is_as_much_as_two_sequences() -> None:
    pairs = memory_of(run_of(preference=Preference.ORPO))
    twice = memory_of(run_of(), FULL.model_copy(update={"micro_batch": 2}))

    assert float(pairs.activations[0]) == pytest.approx(float(twice.activations[0]))


def test_the_reference_model_runs_forward_once() -> None:
    """Four passes of forward cost instead of three."""
    run = run_of(preference=Preference.DPO)
    plain = replace(run, preference=None)

    assert model_flops_per_token(run) == pytest.approx(4 / 3 * model_flops_per_token(plain))


def test_a_default_batch_is_no_larger_than_the_run() -> None:
    workload = FineTuning(method=FineTuningMethod.LORA, tokens=40_000, sequence_length=4096)
    run = resolve_training(workload, MODEL, RECIPES["bf16_mixed"])
    # 40,000 tokens are 9 whole sequences of 4,096: too few for any larger batch.
    assert run.global_batch == 1
    assert "1 sequences per optimizer step, a short run (--global-batch)" in run.assumptions


@pytest.mark.parametrize(
    ("preset", "tokens", "published"),
    [
        # GPT-2 and its reproductions train with 0.5 M tokens a step on 10 billion (nanoGPT).
        ("gpt2", 10e9, 0.5e6),
        # Llama 2 7B: 4 M tokens (arXiv:2307.09288, section 2.2).
        ("llama-2-7b", 2e12, 4e6),
        # Llama 3 405B: 16 M tokens (arXiv:2407.21783, section 3.4.1).
        ("llama-3.1-405b", 15.6e12, 16e6),
        # Pythia 1B: 2 M tokens on 300 billion (arXiv:2304.01373, section 2.1).
        ("pythia-1b", 300e9, 2e6),
    ],
)
def test_the_default_batch_is_within_a_factor_two_of_published_ones(
    preset: str, tokens: float, published: float
) -> None:
    run = resolve_training(
        Pretraining(tokens=tokens), resolve_model(ModelSource(preset=preset)), RECIPES["bf16_mixed"]
    )
    assert published / 2 <= run.tokens_per_step <= published * 2


def test_a_short_pretraining_keeps_a_thousand_steps() -> None:
    gpt2 = resolve_model(ModelSource(preset="gpt2"))
    run = resolve_training(Pretraining(tokens=1e8), gpt2, RECIPES["bf16_mixed"])
    assert 1e8 / run.tokens_per_step >= 1000
    run = resolve_training(Pretraining(tokens=1e7), gpt2, RECIPES["bf16_mixed"])
    assert 1e7 / run.tokens_per_step >= 1000


@pytest.mark.parametrize(
    ("preset", "workload", "batch", "optimizer"),
    [
        ("resnet-50", Pretraining(), 256, Optimizer.SGD_MOMENTUM),
        ("vit-base-patch16-224", Pretraining(), 1024, Optimizer.ADAMW),
        ("yolo11s", Pretraining(), 64, Optimizer.SGD_MOMENTUM),
        ("yolov8m", FineTuning(method=FineTuningMethod.FULL), 16, Optimizer.SGD_MOMENTUM),
        ("mask-rcnn-r50-fpn", Pretraining(), 16, Optimizer.SGD_MOMENTUM),
        ("lstm-4x1024", Pretraining(), 128, Optimizer.ADAMW),
        ("whisper-small", FineTuning(method=FineTuningMethod.FULL), 16, Optimizer.ADAMW),
        ("bert-base", Pretraining(), 256, Optimizer.ADAMW),
        ("bge-reranker-v2-m3", FineTuning(method=FineTuningMethod.FULL), 32, Optimizer.ADAMW),
        ("sdxl-unet", FineTuning(method=FineTuningMethod.LORA), 8, Optimizer.ADAMW),
    ],
)
def test_each_kind_of_network_takes_its_own_recipe(
    preset: str, workload: Training, batch: int, optimizer: Optimizer
) -> None:
    run = resolve_training(workload, resolve_model(ModelSource(preset=preset)), RECIPES["bf16_amp"])
    assert (run.global_batch, run.optimizer) == (batch, optimizer)
    assert any("--global-batch" in text for text in run.assumptions)
    # BERT's recipe, and what rerankers are fine-tuned on (FlagEmbedding): at most 512 tokens.
    assert run.sequence_length == 512 or not preset.startswith(("bert", "bge"))


@pytest.mark.parametrize(
    ("preset", "samples"),
    [
        ("resnet-50", 90 * 1_281_167),  # ImageNet
        ("vit-base-patch16-224", 300 * 1_281_167),
        ("yolov8m", 300 * 118_287),  # COCO train2017
        ("retinanet-r50", 270_000 * 16),  # Detectron2's schedule 3x
        ("t5-base", 2**19 * 128),
    ],
)
def test_each_kind_of_network_pretrains_on_its_own_data(preset: str, samples: int) -> None:
    model = resolve_model(ModelSource(preset=preset))
    run = resolve_training(Pretraining(), model, RECIPES["bf16_amp"])
    steps = run.tokens / run.tokens_per_step
    assert steps * run.global_batch == pytest.approx(samples)


def test_supervised_fine_tuning_takes_the_loss_of_the_current_release() -> None:
    """TRL computes it in chunks from release 1.7 on; stated software keeps what it did.

    trl 1.16.0, trainer/dpo_trainer.py: "without materializing the full logits".
    """

    def loss(**fields: Any) -> CrossEntropy | None:
        workload = FineTuning(method=FineTuningMethod.LORA, tokens=1e8, **fields)
        return resolve_training(workload, MODEL, RECIPES["bf16_mixed"]).cross_entropy

    assert loss() is CrossEntropy.LINEAR
    assert loss(cross_entropy="plain") is CrossEntropy.PLAIN
    assert loss(software="huggingface") is None
    assert loss(preference="dpo") is CrossEntropy.LINEAR


def test_an_answer_on_preferences_says_pairs_and_reference() -> None:
    workload = FineTuning(method=FineTuningMethod.FULL, preference=Preference.DPO, tokens=1e8)
    said = " ".join(resolve_training(workload, MODEL, RECIPES["bf16_mixed"]).assumptions)
    assert "pairs per optimizer step" in said
    assert "frozen model as reference" in said
