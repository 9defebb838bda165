"""Operator rows of attention: projections, latents, norms, rotation, scores, indexer, cache."""

from collections.abc import Iterator
from typing import Any, Final

from advisor.architecture.mixers.shapes import (
    AttentionShape,
    Indexer,
    LatentAttention,
    Norm,
    NormKind,
)
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
    Rows,
    kept,
    linear_input,
)

ROTARY_PASSES: Final = 10.0
"""Hugging Face rotation, kernel by kernel: times cosine 2, negate half 1, concatenate 2, times
sine 2, add 3."""
ROTARY_LAUNCHES: Final = 10
"""These five kernels, for queries and for keys."""


def input_readers(shape: AttentionShape) -> tuple[str, ...]:
    """Return the linear layers that read the block's input, by adapter target."""
    if shape.latent is not None:
        return ("q", "k")
    if shape.fused_projection:
        return ("q+k+v",)
    readers = ["q"]
    if shape.own_key_value:
        readers += ["k", "v"] if shape.value_projection else ["k"]
    if shape.output_gate != "none":
        readers.append("output_gate")
    return tuple(readers)


def attention_rows(
    shape: AttentionShape, *, path: str, hidden_size: int, norm: Norm, readers: tuple[str, ...]
) -> Iterator[Operator]:
    """Yield the rows of one kind of attention layer.

    ``path``: dotted name of the parent row, unique in the table. ``norm``: norm of the model.
    Query, key and latent norms are of the same kind. ``readers``: linear layers that read the
    block's input (see ``SavedTensor.read_by``). They include the feed-forward's if it reads the
    same input.
    """
    at = Rows(path, shape.layers)
    saved = linear_input(hidden_size, readers)
    if shape.latent is None:
        yield from _projections(shape, at, hidden_size, saved)
        yield from _head_norms(shape, at, norm)
    else:
        yield from _latent_projections(shape, shape.latent, at, hidden_size, norm, saved)
    if shape.indexer is not None and shape.indexer.layers:
        yield from _indexer_rows(shape, shape.indexer, path, hidden_size)
    if shape.rotary:
        yield _rotation(shape, at)
    yield from _cores(shape, path)
    width = shape.heads * shape.value_head_dim
    if shape.output_gate != "none":
        yield from _output_gate(shape, at, hidden_size, width)
    # The kernel's own output is the input; an adapter in fp32 keeps a cast of it.
    cast = linear_input(width, ("o",), divided=True, remade=False)
    yield at.linear(
        "output",
        width,
        hidden_size,
        bias=shape.output_bias,
        target="o",
        saved=(cast.changed(when=SavedWhen.ADAPTER_COPY),),
    )


def _projections(
    shape: AttentionShape, at: Rows, hidden_size: int, saved: SavedTensor
) -> Iterator[Operator]:
    widths = {"query": shape.heads * shape.head_dim}
    if shape.own_key_value:
        widths["key"] = shape.key_value_heads * shape.head_dim
        if shape.value_projection:
            widths["value"] = shape.key_value_heads * shape.value_head_dim
    for name, width in widths.items():
        first = (saved,) if name == "query" else ()
        yield at.linear(
            name, hidden_size, width, bias=shape.input_bias, target=name[0], saved=first
        )


def _latent_projections(
    shape: AttentionShape,
    latent: LatentAttention,
    at: Rows,
    hidden_size: int,
    norm: Norm,
    block_input: SavedTensor,
) -> Iterator[Operator]:
    """Yield the projections of latent attention: compressed, normalised, expanded.

    Notes
    -----
    Tensor parallelism replicates the compressing matrices and divides the expanding ones by
    heads. The rows show training and prompt processing; decoding may merge the expanding matrices
    into their neighbours.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V2, 2024, arXiv:2405.04434, section 2.1.
    """
    rank, key_rank, bias = latent.query_rank, latent.key_value_rank, shape.input_bias
    read, saved = hidden_size, block_input
    if rank is not None:
        yield at.linear(
            "query_compress",
            hidden_size,
            rank,
            bias=bias,
            target="q",
            division=REPLICATED,
            saved=(block_input,),
        )
        yield at.norm("query_latent_norm", norm, rank, stream=COMPUTE)
        read, saved = rank, linear_input(rank, ("q",))
    yield at.linear("query", read, shape.heads * shape.head_dim, target="q", saved=(saved,))
    if shape.own_key_value:
        compressed = key_rank + latent.rope_head_dim
        yield at.linear(
            "key_value_compress",
            hidden_size,
            compressed,
            bias=bias,
            target="k",
            division=REPLICATED,
        )
        yield at.norm("key_value_latent_norm", norm, key_rank, stream=COMPUTE)
    expanded = shape.heads * (latent.nope_head_dim + shape.value_head_dim)
    saved = linear_input(key_rank, ("v",))
    yield at.linear("key_value", key_rank, expanded, target="v", saved=(saved,))


def _indexer_rows(
    shape: AttentionShape, indexer: Indexer, path: str, hidden_size: int
) -> Iterator[Operator]:
    """Yield the rows of the lightning indexer. It is trained separately and saves nothing here."""
    at, dim = Rows(path, indexer.layers), indexer.head_dim
    read = (shape.latent and shape.latent.query_rank) or hidden_size
    yield at.linear("index_query", read, indexer.heads * dim, division=REPLICATED)
    yield at.linear("index_key", hidden_size, dim, division=REPLICATED)
    if indexer.weighted:
        yield at.linear("index_weights", hidden_size, indexer.heads, division=REPLICATED)
    if indexer.pool:
        yield at.linear("index_gate", hidden_size, dim, division=REPLICATED)
    norm = Norm(kind=NormKind.LAYER, bias=True) if indexer.weighted else Norm(fp32_scale=True)
    norms = [at.norm("index_key_norm", norm, dim, stream=COMPUTE)]
    if not indexer.weighted:
        norms.append(at.norm("index_query_norm", norm, dim, rows=indexer.heads, stream=COMPUTE))
    yield from (row.changed(saved=()) for row in norms)
    yield at.row(
        "index_scores",
        OperatorKind.ATTENTION,
        parameters=indexer.scalars,
        flops_per_token_per_key=2.0 * indexer.heads * dim / (indexer.pool or 1),
        causal=True,
        heads=indexer.heads,
        cache_heads=1,
        # Of pools the class keeps gates and a mark, too.
        cache_elements_per_token=2 * dim + 1 if indexer.pool else dim,
    )


def _output_gate(
    shape: AttentionShape, at: Rows, hidden_size: int, width: int
) -> Iterator[Operator]:
    """Yield the projection of the output gate, and the product with it."""
    by_element = shape.output_gate == "element"
    gates = width if by_element else shape.heads
    yield at.linear("output_gate", hidden_size, gates, bias=shape.input_bias and by_element)
    yield at.elementwise(
        "gating",
        fused=2.0 * width + gates,
        unfused=2.0 * width + 3.0 * gates,
        launches=2,
        division=TENSOR,
        saved=(kept("gate_and_product", gates + width, divided=True),),
    )


def _head_norms(shape: AttentionShape, at: Rows, norm: Norm) -> Iterator[Operator]:
    if shape.query_key_norm == "none":
        return
    if not shape.query_key_norm_bias:
        norm = norm.changed(bias=False)
    heads_of = {"query_norm": shape.heads}
    if shape.own_key_value:
        heads_of["key_norm"] = shape.key_value_heads
    for name, heads in heads_of.items():
        whole, scales = shape.query_key_norm == "width", heads * shape.head_dim
        yield at.norm(
            name,
            norm,
            scales if whole else shape.head_dim,
            rows=1 if whole else heads,
            scales=scales if shape.query_key_norm_per_head_scale else None,
            stream=COMPUTE,
            divided=True,
        )


def _rotation(shape: AttentionShape, at: Rows) -> Operator:
    if shape.latent is None:
        width = (shape.heads + shape.key_value_heads) * shape.head_dim
    else:
        width = (shape.heads + 1) * shape.latent.rope_head_dim
    return at.elementwise(
        "rotation",
        fused=FUSED_PASSES * width,
        unfused=ROTARY_PASSES * width,
        launches=ROTARY_LAUNCHES,
        division=TENSOR,
    )


def _cores(shape: AttentionShape, path: str) -> Iterator[Operator]:
    """Yield one row of scores for each window."""
    cached = float(shape.key_value_heads * (shape.head_dim + shape.value_head_dim))
    if shape.latent is not None:
        cached = float(shape.latent.key_value_rank + shape.latent.rope_head_dim)
    cached *= shape.own_key_value
    sparse = shape.indexer
    cache: dict[str, Any] = {
        "causal": True,
        "heads": shape.heads,
        "cache_heads": 1 if shape.latent else shape.key_value_heads,
    }
    for item in shape.windows:
        at = Rows(path, item.layers)
        suffix = f"_window_{item.window}" if item.window and len(shape.windows) > 1 else ""
        yield at.row(
            f"scores{suffix}",
            OperatorKind.ATTENTION,
            division=TENSOR,
            parameters=shape.heads * shape.sinks + shape.gates,
            flops_per_token_per_key=2.0 * shape.heads * (shape.head_dim + shape.value_head_dim),
            window=sparse.top_k if sparse else item.window,
            cache_elements_per_token=0.0 if sparse else cached,
            saved=tuple(_score_tensors(shape)),
            **cache,
        )
        if sparse:
            # Sparse attention reads few keys, but all of them stay cached.
            yield at.row(
                f"cache{suffix}",
                OperatorKind.ATTENTION,
                division=TENSOR,
                cache_elements_per_token=cached,
                **cache,
            )


def _score_tensors(shape: AttentionShape) -> Iterator[SavedTensor]:
    """Yield the tensors that the backward pass of softmax(q k) v needs."""
    heads, dim, value_dim = shape.heads, shape.head_dim, shape.value_head_dim
    flash: dict[str, Any] = {"when": SavedWhen.FLASH_ATTENTION, "divided": True}
    eager: dict[str, Any] = {"when": SavedWhen.EAGER_ATTENTION, "divided": True}
    yield kept("query", heads * dim, divided=True)
    yield kept("output", heads * value_dim, divided=True, by_kernel=True)
    if shape.latent is not None:
        # Keys are assembled for all heads; values stay a view into the expanded latent. Selective
        # recomputation expands the latent again (Megatron's "mla_up_proj").
        yield kept("key", heads * dim, divided=True, remade=True)
        expanded = heads * (shape.latent.nope_head_dim + value_dim)
        yield kept("value", expanded, divided=True, remade=True)
    else:
        yield kept("key", shape.key_value_heads * dim, **flash)
        yield kept("value", shape.key_value_heads * value_dim, **flash)
        yield kept("repeated_key", heads * dim, **eager)
        yield kept("repeated_value", heads * value_dim, **eager)
    yield kept("log_sum_exp", heads, SavedFormat.FP32, by_kernel=True, **flash)
    per_key = {**eager, "per_key": True, "remade": True}
    softmax = SavedFormat.FP32 if shape.fp32_softmax else SavedFormat.STREAM
    yield kept("probabilities", heads, softmax, backward=2.0, **per_key)
    if shape.dropout:
        yield kept("dropout_mask", heads, SavedFormat.BYTE, backward=-1.0, **per_key)
        yield kept("dropped_probabilities", heads, backward=-1.0, **per_key)
    else:
        yield kept("probabilities_cast", heads, copy_of=softmax, backward=-1.0, **per_key)
    if shape.softcap:
        yield kept("capped_scores", heads, **per_key)
