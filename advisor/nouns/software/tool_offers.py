"""What a tool offers: the cards on which it runs, ways to train, and weights that it serves."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, NamedTuple

from pydantic import Field, PositiveInt

from advisor.foundation.noun import Noun
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

    @classmethod
    def of(cls, card: Accelerator) -> Kind:
        """Return the kind of a card."""
        capability = card.compute_capability
        key = "" if capability else card.key
        return cls(card.vendor, card.architecture, capability, key, card.segment is Segment.CPU)


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
    release: str = ""
    """Newest release of the tool there, if it is not the tool's."""
    older: dict[Capability, str] = Field(default_factory=dict)
    """Last release for cards below a compute capability."""
    driver: str = ""
    """Lowest driver."""
    cuda: str = ""
    cudnn: str = ""
    rocm: str = ""
    """Lowest versions."""
    rocm_of: dict[Chip, str] = Field(default_factory=dict)
    """Lowest version of ROCm for chips that need a later one."""
    python: str = ""
    """Versions, if they differ from the tool's."""
    without: tuple[FineTuningMethod, ...] = ()
    """Methods that the tool offers elsewhere, but not here."""
    methods: dict[FineTuningMethod, Capability] = Field(default_factory=dict)
    """Lowest compute capability of methods that need more than ``lowest``."""
    weights: dict[str, Capability | tuple[Chip, ...] | None] = Field(default_factory=dict)
    """Served weight formats: lowest compute capability, or chips, or None for every card.
    ``gguf`` stands for all formats of GGUF files."""
    stored: tuple[str, ...] = ()
    """Formats that a checkpoint must hold already, beside those of the tool."""
    unpacks: dict[str, str] = Field(default_factory=dict)
    """Published format -> the wider one in which its checkpoints are served."""
    families: dict[str, tuple[Chip, ...] | None] = Field(default_factory=dict)
    """Served model families: chips, or None for every card; empty: all that the tool serves."""
    needs: dict[str, Capability | tuple[Chip, ...]] = Field(default_factory=dict)
    """Served model families that need more than the tool: lowest compute capability, or chips."""
    divides: tuple[Degree, ...] | None = None
    """How it divides a served model, if not in every way of the tool."""
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
    """Of single answers, not of pairs."""
    sharding: tuple[Sharding, ...]
    """Levels over all cards of data and context parallelism."""


class WithoutMaster(Noun):
    """How a tool trains all weights without a second copy in fp32, unless asked otherwise."""

    recipes: tuple[str, ...]
    """The usual first."""
    sharding: tuple[Sharding, ...]
    offloads: tuple[Offload, ...]

    def takes(self, layout: ParallelLayout) -> bool:
        """Whether the weights stay alone in a layout."""
        return layout.sharding in self.sharding and {*layout.offload} <= {*self.offloads}


class TrainingOffer(Noun):
    """What a training tool offers."""

    methods: tuple[FineTuningMethod, ...] = ()
    """Ways to fine-tune."""
    preference: tuple[Preference, ...] = ()
    prefers_with: tuple[FineTuningMethod, ...] = tuple(FineTuningMethod)
    """Methods that learn from pairs of answers."""
    divides: tuple[Degree, ...] = ()
    """Degrees of a layout besides data parallelism."""
    context: ContextSplit | None = None
    """None: with all that the tool does."""
    recompute: tuple[Recompute, ...] = (Recompute.NONE,)
    """Least first, as in all these."""
    sharding: tuple[Sharding, ...] = (Sharding.DDP,)
    sharding_4bit: tuple[Sharding, ...] = (Sharding.DDP,)
    """The same with 4-bit weights: a tool that first loads the whole model on every card is not
    sharded."""
    without_master: WithoutMaster | None = None
    """None: it trains them beside a copy in fp32 if they are narrower."""
    lora_experts: str = ""
    """Mixtures whose routed experts get adapters (a key of ``experts`` in
    ``data/tool_choice.yaml``); empty: all."""
    recompute_experts: tuple[Recompute, ...] = ()
    """Recomputation while these adapters train; empty: the usual."""
    qlora_experts: str = ""
    """The same under QLoRA, where the experts also have 4 bits."""
    qlora_adapts: str = ""
    """The same, where some have 4 bits and get no adapters."""
    embedding_on_host: tuple[FineTuningMethod, ...] = ()
    """Methods whose input table stays in the host's memory, unless the head shares it."""
    sharded_by: str = ""
    """What shards: FSDP, DeepSpeed ZeRO …"""
    hybrid_sharding: bool = False
    """Whether it can shard within a node and replicate over nodes (HSDP)."""
    offloads: tuple[Offload, ...] = ()
    """What can stay in the host's memory."""
    hosts_lone_base: bool = True
    """Whether one card can keep a frozen base there; where not, DeepSpeed can."""
    cards: PositiveInt | None = None
    """Most cards of one run; None has no limit."""
    computes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    """Formats of matrix products, on cards that have them."""
    optimizers: tuple[Optimizer, ...] = (Optimizer.ADAMW,)
    unshared: tuple[Optimizer, ...] = ()
    """Those that FSDP cannot share out: a model that needs it trains beside a master copy under
    DeepSpeed."""
    unshared_with: tuple[FineTuningMethod, ...] = ()
    """Methods of adapters that take no ZeRO-3 with these optimizers."""
    optimizer_in_backward: bool = False
    encodes_ahead: bool = False
    """Whether text encoders leave the card before a diffusion network trains."""
    packing: bool = False
    attention: tuple[AttentionKernel, ...] = (AttentionKernel.FLASH, AttentionKernel.EAGER)
    losses: tuple[CrossEntropy, ...] = (CrossEntropy.PLAIN,)
    """The first is the tool's own choice."""
    only_writers: bool = False
    """Whether of networks for text it trains only those that write text: no BERT."""

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
    """Whether it divides a model over cards of different kinds."""
    adapters: bool = False
    """Whether requests of several LoRA adapters share a server."""
    pools: tuple[str, ...] = ()
    """Vendors on whose cards one server reads prompts for another, which writes the answers."""
    drafts: dict[Speculation, tuple[str, ...]] = Field(default_factory=dict)
    """Way to draft without a checkpoint of one's own -> backends on which it does."""
    beams: bool = False
    """Whether its decoder tries several texts beside each other."""
    at_once: dict[str, PositiveInt] = Field(default_factory=dict)
    """Duty -> most requests that one copy of a model computes together, where that is limited."""
    stored: tuple[str, ...] = ()
    """Weight formats that a checkpoint must hold already; the tool makes others while it loads."""
    loads: tuple[str, ...] = ()
    """Those whose published weights (``data/published_weights.yaml``) it reads."""
    file_formats: tuple[str, ...] = ()
    """Weight files in the words of their publishers: AWQ, GPTQ, GGUF, EXL3, MLX …"""
    api: str = ""
    """Interface that it serves."""
