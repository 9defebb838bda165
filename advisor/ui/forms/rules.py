"""How each input is labelled, read and bounded: what its noun declares, and what the page changes.

Every field of model, workload, limits and objective that has a label is an input of the page.
"""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from advisor.architecture.published_models import published_models
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.case import case_inputs
from advisor.nouns.hardware import PriceKind
from advisor.nouns.inputs import (
    BATCHES,
    FINE_TUNING,
    NETWORKS,
    SERVING,
    TASKS,
    TRAINING,
    WRITING,
    Declared,
    Network,
    Reads,
    Task,
)

OWN: Final = "own"
YES: Final = "yes"
NO: Final = "no"
SECTIONS: Final = ("model.", "workload.", "limits.", "objective")
"""Parts of a case that the page *Advisor* asks for."""


@record
class Rules:
    """How one input is labelled, read and bounded."""

    label: str
    kind: Reads
    path: str = ""
    """Field of the case that it sets; empty where it sets none alone."""
    tasks: frozenset[Task] = TASKS
    networks: frozenset[Network] = NETWORKS
    """Kinds of network that have the input."""
    low: float = 0.0
    high: float = math.inf
    """Bounds in the unit of the case."""
    blank: str = ""
    """What a blank input means; one without it must be filled."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Value to title, for a choice with a fixed list."""
    several: bool = False
    """Several values can be chosen."""
    default: str | tuple[str, ...] = ""
    advanced: bool = False
    explained: str = ""
    """Shown when asked for, beside the label."""
    flag: str = ""
    """Its option of the command line, where that takes the same texts."""


def rules_of(item: Declared, **differs: Any) -> Rules:
    """Return the rules of a declared field; ``differs`` are those that the page changes."""
    told, open_ = item.told, item.default is None
    kind, options = item.reads, item.labels
    if kind is Reads.YES:
        kind, options = Reads.CHOICE, {YES: "Yes", NO: "No"}
    blank = told.blank or ("Usual" if open_ else "")
    first = YES if item.default is True else NO if item.default is False else str(item.default)
    default = () if item.repeat else "" if open_ else first
    rules = Rules(
        label=item.title,
        kind=kind,
        path=item.path,
        tasks=item.tasks,
        networks=told.networks,
        low=0.0 if item.low is None else item.low,
        high=math.inf if item.high is None else item.high,
        blank=blank,
        options={"": blank} | options if options and open_ else options,
        several=item.repeat,
        default=default,
        advanced=told.advanced,
        explained=told.explained,
        flag=told.flag,
    )
    return replace(rules, **differs)


def _of(path: str, **differs: Any) -> Rules:
    return rules_of(case_inputs()[path], **differs)


def _speed() -> Rules:
    """Tokens per second, where the case has the time for one."""
    usual = "20; 5 for 1 or 2 users"
    time = _of("limits.max_tpot_ms", label="Tokens/s per user", kind=Reads.COUNT, blank=usual)
    low, high = 1 / time.high / MILLISECOND, 1 / time.low / MILLISECOND
    return replace(time, flag="", low=low, high=high)


_PRETRAIN: Final = frozenset({Task.PRETRAIN})
_OWN: Final = {
    "task": Rules("Task", Reads.CHOICE, options={task: task.label for task in Task}, flag="--task"),
    "network": Rules("Network", Reads.CHOICE, options={kind: kind.label for kind in Network}),
    "model": Rules("Model", Reads.TEXT, "model.preset"),
    "config": Rules("config.json", Reads.TEXT, "model.config"),
    "parameters": _of("model.parameters", blank=""),
    "tokens": _of("workload.tokens", tasks=FINE_TUNING, blank=""),
    "deadline": _of("limits.deadline_hours", tasks=FINE_TUNING),
    "budget": _of("limits.budget_usd", tasks=TRAINING),
    "pretrain_tokens": _of("workload.tokens", tasks=_PRETRAIN, blank=""),
    "pretrain_deadline": _of("limits.deadline_hours", tasks=_PRETRAIN),
    "samples": _of("workload.samples", blank=""),
    "users": _of("workload.concurrency", networks=WRITING),
    "speed": _speed(),
    "at_once": _of("workload.concurrency", label="Requests at once", networks=BATCHES),
    "within": _of(
        "limits.max_ttft_ms",
        label="Answer within",
        networks=BATCHES,
        advanced=False,
        blank="Usual, as the answer states",
    ),
    "monthly_budget": _of("limits.budget_usd", label="Budget (USD/month)", tasks=SERVING),
    "rent": Rules(
        "Rent or own",
        Reads.CHOICE,
        options={kind: kind.label for kind in PriceKind} | {OWN: "Cards I own"},
    ),
    "own_accelerator": _of(
        "limits.owned.accelerator",
        label="GPU",
        blank="the example",
        explained="Different cards in one computer: type their keys, rtx-3090+rtx-3060-12gb.",
    ),
    "own_count": _of("limits.owned.count"),
    "first_token": _of("limits.max_ttft_ms", networks=WRITING),
    "steps": _of("workload.denoising_steps"),
    "shape_like": _of(
        "model.shape.like",
        kind=Reads.CHOICE,
        options={"": "The nearest by size"}
        | {model.name: model.name for model in published_models()},
    ),
}
"""Inputs of the page's own, and several inputs of one field: what differs from the field."""
_NAMES: Final = {
    "model.shape.intermediate_size": "feed_forward",
    "model.shape.vocab_size": "vocabulary",
    "workload.global_batch": "batch",
    "workload.evaluation_tokens": "evaluation",
    "workload.data_loading": "loading",
    "workload.lora_rank": "rank",
    "workload.input_tokens": "prompt",
    "workload.output_tokens": "answer",
    "workload.kv_cache_format": "cache",
    "limits.providers": "providers",
    "limits.accelerators": "accelerators",
}
"""Names in addresses that are not the option's."""


def _declared() -> dict[str, Rules]:
    """Return the rules of all other fields with a label, by name in the address."""
    known = {rules.path for rules in _OWN.values()}
    return {
        _NAMES.get(path, item.dest): rules_of(item)
        for path, item in case_inputs().items()
        if item.input and item.input.label and path.startswith(SECTIONS) and path not in known
    }


RULES: Final[dict[str, Rules]] = _OWN | _declared()
"""Every input of the page, by its name in the address."""
SHAPE: Final = {
    name: rules.path.rpartition(".")[2]
    for name, rules in RULES.items()
    if rules.path.startswith("model.shape.")
}
"""Inputs of the shape behind a parameter count: field of ``AssumedShape``."""
