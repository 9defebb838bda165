"""What a transformer is made of, in plain numbers: the input of the builder of operator rows.

Attention layers and feed-forward layers are listed apart, each with how many layers hold it, so
that a model with dense layers first, or with windows on every other layer, needs no list of
layers. Every quantity of a model is a sum over layers, hence their order does not matter.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from advisor.architecture.mixers.shapes_of_mixers import Mixer
from advisor.foundation.noun import Noun

Count = Annotated[int, Field(ge=1)]


class NormKind(StrEnum):
    """How hidden states are normalised."""

    RMS = "rms"
    LAYER = "layer"


class Norm(Noun):
    """A normalisation, with a learned scale unless it says otherwise (OLMo 1)."""

    kind: NormKind = NormKind.RMS
    scale: bool = True
    bias: bool = False
    fp32_scale: bool = False
    """The scale is applied in fp32, before the cast back (Gemma, gpt-oss)."""

    def parameters(self, width: int) -> int:
        """Elements of scale and bias for vectors of this width."""
        return width * (self.scale + self.bias)


class LatentAttention(Noun):
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1)."""

    query_rank: Count | None
    """Width of the compressed query; None where queries are projected directly."""
    key_value_rank: Count
    rope_head_dim: Annotated[int, Field(ge=0)]
    nope_head_dim: Count


class Indexer(Noun):
    """Lightning indexer of DeepSeek sparse attention: picks the keys that are attended to."""

    layers: Annotated[int, Field(ge=0)]
    """Layers with an indexer of their own; the others reuse a neighbour's choice."""
    heads: Count
    head_dim: Count
    top_k: Count
    weighted: bool = True
    """Scores of the heads are weighed by a projection of the token; else each head chooses for
    itself, on normalised queries (MiniMax-M3)."""
    pool: Count | None = None
    """Keys that are scored as one, weighed by a gate (GLM-5.3 Flash)."""
    scalars: Annotated[int, Field(ge=0)] = 0
    """Further parameters: of norms, scales of heads, places in a pool."""


class WindowLayers(Noun):
    """How many layers attend to at most ``window`` keys; None: to all."""

    layers: Count
    window: Count | None = None


class AttentionShape(Noun):
    """Attention layers that are alike but for their window."""

    windows: tuple[WindowLayers, ...]
    heads: Count
    key_value_heads: Count
    head_dim: Count
    """Of queries and keys."""
    value_head_dim: Count
    input_bias: bool = False
    """Biases of the query, key and value projections."""
    output_bias: bool = False
    fused_projection: bool = False
    """Queries, keys and values come from one matrix."""
    query_key_norm: Literal["none", "head", "width"] = "none"
    """Norm of each head, or of the whole projection (one scale for each element)."""
    query_key_norm_per_head_scale: bool = False
    """Each head has a scale of its own (Command-R+)."""
    query_key_norm_bias: bool = True
    """These norms have a bias where the model's norms have one."""
    rotary: bool = True
    sinks: bool = False
    """One learned logit per head (gpt-oss)."""
    gates: Annotated[int, Field(ge=0)] = 0
    """Learned scalars of what the block adds (Llama 3.2 Vision) or of scores (Mistral Large 4)."""
    softcap: bool = False
    """Scores pass through tanh (Gemma 2)."""
    fp32_softmax: bool = True
    """Unfused code computes the softmax in fp32 whatever the stream (False: GPT-2)."""
    dropout: bool = False
    """Training drops some of the probabilities; flash kernels make the mask again."""
    output_gate: Literal["none", "element", "head"] = "none"
    """The output passes a learned gate of its own width, or one per head."""
    value_projection: bool = True
    """False where values are the projected keys (Gemma 4)."""
    own_key_value: bool = True
    """False where keys, values or their latents, and the cache are an earlier layer's (Gemma 4)."""
    latent: LatentAttention | None = None
    indexer: Indexer | None = None

    @property
    def layers(self) -> int:
        """Layers that hold it."""
        return sum(item.layers for item in self.windows)


class FeedForwardShape(Noun):
    """Dense feed-forward layers that are alike."""

    layers: Count
    width: Count
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused_gate: bool = False
    """Gate and up come from one matrix."""


class ExpertsShape(Noun):
    """Routed expert layers that are alike."""

    layers: Count
    experts: Annotated[int, Field(ge=2)]
    active: Count
    width: Count
    """Of one expert."""
    gated: bool = True
    latent_size: Count | None = None
    """Width that tokens are projected to before the experts, and back from (Nemotron 3)."""
    activation: str = "silu"
    bias: bool = False
    """Biases in the experts (gpt-oss)."""
    groups: Count = 1
    active_groups: Count = 1
    """Groups of experts, and how many of them a token may visit (DeepSeek V2 and V3)."""
    router_bias: bool = False
    router_scales: Annotated[int, Field(ge=0)] = 0
    """Learned scales of the router's input and of its choices (Gemma 4)."""
    shared_width: Annotated[int, Field(ge=0)] = 0
    """Width of the experts that every token visits, together."""
    shared_bias: bool = False
    """Biases in the shared expert and in the projections to the latent width (Nemotron-H)."""
    shared_gate: bool = False
    """The shared expert's output passes a learned gate (Qwen2-MoE)."""
    clamped: bool = False
    """The activation clamps its inputs (gpt-oss)."""


class LayerInputs(Noun):
    """Embeddings that every block receives besides the residual stream (Gemma 3n and 4)."""

    vocab_size: Count
    width: Count


class AlternatingUpdates(Noun):
    """Residual streams of which each block computes one and predicts the others (Gemma 3n)."""

    streams: Annotated[int, Field(ge=2)]
    low_rank: Count
    """Width of the learned shortcut around the attention."""


class NormPlaces(Noun):
    """Where a block normalises."""

    attention_input: bool = True
    feed_forward_input: bool = True
    attention_output: bool = False
    feed_forward_output: bool = False


class Tower(Noun):
    """What a multimodal class holds beside its text tower, of which only the size is known."""

    name: str
    parameters: Count


class TransformerShape(Noun):
    """A decoder-only transformer with everything that decides its operator table."""

    hidden_size: Count
    vocab_size: Count
    attention: tuple[AttentionShape, ...]
    feed_forward: tuple[FeedForwardShape | ExpertsShape, ...]
    other_mixers: tuple[Mixer, ...] = ()
    """Layers that mix tokens in another way than by plain or latent attention."""
    parallel_mixers: bool = False
    """The other mixers stand beside the attention of the same layers (Falcon-H1)."""
    single_branch: bool = False
    """Each layer holds one mixer or one feed-forward, not both (Mamba, Nemotron-H)."""
    extra_norms: Annotated[int, Field(ge=0)] = 0
    """Further norms of the hidden width in each block (Gemma 4's experts)."""
    layer_inputs: LayerInputs | None = None
    alternating: AlternatingUpdates | None = None
    residual_streams: Annotated[int, Field(ge=1)] = 1
    """Copies of the residual stream, mixed around each branch (hyper-connections)."""
    streams_averaged: bool = False
    """The head reads their mean; else a learned mixture (DeepSeek V4)."""
    norm: Norm = Norm()
    places: NormPlaces = NormPlaces()
    final_norm: bool = True
    parallel: bool = False
    """Attention and feed-forward read the same normalised input (one norm per block)."""
    tied: bool = False
    head_bias: bool = False
    dropout: bool = False
    """Training drops elements of each branch before it joins the residual stream."""
    positions: Annotated[int, Field(ge=0)] = 0
    """Rows of a learned position table."""
    extra_embeddings: Annotated[int, Field(ge=0)] = 0
    """Rows of the token table that the head does not predict (Llama 3.2 Vision)."""
    embedding_width: Count | None = None
    """Width of the token embedding where projections lead in and out (OPT-350m)."""
    embedding_norm: bool = False
    towers: tuple[Tower, ...] = ()
    """Stored with the model; no text token passes through them."""

    @property
    def layers(self) -> int:
        """Blocks."""
        if self.single_branch:
            return self.mixers + sum(item.layers for item in self.feed_forward)
        return self.mixers

    @property
    def mixers(self) -> int:
        """Layers that mix tokens: by attention or by a recurrence."""
        beside = () if self.parallel_mixers else self.other_mixers
        return sum(item.layers for item in (*self.attention, *beside))
