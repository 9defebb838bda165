"""What training can be told to do: optimizers, losses, kernels and ways to load data, by name."""

from enum import StrEnum
from typing import Literal

from advisor.nouns.inputs import Labelled


class Optimizer(Labelled):
    """Optimizers with known state sizes."""

    ADAMW = "adamw", "AdamW"
    ADAMW_8BIT = "adamw_8bit", "AdamW, 8-bit states"
    PAGED_ADAMW_8BIT = "paged_adamw_8bit", "AdamW, 8-bit states in pages"
    """The same in pages that move to the host's memory when the card's runs out."""
    SGD_MOMENTUM = "sgd_momentum", "SGD with momentum"
    SGD = "sgd", "SGD"
    LION = "lion", "Lion"
    ADAFACTOR = "adafactor", "Adafactor"
    MUON = "muon", "Muon"
    """For matrices; AdamW for embeddings, head and vectors."""


class CrossEntropy(Labelled):
    """How the loss is made from the logits: decides what exists of them at once."""

    PLAIN = "plain", "Plain cross-entropy"
    """16-bit logits, their fp32 copy, its softmax, the gradient."""
    FUSED = "fused", "One fused kernel"
    """One kernel on 16-bit logits and their gradient."""
    CHUNKED = "chunked", "In chunks"
    """Eight chunks of the sequence, one in fp32 at a time."""
    LINEAR = "linear", "Fused with the head"
    """With the projection of the head, chunk by chunk: logits never exist whole."""


class GradientSync(Labelled):
    """When ranks that share out gradients sum them."""

    EACH = "each", "After each micro-batch"
    """After every micro-batch: a rank holds its share alone (torchtitan, DeepSpeed, Composer)."""
    LAST = "last", "After the last (FSDP of the Hugging Face Trainer)"
    """After the last micro-batch of a step, so that whole gradients wait (``no_sync`` of PyTorch's
    FSDP, which Accelerate's ``no_sync`` and Hugging Face's Trainer use unless ``sync_each_batch``
    is set: accelerate/accelerator.py, transformers/trainer.py)."""


class Preference(Labelled):
    """Training on pairs of answers, of which one is preferred."""

    DPO = "dpo", "DPO, with a reference model"
    """Against a frozen reference model."""
    ORPO = "orpo", "ORPO or SimPO, without"
    """Without a reference model (ORPO, SimPO)."""


class DataLoading(Labelled):
    """How images reach the accelerator."""

    JPEG = "jpeg", "JPEG, decoded on the host"
    """Decoded and augmented by workers on the host's cores with Pillow (torchvision's habit)."""
    TURBO = "turbo", "JPEG, decoded by libjpeg-turbo"
    """The same with libjpeg-turbo and vectorised augmentation."""
    CACHED = "cached", "Synthetic, cached, or decoded on the card"
    """Synthetic, decoded ahead (FFCV's raw format), or decoded on the accelerator (DALI)."""


class AttentionKernel(StrEnum):
    """How attention is computed in training."""

    FLASH = "flash"
    FLASH_1 = "flash1"
    """FlashAttention 1: PyTorch 2.0 and 2.1, and most software before the middle of 2023."""
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
