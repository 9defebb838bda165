"""What commands share: the case that arguments and files spell, and how an answer is printed."""

import argparse
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import advisor
from advisor.arguments.options import BUDGET, INTERRUPTIONS, TASKS, groups, read_option
from advisor.errors import refusal
from advisor.foundation.files.reading import is_file, is_folder
from advisor.foundation.noun import Noun
from advisor.foundation.parsing import parse_amount
from advisor.nouns.case import Case, case_inputs
from advisor.nouns.case_files import MAX_CASE_BYTES, case_text, parse_case, read_case
from advisor.nouns.inputs import Declared, Task
from advisor.terminal.streams import print_content, read_input


def answered(arguments: Namespace, answer: Noun, **how: object) -> None:
    """Print an answer: as JSON if that is asked for, else as its screen of the terminal."""
    if arguments.json:
        print_content(answer.to_json())
        return
    from advisor.terminal.console import new_console, show

    if hasattr(arguments, "everything"):
        how["everything"] = arguments.everything
    show(new_console(), answer, **how)


def stated_case(arguments: Namespace) -> Case:
    """Return the case that the arguments spell, laid over that of a file."""
    mapping = case_mapping(arguments, content_of(arguments.case))
    limits = mapping.get("limits")
    owned = limits.get("owned") if isinstance(limits, dict) else None
    if isinstance(limits, dict) and isinstance(owned, list):
        machines = [machine for item in owned for machine in _machines(item)]
        mapping["limits"] = limits | {"owned": machines}
    return advisor.load_case(mapping)


def _machines(item: object) -> tuple[object, ...]:
    """Return owned cards; those of a probe's report in place of its path."""
    path = item.get("report") if isinstance(item, dict) else None
    return tuple(advisor.owned_from_report(path)) if isinstance(path, str) else (item,)


def content_of(source: str | None) -> Mapping[str, object] | None:
    """Return the content of a case file as it is; ``-`` is standard input."""
    if source is None:
        return None
    if source != "-":
        return read_case(Path(source))
    content = read_input(MAX_CASE_BYTES + 1)
    return parse_case(case_text(content, name="the case on standard input"))


def case_mapping(
    arguments: argparse.Namespace, base: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the case that the arguments of a command spell, laid over the content of a file.

    `load_case` checks names and bounds. Raises InputError if an amount cannot be read, an option
    does not belong to the task, or model, task or hardware is missing.
    """
    case: dict[str, object] = dict(base or {})
    if arguments.model is not None:
        case["model"] = model_source(arguments.model)
    if arguments.task is not None:
        task = TASKS[arguments.task].workload
        kept = _section(case, "workload")
        case["workload"] = {**(kept if kept.get("kind") == task["kind"] else {}), **task}
    for field, option, example in (
        ("model", "--model", "--model llama-3.1-8b"),
        ("workload", "--task", "--task lora"),
    ):
        if field not in case:
            name = option.removeprefix("--")
            raise refusal("part_missing", field=field, name=name, option=option, example=example)
    options = [item for items in groups(arguments.command).values() for item in items]
    for item in options:
        _apply(item, getattr(arguments, item.dest), case)
    _check_companions(arguments, options, case)
    named = "accelerator" in _section(case, "hardware") or "owned" in _section(case, "limits")
    if arguments.command == "estimate" and not named:
        raise refusal("no_hardware")
    return case


def _apply(item: Declared, given: str | list[str] | None, case: dict[str, object]) -> None:
    if given is None:
        return
    task = _task(_section(case, "workload"))
    # What a layout says by default is right for every task; the case itself refuses the rest.
    if task and task not in item.tasks and not item.path.startswith("layout."):
        words = {known: word for word, known in TASKS.items()}
        raise refusal(
            "option_of_other_task",
            value=words[task],
            field=item.path,
            flag=item.told.flag,
            tasks=[words[one] for one in words if one in item.tasks],
        )
    if item.told.sets:
        value: object = item.told.sets
    elif isinstance(given, str):
        value = read_option(item, given)
    else:
        value = [read_option(item, text) for text in given]
    *sections, field = item.path.split(".")
    for name in sections:
        section = _section(case, name)
        case[name], case = section, section
    case[field] = value


def _task(workload: Mapping[str, object]) -> Task | None:
    """Return the task that a workload is; None where it is none that is known."""
    told = {"method": Task.LORA.value, **workload}
    return next((task for task in Task if task.workload.items() <= told.items()), None)


def _check_companions(
    arguments: argparse.Namespace, options: list[Declared], case: Mapping[str, object]
) -> None:
    """Refuse an option that does nothing without another."""
    for item in options:
        section, _, _ = item.path.partition(".")
        given, needs = getattr(arguments, item.dest), item.told.needs
        if needs and given is not None and needs not in _section(case, section):
            _refuse(item, case_inputs()[f"{section}.{needs}"].told.flag, given)
    chosen = arguments.command == "own" and "accelerator" in _section(case, "hardware")
    given = arguments.budget if chosen and "budget_usd" not in _section(case, "owning") else None
    if given is not None:
        raise refusal("budget_beside_hardware", value=given, field=BUDGET)
    spot = arguments.command == "own" or _section(case, "limits").get("price_kind") == "spot"
    if arguments.interruptions is not None and not spot:
        _refuse(case_inputs()[INTERRUPTIONS], "--spot", arguments.interruptions)


def _refuse(item: Declared, other: str, given: object) -> None:
    raise refusal("option_alone", flag=item.told.flag, other=other, value=given, field=item.path)


def _section(case: Mapping[str, object], name: str) -> dict[str, object]:
    """Return one mapping of the case; empty where it is absent or no mapping."""
    found = case.get(name)
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}


def model_source(text: str) -> dict[str, object]:
    """Return the model that a text names: a file, a count, a hub id or a preset.

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
