"""Training software: what a stack adds to its kernels."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.noun import Noun
from advisor.nouns.engines import Fraction, NonNegative, Positive, Seconds
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import SoftwareStack

_EVERYTHING: Final = ("tensor", "pipeline", "context", "expert")
_SEQUENCES: Final = ("context",)
DIVIDES: Final = {
    SoftwareStack.MEGATRON: _EVERYTHING,
    SoftwareStack.COMPILED: _EVERYTHING,
    SoftwareStack.HUGGINGFACE: _SEQUENCES,
    SoftwareStack.LIGER: _SEQUENCES,
    SoftwareStack.DEEPSPEED: _SEQUENCES,
    SoftwareStack.PLAIN: _SEQUENCES,
}
"""Degrees of a layout that a stack offers besides data parallelism, sharded or not, as it is used
by default: Megatron-Core's parallelism guide and torchtitan's README name all four. TRL runs its
trainers on Accelerate with one model for each accelerator, ZeRO or FSDP, and splits sequences
(huggingface.co/docs/trl, Distributing Training, read 2026-11-22); DeepSpeed's pipeline and expert
layers want a model written for them (deepspeed.ai, tutorials); torchtune's recipes shard with FSDP
and split sequences."""


def undivided(stack: SoftwareStack, layout: ParallelLayout) -> tuple[str, ...]:
    """Return the degrees of ``layout`` above 1 that ``stack`` does not offer.

    Examples
    --------
    >>> undivided(SoftwareStack.HUGGINGFACE, ParallelLayout(tensor=2, context=2))
    ('tensor',)
    """
    offered = DIVIDES[stack]
    return tuple(name for name in _EVERYTHING if name not in offered and getattr(layout, name) > 1)


def beyond_stack(stack: SoftwareStack, layout: ParallelLayout) -> tuple[str, ...]:
    """Sentences on what ``layout`` asks of ``stack`` that it does not offer."""
    missing = undivided(stack, layout)
    if not missing:
        return ()
    able = " or ".join(one.value for one in DIVIDES if not undivided(one, layout))
    degrees = ", ".join(f"{name}={getattr(layout, name)}" for name in missing)
    return (f"{stack.value} offers no {degrees} as it is used by default; software {able} does",)


class SoftwareFacts(Noun):
    """What one training stack adds to the kernels."""

    launch_s: Seconds
    """Host time to launch one kernel."""
    fused_elementwise: bool
    """Norms, activations and residuals run as one pass each."""
    slowdown: Annotated[Positive, Field(ge=1)]
    """Step time over the sum of its kernels and exposed traffic (host gaps, stragglers,
    clocks under load)."""
    sample_slowdown: Annotated[Positive, Field(ge=1)] = 1.0
    """The same for networks that take images, over all stacks."""
    slowdown_groups: Annotated[int, Field(ge=0)] = 0
    """Groups of published runs that the slowdown is the median of."""
    tensor_overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of tensor-parallel traffic that products hide, under sequence parallelism."""
    expert_overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of exchanges between experts that computation hides, where the schedule overlaps
    them."""
    portable_attention: bool = False
    """FlashAttention-2 on every card, instead of the kernels written for its generation."""
    grouped_compute: Fraction = 1.0
    """Rate of routed experts' products over that of one dense product of the same size
    (permutation, imbalance, quantisation of small groups)."""
    expert_launches: NonNegative = 1.0
    """Kernels launched for each local expert, matrix and pass in 8 bits and less: every expert's
    operands are converted on their own. In 16 bits one grouped kernel serves all experts."""
    source: str

    def slowdown_of(self, *, samples: bool) -> float:
        """Return the slowdown of networks that take images, or of all others."""
        return self.sample_slowdown if samples else self.slowdown
