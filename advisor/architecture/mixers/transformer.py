"""A decoder-only transformer: its layers, and its operator table.

Attention and feed-forward layers are listed separately, each with the number of layers that hold
it. So a model with dense layers first, or with windows on every other layer, needs no list of
layers. Every quantity of a model is a sum over layers, so their order does not matter.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from advisor.architecture.mixers import streams
from advisor.architecture.mixers.attention import AttentionShape, Count
from advisor.architecture.mixers.feed_forward import ExpertsShape, FeedForwardShape
from advisor.architecture.mixers.recurrences import Mixer, causal_convolution
from advisor.architecture.table.model import ModelArchitecture, Network, SampleSize
from advisor.architecture.table.operators import Operator, OperatorKind, Part, SavedFormat
from advisor.architecture.table.rows import (
    COMPUTE,
    FUSED_PASSES,
    LOSS_PASSES,
    REPLICATED,
    STREAM,
    TENSOR,
    Norm,
    Rows,
    kept,
    linear_input,
)
from advisor.foundation.noun import Noun

DROPOUT_PASSES: Final = 2.5
"""Dropout reads a branch and writes it and a mask of one byte for each element."""


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


class TransformerShape(Network):
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
    layer_inputs: streams.LayerInputs | None = None
    alternating: streams.AlternatingUpdates | None = None
    gated_streams: streams.GatedStreams | None = None
    word_sequences: streams.WordSequences | None = None
    residual_streams: Annotated[int, Field(ge=1)] = 1
    """Number of copies of the residual stream, mixed around each branch (hyper-connections)."""
    kernel: Annotated[int, Field(ge=0)] = 0
    """Taps of convolutions over keys, values and the output of each branch (Inkling)."""
    streams_mixed: bool = True
    """Whether blocks also mix the streams with each other."""
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
    embedding_norm_scaled: bool = True
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
        return sum(item.layers for item in self.attention) + sum(item.layers for item in beside)

    def rows(self) -> tuple[Operator, ...]:
        """Return the operator table, in the order of the forward pass, names unique."""
        return (*self._embedding(), *self._blocks(), *self._head())

    def architecture(self, *, sample: SampleSize | None = None, **facts: Any) -> ModelArchitecture:
        """Return the architecture. The size of an input has no effect: tokens pass one by one."""
        routed = [layer for layer in self.feed_forward if isinstance(layer, ExpertsShape)]
        experts = max(routed, key=lambda layer: layer.experts, default=None)
        heads, key_value_heads = self._divided_heads()
        built: dict[str, object] = {
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": key_value_heads,
            "vocab_size": self.vocab_size,
            "learned_positions": self.positions > 0,
            "num_experts": experts.experts if experts else 1,
            "experts_per_token": experts.active if experts else 1,
            "tied_embeddings": self.tied,
            "branches_per_layer": 1 if self.single_branch else 2,
            "other_towers": ("tower",) if self.towers else (),
            "operators": self.rows(),
        }
        return ModelArchitecture.model_validate({**built, **facts})

    def _divided_heads(self) -> tuple[int, int]:
        """Return the heads that tensor parallelism may divide: of attention, or of a recurrence."""
        if self.attention:
            return self.attention[0].heads, self.attention[0].key_value_heads
        # A selective scan has channels but no heads. Without heads, the model is not divided.
        heads = max(getattr(mixer, "heads", 1) for mixer in self.other_mixers)
        shared = any(mixer.shared_cache for mixer in self.other_mixers)
        return heads, 1 if shared else heads

    def _at(self, path: str, layers: int, part: Part = Part.BLOCK) -> Rows:
        return Rows(path, layers, part, self.hidden_size, self.norm)

    def _embedding(self) -> Iterator[Operator]:
        for tower in self.towers:
            row = self._at("tower", 1, Part.EMBEDDING).elementwise(
                tower.name.replace(" ", "_"),
                kind=OperatorKind.EMBEDDING,
                fused=0.0,
                launches=0,
            )
            yield row.changed(parameters=tower.parameters)
        at, hidden = self._at("embedding", 1, Part.EMBEDDING), self.hidden_size
        width = self.embedding_width or hidden
        table = (self.vocab_size + self.extra_embeddings) * width
        yield at.elementwise(
            "tokens",
            kind=OperatorKind.EMBEDDING,
            division=TENSOR,
            parameters=table,
            # A tied table is one matrix: its use counts at the head, its storage here.
            active_parameters=0 if self.tied else table,
            fused=FUSED_PASSES * width,
        )
        if self.layer_inputs is not None:
            yield from self.layer_inputs.embedding(at, self.layers)
        if self.word_sequences is not None:
            yield self.word_sequences.embedding(at)
        if self.positions:
            yield at.elementwise(
                "positions",
                kind=OperatorKind.EMBEDDING,
                parameters=self.positions * hidden,
                fused=FUSED_PASSES * hidden,
                # Look up, and add to the token's vector.
                unfused=5.0 * hidden,
                launches=2,
            )
        if self.embedding_width is not None:
            yield at.linear("projection", self.embedding_width, hidden, division=REPLICATED)
        if self.embedding_norm:
            yield at.norm("norm", hidden, scales=None if self.embedding_norm_scaled else 0)

    def _blocks(self) -> Iterator[Operator]:
        for index, attention in enumerate(self.attention):
            readers = attention.input_readers
            if self.parallel:
                readers += self.feed_forward[0].input_readers
            at = self._at(f"block.attention{_ordinal(index)}", attention.layers)
            yield from attention.rows(at, readers)
            if self.kernel:
                cached = 2 * attention.key_value_heads * attention.head_dim
                yield causal_convolution(at, cached, self.kernel, bias=False)
        for index, mixer in enumerate(self.other_mixers):
            yield from mixer.rows(self._at(f"block.mixer{_ordinal(index)}", mixer.layers))
        for index, layer in enumerate(self.feed_forward):
            read = linear_input(self.hidden_size, layer.input_readers)
            at = self._at(f"block.feed_forward{_ordinal(index)}", layer.layers)
            yield from layer.rows(at, () if self.parallel else (read,))
        yield from self._block_norms()
        at = self._at("block", self.layers)
        if self.layer_inputs is not None:
            yield from self.layer_inputs.rows(at.under("layer_input"))
        if self.alternating is not None:
            yield from self.alternating.rows(at.under("alternating"))
        if self.gated_streams is not None:
            yield from self.gated_streams.rows(at)
        if self.word_sequences is not None:
            yield from self.word_sequences.rows(
                at.only(self.word_sequences.layers).under("word_sequences")
            )
        if self.residual_streams > 1:
            yield from streams.hyper_connection_rows(
                at, self.residual_streams, mixed=self.streams_mixed
            )
        if self.kernel:
            yield causal_convolution(at, 2 * self.hidden_size, self.kernel, bias=False)
        yield self._residual(at)

    def _block_norms(self) -> Iterator[Operator]:
        for place in NormPlaces.model_fields:
            layers = self.layers
            if self.single_branch:
                # Each layer has only one branch and its norm.
                mixes = place.startswith("attention")
                layers = self.mixers if mixes else self.layers - self.mixers
            if getattr(self.places, place) and layers:
                # What a matmul just wrote is in its format; the residual stream has its own.
                stream = COMPUTE if place.endswith("output") else STREAM
                at = self._at("block", layers)
                yield at.norm(f"{place}_norm", self.hidden_size, stream=stream)
        at = self._at("block", self.layers)
        for index in range(self.extra_norms):
            yield at.norm(f"extra_norm{_ordinal(index)}", self.hidden_size)

    def _residual(self, at: Rows) -> Operator:
        branches = 1 if self.single_branch else 2
        moved = branches * self.hidden_size
        # Each of the block's two branches has a mask.
        masks = kept("dropout_masks", 2 * self.hidden_size, SavedFormat.BYTE)
        return at.elementwise(
            "residual",
            # An addition for each branch; fused with a neighbour, it reads one and writes the sum.
            fused=FUSED_PASSES * moved,
            unfused=(3.0 + (DROPOUT_PASSES if self.dropout else 0.0)) * moved,
            launches=branches * (2 if self.dropout else 1),
            saved=(masks,) if self.dropout else (),
        )

    def _head(self) -> Iterator[Operator]:
        at, width, vocab = self._at("head", 1, Part.HEAD), self.hidden_size, self.vocab_size
        if self.alternating is not None:
            yield from self.alternating.head(width)
        if self.gated_streams is not None:
            yield from self.gated_streams.head(at)
        if self.residual_streams > 1 and not self.streams_averaged:
            yield streams.hyper_connection_head(at, self.residual_streams)
        if self.final_norm:
            yield at.norm("norm", width)
        if self.embedding_width is not None:
            yield at.linear("projection", width, self.embedding_width, division=REPLICATED)
            width = self.embedding_width
        saved = (linear_input(width, ("head",)),)
        yield at.linear("logits", width, vocab, bias=self.head_bias, tied=self.tied, saved=saved)
        yield at.elementwise(
            "loss",
            kind=OperatorKind.CROSS_ENTROPY,
            division=TENSOR,
            out_features=vocab,
            fused=FUSED_PASSES * vocab,
            unfused=LOSS_PASSES * vocab,
            launches=3,
        )


def _ordinal(index: int) -> str:
    return f"_{index + 1}" if index else ""
