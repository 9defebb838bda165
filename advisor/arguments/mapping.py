"""The case that the command line spells."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from advisor.arguments.flags import (
    AIMS,
    ALL,
    FINE_TUNING,
    HARDWARE,
    LAYOUT,
    LIMITS,
    OWNED,
    SEARCH,
    TASKS,
    Flag,
)
from advisor.arguments.money_flags import COMPANIONS, INTERRUPTIONS, OWNING, RENTING
from advisor.arguments.work_flags import SHAPE, WORK
from advisor.errors import InputError
from advisor.foundation.files import is_file, is_folder
from advisor.foundation.parsing import parse_amount

_FURTHER: Final = {
    "recommend": SEARCH,
    "estimate": (*HARDWARE, OWNED, *LAYOUT),
    "export": (*HARDWARE, *LAYOUT, *AIMS),
    "own": (*HARDWARE, *OWNING, *RENTING),
}
"""Options of the commands that take a case, beside those of the work and its limits."""


def case_mapping(
    arguments: argparse.Namespace, base: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the case that the arguments spell, laid over the case of a file.

    Parameters
    ----------
    arguments : Namespace
        Of ``recommend``, ``estimate``, ``export`` or ``own``.
    base : Mapping, optional
        The file's content.

    Returns
    -------
    dict
        For ``advisor.load_case``, which checks names and bounds.

    Raises
    ------
    InputError
        If an amount cannot be read, an option does not belong to the task, or model, task or
        hardware is missing.
    """
    case: dict[str, object] = dict(base or {})
    if arguments.model is not None:
        case["model"] = model_source(arguments.model)
    if arguments.task is not None:
        task = TASKS[arguments.task]
        kept = _section(case, "workload")
        case["workload"] = {**(kept if kept.get("kind") == task["kind"] else {}), **task}
    for field, option, example in (
        ("model", "--model", "--model llama-3.1-8b"),
        ("workload", "--task", "--task lora"),
    ):
        if field not in case:
            raise InputError(
                f"the {'task' if field == 'workload' else field} is missing",
                value=None,
                allowed=f"a case file, or {option}",
                remedy=f"Add {example}.",
                field=field,
            )
    for flag in (*SHAPE, *WORK, *LIMITS, INTERRUPTIONS, *_FURTHER[arguments.command]):
        _apply(flag, getattr(arguments, flag.dest), case)
    if arguments.spot:
        case["limits"] = {**_section(case, "limits"), "price_kind": "spot"}
    _check_companions(arguments, case)
    named = "accelerator" in _section(case, "hardware") or "owned" in _section(case, "limits")
    if arguments.command == "estimate" and not named:
        raise InputError(
            "the hardware is missing",
            value=None,
            allowed="a case file with hardware, --accelerator or --owned",
            remedy="Add --accelerator h100-sxm --count 8, or use recommend.",
            field="hardware.accelerator",
        )
    return case


def _apply(flag: Flag, given: str | list[str] | None, case: dict[str, object]) -> None:
    if given is None:
        return
    kind = str(_section(case, "workload").get("kind", FINE_TUNING))
    if flag.field == "workload.lora_rank" and _section(case, "workload").get("method") == "full":
        raise InputError(
            f"{flag.option} does not belong to this task",
            value="full fine-tuning",
            allowed="--task lora, qlora",
            remedy=f"Drop {flag.option} or change the task.",
            field="workload.kind",
        )
    if kind in ALL and kind not in flag.kinds:
        tasks = [name for name, task in TASKS.items() if task["kind"] in flag.kinds]
        raise InputError(
            f"{flag.option} does not belong to this task",
            value=kind.replace("_", "-"),
            allowed=f"--task {', '.join(tasks)}",
            remedy=f"Drop {flag.option} or change the task.",
            field=flag.field,
        )
    value: object = (
        flag.read(given, flag.option)
        if isinstance(given, str)
        else [flag.read(item, flag.option) for item in given]
    )
    *sections, field = flag.field.split(".")
    for name in sections:
        section = _section(case, name)
        case[name], case = section, section
    case[field] = value


def _check_companions(arguments: argparse.Namespace, case: Mapping[str, object]) -> None:
    """Refuse an option that does nothing without another."""
    for flag, other in COMPANIONS.items():
        section, field = other.field.split(".")
        if getattr(arguments, flag.dest, None) is not None and field not in _section(case, section):
            raise InputError(
                f"{flag.option} does nothing without {other.option}",
                value=getattr(arguments, flag.dest),
                allowed="both options, or neither",
                remedy=f"Add {other.option}, or drop {flag.option}.",
                field=flag.field,
            )
    chosen = arguments.command == "own" and "accelerator" in _section(case, "hardware")
    given = arguments.budget if chosen and "budget_usd" not in _section(case, "owning") else None
    if given is not None:
        raise InputError(
            "--budget chooses hardware, and yours is given",
            value=given,
            allowed="without --accelerator, or with --buy-budget",
            remedy="Drop --budget, or name no hardware.",
            field="limits.budget_usd",
        )
    spot = arguments.command == "own" or _section(case, "limits").get("price_kind") == "spot"
    if arguments.interruptions is not None and not spot:
        raise InputError(
            f"{INTERRUPTIONS.option} does nothing without --spot",
            value=arguments.interruptions,
            allowed="both options, or neither",
            remedy=f"Add --spot, or drop {INTERRUPTIONS.option}.",
            field=INTERRUPTIONS.field,
        )


def _section(case: Mapping[str, object], name: str) -> dict[str, object]:
    """Return one mapping of the case; empty where it is absent or no mapping."""
    found = case.get(name)
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}


def model_source(text: str) -> dict[str, object]:
    """Return the model that a text names: a file, a count, a hub id or a preset.

    Examples
    --------
    >>> model_source("7B")
    {'parameters': 7000000000.0}
    >>> model_source("mistralai/Mistral-7B-v0.1")
    {'hub': 'mistralai/Mistral-7B-v0.1'}
    >>> model_source("model.Q4_K_M.gguf")
    {'config': 'model.Q4_K_M.gguf'}
    >>> model_source("layers.yaml")
    {'stack': 'layers.yaml'}
    >>> model_source("llama-3.1-8b")
    {'preset': 'llama-3.1-8b'}
    """
    path = Path(text)
    if text.endswith((".json", ".safetensors", ".gguf")) or is_file(path / "config.json"):
        return {"config": str(path / "config.json" if is_folder(path) else path)}
    if text.endswith((".yaml", ".yml")):
        return {"stack": text}
    if "/" in text:
        return {"hub": text}
    if text[:1].isdigit() or text[:1] == ".":
        return {"parameters": parse_amount(text, field="--model")}
    return {"preset": text}
