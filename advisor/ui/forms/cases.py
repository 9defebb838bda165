"""The case that the inputs describe, and the way back from a field of it to the input."""

import re
from collections.abc import Mapping
from typing import Any, Final

from advisor.architecture.config.fields import load_config_text
from advisor.errors import without_options
from advisor.foundation.units import MILLISECOND
from advisor.nouns.inputs import Reads, Task
from advisor.ui.forms.inputs import DEFAULTS, EXAMPLE_CARD, FROM_CONFIG, FROM_COUNT, Inputs
from advisor.ui.forms.reading import typed_size, used
from advisor.ui.forms.rules import NO, OWN, RULES, SHAPE, YES

LABELS: Final = {
    rules.path.rpartition(".")[2]: rules.label
    for rules in reversed(RULES.values())
    if rules.path and not rules.path.startswith("limits.owned.")
} | {"hub": RULES["model"].label, "owned": RULES["own_accelerator"].label}
"""Last name of a field of the case: label of the first input that sets it."""
FLAGS: Final = {rules.flag: rules.label for rules in reversed(RULES.values())}
"""Option of the command line: label of the first input that it sets."""
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SAME: Final = {
    "model": "model.preset",
    "model.hub": "model.preset",
    "model.shape": "model.parameters",
    "limits.owned": "limits.owned.accelerator",
}
"""Fields that are entered where others are."""
FIELD: Final = re.compile(
    r"(?<!config field )\b"
    r"(?:(?:model|workload|limits|hardware|layout)(?:\.[a-z_]+)+|[a-z]+(?:_[a-z]+)+)\b"
)
"""A field of the case by its path, or by its last name where that has several words. Those of a
config.json stay as the file spells them."""


def case_of(inputs: Inputs, numbers: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the case of inputs without problems; ``numbers`` are what `read` returns of them.

    An advanced input at its default is left open, as it is on the command line: the engine fits
    some of them to the model.
    """
    limits: dict[str, object] = {}
    workload: dict[str, object] = dict(Task(inputs.task).workload)
    case: dict[str, Any] = {
        "model": _model(inputs, numbers),
        "workload": workload,
        "limits": limits,
    }
    demand: dict[str, object] = {}
    sections = {"": case, "workload": workload, "limits": limits, "workload.demand": demand}
    for name, rules in RULES.items():
        section, _, field = rules.path.rpartition(".")
        left = rules.advanced and getattr(inputs, name) == getattr(DEFAULTS, name)
        asked = field and not left and used(name, inputs)
        value = value_of(name, inputs, numbers) if asked else None
        if value is not None and section in sections:
            sections[section][field] = value
    if demand:
        workload["demand"] = demand
    if inputs.rent == OWN:
        card = inputs.own_accelerator or EXAMPLE_CARD
        own = {"accelerator": card, "count": _whole(numbers["own_count"])}
        limits["owned"] = [own]
    else:
        limits["price_kind"] = str(inputs.rent)
    return case


def value_of(name: str, inputs: Inputs, numbers: Mapping[str, float | None]) -> object:
    """Return what an input sets in the case; None where it is left open."""
    rules, entered = RULES[name], getattr(inputs, name)
    if rules.kind.parse:
        number = numbers.get(name)
        if name == "speed":  # the case has the time of one token
            return None if number is None else 1 / number / MILLISECOND
        return _whole(number) if rules.kind in (Reads.WHOLE, Reads.LENGTH) else number
    if rules.several:
        return list(entered) or None
    return {YES: True, NO: False}.get(entered, str(entered) or None)


def _model(inputs: Inputs, numbers: Mapping[str, float | None]) -> dict[str, object]:
    if inputs.model == FROM_CONFIG:
        # Parsed here: a text that is no JSON could be taken for the path of a file.
        return {"config": load_config_text(inputs.config)}
    if size := parameters_of(inputs, numbers):
        shape = shape_of(inputs, numbers)
        return {"parameters": size, "shape": shape} if shape else {"parameters": size}
    return {"preset": inputs.model}


def parameters_of(inputs: Inputs, numbers: Mapping[str, float | None]) -> float | None:
    """Return the bare parameter count that was entered, if one was."""
    if inputs.model == FROM_COUNT:
        return numbers.get("parameters")
    return typed_size(inputs.model)


def shape_of(inputs: Inputs, numbers: Mapping[str, float | None]) -> dict[str, object]:
    """Return what was entered of the shape behind a parameter count, by field of the case."""
    known = {field: value_of(name, inputs, numbers) for name, field in SHAPE.items()}
    return {field: value for field, value in known.items() if value not in (None, "")}


def input_field(case_field: str, inputs: Inputs) -> str | None:
    """Return the input that sets a field of the case; None where none does alone."""
    parts = [part for part in case_field.split(".") if not part.isdigit()]
    if parts[:2] == ["model", "config"]:
        parts = parts[:2]
    elif parts[0] == "workload":  # a union names its member in between
        parts = [parts[0], parts[-1]]
    path = SAME.get(".".join(parts), ".".join(parts))
    names = [name for name, rules in RULES.items() if rules.path and rules.path == path]
    name = next((name for name in names if used(name, inputs)), names[0] if names else None)
    if name == "model" and inputs.model in (FROM_CONFIG, FROM_COUNT):
        return {FROM_CONFIG: "config", FROM_COUNT: "parameters"}[inputs.model]
    return name


def in_words(text: str) -> str:
    """Return a message of the engine in the words of the page: labels for fields and options.

    >>> in_words("workload.lora_rank is not usable (--lora-rank)")
    'LoRA rank is not usable'
    >>> in_words("input_tokens + output_tokens exceed the context")
    'Prompt tokens + Answer tokens exceed the context'
    >>> in_words("Choose --to llama-cpp, or leave --software out.")
    'Choose llama-cpp, or leave Software out.'
    """
    shorter = without_options(text).replace("--to ", "")  # the box of files has no other choice
    return FIELD.sub(_label, OPTION.sub(_input, shorter))


def _input(match: re.Match[str]) -> str:
    return FLAGS.get(match[0]) or match[0].removeprefix("--").replace("-", " ")


def _label(match: re.Match[str]) -> str:
    last = match[0].rpartition(".")[2]
    return LABELS.get(last) or last.replace("_", " ")


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
