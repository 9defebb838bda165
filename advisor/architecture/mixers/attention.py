"""Operator rows of attention layers: projections, norms, rotation, scores and cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.latent_attention import indexer_rows, latent_projections
from advisor.architecture.mixers.shapes import AttentionShape, Norm
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import (
    FUSED_PASSES,
    elementwise,
    linear,
    linear_input,
    normalization,
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
    shape: AttentionShape,
    *,
    path: str,
    hidden_size: int,
    norm: Norm,
    block_input: tuple[str, ...],
) -> Iterator[Operator]:
    """Yield the rows of one kind of attention layer.

    Parameters
    ----------
    path : str
        Dotted name of the parent row, unique in the table.
    norm : Norm
        Norm of the model. Query, key and latent norms are of the same kind.
    block_input : tuple of str
        Linear layers that read the block's input (see ``SavedTensor.read_by``). They include the
        feed-forward's if it reads the same input.
    """
    saved = (linear_input(hidden_size, block_input),)
    if shape.latent is None:
        yield from _projections(shape, path=path, hidden_size=hidden_size, saved=saved)
        yield from _head_norms(shape, path=path, norm=norm)
    else:
        yield from latent_projections(
            shape, path=path, hidden_size=hidden_size, norm=norm, saved=saved
        )
    if shape.indexer is not None and shape.indexer.layers:
        yield from indexer_rows(shape, shape.indexer, path=path, hidden_size=hidden_size)
    if shape.rotary:
        yield _rotation(shape, path)
    yield from _cores(shape, path)
    width = shape.heads * shape.value_head_dim
    if shape.output_gate != "none":
        yield from _output_gate(shape, path=path, hidden_size=hidden_size, width=width)
    yield linear(
        f"{path}.output",
        layers=shape.layers,
        in_features=width,
        out_features=hidden_size,
        bias=shape.output_bias,
        target="o",
        # The kernel's own output is the input; an adapter in fp32 keeps a cast of it.
        saved=(
            linear_input(width, ("o",), divided=True, remade=False).model_copy(
                update={"when": SavedWhen.ADAPTER_COPY}
            ),
        ),
    )


def _projections(
    shape: AttentionShape, *, path: str, hidden_size: int, saved: tuple[SavedTensor, ...]
) -> Iterator[Operator]:
    widths = {"query": shape.heads * shape.head_dim}
    if shape.own_key_value:
        widths["key"] = shape.key_value_heads * shape.head_dim
        if shape.value_projection:
            widths["value"] = shape.key_value_heads * shape.value_head_dim
    for name, width in widths.items():
        yield linear(
            f"{path}.{name}",
            layers=shape.layers,
            in_features=hidden_size,
            out_features=width,
            bias=shape.input_bias,
            target=name[0],
            saved=saved if name == "query" else (),
        )


def _output_gate(
    shape: AttentionShape, *, path: str, hidden_size: int, width: int
) -> Iterator[Operator]:
    """Yield the projection of the output gate, and the product with it."""
    yield linear(
        f"{path}.output_gate",
        layers=shape.layers,
        in_features=hidden_size,
        out_features=width if shape.output_gate == "element" else shape.heads,
        bias=shape.input_bias and shape.output_gate == "element",
    )
    gates = width if shape.output_gate == "element" else shape.heads
    yield elementwise(
        f"{path}.gating",
        layers=shape.layers,
        fused=2.0 * width + gates,
        unfused=2.0 * width + 3.0 * gates,
        launches=2,
        division=Division.TENSOR,
        saved=(
            SavedTensor(
                name="gate_and_product",
                elements_per_token=float(gates + width),
                format=SavedFormat.COMPUTE,
                divided=True,
            ),
        ),
    )


def _head_norms(shape: AttentionShape, *, path: str, norm: Norm) -> Iterator[Operator]:
    if shape.query_key_norm == "none":
        return
    if not shape.query_key_norm_bias:
        norm = norm.model_copy(update={"bias": False})
    for name, heads in (("query_norm", shape.heads), ("key_norm", shape.key_value_heads)):
        if name == "key_norm" and not shape.own_key_value:
            continue
        whole = shape.query_key_norm == "width"
        scales = heads * shape.head_dim
        yield normalization(
            f"{path}.{name}",
            norm=norm,
            layers=shape.layers,
            width=scales if whole else shape.head_dim,
            rows=1 if whole else heads,
            scales=scales if shape.query_key_norm_per_head_scale else None,
            stream=SavedFormat.COMPUTE,
            divided=True,
        )


def _rotation(shape: AttentionShape, path: str) -> Operator:
    if shape.latent is None:
        width = (shape.heads + shape.key_value_heads) * shape.head_dim
    else:
        width = (shape.heads + 1) * shape.latent.rope_head_dim
    return elementwise(
        f"{path}.rotation",
        layers=shape.layers,
        fused=FUSED_PASSES * width,
        unfused=ROTARY_PASSES * width,
        launches=ROTARY_LAUNCHES,
        division=Division.TENSOR,
    )


def _cores(shape: AttentionShape, path: str) -> Iterator[Operator]:
    """Yield one row of scores for each window."""
    cache_heads = 1 if shape.latent else shape.key_value_heads
    if shape.latent is not None:
        cached = float(shape.latent.key_value_rank + shape.latent.rope_head_dim)
    else:
        cached = float(shape.key_value_heads * (shape.head_dim + shape.value_head_dim))
    cached *= shape.own_key_value
    scalars = shape.heads * shape.sinks + shape.gates
    sparse = shape.indexer
    for item in shape.windows:
        suffix = f"_window_{item.window}" if item.window and len(shape.windows) > 1 else ""
        yield Operator(
            name=f"{path}.scores{suffix}",
            kind=OperatorKind.ATTENTION,
            part=Part.BLOCK,
            layers=item.layers,
            division=Division.TENSOR,
            parameters=scalars,
            active_parameters=scalars,
            flops_per_token_per_key=2.0 * shape.heads * (shape.head_dim + shape.value_head_dim),
            causal=True,
            window=sparse.top_k if sparse else item.window,
            heads=shape.heads,
            cache_heads=cache_heads,
            cache_elements_per_token=0.0 if sparse else cached,
            saved=tuple(_score_tensors(shape)),
        )
        if sparse:
            # Sparse attention reads few keys, but all of them stay cached.
            yield Operator(
                name=f"{path}.cache{suffix}",
                kind=OperatorKind.ATTENTION,
                part=Part.BLOCK,
                layers=item.layers,
                division=Division.TENSOR,
                causal=True,
                heads=shape.heads,
                cache_heads=cache_heads,
                cache_elements_per_token=cached,
            )


def _score_tensors(shape: AttentionShape) -> Iterator[SavedTensor]:
    """Yield the tensors that the backward pass of softmax(q k) v needs."""

    def kept(
        name: str,
        elements: int,
        when: SavedWhen,
        *,
        form: SavedFormat = SavedFormat.COMPUTE,
        per_key: bool = False,
        copy_of: SavedFormat | None = None,
        remade: bool = False,
        backward: float = 0.0,
        by_kernel: bool = False,
    ) -> SavedTensor:
        return SavedTensor(
            name=name,
            elements_per_token=float(elements),
            format=form,
            when=when,
            copy_of=copy_of,
            per_key=per_key,
            divided=True,
            remade=per_key or remade,
            backward=backward,
            by_kernel=by_kernel,
        )

    flash, eager = SavedWhen.FLASH_ATTENTION, SavedWhen.EAGER_ATTENTION
    heads, dim, value_dim = shape.heads, shape.head_dim, shape.value_head_dim
    yield kept("query", heads * dim, SavedWhen.ALWAYS)
    yield kept("output", heads * value_dim, SavedWhen.ALWAYS, by_kernel=True)
    if shape.latent is not None:
        # Keys are assembled for all heads; values stay a view into the expanded latent. Selective
        # recomputation expands the latent again (Megatron's "mla_up_proj").
        yield kept("key", heads * dim, SavedWhen.ALWAYS, remade=True)
        expanded = heads * (shape.latent.nope_head_dim + value_dim)
        yield kept("value", expanded, SavedWhen.ALWAYS, remade=True)
    else:
        yield kept("key", shape.key_value_heads * dim, flash)
        yield kept("value", shape.key_value_heads * value_dim, flash)
        yield kept("repeated_key", heads * dim, eager)
        yield kept("repeated_value", heads * value_dim, eager)
    yield kept("log_sum_exp", heads, flash, form=SavedFormat.FP32, by_kernel=True)
    softmax = SavedFormat.FP32 if shape.fp32_softmax else SavedFormat.STREAM
    yield kept("probabilities", heads, eager, form=softmax, per_key=True, backward=2.0)
    if shape.dropout:
        byte = SavedFormat.BYTE
        yield kept("dropout_mask", heads, eager, form=byte, per_key=True, backward=-1.0)
        yield kept("dropped_probabilities", heads, eager, per_key=True, backward=-1.0)
    else:
        yield kept("probabilities_cast", heads, eager, per_key=True, copy_of=softmax, backward=-1.0)
    if shape.softcap:
        yield kept("capped_scores", heads, eager, per_key=True)
