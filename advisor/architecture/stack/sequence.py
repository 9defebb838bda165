"""Operator rows of layers that mix the tokens of a sequence, or the tensors of two paths."""

from typing import Any

from advisor.architecture.stack import layers as vocabulary
from advisor.architecture.stack.build import Build, Signal, fresh
from advisor.architecture.stack.rows import activated
from advisor.architecture.table.operators import (
    Division,
    OperatorKind,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import COMPUTE, STREAM, kept

GATES = {"lstm": 4, "gru": 3}
"""Matrices of a cell. Each has an input part and a recurrent part."""

CELL_TENSORS = {"lstm": 10, "gru": 7.5}
"""Tensors that each step keeps besides gates and input, in hidden widths. For an LSTM, it is the
rest of PyTorch's own accounting of 4 layers; a GRU keeps the same amount per gate."""


def embedding(layer: vocabulary.Embedding, build: Build) -> None:
    """Append a look-up. If the head uses the same table, the use counts there."""
    signal = build.signal
    elements = layer.entries * layer.width
    build.memory_bound(
        "embedding",
        kind=OperatorKind.EMBEDDING,
        moved=2.0 * layer.width * signal.positions,
        parameters=0 if layer.shared else elements,
    )
    if layer.tied:
        build.rows[-1] = build.rows[-1].changed(active_parameters=0)
    build.put(Signal(layer.width, signal.grid, STREAM))


def recurrent(layer: vocabulary.Recurrent, build: Build) -> None:
    """Append a recurrent layer: one product for all inputs, and the recurrent one step by step."""
    if build.whole:
        build.fail("a recurrent layer needs tokens of a sequence as input", "image", "tokens")
    signal, hidden = build.signal, layer.hidden
    gates = GATES[layer.cell] * hidden
    build.product(
        f"{layer.cell}_input",
        depth=signal.width,
        columns=gates,
        positions=1,
        biases=gates,
        input_gradient=signal.gradient,
        saved=build.keep(signal, COMPUTE, ("linear",)),
    )
    elements = gates + CELL_TENSORS[layer.cell] * hidden
    build.product(
        f"{layer.cell}_recurrence",
        kind=OperatorKind.RECURRENCE,
        depth=hidden,
        columns=gates,
        positions=1,
        biases=gates,
        saved=(kept("gates", elements, COMPUTE),),
    )
    state = {"lstm": 2.0, "gru": 1.0}[layer.cell] * hidden
    build.rows[-1] = build.rows[-1].changed(state_elements_per_sequence=state)
    build.put(Signal(hidden, signal.grid, COMPUTE))


def attention(layer: vocabulary.Attention, build: Build) -> None:
    """Append projections, scores and output of attention."""
    signal, width = build.signal, layer.width or build.signal.width
    if width % layer.heads:
        build.fail("heads do not divide the width of attention", layer.heads, f"of {width:,}")
    if layer.kept_heads is not None:
        width = width // layer.heads * layer.kept_heads
        layer = layer.changed(heads=layer.kept_heads, kept_heads=None)
    memory = signal if layer.memory is None else build.saved_signal(layer.memory)
    own = memory is signal
    for name in ("query", "key", "value"):
        source = signal if name == "query" else memory
        biased = layer.bias and (layer.key_bias or name != "key")
        readers = ("q", "k", "v") if own else ("q",) if name == "query" else ("k", "v")
        build.product(
            name,
            depth=source.width,
            columns=width,
            positions=source.positions,
            biases=width if biased else 0,
            target=name[0],
            input_gradient=source.gradient,
            saved=build.keep(source, COMPUTE, readers)
            if name == "query" or (name == "key" and not own)
            else (),
        )
    if layer.head_norm:
        _head_norms(layer, build, width, signal.positions)
    keys = memory.positions
    if layer.joint is not None:
        keys += build.saved_signal(layer.joint).positions
    _scores(layer, build, width, signal, memory, keys)
    mixed = fresh(signal, width=width, form=COMPUTE)
    mixed.kept.add(COMPUTE)
    cast = kept("input", mixed.elements, COMPUTE, read_by=("o",), when=SavedWhen.ADAPTER_COPY)
    if layer.output:
        build.product(
            "output",
            depth=width,
            columns=signal.width,
            positions=signal.positions,
            biases=signal.width if layer.output_bias else 0,
            target="o",
            saved=(cast,),
        )
        mixed = fresh(signal, form=COMPUTE)
    build.put(mixed)


def _head_norms(layer: vocabulary.Attention, build: Build, width: int, positions: int) -> None:
    dim = width // layer.heads
    statistics = 2.0 * layer.heads * positions
    build.memory_bound(
        "head_norms",
        kind=OperatorKind.NORMALIZATION,
        moved=4.0 * width * positions,
        launches=2,
        parameters=2 * dim,
        saved=(
            kept("input", 2.0 * width * positions, COMPUTE),
            kept("statistics", statistics, SavedFormat.FP32),
        ),
    )


def _scores(
    layer: vocabulary.Attention, build: Build, width: int, signal: Signal, memory: Signal, keys: int
) -> None:
    queries, read = width * signal.positions, width * memory.positions
    if build.whole or memory is not signal:
        fixed = layer.window**2 if layer.window else keys
    else:
        fixed = None
    build.add_row(
        "scores",
        OperatorKind.ATTENTION,
        division=Division.TENSOR,
        positions_per_token=signal.positions,
        flops_per_token_per_key=4.0 * queries,
        causal=layer.causal and not build.whole,
        keys=fixed,
        moved_elements_per_token=2.0 * queries + 2.0 * read,
        heads=layer.heads,
        cache_heads=layer.heads if layer.cached else 0,
        cache_elements_per_token=2.0 * read if layer.cached else 0.0,
        saved=_score_tensors(layer, queries, read, layer.heads * signal.positions),
    )


def _score_tensors(
    layer: vocabulary.Attention, queries: int, read: int, scores: int
) -> tuple[SavedTensor, ...]:
    """Return what the backward pass of softmax(q k) v needs."""
    eager = SavedWhen.ALWAYS if layer.materialised else SavedWhen.EAGER_ATTENTION
    per_key: dict[str, Any] = {"when": eager, "per_key": True}
    freed: dict[str, Any] = {**per_key, "backward": -1.0}
    after = [kept("probabilities_cast", scores, copy_of=STREAM, **freed)]
    if layer.dropout:
        mask = kept("dropout_mask", scores, SavedFormat.BYTE, **freed)
        after = [mask, kept("dropped", scores, **freed)]
    return (
        *(kept("query", queries), kept("key", read), kept("value", read), kept("output", queries)),
        kept("log_sum_exp", scores, SavedFormat.FP32, when=SavedWhen.FLASH_ATTENTION),
        kept("probabilities", scores, STREAM, backward=2.0, **per_key),
        *after,
    )


def condition(layer: vocabulary.Condition, build: Build) -> None:
    """Append a projection of a saved vector, and its effect on every position."""
    signal, source = build.signal, build.saved_signal(layer.source)
    build.signal = source
    if layer.function is not None:
        activated(layer.function, build)
    vector = build.signal
    build.product(
        "condition",
        depth=vector.width,
        columns=layer.chunks * signal.width,
        positions=vector.positions,
        biases=layer.chunks * signal.width,
        saved=build.keep(vector, COMPUTE, ("linear",)),
    )
    scales = layer.chunks > 1
    build.memory_bound(
        "modulation" if scales else "shift",
        moved=2.0 * signal.elements,
        launches=2 if scales else 1,
        saved=build.keep(signal, signal.format) if scales else (),
    )
    build.put(fresh(signal))


def concatenate(layer: vocabulary.Concatenate, build: Build) -> None:
    """Append a copy of two tensors side by side."""
    signal, other = build.signal, build.saved_signal(layer.name)
    form = STREAM if STREAM in (signal.format, other.format) else COMPUTE
    channels = layer.along == "channels"
    sides = [(item.grid if channels else item.width) for item in (other, signal)]
    if sides[0] != sides[1]:
        what = "size" if channels else "width"
        saved = "a saved tensor and the tensor that it extends"
        build.fail(f"{saved} differ in {what}", sides[0], f"{sides[1]}")
    if channels:
        result = Signal(signal.width + other.width, signal.grid, form)
    else:
        result = Signal(signal.width, (signal.positions + other.positions,), form)
    build.memory_bound("concatenate", moved=2.0 * result.elements)
    build.put(result)
