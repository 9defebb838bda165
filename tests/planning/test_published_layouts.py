"""The search against layouts that experts published: never slower by our own model, and in memory.

Sources: [1] Korthikanti et al., 2022, arXiv:2205.05198, table 5 (GPT-3 175B, 64 A100: full
recomputation 18.13 s, selective with sequence parallelism 13.75 s); [2] NVIDIA/Megatron-LM,
README, GPT-3 example (1,024 A100, 32 s a step); [3] NVIDIA-NeMo/Megatron-Bridge,
docs/performance-summary.md, 25.11, DGX-H100 (Llama 3.1 405B, 1,024 GPUs, FP8, 292 tokens/s/GPU),
whose recipe sums gradients in bf16 (``grad_reduce_in_fp32 = False``); [4] Narayanan et al., 2021,
arXiv:2104.04473, table 2 (GPT-3 174.6B, tensor 8 x pipeline 12, batch 1,536: 153, 149 and 141
teraFLOP/s on each of 384, 768 and 1,536 A100).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest

import advisor
from advisor.nouns.case import ModelSource
from tests.cases import every_field
from tests.planning.ties import loses_nothing

GPT3: dict[str, Any] = {
    "tokens": 300e9,
    "sequence_length": 2048,
    "precision": "fp16_amp",
    "attention": "eager",
}
LLAMA: dict[str, Any] = {
    "tokens": 15.6e12,
    "sequence_length": 8192,
    "global_batch": 512,
    "precision": "fp8",
    "reduce_format": "bf16",
}
LLAMA_LAYOUT: dict[str, Any] = {
    "data": 8,
    "tensor": 8,
    "pipeline": 8,
    "context": 2,
    "virtual_stages": 8,
    "sharding": "zero1",
}
LLAMA_STEP_S = 512 * 8192 / (292 * 1024)
"""Tokens of a step over tokens per second of all accelerators."""


def megatron_step_s(count: int, teraflops: float) -> float:
    """Seconds of a step by equation 3 of [4], which counts the recomputed forward pass."""
    batch, sequence, layers, hidden, vocabulary = 1536, 2048, 96, 12288, 51200
    flops = 96.0 * batch * sequence * layers * hidden**2
    flops *= 1 + sequence / (6 * hidden) + vocabulary / (16 * layers * hidden)
    return flops / (count * teraflops * 1e12)


@dataclass(frozen=True)
class Published:
    """A published layout with its measured step."""

    preset: str
    workload: dict[str, Any]
    accelerator: str
    count: int
    layout: dict[str, Any]
    step_s: float


FULL = {"tensor": 8, "pipeline": 8, "virtual_stages": 3, "recompute": "full"}
RUNS = {
    "gpt-3 on 64, full recomputation [1]": Published(
        "gpt-3-175b",
        {**GPT3, "global_batch": 64},
        "a100-sxm-80gb",
        64,
        {**FULL, "sequence_parallel": False},
        18.13,
    ),
    "gpt-3 on 64, selective recomputation [1]": Published(
        "gpt-3-175b",
        {**GPT3, "global_batch": 64},
        "a100-sxm-80gb",
        64,
        {**FULL, "recompute": "selective"},
        13.75,
    ),
    "gpt-3 on 1,024 [2]": Published(
        "gpt-3-175b",
        {**GPT3, "global_batch": 1536},
        "a100-sxm-80gb",
        1024,
        {"data": 8, "tensor": 8, "pipeline": 16, "recompute": "full", "sequence_parallel": False},
        32.0,
    ),
    "llama 3.1 405b on 1,024 [3]": Published(
        "llama-3.1-405b", LLAMA, "h100-sxm", 1024, LLAMA_LAYOUT, LLAMA_STEP_S
    ),
}
RUNS |= {
    f"gpt-3 on {count:,} [4]": Published(
        "gpt-3-175b",
        {**GPT3, "global_batch": 1536},
        "a100-sxm-80gb",
        count,
        {
            "data": count // 96,
            "tensor": 8,
            "pipeline": 12,
            "recompute": "full",
            "sequence_parallel": False,
        },
        megatron_step_s(count, teraflops),
    )
    for count, teraflops in ((384, 153), (768, 149), (1536, 141))
}


@lru_cache
def estimated(name: str, *, searched: bool) -> advisor.Estimate:
    run = RUNS[name]
    case = {
        "model": {"preset": run.preset},
        "workload": {"kind": "pretraining", **run.workload},
        "hardware": {"accelerator": run.accelerator, "count": run.count},
    }
    return advisor.estimate(case if searched else {**case, "layout": every_field(**run.layout)})


@pytest.mark.parametrize("name", RUNS)
def test_a_published_layout_fits_and_is_predicted_within_a_tenth(name: str) -> None:
    published = estimated(name, searched=False)
    assert published.memory.fits
    assert published.time is not None
    assert published.time.step_s.expected == pytest.approx(RUNS[name].step_s, rel=0.10)


@pytest.mark.parametrize("name", RUNS)
def test_the_search_is_as_fast_as_the_published_layout_and_fits(name: str) -> None:
    published, found = (estimated(name, searched=flag) for flag in (False, True))
    assert published.time is not None
    assert found.time is not None
    assert found.memory.fits
    ratio = published.time.step_s.expected / found.time.step_s.expected
    layers = advisor.resolve_model(ModelSource(preset=RUNS[name].preset)).num_hidden_layers
    assert loses_nothing(found.layout, published.layout, ratio=ratio, layers=layers)
