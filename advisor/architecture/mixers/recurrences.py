"""Recurrences and their rows: state-space layers, linear attention, short convolutions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from pydantic import Field

from advisor.architecture.mixers.attention import Count
from advisor.architecture.table.operators import Operator, OperatorKind, SavedTensor
from advisor.architecture.table.rows import (
    COMPUTE,
    REPLICATED,
    TENSOR,
    Norm,
    Rows,
    kept,
    linear_input,
)
from advisor.foundation.noun import Noun

UNFUSED_SCAN_PASSES: Final = 6.0
"""Eager scans write decay, input and state of every token, and read each of them back."""

DELTA_CHUNK: Final = 64
"""Tokens of one chunk in the published kernels (Yang et al. 2024, arXiv:2406.06484, section 3)."""


class Mixer(Noun, ABC):
    """Layers that mix tokens in another way than plain or latent attention."""

    layers: Annotated[int, Field(ge=0)]
    """Zero where a file names no layer of the kind; the reader then leaves the mixer out."""
    shared_cache: ClassVar[bool] = False
    """Whether all heads read the same cached keys."""

    @abstractmethod
    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of these layers."""


class SelectiveScan(Mixer):
    """Selective state-space layers (Mamba)."""

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

    def rows(self, at: Rows) -> Iterator[Operator]:
        r"""Yield the rows of these layers.

        Notes
        -----
        .. math:: h_t = e^{\Delta A} h_{t-1} + \Delta B x_t, \quad y_t = C h_t + D x_t

        One state element costs 7 FLOPs per token: one product in the decay, two in the input, a
        multiply-add in the recurrence and one in the output. Exponentials are left out.

        References
        ----------
        .. [1] Gu, Dao, Mamba, 2023, arXiv:2312.00752, equations 2 and 4, algorithm 2.
        """
        channels, state, bias = self.channels, self.state_size, self.bias
        selected = self.rank + 2 * state
        yield at.lone_linear("input", at.hidden_size, 2 * channels, bias=bias)
        yield causal_convolution(at, channels, self.kernel, bias=self.kernel_bias)
        yield at.lone_linear("selection", channels, selected, divided=True)
        if self.inner_norms:
            yield at.norm("selection_norm", selected, norm=Norm(), stream=COMPUTE)
        yield at.lone_linear("step", self.rank, channels, bias=True)
        yield scan(
            at,
            heads=1,
            # State matrix and the skip connection.
            parameters=channels * (state + 1),
            flops=channels * (7.0 * state + 2.0),
            # Input, step size, gate and output; the two maps of the token.
            moved=4.0 * channels + 2.0 * state,
            kept_elements=3.0 * channels + 2.0 * state,
            state=channels * state,
        )
        yield at.lone_linear("output", channels, at.hidden_size, bias=bias, divided=True)


class StateSpaceDuality(Mixer):
    """State-space layers with one decay per head (Mamba-2)."""

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

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of these layers.

        Notes
        -----
        .. math:: F = 2 g Q N + n (2 Q P + 4 N P)

        FLOPs per token with :math:`g` groups, chunks of :math:`Q` tokens, states of size :math:`N`,
        and :math:`n` heads of size :math:`P`: scores and their product inside a chunk, then writing
        and reading the chunk's state. Blocks count as a whole: kernels compute all of them.

        References
        ----------
        .. [1] Dao, Gu, Transformers are SSMs, 2024, arXiv:2405.21060, section 6 and listing 1.
        """
        channels, state, heads = self.channels, self.state_size, self.heads
        maps = 2 * self.groups * state
        yield at.lone_linear("input", at.hidden_size, 2 * channels + maps + heads, bias=self.bias)
        yield causal_convolution(at, channels + maps, self.kernel, bias=self.kernel_bias)
        inside = 2.0 * self.chunk * (self.groups * state + channels)
        yield scan(
            at,
            heads=heads,
            # Decay, skip connection and step bias of each head.
            parameters=3 * heads,
            flops=inside + 4.0 * state * channels,
            moved=2.0 * channels + maps + heads,
            kept_elements=channels + maps + heads,
            state=channels * state,
            state_bytes=self.state_bytes_per_element,
        )
        if self.norm:
            yield at.norm("norm", channels, stream=COMPUTE, divided=True)
        yield at.lone_linear(
            "output", channels, at.hidden_size, bias=self.output_bias, divided=True
        )


class GatedDelta(Mixer):
    """Linear attention by the gated delta rule (Qwen3-Next, Kimi Linear)."""

    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    kernel: Count
    channelwise: bool = False
    """Whether each channel has its own decay, not each head."""
    decay_rank: Count | None = None
    """Rank of the projection to the decays; None means full rank."""
    gate_rank: Count | None = None
    """Rank of the output gate's projection; None means full rank."""
    state_bytes_per_element: float = 2.0

    @property
    def heads(self) -> int:
        """Heads of the recurrent state."""
        return self.value_heads

    def rows(self, at: Rows) -> Iterator[Operator]:
        r"""Yield the rows of these layers.

        Notes
        -----
        .. math:: F = n_v \left(C (6 d_k + 4 d_v) + 6 d_k d_v\right)

        FLOPs per token with chunks of :math:`C` tokens and :math:`n_v` value heads. Inside a chunk:
        key and query scores, the two triangular products and the weighted values. Then removing,
        reading and writing the state. Leaves out the triangular inverse.

        References
        ----------
        .. [1] Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, arXiv:2412.06464, section 3.3.
        """
        keys = self.key_heads * self.key_head_dim
        values = self.value_heads * self.value_head_dim
        decays = values if self.channelwise else self.value_heads
        matrices = {
            "query_key_value": (2 * keys + values, None),
            "gate": (values, self.gate_rank),
            "write_strength": (self.value_heads, None),
            "decay": (decays, self.decay_rank),
        }
        saved: tuple[SavedTensor, ...] = (linear_input(at.hidden_size, tuple(matrices)),)
        for name, (width, rank) in matrices.items():
            division = REPLICATED if rank else TENSOR
            yield at.linear(name, at.hidden_size, rank or width, division=division, saved=saved)
            saved = ()
            if rank:
                yield at.lone_linear(f"{name}_expand", rank, width)
        yield causal_convolution(at, 2 * keys + values, self.kernel, bias=False)
        inner = 6.0 * self.key_head_dim + 4.0 * self.value_head_dim
        state = self.key_head_dim * self.value_head_dim
        yield scan(
            at,
            heads=self.value_heads,
            # A decay for each head, and a bias for each head or channel.
            parameters=self.value_heads + decays,
            flops=self.value_heads * (DELTA_CHUNK * inner + 6.0 * state),
            moved=2.0 * keys + 2.0 * values + self.value_heads + decays,
            kept_elements=2.0 * keys + values + self.value_heads + decays,
            state=self.value_heads * state,
            state_bytes=self.state_bytes_per_element,
        )
        heads, dim = self.value_heads, self.value_head_dim
        yield at.norm("norm", dim, rows=heads, stream=COMPUTE, divided=True)
        yield at.lone_linear("output", values, at.hidden_size, divided=True)


class LightningAttention(Mixer):
    """Linear attention with a fixed decay for each head and a gated output (MiniMax-01)."""

    heads: Count
    head_dim: Count
    chunk: Count
    """Tokens that training and prompt processing treat as one block."""

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of these layers.

        Notes
        -----
        .. math:: F = n d (4 C + 4 d)

        FLOPs per token with :math:`n` heads of :math:`d` and chunks of :math:`C` tokens: scores and
        weighted values inside a chunk, then reading and writing the state.

        References
        ----------
        .. [1] MiniMax, MiniMax-01, 2025, arXiv:2501.08313, section 2.2.
        """
        width = self.heads * self.head_dim
        saved = (linear_input(at.hidden_size, ("query_key_value", "gate")),)
        yield at.linear("query_key_value", at.hidden_size, 3 * width, saved=saved)
        yield at.linear("gate", at.hidden_size, width)
        yield scan(
            at,
            heads=self.heads,
            flops=width * (4.0 * self.chunk + 4.0 * self.head_dim),
            moved=5.0 * width,
            kept_elements=4.0 * width,
            state=width * self.head_dim,
        )
        yield at.norm("norm", width, stream=COMPUTE, divided=True)
        yield at.lone_linear("output", width, at.hidden_size, divided=True)


class ShortConvolution(Mixer):
    """A gated causal convolution with a few taps, used instead of attention (LFM 2)."""

    kernel: Count
    bias: bool = False

    @property
    def heads(self) -> int:
        """Channels have no heads."""
        return 1

    def rows(self, at: Rows) -> Iterator[Operator]:
        """Yield the rows of these layers."""
        bias = self.bias
        yield at.lone_linear("input", at.hidden_size, 3 * at.hidden_size, bias=bias)
        yield causal_convolution(at, at.hidden_size, self.kernel, bias=bias)
        yield at.lone_linear("output", at.hidden_size, at.hidden_size, bias=bias, divided=True)


def causal_convolution(at: Rows, channels: int, kernel: int, *, bias: bool) -> Operator:
    """Return the row of a depthwise convolution along the sequence.

    Serving keeps the last ``kernel`` inputs of every channel.
    """
    return at.elementwise(
        "convolution",
        kind=OperatorKind.CONVOLUTION,
        division=TENSOR,
        parameters=channels * (kernel + bias),
        flops_per_token=2.0 * kernel * channels,
        fused=2.0 * channels,
        # The convolution, then its activation.
        unfused=4.0 * channels,
        launches=2,
        state_elements_per_sequence=channels * kernel,
        saved=(kept("input", channels, divided=True),),
    )


def scan(
    at: Rows,
    *,
    heads: int,
    flops: float,
    moved: float,
    kept_elements: float,
    state: int,
    parameters: int = 0,
    state_bytes: float = 2.0,
) -> Operator:
    """Return the row of a recurrence: its work per token, and the state of one sequence."""
    return at.elementwise(
        "scan",
        kind=OperatorKind.SCAN,
        division=TENSOR,
        parameters=parameters,
        flops_per_token=flops,
        fused=moved,
        unfused=UNFUSED_SCAN_PASSES * moved,
        launches=8,
        heads=heads,
        state_elements_per_sequence=state,
        state_bytes_per_element=state_bytes,
        saved=(kept("inputs", kept_elements, divided=True),),
    )
