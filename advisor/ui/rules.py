"""How each input is labelled, read and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from advisor.architecture.published_models import PUBLISHED
from advisor.nouns.hardware import PriceKind
from advisor.nouns.limits import LEAST_RATE, MOST_RATE, Objective
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.workload import (
    CrossEntropy,
    DataLoading,
    GradientSync,
    Optimizer,
    Preference,
    SoftwareStack,
)
from advisor.ui.inputs import ADAPTERS, ALL, FINE_TUNING, NO, OWN, SERVING, TRAINING, YES, Task
from advisor.ui.networks import ALL as ALL_NETWORKS
from advisor.ui.networks import IMAGES, SAMPLES, TEXT, VISION, Network


class Kind(StrEnum):
    """How a field is read."""

    TEXT = "text"
    COUNT = "count"
    WHOLE = "whole"
    LENGTH = "length"
    """Tokens of a sequence: 32K is 32,768."""
    HOURS = "hours"
    USD = "usd"
    MS = "ms"
    RATE = "rate"
    CHOICE = "choice"
    CHOICES = "choices"


BOUNDS: Final = {
    Kind.COUNT: (1.0, 1e15),
    Kind.WHOLE: (1.0, 1e9),
    Kind.LENGTH: (1.0, 1e7),
    Kind.HOURS: (0.01, 1e6),
    Kind.USD: (0.01, 1e12),
    Kind.MS: (1.0, 1e9),
    Kind.RATE: (LEAST_RATE, MOST_RATE),
}
"""Least and most that a number may be: counts, hours, USD, milliseconds, exchange rates."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How one field is labelled, read and bounded."""

    label: str
    kind: Kind
    tasks: frozenset[Task] = ALL
    low: float | None = None
    high: float | None = None
    """Bounds in the field's own unit, where they differ from `BOUNDS`."""
    blank: str = ""
    """What a blank field means; a field without it must be filled."""
    networks: frozenset[Network] = ALL_NETWORKS
    """Kinds of network that have the field."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Value to title, for a choice with a fixed list."""
    advanced: bool = False
    explained: str = ""
    """Shown when asked for, beside the label."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and most allowed, in the field's own unit."""
        low, high = BOUNDS[self.kind]
        return (low if self.low is None else self.low, high if self.high is None else self.high)


CHOOSE: Final = {"": "Let the search choose"}
RULES: Final[dict[str, Rules]] = {
    "task": Rules(
        "Task",
        Kind.CHOICE,
        options={
            Task.LORA: "Fine-tune (LoRA)",
            Task.QLORA: "Fine-tune (QLoRA, 4-bit)",
            Task.FULL: "Fine-tune (all weights)",
            Task.PRETRAIN: "Pretrain",
            Task.SERVE: "Serve",
        },
    ),
    "network": Rules(
        "Network",
        Kind.CHOICE,
        options={
            Network.LANGUAGE: "Language",
            Network.VISION: "Vision",
            Network.DIFFUSION: "Diffusion",
            Network.RECURRENT: "Recurrent",
            Network.PAIRS: "Encoder-decoder",
        },
    ),
    "model": Rules("Model", Kind.TEXT),
    "config": Rules("config.json", Kind.TEXT),
    "parameters": Rules("Parameters", Kind.COUNT, low=1e6, high=1e14),
    "shape_like": Rules(
        "Scaled from",
        Kind.CHOICE,
        options={"": "The nearest by size"} | {model.name: model.name for model in PUBLISHED},
    ),
    "layers": Rules("Layers", Kind.WHOLE, high=10_000, blank="Assumed"),
    "hidden_size": Rules("Hidden size", Kind.WHOLE, low=8, high=1e6, blank="Assumed"),
    "heads": Rules("Heads", Kind.WHOLE, high=65_536, blank="Assumed"),
    "kv_heads": Rules("Key-value heads", Kind.WHOLE, high=65_536, blank="Assumed"),
    "feed_forward": Rules("Feed-forward width", Kind.WHOLE, high=1e7, blank="Assumed"),
    "vocabulary": Rules("Vocabulary", Kind.WHOLE, high=1e8, blank="Assumed"),
    "tokens": Rules("Tokens", Kind.COUNT, FINE_TUNING, low=1e3, networks=TEXT),
    "deadline": Rules("Deadline", Kind.HOURS, FINE_TUNING, blank="No limit"),
    "budget": Rules("Budget (USD)", Kind.USD, TRAINING, blank="No limit"),
    "pretrain_tokens": Rules(
        "Tokens", Kind.COUNT, frozenset({Task.PRETRAIN}), low=1e3, networks=TEXT
    ),
    "pretrain_deadline": Rules(
        "Deadline", Kind.HOURS, frozenset({Task.PRETRAIN}), blank="No limit"
    ),
    "samples": Rules("Images or samples", Kind.COUNT, TRAINING, networks=SAMPLES),
    "users": Rules("Users at once", Kind.WHOLE, SERVING, high=4096, networks=TEXT),
    "speed": Rules(
        "Tokens/s per user",
        Kind.COUNT,
        SERVING,
        low=0.01,
        high=1e4,
        blank="Any",
        networks=TEXT,
    ),
    "at_once": Rules("Images at once", Kind.WHOLE, SERVING, high=1e6, networks=SAMPLES),
    "within": Rules("Answer within", Kind.MS, SERVING, blank="No limit", networks=SAMPLES),
    "monthly_budget": Rules("Budget (USD/month)", Kind.USD, SERVING, blank="No limit"),
    "rent": Rules(
        "Rent or own",
        Kind.CHOICE,
        options={
            PriceKind.ON_DEMAND: "Rent on demand",
            PriceKind.SPOT: "Rent spot",
            OWN: "Cards I own",
        },
    ),
    "own_accelerator": Rules("Card I own", Kind.TEXT),
    "own_count": Rules("How many", Kind.WHOLE, high=16384),
    "objective": Rules(
        "Show first",
        Kind.CHOICE,
        options={
            Objective.CHEAPEST: "Cheapest",
            Objective.FASTEST: "Fastest",
            Objective.BEST_VALUE: "Best value (cost × time)",
        },
        advanced=True,
    ),
    "providers": Rules("Providers", Kind.CHOICES, advanced=True),
    "accelerators": Rules("Accelerators", Kind.CHOICES, advanced=True),
    "max_accelerators": Rules("At most this many cards", Kind.WHOLE, high=16384, advanced=True),
    "usd_per_eur": Rules("USD for one EUR", Kind.RATE, blank="Dated rate", advanced=True),
    "precision": Rules(
        "Precision",
        Kind.CHOICE,
        TRAINING,
        options=CHOOSE | {name: recipe.title for name, recipe in RECIPES.items()},
        advanced=True,
    ),
    "sequence": Rules(
        "Sequence length",
        Kind.LENGTH,
        TRAINING,
        blank="Usual",
        advanced=True,
        networks=TEXT,
    ),
    "batch": Rules(
        "Batch per step",
        Kind.WHOLE,
        TRAINING,
        blank="Usual",
        advanced=True,
    ),
    "epochs": Rules(
        "Epochs",
        Kind.COUNT,
        TRAINING,
        low=0.01,
        high=1e6,
        blank="One",
        advanced=True,
        explained="How often the run goes through the tokens, images or samples above.",
    ),
    "evaluation": Rules(
        "Evaluate on",
        Kind.COUNT,
        TRAINING,
        blank="Nothing",
        advanced=True,
        explained="Tokens that the whole run evaluates on, all evaluations together; images or "
        "samples for networks that take those. Forward passes alone.",
    ),
    "optimizer": Rules(
        "Optimizer",
        Kind.CHOICE,
        TRAINING,
        options={
            Optimizer.ADAMW: "AdamW",
            Optimizer.ADAMW_8BIT: "AdamW, 8-bit states",
            Optimizer.PAGED_ADAMW_8BIT: "AdamW, 8-bit states in pages",
            Optimizer.SGD_MOMENTUM: "SGD with momentum",
            Optimizer.SGD: "SGD",
            Optimizer.LION: "Lion",
            Optimizer.ADAFACTOR: "Adafactor",
            Optimizer.MUON: "Muon",
        },
        advanced=True,
    ),
    "software": Rules(
        "Software",
        Kind.CHOICE,
        TRAINING,
        options={
            "": "Usual for the task",
            SoftwareStack.HUGGINGFACE: "Hugging Face Trainer, nothing fused",
            SoftwareStack.LIGER: "Hugging Face with Liger kernels",
            SoftwareStack.PLAIN: "Plain framework loop, nothing fused",
            SoftwareStack.DEEPSPEED: "DeepSpeed (ZeRO), nothing fused",
            SoftwareStack.COMPILED: "torch.compile with FSDP (torchtitan)",
            SoftwareStack.MEGATRON: "Megatron-class",
        },
        advanced=True,
    ),
    "cross_entropy": Rules(
        "Loss",
        Kind.CHOICE,
        TRAINING,
        options={
            "": "As the software does",
            CrossEntropy.PLAIN: "Plain cross-entropy",
            CrossEntropy.FUSED: "One fused kernel",
            CrossEntropy.CHUNKED: "In chunks",
            CrossEntropy.LINEAR: "Fused with the head",
        },
        advanced=True,
    ),
    "gradient_sync": Rules(
        "Sharded gradients are summed",
        Kind.CHOICE,
        TRAINING,
        options={
            GradientSync.EACH: "After each micro-batch",
            GradientSync.LAST: "After the last (FSDP of the Hugging Face Trainer)",
        },
        advanced=True,
    ),
    "preference": Rules(
        "Preference pairs",
        Kind.CHOICE,
        FINE_TUNING,
        options={
            "": "None",
            Preference.DPO: "DPO, with a reference model",
            Preference.ORPO: "ORPO or SimPO, without",
        },
        advanced=True,
    ),
    "rank": Rules("LoRA rank", Kind.WHOLE, ADAPTERS, high=4096, advanced=True),
    "prompt": Rules("Prompt tokens", Kind.LENGTH, SERVING, advanced=True, networks=TEXT),
    "answer": Rules("Answer tokens", Kind.LENGTH, SERVING, advanced=True, networks=TEXT),
    "first_token": Rules(
        "First token within",
        Kind.MS,
        SERVING,
        blank="No limit",
        advanced=True,
        networks=TEXT,
    ),
    "weights": Rules(
        "Weight format",
        Kind.CHOICE,
        SERVING,
        options=CHOOSE | {name: item.title for name, item in WEIGHT_FORMATS.items()},
        advanced=True,
    ),
    "cache": Rules(
        "Key-value cache",
        Kind.CHOICE,
        SERVING,
        options=CHOOSE | {name: name for name in KV_CACHE_FORMATS},
        advanced=True,
        networks=TEXT,
    ),
    "image_size": Rules(
        "Image size (pixels)",
        Kind.WHOLE,
        high=65_536,
        blank="Usual",
        advanced=True,
        networks=IMAGES,
    ),
    "loading": Rules(
        "Images are",
        Kind.CHOICE,
        TRAINING,
        options={
            "": "JPEG, decoded on the host",
            DataLoading.TURBO: "JPEG, decoded by libjpeg-turbo",
            DataLoading.CACHED: "Synthetic, cached, or decoded on the card",
        },
        advanced=True,
        networks=VISION,
    ),
    "loader_workers": Rules(
        "Loader workers per card",
        Kind.WHOLE,
        TRAINING,
        high=4096,
        blank="One on each core",
        advanced=True,
        networks=VISION,
    ),
    "worker_rate": Rules(
        "Images/s per worker",
        Kind.COUNT,
        TRAINING,
        high=1e6,
        blank="As published",
        advanced=True,
        networks=VISION,
    ),
    "steps": Rules(
        "Denoising steps",
        Kind.WHOLE,
        SERVING,
        high=10_000,
        advanced=True,
        networks=frozenset({Network.DIFFUSION}),
    ),
    "guidance": Rules(
        "Guidance (doubles each step)",
        Kind.CHOICE,
        SERVING,
        options={"": "As usual for the model", YES: "Yes", NO: "No"},
        advanced=True,
        networks=frozenset({Network.DIFFUSION}),
    ),
}
"""One entry for each field of `Inputs`, in the order of the page."""
