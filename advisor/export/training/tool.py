"""The programs that train: what each can express, described in ``data/training_programs.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Final

from pydantic import Field

from advisor.architecture.table.model import Unit
from advisor.export.filling import Lines
from advisor.export.training.model_names import Said, Text
from advisor.export.versions import image_named
from advisor.foundation.noun import Noun, read_mapping
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.software.tools import Tool as Software
from advisor.nouns.software.tools import backends_of, known_tools, tool_choice
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    GradientSync,
    Optimizer,
    Preference,
)

if TYPE_CHECKING:
    from advisor.export.setup import Setup

WHOLE_BLOCKS: Final = {Recompute.NONE: Recompute.NONE} | dict.fromkeys(
    (Recompute.SELECTIVE, Recompute.FULL), Recompute.FULL
)
"""Recomputation of programs without a selective mode."""

Parts = tuple[dict[str, object], ...]
"""Parts of a file, each under its condition ``when``."""
Fact = Callable[["Setup"], object]
"""Value of a plan that a description names."""


class Clone(Noun):
    """A repository whose release is fetched."""

    repository: Text
    package: Text
    """Key of ``data/launch_versions.yaml``, which names the release."""
    tag: str = "v"
    """What is before the release in the name of its tag."""


class Refusal(Noun):
    """A plan that a program would not run, and what to do instead."""

    when: Text
    what: Said
    value: Text
    allowed: Text
    remedy: Said


class Description(Noun):
    """A training program, and how it writes the choices of a plan.

    Mappings go from the choice of a plan to the choice that the file makes instead. A plan with a
    choice that is missing is refused. The head of the file says what each field means.
    """

    title: Text
    package: Text
    methods: tuple[FineTuningMethod | None, ...]
    recipes: dict[str, str]
    recipes_of_adapters: dict[str, str] = Field(default_factory=dict)
    optimizers: dict[Optimizer, object]
    sharding: dict[Sharding, Sharding]
    stack: str = ""
    backends: tuple[str, ...] = ("cuda", "rocm")
    resumes: bool = False
    units: tuple[Unit, ...] = (Unit.TOKEN,)
    families: tuple[str, ...] = ()
    writes: bool = True
    recompute: dict[Recompute, Recompute] = WHOLE_BLOCKS
    divides: tuple[str, ...] = ()
    offload: tuple[Offload, ...] = ()
    preferences: tuple[Preference | None, ...] = (None,)
    loggers: tuple[str, ...] = ()
    tokenizes: bool = True
    reads_fp8: bool = False
    instead: str | None = None
    refusals: tuple[Refusal, ...] = ()
    choices: Mapping[str, Mapping[str, object]] = Field(default_factory=dict)
    program: tuple[Text, ...]
    starter: tuple[str, ...] = ("torchrun",)
    ranks: dict[str, int] = Field(default_factory=dict)
    image: str = ""
    clone: Clone | None = None
    pip: Lines = ()
    pip_options: tuple[str, ...] = ()
    then: Lines = ()
    variables: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    newest: Mapping[str, tuple[Text, Text]] = Field(default_factory=dict)
    environment: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    notes: Lines = ()
    options: Lines = ()
    config: str | None = None
    content: Parts = ()
    body: Lines = ()
    files: Mapping[str, tuple[str, object]] = Field(default_factory=dict)

    @property
    def vendors(self) -> tuple[str, ...]:
        """Vendors of its cards."""
        known = tool_choice().backends
        return tuple(dict.fromkeys(each for name in self.backends for each in known[name].vendors))

    def reaches(self, card: Accelerator) -> bool:
        """Whether it has files for a card."""
        return bool({*self.backends} & {*backends_of(card)})

    @property
    def beyond(self) -> tuple[str, ...]:
        """What ways out of too little memory give up that its files cannot."""
        lacks = {
            "method": FineTuningMethod.LORA not in self.methods,
            "cards": set(self.sharding.values()) == {Sharding.DDP} and not self.divides,
        }
        return tuple(name for name, lacking in lacks.items() if lacking)

    def divided(self, layout: ParallelLayout) -> tuple[str, ...]:
        """Return the degrees above 1 that the program does not take."""
        return tuple(
            name for name in DEGREES if getattr(layout, name) > 1 and name not in self.divides
        )


@cache
def descriptions() -> Mapping[str, Description]:
    """Return the programs that files start, by key."""
    return read_mapping("training_programs.yaml", dict[str, Description])


def fused(loss: CrossEntropy | None, *, waits: bool = False) -> Mapping[str, object]:
    """Return what a program decides that fuses attention: the loss, and if gradients wait."""
    return {
        "attention": AttentionKernel.FLASH,
        "cross_entropy": loss,
        "gradient_sync": GradientSync.LAST if waits else GradientSync.EACH,
    }


def _whole_steps(setup: Setup, batch: int) -> float:
    each = setup.run.tokens_per_sample
    return float(ceil(setup.run.tokens / (batch * each)) * batch * each)


@dataclass(frozen=True)
class Tool:
    """A training program: its description, and what needs code."""

    key: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Values and conditions that its description names beside those of all programs."""
    chosen_stack: Callable[[Setup], str] | None = None
    arranged: Callable[[Setup, ParallelLayout], ParallelLayout] = lambda _, layout: layout
    """The layout that the file means, after the mappings of the description."""
    amount: Callable[[Setup, int], float] = _whole_steps
    """Tokens or samples of the run that the file means, from the batch of a step."""
    means: Callable[[Setup], Mapping[str, object]] = lambda _: {}
    """Fields of the workload that the file decides."""
    beside: Callable[[Setup], float] = lambda _: 0.0
    """What the program keeps on each card beside the network. [bytes]"""

    @property
    def says(self) -> Description:
        """Its description."""
        return descriptions()[self.key]

    @property
    def row(self) -> Software | None:
        """Its row of the table of software; None without one."""
        return known_tools().get(self.key)

    def image(self, setup: Setup) -> str:
        """Return the container image with its libraries for a plan's card; empty without one."""
        if not self.says.image or setup.torch_install:
            return ""
        return image_named(f"{self.says.image}-{setup.accelerator.vendor.lower()}")

    def precision(self, setup: Setup) -> str:
        """Return the recipe that the file means; a card without TF32 takes fp32 as it is."""
        planned, card = setup.estimate.precision, setup.accelerator
        meant = self.says.recipes[planned]
        if setup.run.frozen:
            meant = self.says.recipes_of_adapters.get(planned, meant)
        rounds = card.vendor == "NVIDIA" and "tf32" in card.peak_flops_per_s
        return meant if rounds or meant != "tf32" else planned

    def stack(self, setup: Setup) -> str:
        """Return the software stack whose estimate holds for the file."""
        return self.chosen_stack(setup) if self.chosen_stack else self.says.stack
