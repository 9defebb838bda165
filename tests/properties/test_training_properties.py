"""Laws that every training estimate obeys, whatever the configuration."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.memory_report import describe_memory
from advisor.estimate.training.report import (
    describe_time,
    hardware_flops_per_token,
    model_flops_per_token,
)
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.estimate.training.step_time import TrainingTime, training_time
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Pretraining

MODELS = ("llama-3.1-8b", "mixtral-8x7b", "gpt2")
METHODS = (None, FineTuningMethod.FULL, FineTuningMethod.LORA, FineTuningMethod.QLORA)


@lru_cache
def model(name: str) -> ModelArchitecture:
    return resolve_model(ModelSource(preset=name))


def run_of(name: str, method: FineTuningMethod | None, sequence: int = 1024) -> TrainingRun:
    workload = (
        Pretraining(tokens=1e9, sequence_length=sequence, global_batch=64)
        if method is None
        else FineTuning(method=method, tokens=1e9, sequence_length=sequence, global_batch=64)
    )
    return resolve_training(workload, model(name), RECIPES["bf16_mixed"])


layouts = st.builds(
    lambda data, expert, **rest: ParallelLayout(data=data * expert, expert=expert, **rest),
    data=st.sampled_from([1, 2, 4]),
    expert=st.sampled_from([1, 2, 8]),
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 4]),
    sharding=st.sampled_from(list(Sharding)),
    micro_batch=st.sampled_from([1, 2, 4]),
    recompute=st.sampled_from(list(Recompute)),
    sequence_parallel=st.booleans(),
)
names = st.sampled_from(MODELS)
methods = st.sampled_from(METHODS)
FACTS = load_calibration().memory


def total_bytes(name: str, run: TrainingRun, layout: ParallelLayout) -> float:
    return float(training_memory(run, LayoutArrays.of(layout), FACTS).allocated[0])


def hardware(key: str = "h100-sxm") -> HardwareArrays:
    accelerator = load_catalog().accelerator(key)
    kernels, _ = load_calibration().kernels_for(accelerator)
    return HardwareArrays.of(accelerator, node_for(accelerator, None), kernels, compute="bf16")


def time_of(name: str, run: TrainingRun, layout: ParallelLayout) -> TrainingTime:
    calibration = load_calibration()
    return training_time(
        run,
        Candidates(layout=LayoutArrays.of(layout), hardware=hardware()),
        calibration.network,
        calibration.software[run.software],
    )


@settings(deadline=None, max_examples=60)
@given(name=names, method=methods, layout=layouts)
def test_memory_terms_sum_to_the_total(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    accelerator = load_catalog().accelerator("h100-sxm")
    memory = describe_memory(run_of(name, method), layout, accelerator, load_calibration())
    parts = [
        memory.weights_bytes,
        memory.gradients_bytes,
        memory.optimizer_bytes,
        memory.activations_bytes,
        memory.logits_bytes,
        memory.kv_cache_bytes,
        memory.workspace_bytes,
        memory.context_bytes,
        memory.fragmentation_bytes,
    ]
    for bound in ("low", "expected", "high"):
        assert sum(getattr(part, bound) for part in parts) == pytest.approx(
            getattr(memory.total_bytes, bound), rel=1e-9
        )
    assert sum(term.value for term in memory.terms) == pytest.approx(memory.total_bytes.expected)


@settings(deadline=None, max_examples=60)
@given(name=names, method=methods, layout=layouts)
def test_memory_never_rises_with_more_sharding(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    """States shrink from level to level; ZeRO-3 adds gathered blocks, so states are compared.

    On one pipeline stage: with several, another stage can become the fullest.
    """
    run = run_of(name, method)
    layout = layout.model_copy(update={"pipeline": 1})
    previous = np.inf
    for level in Sharding:
        memory = training_memory(
            run, LayoutArrays.of(layout.model_copy(update={"sharding": level})), FACTS
        )
        states = float((memory.weights + memory.optimizer)[0])
        assert states <= previous * (1 + 1e-12)
        previous = states


@settings(deadline=None, max_examples=60)
@given(name=names, method=methods, layout=layouts)
def test_recomputing_more_needs_less_memory_and_no_less_time(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    """The search relies on it: of the policies that fit, the least recomputation is fastest."""
    run = run_of(name, method)
    tries = [layout.model_copy(update={"recompute": policy}) for policy in Recompute]
    bytes_ = [total_bytes(name, run, each) for each in tries]
    seconds = [float(time_of(name, run, each).step[0]) for each in tries]
    assert bytes_[2] <= bytes_[0] * (1 + 1e-9)
    assert seconds[0] <= seconds[1] * (1 + 1e-9) <= seconds[2] * (1 + 2e-9)


@settings(deadline=None, max_examples=60)
@given(name=names, layout=layouts)
def test_zero3_is_never_faster_than_zero1_nor_zero1_slower_than_ddp(
    name: str, layout: ParallelLayout
) -> None:
    """The other pruning of the search."""
    run = run_of(name, None)
    seconds = {
        level: float(time_of(name, run, layout.model_copy(update={"sharding": level})).step[0])
        for level in Sharding
    }
    assert seconds[Sharding.ZERO1] <= seconds[Sharding.DDP] * (1 + 1e-9)
    assert seconds[Sharding.ZERO1] <= seconds[Sharding.ZERO3] * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(name=names, method=methods, layout=layouts)
def test_time_never_beats_the_roofline(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    run = run_of(name, method)
    arrays = LayoutArrays.of(layout)
    flops = float(hardware_flops_per_token(run, arrays.recompute)[0])
    flops *= run.tokens_per_step
    least = flops / (layout.accelerators * float(hardware().peak_flops_per_s[0]))
    assert float(time_of(name, run, layout).step[0]) >= least


@settings(deadline=None, max_examples=60)
@given(name=names, method=methods, layout=layouts)
def test_time_shares_are_exclusive(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    accelerator = load_catalog().accelerator("h100-sxm")
    time = describe_time(
        run_of(name, method), layout, accelerator, node_for(accelerator, None), load_calibration()
    )
    assert all(term.value >= 0 for term in time.terms)
    assert sum(term.value for term in time.terms) == pytest.approx(time.step_s.expected)


@settings(deadline=None, max_examples=40)
@given(name=names, method=methods, chosen=st.lists(layouts, min_size=2, max_size=6))
def test_one_element_of_many_equals_one_alone(
    name: str, method: FineTuningMethod | None, chosen: list[ParallelLayout]
) -> None:
    run = run_of(name, method)
    calibration = load_calibration()
    alone = [LayoutArrays.of(layout) for layout in chosen]
    together = LayoutArrays(
        **{
            item.name: np.concatenate([getattr(each, item.name) for each in alone])
            for item in fields(LayoutArrays)
        }
    )
    many = training_memory(run, together, FACTS)
    time = training_time(
        run,
        Candidates(layout=together, hardware=hardware().take(np.zeros(len(chosen), dtype=np.intp))),
        calibration.network,
        calibration.software[run.software],
    )
    for index, layout in enumerate(chosen):
        assert many.allocated[index] == pytest.approx(total_bytes(name, run, layout), rel=1e-12)
        assert time.step[index] == pytest.approx(
            float(time_of(name, run, layout).step[0]), rel=1e-12
        )


def test_lora_costs_nearly_two_thirds_of_full_training() -> None:
    """Frozen weights need no weight gradient: 4 N instead of 6 N (arXiv:2106.09685)."""
    full = model_flops_per_token(run_of("llama-3.1-8b", None, 2048))
    lora = model_flops_per_token(run_of("llama-3.1-8b", FineTuningMethod.LORA, 2048))
    assert lora / full == pytest.approx(2 / 3, abs=0.03)


def test_full_training_costs_six_flops_per_parameter_and_token() -> None:
    """6 N per token (arXiv:2001.08361), plus attention, without the embedding's lookup."""
    architecture = model("llama-3.1-8b")
    run = run_of("llama-3.1-8b", None, 2048)
    matrices = architecture.total_parameters - 128256 * 4096
    attention = 6 * 32 * 2048 * 4096
    assert model_flops_per_token(run) == pytest.approx(6 * matrices + attention, rel=1e-3)


@settings(deadline=None, max_examples=100)
@given(name=names, method=methods, layout=layouts)
def test_no_term_is_negative(
    name: str, method: FineTuningMethod | None, layout: ParallelLayout
) -> None:
    memory = training_memory(run_of(name, method), LayoutArrays.of(layout), FACTS)
    for term in ("weights", "gradients", "optimizer", "activations", "logits", "workspace"):
        assert getattr(memory, term)[0] >= 0, term


@settings(deadline=None, max_examples=40)
@given(layout=layouts)
def test_four_bit_weights_are_a_quarter_of_sixteen(layout: ParallelLayout) -> None:
    """NF4 holds 4 bits and 0.127 bits of constants for each of Mixtral's matrix elements."""
    name = "mixtral-8x7b"
    arrays = LayoutArrays.of(layout.model_copy(update={"sharding": Sharding.DDP}))
    weights = {
        method: float(training_memory(run_of(name, method), arrays, FACTS).weights[0])
        for method in (FineTuningMethod.LORA, FineTuningMethod.QLORA)
    }
    ratio = weights[FineTuningMethod.QLORA] / weights[FineTuningMethod.LORA]
    # Embedding, head and norms stay in 16 bits, adapters in 32; pipelines weigh them more.
    assert 0.25 < ratio < 0.45
