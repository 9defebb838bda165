"""What is to be done with the model: pretrain, fine-tune or serve."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from advisor.noun import Noun
from advisor.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS

PositiveAmount = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1, le=10**9)]


class Optimizer(StrEnum):
    """Optimizers with known state sizes."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw_8bit"
    SGD_MOMENTUM = "sgd_momentum"
    SGD = "sgd"
    LION = "lion"
    ADAFACTOR = "adafactor"


class SoftwareStack(StrEnum):
    """Which code runs the training: decides what is kept for backward and what is fused."""

    HUGGINGFACE = "huggingface"
    """Eager Hugging Face modules, nothing fused."""
    COMPILED = "compiled"
    """torch.compile (torchtitan and similar)."""
    MEGATRON = "megatron"
    """Megatron-class fused kernels and vocabulary-parallel loss."""
    LIGER = "liger"
    """Hugging Face modules with Liger kernels: fused norms, activation and loss."""


class AttentionKernel(StrEnum):
    """How attention is computed in training."""

    FLASH = "flash"
    EAGER = "eager"
    """Materialises the score matrix."""


class FineTuningMethod(StrEnum):
    """Which parameters a fine-tuning trains."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


LoraTarget = Literal["q", "k", "v", "o", "gate", "up", "down"]
LORA_TARGETS: tuple[LoraTarget, ...] = ("q", "k", "v", "o", "gate", "up", "down")
"""Projections that adapters can sit on."""


class _Training(Noun):
    tokens: PositiveAmount | None = None
    """Tokens in the whole run; None takes a stated default. [tokens]"""
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Tokens per sequence; None takes 4096 or the model's maximum, whichever is less."""
    global_batch: PositiveCount | None = None
    """Sequences per optimizer step; None takes a stated default."""
    precision: str | None = None
    """Name of a recipe; None lets the search choose among those that the card supports."""
    optimizer: Optimizer = Optimizer.ADAMW
    attention: AttentionKernel = AttentionKernel.FLASH
    software: SoftwareStack | None = None
    """None takes the default of the task."""

    @field_validator("precision")
    @classmethod
    def _known_recipe(cls, value: str | None) -> str | None:
        if value is not None and value not in RECIPES:
            msg = f"unknown precision {value!r}; choose one of {', '.join(RECIPES)}"
            raise ValueError(msg)
        return value


class Pretraining(_Training):
    """Training from scratch on ``tokens`` tokens."""

    kind: Literal["pretraining"] = "pretraining"


class FineTuning(_Training):
    """Adapting a trained model, wholly or by adapters."""

    kind: Literal["fine_tuning"] = "fine_tuning"
    method: FineTuningMethod = FineTuningMethod.LORA
    lora_rank: Annotated[int, Field(ge=1, le=4096)] = 16
    lora_targets: tuple[LoraTarget, ...] = LORA_TARGETS


class Serving(Noun):
    """Answering requests: continuous batching at a steady concurrency."""

    kind: Literal["serving"] = "serving"
    input_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 1024
    """Prompt tokens per request."""
    output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 256
    """Generated tokens per request."""
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Requests in flight at the same time."""
    weight_format: str | None = None
    """None lets the search choose; estimates take the model's own 16-bit format."""
    kv_cache_format: str | None = None

    @field_validator("weight_format")
    @classmethod
    def _known_weight_format(cls, value: str | None) -> str | None:
        if value is not None and value not in WEIGHT_FORMATS:
            msg = f"unknown weight_format {value!r}; choose one of {', '.join(WEIGHT_FORMATS)}"
            raise ValueError(msg)
        return value

    @field_validator("kv_cache_format")
    @classmethod
    def _known_kv_format(cls, value: str | None) -> str | None:
        if value is not None and value not in KV_CACHE_FORMATS:
            msg = f"unknown kv_cache_format {value!r}; choose one of {', '.join(KV_CACHE_FORMATS)}"
            raise ValueError(msg)
        return value


Training = Pretraining | FineTuning
Workload = Annotated[Pretraining | FineTuning | Serving, Field(discriminator="kind")]
