"""What is to be done with the model: pretrain, fine-tune or serve."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from advisor.foundation.names import Name, one_of
from advisor.nouns.inputs import ADAPTERS, SAMPLES, TEXT, VISION, Reads, asked
from advisor.nouns.precision import RECIPES
from advisor.nouns.serving import Serving
from advisor.nouns.sizes import MOST_AMOUNT, Amount, Length, PositiveCount, Sized, Times
from advisor.nouns.software.delivery import Operated
from advisor.nouns.software.names import TRAINED_BY, SoftwareName
from advisor.nouns.training_choices import (
    LORA_TARGETS,
    AttentionKernel,
    CrossEntropy,
    DataLoading,
    FineTuningMethod,
    GradientSync,
    LoraTarget,
    Optimizer,
    Preference,
)


class _Training(Sized, Operated):
    tokens: Amount | None = asked(
        "tokens in the whole run: 50M", label="Tokens", networks=TEXT, advanced=False
    )
    """None takes a stated default."""
    samples: Amount | None = asked(
        "images, samples or sequences in the whole run, instead of tokens: 1.2M",
        label="Images or samples",
        networks=SAMPLES,
        advanced=False,
    )
    epochs: Times | None = asked(
        "times that the run goes through them (1)",
        label="Epochs",
        blank="One",
        explained="How often the run goes through the tokens, images or samples above.",
    )
    sequence_length: Length | None = asked(
        "tokens per sequence: 4096, or 4K for the same",
        "--sequence",
        label="Sequence length",
        networks=TEXT,
        blank="Usual",
    )
    """None takes 4096 or the model's maximum, whichever is less. Of an encoder-decoder pair, what
    the encoder reads."""
    document_length: Length | None = asked(
        "mean tokens of the documents that fill a sequence, if attention stays within each",
        label="Packed documents",
        reads=Reads.LENGTH,
        networks=TEXT,
        blank="One fills a sequence",
        explained="Mean tokens of the documents that are packed into a sequence. Where attention "
        "stays within each of them, it costs what their own lengths cost.",
    )
    """Of like lengths; longer ones among them cost more. None: one document fills a sequence."""
    global_batch: PositiveCount | None = asked(
        "sequences, images or samples per optimizer step", label="Batch per step", blank="Usual"
    )
    """None takes a stated default."""
    evaluation_tokens: Amount | None = asked(
        "evaluated during the whole run (images: samples)",
        label="Evaluate on",
        blank="Nothing",
        explained="Tokens that the whole run evaluates on, all evaluations together; images or "
        "samples for networks that take those. Forward passes alone.",
    )
    """Forward passes alone; in samples for networks that take those. None leaves evaluation out."""
    precision: Annotated[Name, one_of("precision", RECIPES)] | None = asked(
        "number formats",
        label="Precision",
        metavar="RECIPE",
        choices=lambda: RECIPES,
        labels=lambda: {name: recipe.title for name, recipe in RECIPES.items()},
        blank="Let the search choose",
    )
    """Name of a recipe; None lets the search choose among those that the card supports."""
    optimizer: Optimizer | None = asked(
        "optimizer", label="Optimizer", blank="Usual for the network"
    )
    """None takes the network's usual one: SGD with momentum for convolutional networks, else
    AdamW."""
    optimizer_in_backward: bool | None = asked(
        "each weight is updated in the backward pass, which then frees its gradient; nothing "
        "accumulates (no)"
    )
    attention: AttentionKernel = asked(
        "kernel of attention", metavar="KERNEL", default=AttentionKernel.FLASH
    )
    software: Annotated[SoftwareName | None, TRAINED_BY] = None
    """A training tool, or a stack for any tool that it estimates. None takes the usual tool of card
    and task."""
    cross_entropy: CrossEntropy | None = asked(
        "how the loss is made; what the software does",
        label="Loss",
        metavar="HOW",
        blank="As the software does",
    )
    reduce_format: Literal["fp32", "bf16", "fp16"] | None = asked(
        "format in which gradients are summed; what the software does", metavar="FORMAT"
    )
    """Format in which gradients are summed over ranks (Megatron-class: and kept); None takes what
    the software does (Megatron-class: fp32)."""
    gradient_sync: GradientSync = asked(
        "ZeRO-2 and 3 sum gradients after each micro-batch (each, the default) or after the last "
        "(last: FSDP under Hugging Face's Trainer without sync_each_batch; whole gradients wait)",
        label="Sharded gradients are summed",
        metavar="WHEN",
        default=GradientSync.EACH,
    )
    """Under ZeRO-2 and ZeRO-3, where a step has several micro-batches."""

    data_loading: DataLoading | None = asked(
        "images: decoded on the host by Pillow (jpeg) or libjpeg-turbo (turbo), or synthetic, "
        "decoded ahead or on the accelerator (cached)",
        label="Images are",
        metavar="HOW",
        networks=VISION,
        blank="As usual: JPEG",
    )
    """Of images; None takes ``jpeg``."""
    loader_workers: Annotated[int, Field(ge=1, le=4096)] | None = asked(
        "images: processes that decode, for each accelerator; one on each core",
        label="Loader workers per card",
        networks=VISION,
        blank="One on each core",
    )
    worker_images_per_s: Times | None = asked(
        "images per second that one of them makes ready",
        "--worker-rate",
        label="Images/s per worker",
        networks=VISION,
        blank="As published",
    )
    """None takes a published rate. [images/s]"""
    storage_bytes_per_s: Amount | None = asked(
        "images: what the storage of one machine reads: 2GB/s; they lie in memory",
        "--storage-rate",
        metavar="BYTES/S",
        reads=Reads.BYTES,
    )
    """None: images lie in memory. [bytes/s]"""

    @model_validator(mode="after")
    def _one_amount(self) -> Self:
        if self.tokens is not None and self.samples is not None:
            raise ValueError(
                f"give tokens or samples, not both; got {self.tokens:g} and {self.samples:g}"
            )
        if self.epochs is not None and self.tokens is None and self.samples is None:
            raise ValueError(
                f"epochs={self.epochs:g} needs tokens or samples: what is gone through each time"
            )
        whole = (self.tokens or self.samples or 1) * (self.epochs or 1)
        if whole > MOST_AMOUNT:
            raise ValueError(f"{whole:g} in all epochs exceed {MOST_AMOUNT:g}; give fewer epochs")
        return self


class Pretraining(_Training):
    """Training from scratch on ``tokens`` tokens or ``samples`` images."""

    kind: Literal["pretraining"] = "pretraining"


class FineTuning(_Training):
    """Adapting a trained model, wholly or by adapters."""

    kind: Literal["fine_tuning"] = "fine_tuning"
    method: FineTuningMethod = FineTuningMethod.LORA
    lora_rank: Annotated[int, Field(ge=1, le=4096)] = asked(
        "rank of the adapters", label="LoRA rank", tasks=ADAPTERS, default=16
    )
    lora_targets: tuple[LoraTarget, ...] = asked(
        "projections with adapters, e.g. q,k,v,o: attention alone",
        metavar="WHAT",
        tasks=ADAPTERS,
        default=LORA_TARGETS,
    )
    preference: Preference | None = asked(
        "pairs of answers, with a reference model (dpo) or without (orpo)",
        label="Preference pairs",
        metavar="HOW",
        blank="None",
    )
    """Pairs of answers: ``global_batch`` and ``micro_batch`` count pairs, of two sequences each."""

    @field_validator("lora_targets", mode="before")
    @classmethod
    def _apart(cls, given: object) -> object:
        """Take names joined by commas, as people type them."""
        if not isinstance(given, (list, tuple)):
            return given
        parts = (each.split(",") if isinstance(each, str) else [each] for each in given)
        return tuple(dict.fromkeys(name for names in parts for name in names))

    @property
    def four_bit(self) -> bool:
        """Whether the frozen weights have 4 bits."""
        return self.method is FineTuningMethod.QLORA


__all__ = ["FineTuning", "Pretraining", "Serving", "Training", "Workload"]

Training = Pretraining | FineTuning
Workload = Annotated[Pretraining | FineTuning | Serving, Field(discriminator="kind")]
