"""What a choice of loss, of preference pairs or of a reference model adds, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.flops import model_flops_per_token
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.peak_moments import TrainingMemory
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import CrossEntropy, FineTuningMethod, Preference
from advisor.nouns.workload import FineTuning

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
    )
    return resolve_training(workload, MODEL, RECIPES["bf16_pure"])


def memory_of(run: TrainingRun, layout: ParallelLayout = FULL) -> TrainingMemory:
    return training_memory(MODEL, run, LayoutArrays.of(layout), load_calibration().memory)


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

    assert model_flops_per_token(MODEL, run) == pytest.approx(
        4 / 3 * model_flops_per_token(MODEL, plain)
    )


def test_a_default_batch_is_no_larger_than_the_run() -> None:
    workload = FineTuning(method=FineTuningMethod.LORA, tokens=40_000, sequence_length=4096)
    run = resolve_training(workload, MODEL, RECIPES["bf16_mixed"])
    # 40,000 tokens are 9 whole sequences of 4,096; the usual batch has 64.
    assert run.global_batch == 9
    assert "9 sequences per optimizer step, the whole run" in run.assumptions
