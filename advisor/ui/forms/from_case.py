"""The way back from a case to the inputs of the page."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from advisor.errors import InputError, refusal
from advisor.foundation.units import GB, MILLISECOND
from advisor.nouns.case import Case
from advisor.nouns.inputs import Network, Reads, Task
from advisor.ui.forms.cases import case_of
from advisor.ui.forms.inputs import DEFAULTS, FROM_CONFIG, FROM_COUNT, Inputs
from advisor.ui.forms.networks import network_named
from advisor.ui.forms.reading import complaint, read
from advisor.ui.forms.rules import NO, OWN, RULES, YES, Rules

UNITS: Final = {Reads.HOURS: " h", Reads.MS: " ms", Reads.ARRIVALS: "/s", Reads.SOUND: "/day"}
LETTERS: Final = {"T": 1e12, "B": 1e9, "M": 1e6}
CLOSE: Final = 1e-6
"""Largest relative difference between equal numbers: the page has tokens/s, a case their time."""
REMEDY: Final = "Ask the command line: gpu-advisor recommend case.yaml"


def inputs_of_case(case: Case) -> tuple[Inputs, tuple[str, ...]]:
    """Return the inputs that ask a case, and its fields that the page has no input for.

    Raises InputError if the page has no such work or model, or would refuse a value.
    """
    content = case.model_dump(mode="json")
    known: dict[str, Any] = {
        "task": _task(content["workload"]),
        **_model(content["model"]),
        **_place(content),
    }
    network = Network(network_named(known["model"], DEFAULTS.network))
    known["network"] = network.value
    for name, rules in RULES.items():
        asked = known["task"] in rules.tasks and network in rules.networks
        if name not in known and rules.path and asked:
            known[name] = _spelled(name, rules, _at(content, rules.path))
    inputs = replace(DEFAULTS, **known)
    found = read(inputs)
    if found.problems:
        raise InputError(
            " ".join(complaint(*item) for item in found.problems.items()).rstrip("."),
            value=", ".join(str(getattr(inputs, name)) for name in found.problems),
            allowed="what the inputs of the page take",
            remedy=f"Correct the file, or {REMEDY[0].lower()}{REMEDY[1:]}",
        )
    back = Case.model_validate(case_of(inputs, found.numbers))
    taken = dict(_leaves(back.model_dump(mode="json")))
    left = [
        path
        for path, value in _leaves(content)
        if value is not None and not _same(value, taken.get(path))
    ]
    return inputs, tuple(path for path in left if not path.startswith("hardware."))


def _task(workload: Mapping[str, Any]) -> str:
    for task in Task:
        if all(workload.get(name) == value for name, value in task.workload.items()):
            return task.value
    raise refusal(
        "page_without_work",
        value=workload.get("method") or workload["kind"],
        allowed=[task.label for task in Task],
        remedy=REMEDY,
    )


def _model(model: Mapping[str, Any]) -> dict[str, str]:
    if model.get("preset"):
        return {"model": model["preset"]}
    if isinstance(config := model.get("config"), Mapping):
        return {"model": FROM_CONFIG, "config": json.dumps(config, indent=1)}
    if size := model.get("parameters"):
        return {"model": FROM_COUNT, "parameters": f"{size:.15g}"}
    raise refusal(
        "page_without_model",
        value=", ".join(name for name, value in model.items() if value),
        remedy=REMEDY,
    )


def _place(content: Mapping[str, Any]) -> dict[str, str]:
    """Return whether to rent or own; hardware that is stated counts as owned."""
    owned = content["limits"].get("owned") or [content.get("hardware")]
    if owned[0]:
        card, count = owned[0]["accelerator"], owned[0].get("count") or 1
        return {"rent": OWN, "own_accelerator": card, "own_count": str(count)}
    return {"rent": content["limits"]["price_kind"]}


def _at(content: Mapping[str, Any], path: str) -> Any:
    found: Any = content
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _spelled(name: str, rules: Rules, value: Any) -> str | tuple[str, ...]:
    """Return a value as a person would enter it."""
    if rules.several:
        return tuple(map(str, value or ()))
    if value is None:
        blank = bool(rules.blank) or "" in rules.options
        return "" if blank else str(getattr(DEFAULTS, name))
    if isinstance(value, bool):
        return YES if value else NO
    if not isinstance(value, int | float):
        return str(value)
    if name == "speed":  # the case has the time of one token
        return f"{1 / value / MILLISECOND:.10g}"
    if rules.kind is Reads.BYTES:
        return f"{value / GB:.10g}GB"
    if rules.kind is Reads.COUNT:
        for letter, scale in LETTERS.items():
            if value >= scale and value % scale == 0:
                return f"{value / scale:.10g}{letter}"
    return f"{value:.10g}{UNITS.get(rules.kind, '')}"


def _leaves(content: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value of a case by its path."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _leaves(value, f"{path}.{name}".lstrip("."))
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from _leaves(value, f"{path}.{place}")
    else:
        yield path, content


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=CLOSE)
    return one == other
