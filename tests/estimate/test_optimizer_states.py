"""State bytes of optimizers, against what PyTorch and bitsandbytes hold for whole models."""

from __future__ import annotations

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.estimate.training.optimizer_states import (
    optimizer_bytes_per_parameter,
    update_temporary_bytes,
)
from advisor.estimate.training.run import resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import Optimizer
from advisor.nouns.workload import Pretraining

# PyTorch 2.13 and bitsandbytes on real tensors: model, recipe whose states have the format, bytes.
STATES = (
    ("llama-3.2-1b", Optimizer.ADAMW, "bf16_amp", 9_886_515_200),
    ("llama-3.1-8b", Optimizer.ADAMW, "bf16_pure", 32_121_044_992),
    ("llama-3.1-8b", Optimizer.SGD_MOMENTUM, "bf16_amp", 32_121_044_992),
    ("llama-3.1-8b", Optimizer.SGD, "bf16_amp", 0),
    ("llama-3.1-8b", Optimizer.LION, "bf16_pure", 16_060_522_496),
    ("llama-3.1-8b", Optimizer.ADAMW_8BIT, "bf16_pure", 16_311_468_160),
    ("llama-3.1-8b", Optimizer.PAGED_ADAMW_8BIT, "bf16_pure", 16_311_468_160),
    ("llama-3.2-1b", Optimizer.ADAFACTOR, "bf16_amp", 3_609_600),
    ("llama-3.1-8b", Optimizer.ADAFACTOR, "bf16_amp", 12_609_536),
    ("llama-3.1-8b", Optimizer.ADAFACTOR, "bf16_pure", 6_304_768),
    ("qwen2.5-7b", Optimizer.ADAFACTOR, "bf16_amp", 12_670_976),
    ("qwen2.5-7b", Optimizer.MUON, "bf16_amp", 34_823_778_304),
    ("gpt2", Optimizer.MUON, "bf16_amp", 655_779_840),
)


@pytest.mark.parametrize(("name", "optimizer", "recipe", "measured"), STATES)
def test_states_are_those_that_the_libraries_hold(
    name: str, optimizer: Optimizer, recipe: str, measured: int
) -> None:
    model = resolve_model(ModelSource(preset=name))
    run = resolve_training(Pretraining(optimizer=optimizer), model, RECIPES[recipe])

    states = optimizer_bytes_per_parameter(run) * model.total_parameters

    assert states == pytest.approx(measured, rel=2e-4)


def test_muon_works_on_one_matrix_at_a_time() -> None:
    """The widest matrix of Llama 3.1 8B has 14,336 x 4,096 elements, at 9 bytes each."""
    model = resolve_model(ModelSource(preset="llama-3.1-8b"))
    run = resolve_training(Pretraining(optimizer=Optimizer.MUON), model, RECIPES["bf16_amp"])

    assert update_temporary_bytes(run) == 9 * 14_336 * 4_096


def test_a_tied_head_has_no_second_factored_matrix() -> None:
    """BERT-large: rows and columns of its table and matrices, and all else whole.

    A table of 30,522 rows of 1,024, and 514 rows of positions and types, which the estimate does
    not factor (0.16 % of the parameters); in each of 24 layers four matrices of 1,024 x 1,024 and
    two of 1,024 x 4,096, with 13,312 elements of biases and norms; a transform of 1,024 x 1,024
    before the head, whose own part is a bias.
    """
    model = resolve_model(ModelSource(preset="bert-large"))
    run = resolve_training(Pretraining(optimizer=Optimizer.ADAFACTOR), model, RECIPES["bf16_amp"])

    matrices = 30_522 + 1_024 + 24 * (4 * 2_048 + 2 * 5_120) + 2_048
    vectors = 514 * 1_024 + 24 * 13_312 + 2 * 1_024 + 3 * 1_024 + 30_522
    states = optimizer_bytes_per_parameter(run) * model.total_parameters
    assert states == pytest.approx(4 * (matrices + vectors), rel=0.01)
