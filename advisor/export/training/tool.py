"""What a training program can express: the base of all files that start one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from advisor.architecture.table.sample import Unit
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    GradientSync,
    Optimizer,
    Preference,
)

if TYPE_CHECKING:
    from advisor.export.script import Launch
    from advisor.export.setup import Setup

Method = FineTuningMethod | None
"""How a model is fine-tuned; None pretrains."""
SAME: Final = {policy: policy for policy in Recompute}
WHOLE_BLOCKS: Final = SAME | {Recompute.SELECTIVE: Recompute.FULL}
"""Recomputation of programs without a selective mode."""


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
    """A training program, and how it writes the choices of a plan.

    Mappings go from the choice of a plan to the choice that the file makes instead. A plan with a
    choice that is missing is refused.
    """

    title: str
    package: str
    """Key of ``data/launch_versions.yaml``, which names the release."""
    launch: Callable[[Setup], Launch]
    methods: Collection[Method]
    recipes: Mapping[str, str]
    optimizers: Collection[Optimizer]
    sharding: Mapping[Sharding, Sharding]
    stack: Callable[[Setup], str]
    """Software stack whose estimate holds for the file."""
    vendors: Collection[str] = ("NVIDIA", "AMD")
    units: Collection[Unit] = (Unit.TOKEN,)
    recompute: Mapping[Recompute, Recompute] = field(default_factory=lambda: WHOLE_BLOCKS)
    divides: Collection[str] = ()
    """Degrees of a layout above 1 that it takes, besides data parallelism."""
    offload: Collection[Offload] = ()
    preferences: Collection[Preference | None] = (None,)
    loggers: Collection[str] = ()
    """Trackers of experiments that ``--log-to`` can name."""
    instead: str | None = None
    """What to do about work that it does not do, if not to choose another format."""
    arranged: Callable[[Setup, ParallelLayout], ParallelLayout] = lambda _, layout: layout
    """The layout that the file means, after the mappings above."""
    amount: Callable[[Setup, int], float] = _whole_steps
    """Tokens or samples of the run that the file means, from the batch of a step."""
    means: Callable[[Setup], Mapping[str, object]] = lambda _: {}
    """Fields of the workload that the file decides."""
    check: Callable[[Setup], None] = lambda _: None
    """Raises ``InputError`` for a plan that the program would not run."""

    def divided(self, layout: ParallelLayout) -> tuple[str, ...]:
        """Return the degrees above 1 that the program does not take."""
        return tuple(
            name for name in DEGREES if getattr(layout, name) > 1 and name not in self.divides
        )
