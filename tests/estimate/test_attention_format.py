"""Attention in FP8 against cuDNN's own measurements, and keys and values round a ring."""

from __future__ import annotations

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates
from advisor.estimate.training.run import resolve_training
from advisor.estimate.training.step_time import TrainingTime, training_time
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining

CATALOG, CALIBRATION = load_catalog(), load_calibration()
MODEL = resolve_model(ModelSource(preset="llama-3.1-405b"))


def step(
    card: str, *, attends: str | None = None, software: str = "megatron", context: int = 1
) -> TrainingTime:
    """Time of a step of Llama 3.1 405B, 16,384 tokens on each rank."""
    workload = Pretraining.model_validate(
        {
            "tokens": 1e9,
            "sequence_length": 16_384 * context,
            "global_batch": 8,
            "software": software,
            "attention_format": attends,
        }
    )
    run = resolve_training(workload, MODEL, RECIPES["bf16_mixed"])
    layout = ParallelLayout(data=8, tensor=8, context=context, sharding=Sharding.ZERO1)
    accelerator = next(item for item in CATALOG.accelerators if item.key == card)
    kernels, _ = CALIBRATION.kernels_for(accelerator)
    candidates = Candidates.of(
        [layout], accelerator, node_for(accelerator, None), kernels, compute=run.recipe.compute
    )
    return training_time(run, candidates, CALIBRATION.network, CALIBRATION.software[software])


@pytest.mark.parametrize(
    ("card", "wide", "narrow"),
    [
        # TFLOP/s forward and backward at 16,384 tokens, heads of 128 elements, without and with a
        # causal mask (NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training/results).
        ("h200-sxm", (702, 612, 673, 579), (1_055, 659, 1_010, 374)),
        ("gb200", (1_697, 1_374, 1_708, 1_328), (2_263, 1_836, 2_154, 1_632)),
        ("gb300", (2_014, 1_536, 1_915, 1_507), (3_182, 2_177, 3_054, 2_035)),
    ],
)
def test_fp8_saves_what_cudnn_measured(
    card: str, wide: tuple[float, ...], narrow: tuple[float, ...]
) -> None:
    def seconds(rates: tuple[float, ...]) -> float:
        return sum(1 / rate for rate in rates[::2]) + 2.5 * sum(1 / rate for rate in rates[1::2])

    told = step(card, attends="fp8").attention / step(card).attention
    assert float(told[0]) == pytest.approx(seconds(narrow) / seconds(wide), rel=0.12)


@pytest.mark.parametrize(
    ("card", "software"),
    # No FP8 in the tensor cores of an A100; PyTorch's own kernels multiply in 16 bits.
    [("a100-sxm-80gb", "megatron"), ("h100-sxm", "compiled"), ("h100-sxm", "huggingface")],
)
def test_others_attend_in_16_bits(card: str, software: str) -> None:
    plain = step(card, software=software)
    assert float(step(card, attends="fp8", software=software).step[0]) == float(plain.step[0])


def test_torchtitan_sends_repeated_heads_round() -> None:
    """405B has 128 query heads on 8 of keys and values, so 16 times as much goes round.

    Published tokens/s fell from 76 to 16 while attention grew eightfold (pytorch/torchtitan,
    benchmarks/llama3_h100_202412_torchtitan.md: 32,768 tokens on one rank, 262,144 on eight).
    """
    ring, lean = (step("h100-sxm", software=name, context=4) for name in ("compiled", "megatron"))
    assert float(ring.context_traffic[0]) > 10.0 * float(lean.context_traffic[0])
