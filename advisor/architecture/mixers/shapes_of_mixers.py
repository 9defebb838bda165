"""Layers that mix tokens by a recurrence or by compressed attention, in plain numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun

Count = Annotated[int, Field(ge=1)]


class SelectiveScan(Noun):
    """Selective state-space layers (Mamba)."""

    layers: Count
    channels: Count
    """Inner width."""
    state_size: Count
    rank: Count
    """Of the projection that makes the step sizes."""
    kernel: Count
    """Taps of the causal convolution."""
    bias: bool = False
    kernel_bias: bool = True
    inner_norms: bool = False
    """Step sizes and the two maps pass norms (Jamba)."""


class StateSpaceDuality(Noun):
    """State-space layers with one decay per head (Mamba-2)."""

    layers: Count
    heads: Count
    head_dim: Count
    state_size: Count
    groups: Count
    """Sets of input and output maps, each shared by the heads of a group."""
    kernel: Count
    chunk: Count
    """Tokens that training and prompt processing treat as one block."""
    bias: bool = False
    output_bias: bool = False
    kernel_bias: bool = True
    norm: bool = True
    """The output passes a gated norm."""
    state_bytes_per_element: float = 2.0

    @property
    def channels(self) -> int:
        """Inner width."""
        return self.heads * self.head_dim


class GatedDelta(Noun):
    """Linear attention by the gated delta rule (Qwen3-Next, Kimi Linear)."""

    layers: Count
    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    kernel: Count
    decay_rank: Count | None = None
    """Rank of the projection to one decay per channel; None: one decay per head."""
    gate_rank: Count | None = None
    """Rank of the output gate's projection; None where it is full."""
    state_bytes_per_element: float = 2.0

    @property
    def heads(self) -> int:
        """Heads of the recurrent state."""
        return self.value_heads


class LightningAttention(Noun):
    """Linear attention with a fixed decay for each head and a gated output (MiniMax-01)."""

    layers: Count
    heads: Count
    head_dim: Count
    chunk: Count
    """Tokens that training and prompt processing treat as one block."""


class ShortConvolution(Noun):
    """A gated causal convolution of a few taps in place of attention (LFM 2)."""

    layers: Count
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
    """Attention to a window and to entries that stand for several tokens (DeepSeek V4)."""

    layers: Count
    heads: Count
    head_dim: Count
    """Of queries and of the single key that is also the value."""
    query_rank: Count
    window: Count
    ratio: Count | None = None
    """Tokens of one compressed entry; None where layers see the window alone."""
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
"""Every kind of layer that mixes tokens but plain and latent attention."""
