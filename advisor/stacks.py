"""Training software: what a stack adds to its kernels."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.engines import Fraction, NonNegative
from advisor.noun import Noun


class SoftwareFacts(Noun):
    """What one training stack adds to the kernels."""

    launch_s: NonNegative
    """Host time to launch one kernel."""
    fused_elementwise: bool
    """Norms, activations and residuals run as one pass each."""
    slowdown: Annotated[float, Field(ge=1)]
    """Step time over the sum of its kernels and exposed traffic (host gaps, stragglers,
    clocks under load)."""
    sample_slowdown: Annotated[float, Field(ge=1)] = 1.0
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
