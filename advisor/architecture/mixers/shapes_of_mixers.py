"""Shapes of layers that mix tokens by a recurrence or by compressed attention."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun

Count = Annotated[int, Field(ge=1)]
Layers = Annotated[int, Field(ge=0)]
"""Zero where a file names no layer of the kind; the reader then leaves the shape out."""


class SelectiveScan(Noun):
    """Selective state-space layers (Mamba)."""

    layers: Layers
    channels: Count
    """Inner width."""
    state_size: Count
    rank: Count
    """Rank of the projection that computes the step sizes."""
    kernel: Count
    """Taps of the causal convolution."""
    bias: bool = False
    kernel_bias: bool = True
    inner_norms: bool = False
    """Whether step sizes and the two maps pass norms (Jamba)."""


class StateSpaceDuality(Noun):
    """State-space layers with one decay per head (Mamba-2)."""

    layers: Layers
    heads: Count
    head_dim: Count
    state_size: Count
    groups: Count
    """Number of sets of input and output maps. The heads of a group share one set."""
    kernel: Count
    chunk: Count
    """Tokens that training and prompt processing treat as one block."""
    bias: bool = False
    output_bias: bool = False
    kernel_bias: bool = True
    norm: bool = True
    """Whether the output passes a gated norm."""
    state_bytes_per_element: float = 2.0

    @property
    def channels(self) -> int:
        """Inner width."""
        return self.heads * self.head_dim


class GatedDelta(Noun):
    """Linear attention by the gated delta rule (Qwen3-Next, Kimi Linear)."""

    layers: Layers
    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    kernel: Count
    decay_rank: Count | None = None
    """Rank of the projection to one decay per channel; None means one decay per head."""
    gate_rank: Count | None = None
    """Rank of the output gate's projection; None means full rank."""
    state_bytes_per_element: float = 2.0

    @property
    def heads(self) -> int:
        """Heads of the recurrent state."""
        return self.value_heads


class LightningAttention(Noun):
    """Linear attention with a fixed decay for each head and a gated output (MiniMax-01)."""

    layers: Layers
    heads: Count
    head_dim: Count
    chunk: Count
    """Tokens that training and prompt processing treat as one block."""


class ShortConvolution(Noun):
    """A gated causal convolution with a few taps, used instead of attention (LFM 2)."""

    layers: Layers
    kernel: Count
    bias: bool = False

    @property
    def heads(self) -> int:
        """Channels have no heads."""
        return 1


class CompressedIndexer(Noun):
    """Picks the compressed entries that a token attends to."""

    heads: Count
    head_dim: Count
    top_k: Count


class CompressedAttention(Noun):
    """Attention to a window and to compressed entries of several tokens each (DeepSeek V4)."""

    layers: Layers
    heads: Count
    head_dim: Count
    """Dimension of queries and of the single key, which is also the value."""
    query_rank: Count
    window: Count
    ratio: Count | None = None
    """Tokens per compressed entry; None if the layers attend only to the window."""
    indexer: CompressedIndexer | None = None
    output_groups: Count
    output_rank: Count


Mixer = (
    SelectiveScan
    | StateSpaceDuality
    | GatedDelta
    | LightningAttention
    | ShortConvolution
    | CompressedAttention
)
"""Every kind of layer that mixes tokens, except plain and latent attention."""
