"""The three cases that the benchmarks and the tests share in spirit: fine-tune, pretrain, serve."""

from __future__ import annotations

from typing import Any

CASES: dict[str, dict[str, Any]] = {
    "lora 8B": {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {
            "kind": "fine_tuning",
            "method": "lora",
            "tokens": 50e6,
            "sequence_length": 4096,
        },
        "limits": {"deadline_hours": 24},
    },
    "pretrain 7B": {
        "model": {"parameters": 7e9},
        "workload": {"kind": "pretraining", "tokens": 300e9},
        "limits": {"deadline_hours": 720, "budget_usd": 300_000},
        "objective": "fastest",
    },
    "serve 70B": {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {
            "kind": "serving",
            "input_tokens": 1024,
            "output_tokens": 256,
            "concurrency": 32,
        },
    },
}

LARGE: dict[str, dict[str, Any]] = {
    "pretrain 405B": {
        "model": {"preset": "llama-3.1-405b"},
        "workload": {"kind": "pretraining", "tokens": 15.6e12},
    },
    "pretrain DeepSeek-V3": {
        "model": {"preset": "deepseek-v3"},
        "workload": {"kind": "pretraining", "tokens": 14.8e12},
    },
}
"""Searched up to 16,384 accelerators."""
