"""What is to be done with the model: pretrain, fine-tune or serve."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS

LEAST_AMOUNT, MOST_AMOUNT = 1e-6, 1e18
"""Beyond them what follows of an amount is no number any more."""
PositiveAmount = Annotated[float, Field(ge=LEAST_AMOUNT, le=MOST_AMOUNT, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1, le=10**9)]


class Optimizer(StrEnum):
    """Optimizers with known state sizes."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw_8bit"
    PAGED_ADAMW_8BIT = "paged_adamw_8bit"
    """The same in pages that move to the host's memory when the card's runs out."""
    SGD_MOMENTUM = "sgd_momentum"
    SGD = "sgd"
    LION = "lion"
    ADAFACTOR = "adafactor"
    MUON = "muon"
    """For matrices; AdamW for embeddings, head and vectors."""


class SoftwareStack(StrEnum):
    """Which code runs the training: decides what is kept for backward and what is fused."""

    HUGGINGFACE = "huggingface"
    """Hugging Face Trainer: eager modules, nothing fused."""
    PLAIN = "plain"
    """A plain loop of a framework over eager modules (torchtune, timm, reference scripts)."""
    DEEPSPEED = "deepspeed"
    """The same modules under DeepSpeed's ZeRO engine."""
    COMPILED = "compiled"
    """torch.compile (torchtitan and similar)."""
    MEGATRON = "megatron"
    """Megatron-class fused kernels and vocabulary-parallel loss."""
    LIGER = "liger"
    """Hugging Face modules with Liger kernels: fused norms, activation and loss."""

    @property
    def unfused(self) -> bool:
        """Whether every operation is a kernel of its own, and the loss keeps whole logits."""
        return self in (SoftwareStack.HUGGINGFACE, SoftwareStack.PLAIN, SoftwareStack.DEEPSPEED)

    @property
    def eager(self) -> bool:
        """Whether modules run one by one: each casts its inputs under autocast."""
        return self.unfused or self is SoftwareStack.LIGER


class CrossEntropy(StrEnum):
    """How the loss is made from the logits: decides what exists of them at once."""

    PLAIN = "plain"
    """16-bit logits, their fp32 copy, its softmax, the gradient."""
    FUSED = "fused"
    """One kernel on 16-bit logits and their gradient."""
    CHUNKED = "chunked"
    """Eight chunks of the sequence, one in fp32 at a time."""
    LINEAR = "linear"
    """With the projection of the head, chunk by chunk: logits never exist whole."""


class GradientSync(StrEnum):
    """When ranks that share out gradients sum them."""

    EACH = "each"
    """After every micro-batch: a rank holds its share alone (torchtitan, DeepSpeed, Composer)."""
    LAST = "last"
    """After the last micro-batch of a step, so that whole gradients wait (``no_sync`` of PyTorch's
    FSDP, which Accelerate's ``no_sync`` and Hugging Face's Trainer use unless ``sync_each_batch``
    is set: accelerate/accelerator.py, transformers/trainer.py)."""


class Preference(StrEnum):
    """Training on pairs of answers, of which one is preferred."""

    DPO = "dpo"
    """Against a frozen reference model."""
    ORPO = "orpo"
    """Without a reference model (ORPO, SimPO)."""


class DataLoading(StrEnum):
    """How images reach the accelerator."""

    JPEG = "jpeg"
    """Decoded and augmented by workers on the host's cores with Pillow (torchvision's habit)."""
    TURBO = "turbo"
    """The same with libjpeg-turbo and vectorised augmentation."""
    CACHED = "cached"
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


class _Sized(Noun):
    """Size of one input; applies to networks that take images or whole samples."""

    image_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Side of a square image; None takes the network's default. [pixels]"""
    image_channels: Annotated[int, Field(ge=1, le=4096)] | None = None
    decoder_sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Encoder-decoder pairs: tokens that the decoder writes. [tokens]"""


class _Training(_Sized):
    tokens: PositiveAmount | None = None
    """Tokens in the whole run; None takes a stated default. [tokens]"""
    samples: PositiveAmount | None = None
    """Images, samples or sequences in the whole run, instead of ``tokens``."""
    epochs: PositiveAmount | None = None
    """Times that the run goes through these ``tokens`` or ``samples``; None goes once."""
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Tokens per sequence; None takes 4096 or the model's maximum, whichever is less. Of an
    encoder-decoder pair, what the encoder reads."""
    global_batch: PositiveCount | None = None
    """Sequences, images or samples per optimizer step; None takes a stated default."""
    evaluation_tokens: PositiveAmount | None = None
    """Evaluated during the whole run, forward passes alone; in samples for networks that take
    those. None leaves evaluation out."""
    precision: Name | None = None
    """Name of a recipe; None lets the search choose among those that the card supports."""
    optimizer: Optimizer = Optimizer.ADAMW
    attention: AttentionKernel = AttentionKernel.FLASH
    software: SoftwareStack | None = None
    """None takes the default of the task."""
    cross_entropy: CrossEntropy | None = None
    """None takes what the software does."""
    reduce_format: Literal["fp32", "bf16", "fp16"] | None = None
    """Format in which gradients are summed over ranks (Megatron-class: and kept); None takes what
    the software does (Megatron-class: fp32)."""
    gradient_sync: GradientSync = GradientSync.EACH
    """Under ZeRO-2 and ZeRO-3, where a step has several micro-batches."""

    data_loading: DataLoading | None = None
    """Of images; None takes ``jpeg``."""
    loader_workers: PositiveCount | None = None
    """Of images: processes that decode, for each accelerator; None takes one on each core."""
    worker_images_per_s: PositiveAmount | None = None
    """What one of them makes ready; None takes a published rate. [images/s]"""
    storage_bytes_per_s: PositiveAmount | None = None
    """What the storage of one machine reads; None: images lie in memory. [bytes/s]"""

    @field_validator("precision")
    @classmethod
    def _known_recipe(cls, value: str | None) -> str | None:
        if value is not None and value not in RECIPES:
            msg = f"unknown precision {value!r}; choose one of {', '.join(RECIPES)}"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _one_amount(self) -> Self:
        if self.tokens is not None and self.samples is not None:
            msg = f"give tokens or samples, not both; got {self.tokens:g} and {self.samples:g}"
            raise ValueError(msg)
        if self.epochs is not None and self.tokens is None and self.samples is None:
            msg = f"epochs={self.epochs:g} needs tokens or samples: what is gone through each time"
            raise ValueError(msg)
        whole = (self.tokens or self.samples or 1) * (self.epochs or 1)
        if whole > MOST_AMOUNT:
            msg = f"{whole:g} in all epochs exceed {MOST_AMOUNT:g}; give fewer epochs"
            raise ValueError(msg)
        return self


class Pretraining(_Training):
    """Training from scratch on ``tokens`` tokens or ``samples`` images."""

    kind: Literal["pretraining"] = "pretraining"


class FineTuning(_Training):
    """Adapting a trained model, wholly or by adapters."""

    kind: Literal["fine_tuning"] = "fine_tuning"
    method: FineTuningMethod = FineTuningMethod.LORA
    lora_rank: Annotated[int, Field(ge=1, le=4096)] = 16
    lora_targets: tuple[LoraTarget, ...] = LORA_TARGETS
    preference: Preference | None = None
    """Pairs of answers: ``global_batch`` and ``micro_batch`` count pairs, of two sequences each."""


class Serving(_Sized):
    """Answering requests: continuous batching of text, batches of ``concurrency`` images."""

    kind: Literal["serving"] = "serving"
    input_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 1024
    """Prompt tokens per request."""
    output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 256
    """Generated tokens per request."""
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Requests in flight at the same time; of images, the batch."""
    denoising_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Diffusion models: passes through the network for one image; None takes a stated default."""
    guidance: bool | None = None
    """Diffusion models: classifier-free guidance, which doubles every pass. None: as pipelines of
    the model do it."""
    weight_format: Name | None = None
    """None lets the search choose; estimates take the model's own 16-bit format."""
    kv_cache_format: Name | None = None

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
