"""What a tool offers: the cards on which it runs, ways to train, and weights that it serves.

The head of ``data/tools.yaml`` explains each field.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, NamedTuple

from pydantic import Field, PositiveInt

from advisor.foundation.noun import Noun
from advisor.foundation.record import by_identity
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.stacks import DEGREES, Degree
from advisor.nouns.techniques import Speculation
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    Optimizer,
    Preference,
)

GGUF: Final = "gguf"
"""Stands for every format of a GGUF file in ``Support.weights``."""

SHARDING_WORDS: Final = {
    Sharding.DDP: "plain data parallelism",
    Sharding.ZERO1: "ZeRO-1",
    Sharding.ZERO2: "ZeRO-2",
    Sharding.ZERO3: "ZeRO-3 or FSDP",
}

Chip = Annotated[str, Field(min_length=1, max_length=40)]
Capability = Annotated[str, Field(pattern=r"^\d+\.\d$")]
"""Of CUDA, e.g. 8.9."""


class Kind(NamedTuple):
    """What decides which software runs on a card."""

    vendor: str
    architecture: str
    capability: str | None
    """Compute capability, or AMD's target."""
    key: str
    """In the catalog; empty where the capability decides."""
    processor: bool

    @staticmethod
    @by_identity(2048)
    def of(card: Accelerator) -> Kind:
        """Return the kind of a card."""
        capability = card.compute_capability
        key = "" if capability else card.key
        return Kind(card.vendor, card.architecture, capability, key, card.segment is Segment.CPU)


class Support(Noun):
    """The cards and versions on which a tool runs, under one backend."""

    lowest: Capability | None = None
    last: Capability | None = None
    chips: tuple[Chip, ...] = ()
    plugin: str = ""
    release: str = ""
    older: dict[Capability, str] = Field(default_factory=dict)
    driver: str = ""
    cuda: str = ""
    cudnn: str = ""
    rocm: str = ""
    rocm_of: dict[Chip, str] = Field(default_factory=dict)
    python: str = ""
    without: tuple[FineTuningMethod, ...] = ()
    methods: dict[FineTuningMethod, Capability] = Field(default_factory=dict)
    weights: dict[str, Capability | tuple[Chip, ...] | None] = Field(default_factory=dict)
    stored: tuple[str, ...] = ()
    unpacks: dict[str, str] = Field(default_factory=dict)
    families: dict[str, tuple[Chip, ...] | None] = Field(default_factory=dict)
    needs: dict[str, Capability | tuple[Chip, ...]] = Field(default_factory=dict)
    divides: tuple[Degree, ...] | None = None
    note: str = ""

    def runs_on(self, kind: Kind) -> bool:
        """Whether the tool runs on a kind of card of this backend.

        A card without a stated compute capability is newer than all limits.
        """
        if self.chips:
            return _is_one_of(kind, self.chips)
        return _within(kind, self.lowest, self.last)

    def newest_on(self, card: Accelerator) -> str:
        """Return the newest release on a card; empty if it is the tool's."""
        last = (each for least, each in self.older.items() if not _within(Kind.of(card), least))
        return next(last, self.release)

    def tunes(self, card: Accelerator, method: FineTuningMethod) -> bool:
        """Whether a method that the tool offers works on a card."""
        return method not in self.without and _within(Kind.of(card), self.methods.get(method))

    def knows(self, card: Accelerator, family: str) -> bool:
        """Whether the tool serves a model family on a card."""
        named = self.families.get(family, () if self.families else None)
        return all(_meets(Kind.of(card), item) for item in (named, self.needs.get(family)))

    def serves(self, card: Accelerator, weight_format: str) -> bool:
        """Whether the tool serves a weight format on a card."""
        name = GGUF if WEIGHT_FORMATS[weight_format].mixture else weight_format
        return name in self.weights and _meets(Kind.of(card), self.weights[name])


def _meets(kind: Kind, needed: str | tuple[str, ...] | None) -> bool:
    """Whether a card is one of the chips, or has the compute capability."""
    return _is_one_of(kind, needed) if isinstance(needed, tuple) else _within(kind, needed)


def _is_one_of(kind: Kind, chips: tuple[str, ...]) -> bool:
    return bool({kind.capability, kind.architecture, kind.key} & {*chips})


@cache
def numbers(version: str) -> tuple[int, ...]:
    """Return the parts of a version or of a compute capability, to compare it."""
    return tuple(int(part) for part in version.split(".") if part)


def _within(kind: Kind, lowest: str | None, last: str | None = None) -> bool:
    own = kind.capability
    if own is None or not own[0].isdigit():
        return True
    number = numbers(own)
    return (lowest is None or number >= numbers(lowest)) and (
        last is None or number <= numbers(last)
    )


class ContextSplit(Noun):
    """Where a tool splits sequences over cards, if not in all its work.

    Elsewhere it offers no context parallelism.
    """

    methods: tuple[FineTuningMethod, ...]
    sharding: tuple[Sharding, ...]


class WithoutMaster(Noun):
    """How a tool trains all weights without a second copy in fp32, unless asked otherwise."""

    recipes: tuple[str, ...]
    sharding: tuple[Sharding, ...]
    offloads: tuple[Offload, ...]

    def takes(self, layout: ParallelLayout) -> bool:
        """Whether the weights stay alone in a layout."""
        return layout.sharding in self.sharding and {*layout.offload} <= {*self.offloads}


class TrainingOffer(Noun):
    """What a training tool offers."""

    methods: tuple[FineTuningMethod, ...] = ()
    preference: tuple[Preference, ...] = ()
    prefers_with: tuple[FineTuningMethod, ...] = tuple(FineTuningMethod)
    divides: tuple[Degree, ...] = ()
    context: ContextSplit | None = None
    recompute: tuple[Recompute, ...] = (Recompute.NONE,)
    sharding: tuple[Sharding, ...] = (Sharding.DDP,)
    sharding_4bit: tuple[Sharding, ...] = (Sharding.DDP,)
    without_master: WithoutMaster | None = None
    lora_experts: str = ""
    recompute_experts: tuple[Recompute, ...] = ()
    qlora_experts: str = ""
    qlora_adapts: str = ""
    embedding_on_host: tuple[FineTuningMethod, ...] = ()
    sharded_by: str = ""
    hybrid_sharding: bool = False
    offloads: tuple[Offload, ...] = ()
    hosts_lone_base: bool = True
    cards: PositiveInt | None = None
    computes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    optimizers: tuple[Optimizer, ...] = (Optimizer.ADAMW,)
    unshared: tuple[Optimizer, ...] = ()
    unshared_with: tuple[FineTuningMethod, ...] = ()
    optimizer_in_backward: bool = False
    encodes_ahead: bool = False
    packing: bool = False
    attention: tuple[AttentionKernel, ...] = (AttentionKernel.FLASH, AttentionKernel.EAGER)
    losses: tuple[CrossEntropy, ...] = (CrossEntropy.PLAIN,)
    only_writers: bool = False

    def prefers(self, wish: Preference | None, method: FineTuningMethod | None) -> bool:
        """Whether it learns as wished from pairs of answers; without a wish, it has none."""
        return wish is None or (wish in self.preference and method in self.prefers_with)

    def lacks(self, optimizer: Optimizer, *, in_backward: bool) -> str:
        """Return what it does not offer of an update; empty if it does it."""
        if optimizer not in self.optimizers:
            return f"has no {optimizer.label}"
        wrong = in_backward and not self.optimizer_in_backward
        return "updates no weights in the backward pass" if wrong else ""

    def not_shared(self) -> TrainingOffer:
        """Return the offer without ZeRO-3."""
        levels, four_bit = (
            tuple(level for level in one if level is not Sharding.ZERO3)
            for one in (self.sharding, self.sharding_4bit)
        )
        return self.changed(sharding=levels, sharding_4bit=four_bit)

    def shardings(self, *, four_bit: bool) -> tuple[Sharding, ...]:
        """Return the sharding levels with base weights of 4 bits, or of more."""
        return self.sharding_4bit if four_bit else self.sharding

    @property
    def shardings_of_context(self) -> tuple[Sharding, ...]:
        """Sharding levels with context parallelism."""
        return self.context.sharding if self.context else tuple(Sharding)

    def hosts_parameters(self, *, four_bit: bool) -> bool:
        """Whether parameters can stay in the host's memory: only what shards them moves them."""
        return Offload.PARAMETERS in self.offloads and Sharding.ZERO3 in self.shardings(
            four_bit=four_bit
        )

    def lacking(self, layout: ParallelLayout, *, four_bit: bool) -> tuple[str, ...]:
        """Return what a layout (with a base in 4 bits) asks beyond this offer, in words.

        Empty if it asks nothing.
        """
        beyond = [
            f"{name} parallelism"
            for name in DEGREES
            if getattr(layout, name) > 1 and name not in self.divides
        ]
        if layout.recompute not in self.recompute:
            kept = layout.recompute is Recompute.NONE
            beyond.append(f"{'training without' if kept else layout.recompute.value} recomputation")
        apart = layout.states("sharding") and layout.sharding not in self.shardings_of_context
        if layout.context > 1 and apart:
            levels = " or ".join(SHARDING_WORDS[level] for level in self.shardings_of_context)
            beyond.append(f"context parallelism without {levels}")
        if layout.sharding not in self.shardings(four_bit=four_bit):
            bits = " with 4-bit weights" if four_bit else ""
            beyond.append(f"{SHARDING_WORDS[layout.sharding]}{bits}")
        held = [what.value for what in layout.offload if what not in self.offloads]
        stays = not self.hosts_parameters(four_bit=four_bit)
        stays |= four_bit and layout.data == 1  # FSDP moves 4 bits, of several ranks
        stays |= layout.accelerators == 1 and not self.hosts_lone_base
        if held:
            beyond.append(f"{' and '.join(held)} in the host's memory")
        elif Offload.PARAMETERS in layout.offload and stays:
            beyond.append("offloading of these parameters")
        if self.cards and layout.accelerators > self.cards:
            beyond.append(f"run on more than {self.cards} card")
        return tuple(beyond)


class ServingOffer(Noun):
    """What a serving tool offers. Weight formats are in ``Support``."""

    divides: tuple[Degree, ...] = ()
    unlike_cards: bool = False
    adapters: bool = False
    pools: tuple[str, ...] = ()
    drafts: dict[Speculation, tuple[str, ...]] = Field(default_factory=dict)
    beams: bool = False
    at_once: dict[str, PositiveInt] = Field(default_factory=dict)
    stored: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    file_formats: tuple[str, ...] = ()
    api: str = ""
