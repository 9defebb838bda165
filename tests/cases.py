"""Cases in short: one function for each kind of work, and the three that run through every door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.nouns.layout import ParallelLayout

SECTIONS = ("hardware", "host", "layout", "limits", "objective", "owning", "renting")


def every_field(**stated: object) -> dict[str, Any]:
    """Return a layout that leaves nothing to the search: the other fields are plain."""
    return ParallelLayout.model_validate(stated).model_dump()


def _case(
    kind: str,
    model: str | Mapping[str, object],
    card: str | None,
    count: int | None,
    fields: dict[str, Any],
) -> dict[str, Any]:
    sections = {name: fields.pop(name) for name in SECTIONS if name in fields}
    asked = {
        "model": {"preset": model} if isinstance(model, str) else model,
        "workload": {"kind": kind, **fields},
        **sections,
    }
    if card is not None:
        asked["hardware"] = {"accelerator": card, **({} if count is None else {"count": count})}
    return asked


def serve(
    model: str | Mapping[str, object],
    card: str | None = None,
    count: int | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the case of a model that is served; fields of the work, and sections of the case."""
    return _case("serving", model, card, count, fields)


def tune(
    model: str | Mapping[str, object],
    card: str | None = None,
    count: int | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the case of a fine-tuning."""
    return _case("fine_tuning", model, card, count, fields)


def pretrain(
    model: str | Mapping[str, object],
    card: str | None = None,
    count: int | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the case of a pretraining."""
    return _case("pretraining", model, card, count, fields)


LORA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6, "sequence_length": 4096},
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
    "workload": {"kind": "serving", "input_tokens": 1024, "output_tokens": 256, "concurrency": 32},
}
CASES: dict[str, dict[str, Any]] = {"lora": LORA, "pretrain": PRETRAIN, "serve": SERVE}
