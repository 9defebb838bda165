"""Attention layers and their rows: projections, norms, rotation, scores, indexer, cache."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from advisor.architecture.table.operators import (
    Operator,
    OperatorKind,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import (
    COMPUTE,
    FUSED_PASSES,
    REPLICATED,
    TENSOR,
    Norm,
    NormKind,
    Rows,
    kept,
    linear_input,
)
from advisor.foundation.noun import Noun

Count = Annotated[int, Field(ge=1)]

ROTARY_PASSES: Final = 10.0
"""Hugging Face rotation, kernel by kernel: times cosine 2, negate half 1, concatenate 2, times
sine 2, add 3."""
ROTARY_LAUNCHES: Final = 10
"""These five kernels, for queries and for keys."""


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
    averaged: Count | None = None
    """Number of keys whose mean is scored (Qwen 4)."""
    scalars: Annotated[int, Field(ge=0)] = 0
    """Additional parameters: norms, scales of heads, places in a pool."""

    def rows(self, at: Rows, read: int) -> Iterator[Operator]:
        """Yield the rows, whose queries come from vectors of the width ``read``.

        The indexer is trained separately and saves nothing here.
        """
        hidden, dim = at.hidden_size, self.head_dim
        yield at.linear("index_query", read, self.heads * dim, division=REPLICATED)
        yield at.linear("index_key", hidden, dim, division=REPLICATED)
        if self.weighted:
            yield at.linear("index_weights", hidden, self.heads, division=REPLICATED)
        if self.pool:
            yield at.linear("index_gate", hidden, dim, division=REPLICATED)
        norm = Norm(kind=NormKind.LAYER, bias=True) if self.weighted else Norm(fp32_scale=True)
        norms = [at.norm("index_key_norm", dim, norm=norm, stream=COMPUTE)]
        if not self.weighted:
            query = at.norm("index_query_norm", dim, norm=norm, rows=self.heads, stream=COMPUTE)
            norms.append(query)
        yield from (row.changed(saved=()) for row in norms)
        yield at.row(
            "index_scores",
            OperatorKind.ATTENTION,
            parameters=self.scalars,
            flops_per_token_per_key=2.0 * self.heads * dim / (self.pool or self.averaged or 1),
            causal=True,
            heads=self.heads,
            cache_heads=1,
            # Of pools the class keeps gates and a mark, too.
            cache_elements_per_token=2 * dim + 1 if self.pool else dim,
        )


class WindowLayers(Noun):
    """Number of layers that attend to at most ``window`` keys; None means all keys."""

    layers: Count
    window: Count | None = None


class AttentionTraits(Noun):
    """What a family settles for all of its attention layers."""

    fused_projection: bool = False
    """Whether queries, keys and values come from one matrix."""
    query_key_norm: Literal["none", "head", "width"] = "none"
    """Norm for each head, or for the whole projection (one scale per element)."""
    query_key_norm_per_head_scale: bool = False
    """Whether each head has its own scale (Command-R+)."""
    query_key_norm_scaled: bool = True
    """Whether these norms have scales if the model's norms have them."""
    query_key_norm_bias: bool = True
    """Whether these norms have a bias if the model's norms have one."""
    rotary: bool = True
    sinks: bool = False
    """Whether each head has one learned logit (gpt-oss)."""
    softcap: bool = False
    """Whether scores pass through tanh (Gemma 2)."""
    output_gate: Literal["none", "element", "head"] = "none"
    """Learned gate on the output: one value per element, or one per head."""
    gate_bias: bool = False
    """Whether a gate by element has a bias for each head (Beam)."""
    output_norm: bool = False
    """Whether a norm precedes the output projection (BitNet)."""
    fp32_softmax: bool = True
    """Whether unfused code computes the softmax in fp32 for every stream format (GPT-2: False)."""


class AttentionShape(AttentionTraits):
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
    gates: Annotated[int, Field(ge=0)] = 0
    """Learned scalars for the block's output (Llama 3.2 Vision) or scores (Mistral Large 4)."""
    dropout: bool = False
    """Whether training drops some probabilities; flash kernels recompute the mask."""
    value_projection: bool = True
    """False if the projected keys are also the values (Gemma 4)."""
    own_key_value: bool = True
    """False if keys, values (or latents) and cache belong to an earlier layer (Gemma 4)."""
    relative: tuple[Count, Count] | None = None
    """Width of each head's vector that scores distances, and the farthest distance (Inkling)."""
    key_rope_norm: bool = False
    """Latent attention: whether the rotated part of the keys passes a norm (dots 3)."""
    latent: LatentAttention | None = None
    indexer: Indexer | None = None

    @property
    def layers(self) -> int:
        """Number of layers with this attention."""
        return sum(item.layers for item in self.windows)

    @property
    def input_readers(self) -> tuple[str, ...]:
        """The linear layers that read the block's input, by adapter target."""
        if self.latent is not None:
            return ("q", "k")
        if self.fused_projection:
            return ("q+k+v",)
        readers = ["q"]
        if self.own_key_value:
            readers += ["k", "v"] if self.value_projection else ["k"]
        if self.output_gate != "none":
            readers.append("output_gate")
        return tuple(readers)

    def rows(self, at: Rows, readers: tuple[str, ...]) -> Iterator[Operator]:
        """Yield the rows. Query, key and latent norms are of the kind of the model's norms.

        ``readers``: linear layers that read the block's input (see ``SavedTensor.read_by``). They
        include the feed-forward's if it reads the same input.
        """
        saved = linear_input(at.hidden_size, readers)
        if self.latent is None:
            yield from self._projections(at, saved)
            yield from self._head_norms(at)
            if self.relative:
                yield from self._distances(at, *self.relative)
        else:
            yield from self._latent_projections(at, self.latent, saved)
        if self.indexer is not None and self.indexer.layers:
            read = (self.latent and self.latent.query_rank) or at.hidden_size
            yield from self.indexer.rows(at.only(self.indexer.layers), read)
        if self.rotary:
            yield self._rotation(at)
        yield from self._cores(at)
        width = self.heads * self.value_head_dim
        if self.output_gate != "none":
            yield from self._output_gate(at, width)
        if self.output_norm:
            yield at.norm("output_norm", width, stream=COMPUTE)
        # The kernel's own output is the input; an adapter in fp32 keeps a cast of it.
        cast = linear_input(width, ("o",), divided=True, remade=False)
        yield at.linear(
            "output",
            width,
            at.hidden_size,
            bias=self.output_bias,
            target="o",
            saved=(cast.changed(when=SavedWhen.ADAPTER_COPY),),
        )

    def _projections(self, at: Rows, saved: SavedTensor) -> Iterator[Operator]:
        widths = {"query": self.heads * self.head_dim}
        if self.own_key_value:
            widths["key"] = self.key_value_heads * self.head_dim
            if self.value_projection:
                widths["value"] = self.key_value_heads * self.value_head_dim
        for name, width in widths.items():
            first = (saved,) if name == "query" else ()
            yield at.linear(
                name, at.hidden_size, width, bias=self.input_bias, target=name[0], saved=first
            )

    def _latent_projections(
        self, at: Rows, latent: LatentAttention, block_input: SavedTensor
    ) -> Iterator[Operator]:
        """Yield the projections of latent attention: compressed, normalised, expanded.

        Notes
        -----
        Tensor parallelism replicates the compressing matrices and divides the expanding ones by
        heads. The rows show training and prompt processing; decoding may merge the expanding
        matrices into their neighbours.

        References
        ----------
        .. [1] DeepSeek-AI, DeepSeek-V2, 2024, arXiv:2405.04434, section 2.1.
        """
        rank, key_rank, bias = latent.query_rank, latent.key_value_rank, self.input_bias
        read, saved = at.hidden_size, block_input
        if rank is not None:
            yield at.linear(
                "query_compress",
                at.hidden_size,
                rank,
                bias=bias,
                target="q",
                division=REPLICATED,
                saved=(block_input,),
            )
            yield at.norm("query_latent_norm", rank, stream=COMPUTE)
            read, saved = rank, linear_input(rank, ("q",))
        yield at.linear("query", read, self.heads * self.head_dim, target="q", saved=(saved,))
        if self.own_key_value:
            compressed = key_rank + latent.rope_head_dim
            yield at.linear(
                "key_value_compress",
                at.hidden_size,
                compressed,
                bias=bias,
                target="k",
                division=REPLICATED,
            )
            yield at.norm("key_value_latent_norm", key_rank, stream=COMPUTE)
            if self.key_rope_norm:
                yield at.norm("key_rope_norm", latent.rope_head_dim, stream=COMPUTE)
        expanded = self.heads * (latent.nope_head_dim + self.value_head_dim)
        saved = linear_input(key_rank, ("v",))
        yield at.linear("key_value", key_rank, expanded, target="v", saved=(saved,))

    def _head_norms(self, at: Rows) -> Iterator[Operator]:
        if self.query_key_norm == "none":
            return
        bias = at.norms.bias and self.query_key_norm_bias
        scaled = at.norms.scale and self.query_key_norm_scaled
        heads_of = {"query_norm": self.heads}
        if self.own_key_value:
            heads_of["key_norm"] = self.key_value_heads
        for name, heads in heads_of.items():
            whole, scales = self.query_key_norm == "width", heads * self.head_dim
            yield at.norm(
                name,
                scales if whole else self.head_dim,
                norm=at.norms.changed(bias=bias, scale=scaled),
                rows=1 if whole else heads,
                scales=scales if self.query_key_norm_per_head_scale else None,
                stream=COMPUTE,
                divided=True,
            )

    def _distances(self, at: Rows, width: int, reach: int) -> Iterator[Operator]:
        yield at.linear("relative", at.hidden_size, self.heads * width)
        yield at.elementwise(
            "distances",
            parameters=width * reach,
            flops_per_token=2.0 * self.heads * width * reach,
            fused=self.heads * (width + reach),
            unfused=self.heads * (width + 3.0 * reach),
            division=TENSOR,
        )

    def _rotation(self, at: Rows) -> Operator:
        if self.latent is None:
            width = (self.heads + self.key_value_heads) * self.head_dim
        else:
            width = (self.heads + 1) * self.latent.rope_head_dim
        return at.elementwise(
            "rotation",
            fused=FUSED_PASSES * width,
            unfused=ROTARY_PASSES * width,
            launches=ROTARY_LAUNCHES,
            division=TENSOR,
        )

    def _output_gate(self, at: Rows, width: int) -> Iterator[Operator]:
        """Yield the projection of the output gate, and the product with it."""
        by_element = self.output_gate == "element"
        gates = width if by_element else self.heads
        yield at.linear("output_gate", at.hidden_size, gates, bias=self.input_bias and by_element)
        yield at.elementwise(
            "gating",
            parameters=self.heads * self.gate_bias,
            fused=2.0 * width + gates,
            unfused=2.0 * width + 3.0 * gates,
            launches=2,
            division=TENSOR,
            saved=(kept("gate_and_product", gates + width, divided=True),),
        )

    def _cores(self, at: Rows) -> Iterator[Operator]:
        cached = float(self.key_value_heads * (self.head_dim + self.value_head_dim))
        if self.latent is not None:
            cached = float(self.latent.key_value_rank + self.latent.rope_head_dim)
        cached *= self.own_key_value
        sparse, width = self.indexer, self.head_dim + self.value_head_dim
        if sparse and self.latent is not None:
            # Each query has its own keys, so none are expanded: heads share the latents themselves
            # (multi-query mode, DeepSeek-V3.2-Exp report, section 2.1).
            width = 2 * self.latent.key_value_rank + self.latent.rope_head_dim
        cache: dict[str, Any] = {
            "causal": True,
            "heads": self.heads,
            "cache_heads": 1 if self.latent else self.key_value_heads,
        }
        for item in self.windows:
            some = at.only(item.layers)
            suffix = f"_window_{item.window}" if item.window and len(self.windows) > 1 else ""
            yield some.row(
                f"scores{suffix}",
                OperatorKind.ATTENTION,
                division=TENSOR,
                parameters=self.heads * self.sinks + self.gates,
                flops_per_token_per_key=2.0 * self.heads * width,
                window=sparse.top_k if sparse else item.window,
                cache_elements_per_token=0.0 if sparse else cached,
                saved=tuple(self._score_tensors()),
                **cache,
            )
            if sparse:
                # Sparse attention reads few keys, but all of them stay cached.
                yield some.row(
                    f"cache{suffix}",
                    OperatorKind.ATTENTION,
                    division=TENSOR,
                    cache_elements_per_token=cached,
                    read_keys=sparse.top_k,
                    **cache,
                )

    def _score_tensors(self) -> Iterator[SavedTensor]:
        """Yield the tensors that the backward pass of softmax(q k) v needs."""
        heads, dim, value_dim = self.heads, self.head_dim, self.value_head_dim
        flash: dict[str, Any] = {"when": SavedWhen.FLASH_ATTENTION, "divided": True}
        eager: dict[str, Any] = {"when": SavedWhen.EAGER_ATTENTION, "divided": True}
        yield kept("query", heads * dim, divided=True)
        yield kept("output", heads * value_dim, divided=True, by_kernel=True)
        if self.latent is not None:
            # Keys are assembled for all heads; values stay a view into the expanded latent.
            # Selective recomputation expands the latent again (Megatron's "mla_up_proj").
            yield kept("key", heads * dim, divided=True, remade=True)
            expanded = heads * (self.latent.nope_head_dim + value_dim)
            yield kept("value", expanded, divided=True, remade=True)
        else:
            yield kept("key", self.key_value_heads * dim, **flash)
            yield kept("value", self.key_value_heads * value_dim, **flash)
            yield kept("repeated_key", heads * dim, **eager)
            yield kept("repeated_value", heads * value_dim, **eager)
        yield kept("log_sum_exp", heads, SavedFormat.FP32, by_kernel=True, **flash)
        per_key = {**eager, "per_key": True, "remade": True}
        softmax = SavedFormat.FP32 if self.fp32_softmax else SavedFormat.STREAM
        yield kept("probabilities", heads, softmax, backward=2.0, **per_key)
        if self.dropout:
            yield kept("dropout_mask", heads, SavedFormat.BYTE, backward=-1.0, **per_key)
            yield kept("dropped_probabilities", heads, backward=-1.0, **per_key)
        else:
            yield kept("probabilities_cast", heads, copy_of=softmax, backward=-1.0, **per_key)
        if self.softcap:
            yield kept("capped_scores", heads, **per_key)
