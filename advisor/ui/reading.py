"""From what was typed to a case: numbers read, bounds checked, one sentence for each mistake."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from advisor.architecture.config_fields import load_config_text
from advisor.architecture.presets import find_preset, load_preset
from advisor.errors import InputError
from advisor.limits import Objective
from advisor.parsing import parse_amount, parse_count, parse_duration, parse_money
from advisor.ui.inputs import FROM_CONFIG, FROM_COUNT, OWN, RULES, Inputs, Kind, Rules, Task
from advisor.units import HOUR_S, MILLISECOND

EXAMPLES: Final = {
    Kind.COUNT: "a number like 50M or 2e9",
    Kind.WHOLE: "a whole number",
    Kind.HOURS: "a time like 24h or 3 days",
    Kind.USD: "an amount like 500",
    Kind.MS: "a time like 2 s or 500 ms",
}
CASE_FIELDS: Final = {
    "model": "model",
    "model.preset": "model",
    "model.hub": "model",
    "model.config": "config",
    "model.parameters": "parameters",
    "workload.sequence_length": "sequence",
    "workload.global_batch": "batch",
    "workload.precision": "precision",
    "workload.optimizer": "optimizer",
    "workload.software": "software",
    "workload.lora_rank": "rank",
    "workload.input_tokens": "prompt",
    "workload.output_tokens": "answer",
    "workload.concurrency": "users",
    "workload.weight_format": "weights",
    "workload.kv_cache_format": "cache",
    "limits.providers": "providers",
    "limits.accelerators": "accelerators",
    "limits.max_accelerators": "max_accelerators",
    "limits.max_ttft_ms": "first_token",
    "limits.max_tpot_ms": "speed",
    "limits.owned": "own_accelerator",
}
"""Field of a case to the input that sets it, where that is the same for every task."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Inputs as numbers; a field that cannot be used is in ``problems`` only."""

    numbers: dict[str, float | None]
    problems: dict[str, str]


def read(inputs: Inputs) -> Reading:
    """Read every number that the chosen task uses.

    Returns
    -------
    Reading
        ``numbers`` holds None where an optional field is blank.
    """
    numbers: dict[str, float | None] = {}
    problems: dict[str, str] = {}
    for name in RULES:
        if not used(name, inputs):
            continue
        if problem := problem_of(inputs, name):
            problems[name] = problem
        elif RULES[name].kind in EXAMPLES:
            numbers[name] = _number(_text(inputs, name), RULES[name])
    return Reading(numbers, problems)


def used(name: str, inputs: Inputs) -> bool:
    """Return whether a field matters for the chosen task, model source and hardware."""
    if name in ("config", "parameters"):
        return inputs.model == {"config": FROM_CONFIG, "parameters": FROM_COUNT}[name]
    if name in ("own_accelerator", "own_count"):
        return inputs.rent == OWN
    if name in ("providers", "accelerators", "max_accelerators"):
        return inputs.rent != OWN
    return inputs.task in RULES[name].tasks


def problem_of(inputs: Inputs, name: str) -> str | None:
    """Return what is wrong with one field, as the end of a sentence that its label begins.

    Examples
    --------
    >>> problem_of(Inputs(users="5000"), "users")
    "must be 1 to 4,096, not '5000'."
    """
    rules = RULES[name]
    if rules.kind is Kind.CHOICE:
        value = _text(inputs, name)
        if value in rules.options:
            return None
        return f"must be one of {', '.join(rules.options.values())}, not {shown(value)}."
    if name == "model":
        return model_problem(inputs.model)
    if name == "config":
        return _config_problem(inputs.config)
    if rules.kind not in EXAMPLES:
        return None
    text = _text(inputs, name)
    try:
        number = _number(text, rules)
    except InputError:
        blank = " or blank" if rules.blank else ""
        return f"must be {EXAMPLES[rules.kind]}{blank}, not {shown(text)}."
    least, most = rules.bounds
    if number is not None and not least <= number <= most:
        low, high = (_bound(bound, rules.kind) for bound in (least, most))
        return f"must be {low} to {high}, not {shown(text)}."
    return None


def model_problem(model: str) -> str | None:
    """Return what is wrong with the name of a model, as `problem_of` does; None if nothing is."""
    if model in (FROM_CONFIG, FROM_COUNT) or find_preset(model) or typed_size(model):
        return None
    try:
        load_preset(model)
    except InputError as error:
        return f"must be a size like 13B or {error.allowed}, not {shown(model)}."
    return None


def typed_size(model: str) -> float | None:
    """Return the parameter count of a model named by its size alone, such as ``13B``."""
    try:
        size = parse_amount(model, field="model")
    except InputError:
        return None
    low, high = RULES["parameters"].bounds
    return size if low <= size <= high else None


def _config_problem(text: str) -> str | None:
    if not text.strip():
        return "is empty: paste the text of the model's config.json, or upload it."
    try:
        load_config_text(text)
    except InputError as error:
        return f"cannot be read: {error.what}. {error.remedy}"
    return None


def _number(text: str, rules: Rules) -> float | None:
    """Read a field in its own unit: hours, USD, milliseconds or a count."""
    text = text.strip()
    if not text and rules.blank:
        return None
    if rules.kind is Kind.WHOLE:
        return parse_count(text, field=rules.label)
    if rules.kind is Kind.HOURS:
        return parse_duration(text, field=rules.label) / HOUR_S
    if rules.kind is Kind.MS and text.endswith("ms"):
        return parse_amount(text.removesuffix("ms"), field=rules.label)
    if rules.kind is Kind.MS:
        return parse_duration(text, field=rules.label) / MILLISECOND
    parse = parse_money if rules.kind is Kind.USD else parse_amount
    return parse(text, field=rules.label)


def case_of(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    """Return the case that the inputs describe, as ``load_case`` reads it.

    Parameters
    ----------
    inputs : Inputs
    numbers : dict
        As `read` returns them; without problems.
    """
    case: dict[str, object] = {
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
    if inputs.model == FROM_COUNT:
        return {"parameters": numbers["parameters"]}
    if size := typed_size(inputs.model):
        return {"parameters": size}
    return {"preset": inputs.model}


def _workload(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    task = Task(inputs.task)
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
        tokens=numbers["pretrain_tokens" if task is Task.PRETRAIN else "tokens"],
        sequence_length=_whole(numbers["sequence"]),
        global_batch=_whole(numbers["batch"]),
        precision=inputs.precision or None,
        optimizer=str(inputs.optimizer),
        software=inputs.software or None,
    )
    if task is Task.PRETRAIN:
        return {"kind": "pretraining", **shared}
    fine_tuning = {"kind": "fine_tuning", "method": task.value, **shared}
    if task is not Task.FULL:
        fine_tuning["lora_rank"] = _whole(numbers["rank"])
    return fine_tuning


def _limits(inputs: Inputs, numbers: dict[str, float | None]) -> dict[str, object]:
    speed = numbers.get("speed")
    limits = _given(
        deadline_hours=numbers.get("deadline", numbers.get("pretrain_deadline")),
        budget_usd=numbers.get("budget", numbers.get("monthly_budget")),
        max_ttft_ms=numbers.get("first_token"),
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


def shown(text: str) -> str:
    """Return a value in quotes, shortened."""
    return f"'{text[:40]}…'" if len(text) > 40 else f"'{text}'"


def _text(inputs: Inputs, name: str) -> str:
    return str(getattr(inputs, name))


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _bound(value: float, kind: Kind) -> str:
    unit = {Kind.HOURS: " hours", Kind.USD: " USD", Kind.MS: " ms"}.get(kind, "")
    if value < 1e5 or kind is Kind.WHOLE:
        return f"{value:,.10g}{unit}"
    return f"1e{round(math.log10(value))}{unit}"
