"""Questions that the schema of a case allows: any fields together, what is refused left out."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random
from typing import Any, Final

from advisor import api
from advisor.catalog import load_catalog
from advisor.errors import InputError
from advisor.nouns.case import Case
from tests.fuzz.work import ask

SCHEMA: Final = Case.model_json_schema()
CARDS: Final = [card.key for card in load_catalog().accelerators]
MODELS: Final = (
    *("llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3", "gpt2"),
    *("resnet-50", "sd-1.5-unet", "whisper-large-v3", "bert-base", "yolo11n", "mamba-2.8b"),
)
WORK: Final = ("Serving", "Serving", "FineTuning", "Pretraining")
PARTS: Final = {"limits": "Constraints", "layout": "ParallelLayout", "renting": "Renting"}
"""Sections of a case beside model, work and hardware, with their names in the schema."""
APART: Final = frozenset(("measured", "demand", "unused", "accelerators", "providers", "regions"))
"""Fields that a drawn text makes useless."""
MOST_REFUSED: Final = 8


def make_question(source: Random) -> dict[str, Any]:
    """Return a case of fields that the schema names, each within its own bounds."""
    kind = source.choice(WORK)
    case: dict[str, Any] = {
        "model": {"preset": source.choice(MODELS)},
        "workload": _section(source, kind, 0.1),
    }
    case["workload"]["kind"] = SCHEMA["$defs"][kind]["properties"]["kind"]["const"]
    for name, about in PARTS.items():
        if source.random() < 0.4:
            case[name] = _section(source, about, 0.12)
    if source.random() < 0.6:
        count = source.choice((1, 1, 2, 3, 4, 8, 16))
        case["hardware"] = {"accelerator": source.choice(CARDS), "count": count}
    return case


def run_question(content: dict[str, Any]) -> None:
    """Ask the question; leave out, one at a time, fields that do not belong to it."""
    for _ in range(MOST_REFUSED):
        try:
            return ask(api.load_case(content))
        except InputError as error:
            *sections, name = (error.field or "").split(".")
            place: Any = content
            for section in sections:
                place = place.get(section) if isinstance(place, dict) else None
            if not isinstance(place, dict) or place.pop(name, None) is None or not sections:
                raise
    return None


def _section(source: Random, about: str, share: float) -> dict[str, Any]:
    fields = SCHEMA["$defs"][about]
    required = fields.get("required", ())
    return {
        name: _value(source, field)
        for name, field in fields["properties"].items()
        if name not in APART and (name in required or source.random() < share)
    }


def _value(source: Random, field: dict[str, Any]) -> Any:
    """Return a value that the schema of a field allows."""
    if "$ref" in field:
        about = field["$ref"].rpartition("/")[2]
        inner = SCHEMA["$defs"][about]
        return _section(source, about, 0.3) if "properties" in inner else _value(source, inner)
    if "anyOf" in field:
        return _value(source, source.choice([one for one in field["anyOf"] if one != NOTHING]))
    if "enum" in field:
        return source.choice(field["enum"])
    match field.get("type"):
        case "boolean":
            return source.random() < 0.5
        case "integer":
            return round(_number(source, field))
        case "number":
            return _number(source, field)
        case "array":
            return [_value(source, field["items"])]
        case _:
            return field.get("const", "llama-3.1-8b")


NOTHING: Final = {"type": "null"}


def _number(source: Random, field: dict[str, Any]) -> float:
    """Return a number within the bounds, seldom at an end, mostly a small one."""
    low = float(field.get("minimum", field.get("exclusiveMinimum", 0)))
    high = float(field.get("maximum", field.get("exclusiveMaximum", 1e6)))
    with suppress(IndexError):
        return [low, high][source.randrange(20)]
    if high <= 1:
        return source.uniform(low, high)
    first, last = math.log(max(low, 0.5)), math.log(high)
    return math.exp(first + (last - first) * source.random() ** 2)
