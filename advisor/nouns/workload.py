"""What is to be done with the model: pretrain, fine-tune or serve."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.parsing import parse_arrivals
from advisor.nouns.demand import Demand
from advisor.nouns.inputs import (
    ADAPTERS,
    DIFFUSION,
    IMAGES,
    SAMPLES,
    TEXT,
    VISION,
    Input,
    Labelled,
    Reads,
)
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.software.delivery import Operated
from advisor.nouns.software.names import SERVED_BY, TRAINED_BY, EngineName, SoftwareName
from advisor.nouns.techniques import Techniques
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

MOST_AMOUNT = 1e15
Amount = Annotated[float, Field(ge=1, le=MOST_AMOUNT, allow_inf_nan=False)]
"""Of data: a hundred times all text that was ever published, at most."""
Times = Annotated[float, Field(ge=0.01, le=1e6, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1, le=10**9)]
MOST_SPREAD = 3.8
"""Largest 95th percentile over the mean that a log-normal length can have: exp(1.645^2 / 2)."""
Length = Annotated[int, Field(ge=1, le=10_000_000)]
"""Of one sequence. [tokens]"""


class Arrivals(Labelled):
    """How requests arrive."""

    CONSTANT = "constant", "at equal intervals"
    POISSON = "poisson", "on their own (Poisson)"
    BURSTY = "bursty", "in bursts"

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between them.

        Bursty traffic: 4, a gamma distribution of shape 0.25. Assumed; BurstGPT (Wang et al. 2024,
        arXiv:2401.17644) finds gamma shapes below 1 for conversations.
        """
        return {"constant": 0.0, "poisson": 1.0, "bursty": 4.0}[self.value]


class _Sized(Noun):
    """Size of one input; applies to networks that take images or whole samples."""

    image_size: Annotated[
        Annotated[int, Field(ge=1, le=65_536)] | None,
        Input(
            "side of a square image",
            "--image-size",
            "Image size",
            unit="pixels",
            metavar="PX",
            networks=IMAGES,
            blank="Usual",
        ),
    ] = None
    """None takes the network's default. [pixels]"""
    image_channels: Annotated[
        Annotated[int, Field(ge=1, le=4096)] | None,
        Input("channels of an image", "--image-channels"),
    ] = None
    decoder_sequence_length: Annotated[
        Length | None,
        Input(
            "tokens that the decoder of an encoder-decoder pair writes",
            "--decoder-sequence",
            reads=Reads.LENGTH,
        ),
    ] = None


class _Training(_Sized, Operated):
    tokens: Annotated[
        Amount | None,
        Input("tokens in the whole run: 50M", "--tokens", "Tokens", networks=TEXT, advanced=False),
    ] = None
    """None takes a stated default."""
    samples: Annotated[
        Amount | None,
        Input(
            "images, samples or sequences in the whole run, instead of tokens: 1.2M",
            "--samples",
            "Images or samples",
            networks=SAMPLES,
            advanced=False,
        ),
    ] = None
    epochs: Annotated[
        Times | None,
        Input(
            "times that the run goes through them (1)",
            "--epochs",
            "Epochs",
            blank="One",
            explained="How often the run goes through the tokens, images or samples above.",
        ),
    ] = None
    sequence_length: Annotated[
        Length | None,
        Input(
            "tokens per sequence: 4096, or 4K for the same",
            "--sequence",
            "Sequence length",
            reads=Reads.LENGTH,
            networks=TEXT,
            blank="Usual",
        ),
    ] = None
    """None takes 4096 or the model's maximum, whichever is less. Of an encoder-decoder pair, what
    the encoder reads."""
    global_batch: Annotated[
        PositiveCount | None,
        Input(
            "sequences, images or samples per optimizer step",
            "--global-batch",
            "Batch per step",
            blank="Usual",
        ),
    ] = None
    """None takes a stated default."""
    evaluation_tokens: Annotated[
        Amount | None,
        Input(
            "evaluated during the whole run (images: samples)",
            "--evaluation-tokens",
            "Evaluate on",
            blank="Nothing",
            explained="Tokens that the whole run evaluates on, all evaluations together; images or "
            "samples for networks that take those. Forward passes alone.",
        ),
    ] = None
    """Forward passes alone; in samples for networks that take those. None leaves evaluation out."""
    precision: Annotated[
        Name | None,
        Input(
            "number formats",
            "--precision",
            "Precision",
            metavar="RECIPE",
            choices=lambda: RECIPES,
            labels=lambda: {name: recipe.title for name, recipe in RECIPES.items()},
            blank="Let the search choose",
        ),
    ] = None
    """Name of a recipe; None lets the search choose among those that the card supports."""
    optimizer: Annotated[
        Optimizer | None,
        Input("optimizer", "--optimizer", "Optimizer", blank="Usual for the network"),
    ] = None
    """None takes the network's usual one: SGD with momentum for convolutional networks, else
    AdamW."""
    attention: Annotated[
        AttentionKernel, Input("kernel of attention", "--attention", metavar="KERNEL")
    ] = AttentionKernel.FLASH
    software: Annotated[SoftwareName | None, TRAINED_BY] = None
    """A training tool, or a stack for any tool that it estimates. None takes the usual tool of card
    and task."""
    cross_entropy: Annotated[
        CrossEntropy | None,
        Input(
            "how the loss is made; what the software does",
            "--cross-entropy",
            "Loss",
            metavar="HOW",
            blank="As the software does",
        ),
    ] = None
    """None takes what the software does."""
    reduce_format: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        Input(
            "format in which gradients are summed; what the software does",
            "--reduce-format",
            metavar="FORMAT",
        ),
    ] = None
    """Format in which gradients are summed over ranks (Megatron-class: and kept); None takes what
    the software does (Megatron-class: fp32)."""
    gradient_sync: Annotated[
        GradientSync,
        Input(
            "ZeRO-2 and 3 sum gradients after each micro-batch (each, the default) or after the "
            "last (last: FSDP under Hugging Face's Trainer without sync_each_batch; whole "
            "gradients wait)",
            "--gradient-sync",
            "Sharded gradients are summed",
            metavar="WHEN",
        ),
    ] = GradientSync.EACH
    """Under ZeRO-2 and ZeRO-3, where a step has several micro-batches."""

    data_loading: Annotated[
        DataLoading | None,
        Input(
            "images: decoded on the host by Pillow (jpeg) or libjpeg-turbo (turbo), or synthetic, "
            "decoded ahead or on the accelerator (cached)",
            "--data-loading",
            "Images are",
            metavar="HOW",
            networks=VISION,
            blank="As usual: JPEG",
        ),
    ] = None
    """Of images; None takes ``jpeg``."""
    loader_workers: Annotated[
        Annotated[int, Field(ge=1, le=4096)] | None,
        Input(
            "images: processes that decode, for each accelerator; one on each core",
            "--loader-workers",
            "Loader workers per card",
            networks=VISION,
            blank="One on each core",
        ),
    ] = None
    worker_images_per_s: Annotated[
        Times | None,
        Input(
            "images per second that one of them makes ready",
            "--worker-rate",
            "Images/s per worker",
            networks=VISION,
            blank="As published",
        ),
    ] = None
    """None takes a published rate. [images/s]"""
    storage_bytes_per_s: Annotated[
        Amount | None,
        Input(
            "images: what the storage of one machine reads: 2G; they lie in memory",
            "--storage-rate",
            metavar="BYTES/S",
        ),
    ] = None
    """None: images lie in memory. [bytes/s]"""

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
    lora_rank: Annotated[
        int,
        Field(ge=1, le=4096),
        Input("rank of the adapters", "--lora-rank", "LoRA rank", tasks=ADAPTERS),
    ] = 16
    lora_targets: tuple[LoraTarget, ...] = LORA_TARGETS
    preference: Annotated[
        Preference | None,
        Input(
            "pairs of answers, with a reference model (dpo) or without (orpo)",
            "--preference",
            "Preference pairs",
            metavar="HOW",
            blank="None",
        ),
    ] = None
    """Pairs of answers: ``global_batch`` and ``micro_batch`` count pairs, of two sequences each."""

    @property
    def four_bit(self) -> bool:
        """Whether the frozen weights have 4 bits."""
        return self.method is FineTuningMethod.QLORA


class Serving(_Sized, Techniques):
    """Answering requests: continuous batching of text, batches of ``concurrency`` images."""

    kind: Literal["serving"] = "serving"
    input_tokens: Annotated[
        Length,
        Input(
            "prompt tokens per request: 8192, or 8K for the same",
            "--input-tokens",
            "Prompt tokens",
            reads=Reads.LENGTH,
            networks=TEXT,
        ),
    ] = 1024
    output_tokens: Annotated[
        Length,
        Input(
            "generated tokens per request",
            "--output-tokens",
            "Answer tokens",
            reads=Reads.LENGTH,
            networks=TEXT,
        ),
    ] = 256
    concurrency: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        Input(
            "requests in flight at the same time; of images, the batch",
            "--concurrency",
            "Users at once",
            advanced=False,
        ),
    ] = 8
    requests_per_s: Annotated[
        Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None,
        Input(
            "requests that arrive, instead of a concurrency: 10/s, 600/min, 500 users x 12/h",
            "--requests-per-second",
            "Requests per second",
            reads=Reads.ARRIVALS,
            networks=TEXT,
            advanced=False,
            blank="As the users send",
            explained="What arrives, in place of the users at once: 10/s, 600/min, 1M/day or "
            "500 users x 12/h. Percentiles of the latencies follow.",
        ),
    ] = None
    """Takes the place of the concurrency, which then follows from it. [requests/s]"""
    demand: Demand | None = None
    """A day or a week; its peak takes the place of ``requests_per_s``."""
    arrivals: Annotated[
        Arrivals,
        Input(
            "how requests arrive",
            "--arrivals",
            "Requests arrive",
            metavar="HOW",
            networks=TEXT,
            needs="requests_per_s",
        ),
    ] = Arrivals.POISSON
    input_tokens_p95: Annotated[
        Length | None,
        Input(
            "length that 95 % of the prompts stay under; then --input-tokens is the mean",
            "--input-tokens-p95",
            "Prompt tokens, 95 %",
            reads=Reads.LENGTH,
            networks=TEXT,
            blank="All alike",
            needs="requests_per_s",
        ),
    ] = None
    """Lengths are log-normal. None: all are equal."""
    output_tokens_p95: Annotated[
        Length | None,
        Input(
            "length that 95 % of the answers stay under; then --output-tokens is the mean",
            "--output-tokens-p95",
            "Answer tokens, 95 %",
            reads=Reads.LENGTH,
            networks=TEXT,
            blank="All alike",
            needs="requests_per_s",
        ),
    ] = None
    denoising_steps: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        Input(
            "diffusion: passes through the network for one image (50)",
            "--denoising-steps",
            "Denoising steps",
            networks=DIFFUSION,
        ),
    ] = None
    """None takes a stated default."""
    guidance: Annotated[
        bool | None,
        Input(
            "diffusion: classifier-free guidance, which doubles every pass (as usual for the "
            "model)",
            "--guidance",
            "Guidance (doubles each step)",
            networks=DIFFUSION,
            blank="As usual for the model",
        ),
    ] = None
    """None: as pipelines of the model do it."""
    engine: Annotated[EngineName | None, SERVED_BY] = None
    """A serving tool. None takes the usual one of card and model."""
    weight_format: Annotated[
        Name | None,
        Input(
            "number format of the weights",
            "--weights",
            "Weight format",
            metavar="FORMAT",
            choices=lambda: WEIGHT_FORMATS,
            labels=lambda: {name: item.title for name, item in WEIGHT_FORMATS.items()},
            blank="Let the search choose",
        ),
    ] = None
    """None lets the search choose; estimates take the model's own 16-bit format."""
    kv_cache_format: Annotated[
        Name | None,
        Input(
            "number format of keys and values",
            "--kv-cache",
            "Key-value cache",
            metavar="FORMAT",
            choices=lambda: KV_CACHE_FORMATS,
            networks=TEXT,
            blank="Let the search choose",
        ),
    ] = None

    @field_validator("requests_per_s", mode="before")
    @classmethod
    def _rate(cls, value: object) -> object:
        return parse_arrivals(value, field="requests_per_s") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_load(self) -> Self:
        names = ("concurrency", "requests_per_s", "demand")
        given = [name for name in names if name in self.model_fields_set]
        given = [name for name in given if getattr(self, name) is not None]
        if len(given) > 1:
            msg = f"give one of {', '.join(names)}, not both of {' and '.join(given)}"
            raise ValueError(msg)
        for name in ("input_tokens", "output_tokens"):
            high = getattr(self, f"{name}_p95")
            if high is not None and not 1 <= high / getattr(self, name) <= MOST_SPREAD:
                msg = (
                    f"{name}_p95={high} must be {name}={getattr(self, name)} to {MOST_SPREAD:g} "
                    "times as much"
                )
                raise ValueError(msg)
        return self

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
