"""Recurrent state in serving memory: fixed per request, in its own format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import advisor

CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hf_configs.json").read_text(encoding="utf-8")
)


def cache_bytes(key: str, *, tokens: int, **extra: str) -> float:
    """Cache of 16 requests on one accelerator that divides nothing."""
    case = {
        "model": {"config": CONFIGS[key]},
        "workload": {
            "kind": "serving",
            "input_tokens": tokens,
            "output_tokens": 1,
            "concurrency": 16,
            **extra,
        },
        "hardware": {"accelerator": "b200-sxm", "count": 1},
        "layout": {"tensor": 1},
    }
    return advisor.estimate(case).memory.kv_cache_bytes.expected


@pytest.mark.parametrize("tokens", [99, 9_999])
def test_state_of_mamba_does_not_grow(tokens: int) -> None:
    """Mamba 2.8B holds 13,107,200 bytes for each request, as transformers 5.23.0 allocates."""
    found = cache_bytes("state-spaces__mamba-2.8b-hf", tokens=tokens)
    assert found == pytest.approx(16 * 13_107_200)


def test_the_format_of_the_cache_is_not_that_of_the_state() -> None:
    """Qwen 3.6 27B: 48 layers x (48 x 128 x 128 x 4 + 10,240 x 4 x 2) bytes of state, and 16 x 2 x
    4 x 256 elements for each of 1,000 tokens."""
    state = 48 * (48 * 128 * 128 * 4 + 10_240 * 4 * 2)
    for name, size in (("bf16", 2), ("fp8", 1)):
        found = cache_bytes("nvidia__Qwen3.6-27B-NVFP4", tokens=999, kv_cache_format=name)
        assert found == pytest.approx(16 * (state + 1000 * 16 * 2 * 4 * 256 * size))
