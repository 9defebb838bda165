"""What a person entered: the fields and their defaults.

Values stay as typed (``"10M"``), so that a wrong one can be shown back, kept in a link and
corrected. Reading them returns numbers and, for each that cannot be used, one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.workload import GradientSync, Optimizer
from advisor.ui.networks import Network

SHAPE: Final = {
    "shape_like": "like",
    "layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
}
"""Inputs of the shape behind a parameter count: field of ``AssumedShape``."""
FROM_CONFIG: Final = "config.json"
FROM_COUNT: Final = "parameters"
OWN: Final = "own"
YES: Final = "yes"
NO: Final = "no"


class Task(StrEnum):
    """What is to be done, as the first control names it."""

    LORA = "lora"
    QLORA = "qlora"
    FULL = "full"
    PRETRAIN = "pretrain"
    SERVE = "serve"


FINE_TUNING: Final = frozenset({Task.LORA, Task.QLORA, Task.FULL})
ADAPTERS: Final = frozenset({Task.LORA, Task.QLORA})
TRAINING: Final = FINE_TUNING | {Task.PRETRAIN}
SERVING: Final = frozenset({Task.SERVE})
ALL: Final = frozenset(Task)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Every input of the page, as entered. The defaults are the example the page opens with."""

    task: str = Task.LORA
    network: str = Network.LANGUAGE
    model: str = "llama-3.1-8b"
    config: str = ""
    parameters: str = "7B"
    shape_like: str = ""
    layers: str = ""
    hidden_size: str = ""
    heads: str = ""
    kv_heads: str = ""
    feed_forward: str = ""
    vocabulary: str = ""
    tokens: str = "10M"
    deadline: str = "24 h"
    budget: str = ""
    pretrain_tokens: str = "20B"
    pretrain_deadline: str = "30 days"
    samples: str = "10M"
    users: str = "8"
    speed: str = "20"
    at_once: str = "32"
    within: str = ""
    monthly_budget: str = ""
    rent: str = PriceKind.ON_DEMAND
    own_accelerator: str = "rtx-4090"
    own_count: str = "1"
    objective: str = Objective.CHEAPEST
    providers: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    max_accelerators: str = str(Constraints().max_accelerators)
    usd_per_eur: str = ""
    precision: str = ""
    sequence: str = ""
    batch: str = ""
    epochs: str = ""
    evaluation: str = ""
    optimizer: str = Optimizer.ADAMW
    software: str = ""
    cross_entropy: str = ""
    gradient_sync: str = GradientSync.EACH
    preference: str = ""
    rank: str = "16"
    prompt: str = "7168"
    answer: str = "1024"
    first_token: str = "2 s"
    weights: str = ""
    cache: str = ""
    image_size: str = ""
    loading: str = ""
    loader_workers: str = ""
    worker_rate: str = ""
    steps: str = "30"
    guidance: str = ""


DEFAULTS: Final = Inputs()
