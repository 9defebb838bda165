"""Software that a plan can name: a row of ``data/tools.yaml`` for each tool, with what it offers.

A training tool is estimated by a stack (``nouns/stacks.py``), a serving tool by the constants of an
engine (``nouns/engines.py``). ``data/tool_choice.yaml`` maps cards to backends and orders the tools
for each duty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from advisor.errors import InputError
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path, entry_names
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.inputs import Labelled
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.stacks import Degree
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    Optimizer,
    Preference,
)

TOOLS: Final = "tools.yaml"
CHOICE: Final = "tool_choice.yaml"
GGUF: Final = "gguf"
"""Stands for every format of a GGUF file in ``Support.weights``."""

Chip = Annotated[str, Field(min_length=1, max_length=40)]
Words = Annotated[str, Field(min_length=1, max_length=600)]
Capability = Annotated[str, Field(pattern=r"^\d+\.\d$")]
"""Of CUDA, e.g. 8.9."""


class Duty(Labelled):
    """Kinds of work, by the tools that do them."""

    PRETRAIN = "pretrain", "pretraining of a language model"
    TUNE = "tune", "fine-tuning of a language model"
    TRAIN_SAMPLES = "train_samples", "training on images or samples"
    TRAIN_DIFFUSION = "train_diffusion", "training of a diffusion model"
    GENERATE = "generate", "text generation"
    RECUR = "recur", "serving of a recurrent network"
    ENCODE = "encode", "text encoding"
    TRANSCRIBE = "transcribe", "speech recognition"
    PAIR = "pair", "serving of an encoder-decoder pair"
    CLASSIFY = "classify", "serving of an image network"
    DENOISE = "denoise", "image generation"

    @property
    def trains(self) -> bool:
        """Whether it is training."""
        return self in TRAINING_DUTIES


TRAINING_DUTIES: Final = frozenset(
    {Duty.PRETRAIN, Duty.TUNE, Duty.TRAIN_SAMPLES, Duty.TRAIN_DIFFUSION}
)


class Status(StrEnum):
    """Whether to start with a tool today."""

    CURRENT = "current"
    MAINTAINED = "maintained"
    """It gets corrections; its authors no longer develop it."""
    RETIRED = "retired"


class Support(Noun):
    """The cards and versions on which a tool runs, under one backend."""

    lowest: Capability | None = None
    """Lowest compute capability; None has no limit."""
    last: Capability | None = None
    """Highest compute capability."""
    chips: tuple[Chip, ...] = ()
    """Targets (gfx942), architectures (CDNA3) or catalog keys (tpu-v5e). Empty: all of the
    backend."""
    plugin: str = ""
    """Package that adds the backend to the tool."""
    driver: str = ""
    """Lowest driver."""
    cuda: str = ""
    cudnn: str = ""
    rocm: str = ""
    """Lowest versions."""
    python: str = ""
    """Versions, if they differ from the tool's."""
    without: tuple[FineTuningMethod, ...] = ()
    """Methods that the tool offers elsewhere, but not here."""
    weights: dict[str, Capability | tuple[Chip, ...] | None] = Field(default_factory=dict)
    """Served weight formats: lowest compute capability, or chips, or None for every card.
    ``gguf`` stands for all formats of GGUF files."""
    note: str = ""

    def runs_on(self, card: Accelerator) -> bool:
        """Whether the tool runs on a card of this backend.

        A card without a stated compute capability is newer than all limits.
        """
        if self.chips:
            return _is_one_of(card, self.chips)
        return _within(card, self.lowest, self.last)

    def serves(self, card: Accelerator, weight_format: str) -> bool:
        """Whether the tool serves a weight format on a card."""
        mixture = WEIGHT_FORMATS[weight_format].mixture
        name = GGUF if mixture else weight_format
        if name not in self.weights:
            return False
        needed = self.weights[name]
        if isinstance(needed, tuple):
            return _is_one_of(card, needed)
        return _within(card, needed, None)


def _is_one_of(card: Accelerator, chips: tuple[str, ...]) -> bool:
    return bool({card.compute_capability, card.architecture, card.key} & {*chips})


def _numbers(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


def _within(card: Accelerator, lowest: str | None, last: str | None) -> bool:
    own = card.compute_capability
    if own is None or not own[0].isdigit():
        return True
    number = _numbers(own)
    return (lowest is None or number >= _numbers(lowest)) and (
        last is None or number <= _numbers(last)
    )


class TrainingOffer(Noun):
    """What a training tool offers."""

    methods: tuple[FineTuningMethod, ...] = ()
    """Ways to fine-tune."""
    preference: tuple[Preference, ...] = ()
    divides: tuple[Degree, ...] = ()
    """Degrees of a layout besides data parallelism."""
    recompute: tuple[Recompute, ...] = (Recompute.NONE,)
    sharding: tuple[Sharding, ...] = (Sharding.DDP,)
    sharding_4bit: tuple[Sharding, ...] = (Sharding.DDP,)
    """The same with 4-bit weights: a tool that first loads the whole model on every card is not
    sharded."""
    sharded_by: str = ""
    """What shards: FSDP, DeepSpeed ZeRO …"""
    hybrid_sharding: bool = False
    """Whether it can shard within a node and replicate over nodes (HSDP)."""
    offloads: bool = False
    """Whether states and parameters can stay in the host's memory."""
    computes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    """Formats of matrix products, on cards that have them."""
    optimizers: tuple[Optimizer, ...] = (Optimizer.ADAMW,)
    optimizer_in_backward: bool = False
    packing: bool = False
    attention: tuple[AttentionKernel, ...] = (AttentionKernel.FLASH, AttentionKernel.EAGER)
    losses: tuple[CrossEntropy, ...] = (CrossEntropy.PLAIN,)
    """The first is the tool's own choice."""


class ServingOffer(Noun):
    """What a serving tool offers. Weight formats are in ``Support``."""

    divides: tuple[Degree, ...] = ()
    batches_continuously: bool = False
    file_formats: tuple[str, ...] = ()
    """Weight files in the words of their publishers: AWQ, GPTQ, GGUF, EXL3, MLX …"""
    api: str = ""
    """Interface that it serves."""


class Tool(Noun):
    """One tool: a row of ``data/tools.yaml``."""

    name: str
    title: str
    """Name for display."""
    does: tuple[Duty, ...]
    framework: str
    """Library below it: pytorch, jax, tensorflow, mlx, ggml, onnx …"""
    status: Status = Status.CURRENT
    since: Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")] | None = None
    """Date of the end of development, if it ended. ISO 8601, possibly truncated."""
    instead: str = ""
    """Names of tools to use instead, if it ended."""
    release: str
    """Release that the row describes; the one that launch files install, if they install it."""
    released: Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")] | None = None
    stack: str | None = None
    """Stack that estimates its training."""
    engine: Literal["vllm", "sglang", "tensorrt_llm", "llama_cpp"] | None = None
    """Engine whose constants estimate its serving; None takes the default for the weights."""
    python: str = ""
    """Versions of Python."""
    packages: tuple[str, ...] = ()
    """Packages to install, the tool's own first."""
    image: str = ""
    """Container image of its publisher, without tag."""
    verify: tuple[str, ...] = ()
    """Command that shows that it is installed."""
    backends: Annotated[dict[str, Support], Field(min_length=1)]
    families: tuple[str, ...] = ()
    """Model families in the words of ``data/model_families.yaml``; empty: all of its networks."""
    training: TrainingOffer | None = None
    serving: ServingOffer | None = None
    note: str = ""
    sources: dict[str, Words]
    """Source and date of each fact, by column; ``all`` covers the rest. A source that starts with
    ``recalled`` was not read."""

    def support(self, card: Accelerator) -> tuple[str, Support] | None:
        """Return the backend under which the tool runs on a card, or None."""
        found = ((name, self.backends.get(name)) for name in backends_of(card))
        return next(
            ((name, item) for name, item in found if item is not None and item.runs_on(card)), None
        )

    def still_does(self, duty: Duty) -> bool:
        """Whether it does a duty and was not retired."""
        return duty in self.does and self.status is not Status.RETIRED

    @property
    def named(self) -> str:
        """Return title and release, e.g. ``TRL 1.5.0``."""
        return f"{self.title} {self.release}".strip()

    @property
    def ended(self) -> str:
        """Return a sentence on its end; empty while its authors develop it."""
        if self.status is Status.CURRENT:
            return ""
        word = "was retired" if self.status is Status.RETIRED else "gets corrections only"
        since = f" in {self.since}" if self.status is Status.RETIRED else f" since {self.since}"
        return f"{self.title} {word}{since if self.since else ''}; use {self.instead}."


class Backend(Noun):
    """What carries a tool's kernels to the cards of some vendors."""

    title: str
    vendors: tuple[str, ...] = ()
    """Empty: all."""
    architectures: tuple[str, ...] = ()
    """Empty: all of these vendors."""
    processors: bool = False
    """Whether it is for processors; otherwise it is for all other cards."""

    def reaches(self, vendor: str, architecture: str, *, processor: bool) -> bool:
        """Whether cards of a vendor and architecture belong to the backend."""
        return (
            self.processors is processor
            and (not self.vendors or vendor in self.vendors)
            and (not self.architectures or architecture in self.architectures)
        )


class Term(Noun):
    """A name that people ask about, but that no plan runs: CUDA, cuDNN, ONNX, MLflow."""

    title: str
    sentence: Words
    source: Words


class ToolChoice(Noun):
    """The whole of ``data/tool_choice.yaml``."""

    backends: dict[str, Backend]
    """A card's first backend counts first."""
    usual: dict[Duty, dict[str, tuple[str, ...]]]
    """Tools by duty and backend, the usual first. The first that runs counts."""
    speech: tuple[str, ...]
    """Model families that recognise speech."""
    terms: dict[str, Term]


class _Table(Noun):
    tools: dict[str, Tool]


@cache
def known_tools() -> Mapping[str, Tool]:
    """Return all tools by name, in the order of their file.

    Raises
    ------
    CatalogError
        If a column is missing, unknown or out of bounds.
    """
    from advisor.foundation.data_files import read_yaml
    from advisor.foundation.data_records import checked, refuse

    content = read_yaml(data_path(TOOLS))
    if not isinstance(content, dict):
        refuse(TOOLS, type(content).__name__, "It must be a mapping of rows.")
    rows = {name: {"name": name, **row} for name, row in content.items()}
    return checked(_Table.model_validate, {"tools": rows}, file=TOOLS).tools


@cache
def tool_choice() -> ToolChoice:
    """Return backends, usual tools and terms.

    Raises
    ------
    CatalogError
        If a column is missing or unknown, or a name is no tool.
    """
    from advisor.foundation.data_files import read_yaml
    from advisor.foundation.data_records import checked, refuse

    choice = checked(ToolChoice.model_validate, read_yaml(data_path(CHOICE)), file=CHOICE)
    for duty, by_backend in choice.usual.items():
        for backend, names in by_backend.items():
            for name in names:
                if name not in known_tools():
                    refuse(CHOICE, name, "Name a row of tools.yaml.", entry=duty, field=backend)
    return choice


def _spelled(name: str) -> str:
    return "".join("-" if letter in "_ ." else letter for letter in name.casefold())


def tool_named(name: str) -> Tool:
    """Return one tool.

    Raises
    ------
    InputError
        If no tool has this name. The message lists the existing ones.

    Examples
    --------
    >>> tool_named("mxnet").status.value
    'retired'
    """
    found = known_tools().get(_spelled(name))
    if found is None:
        raise InputError(
            "unknown software",
            value=name,
            allowed=", ".join(known_tools()),
            remedy="Correct the name; gpu-advisor software lists what each one does.",
        )
    return found


@cache
def _backends_of(vendor: str, architecture: str, processor: bool) -> tuple[str, ...]:
    return tuple(
        name
        for name, item in tool_choice().backends.items()
        if item.reaches(vendor, architecture, processor=processor)
    )


def backends_of(card: Accelerator) -> tuple[str, ...]:
    """Return the names of a card's backends, the usual first."""
    return _backends_of(card.vendor, card.architecture, card.segment is Segment.CPU)


def usual_tools(card: Accelerator, duty: Duty) -> Iterator[Tool]:
    """Yield the tools that do a duty on a card, the usual first."""
    if duty.trains and card.inference_only:
        return
    usual = tool_choice().usual.get(duty, {})
    for backend in backends_of(card):
        for name in usual.get(backend, ()):
            tool = known_tools()[name]
            support = tool.backends.get(backend)
            if tool.still_does(duty) and support is not None and support.runs_on(card):
                yield tool


def tools_on(card: Accelerator) -> tuple[Tool, ...]:
    """Return all tools that run on a card, in the order of the table."""
    return tuple(tool for tool in known_tools().values() if tool.support(card) is not None)


def _known(name: str) -> str:
    return tool_named(name).name


def _listed(schema: dict[str, Any]) -> None:
    schema["enum"] = list(entry_names(TOOLS))


ToolName = Annotated[str, AfterValidator(_known), Field(json_schema_extra=_listed)]
"""Name of a tool: checked against the table, and listed in the schema."""
