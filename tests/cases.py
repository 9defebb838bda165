"""The three cases that run through every door."""

from __future__ import annotations

from typing import Any

from advisor.nouns.layout import ParallelLayout


def every_field(**stated: object) -> dict[str, Any]:
    """Return a layout that leaves nothing to the search: the other fields are plain."""
    return ParallelLayout.model_validate(stated).model_dump()


LORA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {
        "kind": "fine_tuning",
        "method": "lora",
        "tokens": 50e6,
        "sequence_length": 4096,
    },
    "limits": {"deadline_hours": 24},
    "objective": "cheapest",
}
PRETRAIN: dict[str, Any] = {
    "model": {"parameters": 7e9},
    "workload": {"kind": "pretraining", "tokens": 300e9},
    "limits": {"deadline_hours": 720, "budget_usd": 300_000},
    "objective": "fastest",
}
SERVE: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "workload": {
        "kind": "serving",
        "input_tokens": 1024,
        "output_tokens": 256,
        "concurrency": 32,
    },
}
CASES: dict[str, dict[str, Any]] = {"lora": LORA, "pretrain": PRETRAIN, "serve": SERVE}
