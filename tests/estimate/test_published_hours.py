"""Accelerator hours that makers of large models published, with the layouts they told."""

from __future__ import annotations

import pytest

from advisor import estimate, load_case
from tests.cases import every_field

Layout = dict[str, int | str | bool]
RUNS: dict[str, tuple[int, str, float, int, int, str, Layout]] = {
    # DeepSeek-AI 2024, arXiv:2412.19437, tables 1 and 2 and sections 3.1 to 3.3: pre-training alone
    # 2.664M hours of H800 for 14.8T tokens of 4,096, batches of 15,360, on 2,048 cards.
    "deepseek-v3": (
        2_664_000,
        "h800-sxm",
        14.8e12,
        4096,
        15_360,
        "megatron",
        {
            "pipeline": 16,
            "data": 128,
            "expert": 64,
            "sharding": "zero1",
            "recompute": "selective",
            "schedule": "dualpipe",
        },
    ),
    # Touvron et al. 2023, arXiv:2307.09288, table 2: hours of A100 80 GB for 2T tokens, batches of
    # 4M tokens (section 2.2); fully sharded PyTorch with checkpointed layers, as for LLaMA
    # (arXiv:2302.13971, section 2.4); the number of cards is not told.
    "llama-2-7b": (184_320, "a100-sxm-80gb", 2e12, 4096, 1024, "compiled", {"data": 1024}),
    "llama-2-70b": (1_720_320, "a100-sxm-80gb", 2e12, 4096, 1024, "compiled", {"data": 1024}),
    # Llama team 2024, arXiv:2407.21783, tables 4 and 5, and its model card: 30.84M hours of H100.
    # 126 layers on 16 stages, here in four chunks each.
    "llama-3.1-405b": (
        30_840_000,
        "h100-sxm",
        15.6e12,
        8192,
        2048,
        "megatron",
        {
            "tensor": 8,
            "pipeline": 16,
            "data": 128,
            "virtual_stages": 4,
            "sharding": "zero1",
            "recompute": "none",
        },
    ),
    # BigScience 2022, arXiv:2211.05100, sections 3.4 and 4 (hours: model card), 366B tokens.
    "bloom": (
        1_082_990,
        "a100-sxm-80gb",
        366e9,
        2048,
        2048,
        "megatron",
        {
            "tensor": 4,
            "pipeline": 12,
            "data": 8,
            "micro_batch": 2,
            "sharding": "zero1",
            "sequence_parallel": False,
        },
    ),
}


@pytest.mark.parametrize("model", RUNS)
def test_published_hours_within_a_fifth(model: str) -> None:
    hours, accelerator, tokens, sequence, batch, software, layout = RUNS[model]
    full: dict[str, int | str | bool] = {"sharding": "zero3", "recompute": "full", "micro_batch": 1}
    full |= layout
    degrees = [int(full.get(name, 1)) for name in ("data", "tensor", "pipeline")]
    found = estimate(
        load_case(
            {
                "model": {"preset": model},
                "workload": {
                    "kind": "pretraining",
                    "tokens": tokens,
                    "sequence_length": sequence,
                    "global_batch": batch,
                    "precision": "fp8" if model == "deepseek-v3" else "bf16_mixed",
                    "software": software,
                    # All of them run clusters of their own.
                    "operator": "lab",
                },
                "hardware": {
                    "accelerator": accelerator,
                    "count": degrees[0] * degrees[1] * degrees[2],
                },
                "layout": every_field(**full),
            }
        )
    )

    assert found.time is not None
    predicted = found.time.run_hours.scaled(found.count)
    assert predicted.expected == pytest.approx(hours, rel=0.2)
    assert predicted.low <= hours <= predicted.high
