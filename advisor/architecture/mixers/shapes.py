"""The shape of a transformer in plain numbers: the input for building operator rows.

Attention and feed-forward layers are listed separately, each with the number of layers that hold
it. So a model with dense layers first, or with windows on every other layer, needs no list of
layers. Every quantity of a model is a sum over layers, so their order does not matter.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from advisor.foundation.noun import Noun

Count = Annotated[int, Field(ge=1)]
Layers = Annotated[int, Field(ge=0)]
"""Zero where a file names no layer of the kind; the reader then leaves the shape out."""


class NormKind(StrEnum):
    """How hidden states are normalised."""

    RMS = "rms"
    LAYER = "layer"


class Norm(Noun):
    """A normalisation, with a learned scale by default (OLMo 1 has none)."""

    kind: NormKind = NormKind.RMS
    scale: bool = True
    bias: bool = False
    fp32_scale: bool = False
    """Whether the scale is applied in fp32, before the cast back (Gemma, gpt-oss)."""

    def parameters(self, width: int) -> int:
        """Return the elements of scale and bias for vectors of this width."""
        return width * (self.scale + self.bias)


class LatentAttention(Noun):
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1)."""

    query_rank: Count | None
    """Width of the compressed query; None if queries are projected directly."""
    key_value_rank: Count
    rope_head_dim: Annotated[int, Field(ge=0)]
    nope_head_dim: Count


class Indexer(Noun):
    """Lightning indexer of DeepSeek sparse attention: it picks the keys to attend to."""

    layers: Annotated[int, Field(ge=0)]
    """Number of layers with their own indexer; the others reuse a neighbour's choice."""
    heads: Count
    head_dim: Count
    top_k: Count
    weighted: bool = True
    """Whether a projection of the token weights the heads' scores. Otherwise each head chooses for
    itself, with normalised queries (MiniMax-M3)."""
    pool: Count | None = None
    """Number of keys scored together, weighted by a gate (GLM-5.3 Flash)."""
    scalars: Annotated[int, Field(ge=0)] = 0
    """Additional parameters: norms, scales of heads, places in a pool."""


class WindowLayers(Noun):
    """Number of layers that attend to at most ``window`` keys; None means all keys."""

    layers: Count
    window: Count | None = None


class AttentionShape(Noun):
    """Attention layers that differ only in their window."""

    windows: tuple[WindowLayers, ...]
    heads: Count
    key_value_heads: Count
    head_dim: Count
    """Dimension of queries and keys."""
    value_head_dim: Count
    input_bias: bool = False
    """Whether the query, key and value projections have biases."""
    output_bias: bool = False
    fused_projection: bool = False
    """Whether queries, keys and values come from one matrix."""
    query_key_norm: Literal["none", "head", "width"] = "none"
    """Norm for each head, or for the whole projection (one scale per element)."""
    query_key_norm_per_head_scale: bool = False
    """Whether each head has its own scale (Command-R+)."""
    query_key_norm_bias: bool = True
    """Whether these norms have a bias if the model's norms have one."""
    rotary: bool = True
    sinks: bool = False
    """Whether each head has one learned logit (gpt-oss)."""
    gates: Annotated[int, Field(ge=0)] = 0
    """Learned scalars for the block's output (Llama 3.2 Vision) or scores (Mistral Large 4)."""
    softcap: bool = False
    """Whether scores pass through tanh (Gemma 2)."""
    fp32_softmax: bool = True
    """Whether unfused code computes the softmax in fp32 for every stream format (GPT-2: False)."""
    dropout: bool = False
    """Whether training drops some probabilities; flash kernels recompute the mask."""
    output_gate: Literal["none", "element", "head"] = "none"
    """Learned gate on the output: one value per element, or one per head."""
    value_projection: bool = True
    """False if the projected keys are also the values (Gemma 4)."""
    own_key_value: bool = True
    """False if keys, values (or latents) and cache belong to an earlier layer (Gemma 4)."""
    latent: LatentAttention | None = None
    indexer: Indexer | None = None

    @property
    def layers(self) -> int:
        """Number of layers with this attention."""
        return sum(item.layers for item in self.windows)


class FeedForwardShape(Noun):
    """Equal dense feed-forward layers."""

    layers: Count
    width: Count
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused_gate: bool = False
    """Whether gate and up projections are one matrix."""


class ExpertsShape(Noun):
    """Equal routed expert layers."""

    layers: Count
    experts: Annotated[int, Field(ge=2)]
    active: Count
    width: Count
    """Width of one expert."""
    gated: bool = True
    latent_size: Count | None = None
    """Width to which tokens are projected before the experts, and from which back (Nemotron 3)."""
    activation: str = "silu"
    bias: bool = False
    """Whether the experts have biases (gpt-oss)."""
    groups: Count = 1
    active_groups: Count = 1
    """Groups of experts that a token may visit (DeepSeek V2 and V3)."""
    router_bias: bool = False
    router_scales: Annotated[int, Field(ge=0)] = 0
    """Learned scales for the router's input and its choices (Gemma 4)."""
    shared_width: Annotated[int, Field(ge=0)] = 0
    """Total width of the experts that every token visits."""
    shared_bias: bool = False
    """Whether shared expert and projections to the latent width have biases (Nemotron-H)."""
    shared_gate: bool = False
    """Whether the shared expert's output passes a learned gate (Qwen2-MoE)."""
    clamped: bool = False
    """Whether the activation clamps its inputs (gpt-oss)."""


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


class LayerInputs(Noun):
    """Per-layer embeddings: each block gets its own besides the stream (Gemma 3n and 4)."""

    vocab_size: Count
    width: Count


class AlternatingUpdates(Noun):
    """Residual streams: each block computes one of them and predicts the others (Gemma 3n)."""

    streams: Annotated[int, Field(ge=2)]
    low_rank: Count
    """Width of the learned shortcut around the attention."""


class NormPlaces(Noun):
    """Places of the norms in a block."""

    attention_input: bool = True
    feed_forward_input: bool = True
    attention_output: bool = False
    feed_forward_output: bool = False


class Tower(Noun):
    """A part of a multimodal class besides the text tower; only its size is known."""

    name: str
    parameters: Count


class TransformerShape(Noun):
    """A decoder-only transformer: all facts that determine its operator table."""

    hidden_size: Count
    vocab_size: Count
    attention: tuple[AttentionShape, ...]
    feed_forward: tuple[FeedForwardShape | ExpertsShape, ...]
    other_mixers: tuple[Mixer, ...] = ()
    """Layers that mix tokens, other than by plain or latent attention."""
    parallel_mixers: bool = False
    """Whether the other mixers run beside the attention of the same layers (Falcon-H1)."""
    single_branch: bool = False
    """Whether each layer is either a mixer or a feed-forward layer (Mamba, Nemotron-H)."""
    extra_norms: Annotated[int, Field(ge=0)] = 0
    """Number of additional norms of the hidden width in each block (Gemma 4's experts)."""
    layer_inputs: LayerInputs | None = None
    alternating: AlternatingUpdates | None = None
    residual_streams: Annotated[int, Field(ge=1)] = 1
    """Number of copies of the residual stream, mixed around each branch (hyper-connections)."""
    streams_averaged: bool = False
    """Whether the head reads their mean; otherwise a learned mixture (DeepSeek V4)."""
    norm: Norm = Norm()
    places: NormPlaces = NormPlaces()
    final_norm: bool = True
    parallel: bool = False
    """Whether attention and feed-forward read the same normalised input (one norm per block)."""
    tied: bool = False
    head_bias: bool = False
    dropout: bool = False
    """Whether training drops elements of each branch before it joins the residual stream."""
    positions: Annotated[int, Field(ge=0)] = 0
    """Rows of a learned position table."""
    extra_embeddings: Annotated[int, Field(ge=0)] = 0
    """Rows of the token table that the head does not predict (Llama 3.2 Vision)."""
    embedding_width: Count | None = None
    """Width of the token embedding if projections connect it to the blocks (OPT-350m)."""
    embedding_norm: bool = False
    towers: tuple[Tower, ...] = ()
    """Parts that are stored with the model, but that text tokens do not pass."""

    @property
    def layers(self) -> int:
        """Number of blocks."""
        if self.single_branch:
            return self.mixers + sum(item.layers for item in self.feed_forward)
        return self.mixers

    @property
    def mixers(self) -> int:
        """Number of layers that mix tokens, by attention or by a recurrence."""
        beside = () if self.parallel_mixers else self.other_mixers
        return sum(item.layers for item in (*self.attention, *beside))
