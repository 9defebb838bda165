"""The case that the inputs describe, and the way back from a field of it to the input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from advisor.architecture.config.fields import load_config_text
from advisor.foundation.units import MILLISECOND
from advisor.nouns.limits import Objective
from advisor.ui.inputs import FROM_CONFIG, FROM_COUNT, OWN, SHAPE, YES, Inputs, Task
from advisor.ui.reading import typed_size
from advisor.ui.rules import RULES

CASE_FIELDS: Final = {
    "model": "model",
    "model.preset": "model",
    "model.hub": "model",
    "model.config": "config",
    "model.parameters": "parameters",
    "model.shape": "parameters",
    **{f"model.{field}": name for name, field in SHAPE.items()},
    "workload.samples": "samples",
    "workload.image_size": "image_size",
    "workload.data_loading": "loading",
    "workload.loader_workers": "loader_workers",
    "workload.worker_images_per_s": "worker_rate",
    "workload.denoising_steps": "steps",
    "workload.sequence_length": "sequence",
    "workload.global_batch": "batch",
    "workload.epochs": "epochs",
    "workload.evaluation_tokens": "evaluation",
    "workload.precision": "precision",
    "workload.optimizer": "optimizer",
    "workload.software": "software",
    "workload.cross_entropy": "cross_entropy",
    "workload.gradient_sync": "gradient_sync",
    "workload.preference": "preference",
    "workload.lora_rank": "rank",
    "workload.input_tokens": "prompt",
    "workload.output_tokens": "answer",
    "workload.concurrency": "users",
    "workload.weight_format": "weights",
    "workload.kv_cache_format": "cache",
    "limits.providers": "providers",
    "limits.accelerators": "accelerators",
    "limits.max_accelerators": "max_accelerators",
    "limits.usd_per_eur": "usd_per_eur",
    "limits.max_ttft_ms": "first_token",
    "limits.max_tpot_ms": "speed",
    "limits.owned": "own_accelerator",
}
"""Field of a case to the input that sets it, where that is the same for every task."""


INPUTS_BY_FIELD: Final = {
    field.rpartition(".")[2]: name for field, name in CASE_FIELDS.items() if field != "model.shape"
}
FIELD: Final = re.compile(
    r"\b(?:model|workload|limits|hardware|layout)(?:\.[a-z_]+)+\b|\b[a-z]+(?:_[a-z]+)+\b"
)
"""A field of the case by its path, or by its last name where that has several words."""
OF_THE_COMMAND_LINE: Final = re.compile(
    r" \(--[^)]*\)|; 'gpu-advisor schema' prints what is allowed"
)


def case_of(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, Any]:
    """Return the case that the inputs describe, as ``load_case`` reads it.

    Parameters
    ----------
    inputs : Inputs
    numbers : dict
        As `read` returns them; without problems.
    """
    case: dict[str, Any] = {
        "model": _model(inputs, numbers),
        "workload": _workload(inputs, numbers),
        "limits": _limits(inputs, numbers),
        "objective": Objective(inputs.objective).value,
    }
    return case


def _model(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    if inputs.model == FROM_CONFIG:
        # Parsed here: a text that is no JSON could be taken for the path of a file.
        return {"config": load_config_text(inputs.config)}
    if size := parameters_of(inputs, numbers):
        return _given(parameters=size, shape=shape_of(inputs, numbers) or None)
    return {"preset": inputs.model}


def parameters_of(inputs: Inputs, numbers: Mapping[str, float | None]) -> float | None:
    """Return the bare parameter count that was entered, if one was."""
    if inputs.model == FROM_COUNT:
        return numbers.get("parameters")
    return typed_size(inputs.model)


def shape_of(inputs: Inputs, numbers: Mapping[str, float | None]) -> dict[str, object]:
    """Return what was entered of the shape behind a parameter count, by field of the case."""
    known = {field: _whole(numbers.get(name)) for name, field in SHAPE.items()}
    return _given(**known | {"like": inputs.shape_like or None})


def _workload(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    task = Task(inputs.task)
    if task is Task.SERVE and "at_once" in numbers:
        diffusion = "steps" in numbers
        return _given(
            kind="serving",
            concurrency=_whole(numbers["at_once"]),
            weight_format=inputs.weights or None,
            image_size=_whole(numbers.get("image_size")),
            denoising_steps=_whole(numbers.get("steps")),
            guidance=inputs.guidance == YES if diffusion and inputs.guidance else None,
        )
    if task is Task.SERVE:
        return _given(
            kind="serving",
            input_tokens=_whole(numbers["prompt"]),
            output_tokens=_whole(numbers["answer"]),
            concurrency=_whole(numbers["users"]),
            weight_format=inputs.weights or None,
            kv_cache_format=inputs.cache or None,
        )
    shared = _given(
        tokens=numbers.get("pretrain_tokens" if task is Task.PRETRAIN else "tokens"),
        samples=numbers.get("samples"),
        sequence_length=_whole(numbers.get("sequence")),
        image_size=_whole(numbers.get("image_size")),
        global_batch=_whole(numbers["batch"]),
        epochs=numbers["epochs"],
        evaluation_tokens=numbers["evaluation"],
        precision=inputs.precision or None,
        optimizer=str(inputs.optimizer),
        software=inputs.software or None,
        cross_entropy=inputs.cross_entropy or None,
        gradient_sync=str(inputs.gradient_sync),
        data_loading=inputs.loading or None if "loader_workers" in numbers else None,
        loader_workers=_whole(numbers.get("loader_workers")),
        worker_images_per_s=numbers.get("worker_rate"),
    )
    if task is Task.PRETRAIN:
        return {"kind": "pretraining", **shared}
    fine_tuning = {"kind": "fine_tuning", "method": task.value, **shared}
    if inputs.preference:
        fine_tuning["preference"] = inputs.preference
    if task is not Task.FULL:
        fine_tuning["lora_rank"] = _whole(numbers["rank"])
    return fine_tuning


def _limits(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    speed = numbers.get("speed")
    limits = _given(
        deadline_hours=numbers.get("deadline", numbers.get("pretrain_deadline")),
        budget_usd=numbers.get("budget", numbers.get("monthly_budget")),
        max_ttft_ms=numbers.get("first_token", numbers.get("within")),
        max_tpot_ms=None if speed is None else 1 / speed / MILLISECOND,
    )
    if inputs.rent == OWN:
        own = {"accelerator": inputs.own_accelerator, "count": _whole(numbers["own_count"])}
        return limits | {"owned": [own]}
    return limits | _given(
        price_kind=str(inputs.rent),
        providers=list(inputs.providers),
        accelerators=list(inputs.accelerators),
        max_accelerators=_whole(numbers["max_accelerators"]),
        usd_per_eur=numbers["usd_per_eur"],
    )


def input_field(case_field: str, inputs: Inputs) -> str | None:
    """Return the input that sets a field of the case; None where none does alone."""
    task_fields = {
        "workload.tokens": "pretrain_tokens" if inputs.task == Task.PRETRAIN else "tokens",
        "limits.deadline_hours": (
            "pretrain_deadline" if inputs.task == Task.PRETRAIN else "deadline"
        ),
        "limits.budget_usd": "monthly_budget" if inputs.task == Task.SERVE else "budget",
    }
    # A union names its member in between: workload.fine_tuning.tokens.
    parts = case_field.split(".")
    path = ".".join((parts[0], parts[-1])) if len(parts) > 1 else case_field
    if parts[:2] == ["model", "config"]:
        path = "model.config"
    elif parts[:2] == ["limits", "owned"]:
        path = "limits.owned"
    name = (CASE_FIELDS | task_fields).get(path)
    if name == "model" and inputs.model in (FROM_CONFIG, FROM_COUNT):
        return {FROM_CONFIG: "config", FROM_COUNT: "parameters"}[inputs.model]
    return name


def in_words(text: str) -> str:
    """Return a message of the engine in the words of the page: labels for fields, no options.

    Examples
    --------
    >>> in_words("workload.lora_rank is not usable (--lora-rank)")
    'LoRA rank is not usable'
    >>> in_words("input_tokens + output_tokens exceed the context")
    'Prompt tokens + Answer tokens exceed the context'
    """
    return FIELD.sub(_label, OF_THE_COMMAND_LINE.sub("", text))


def _label(match: re.Match[str]) -> str:
    last = match[0].rpartition(".")[2]
    name = INPUTS_BY_FIELD.get(last)
    return RULES[name].label if name else last.replace("_", " ")


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
