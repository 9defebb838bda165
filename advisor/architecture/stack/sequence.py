"""Layers that mix the tokens of a sequence, or look up and condition their vectors."""

from typing import Annotated, Any, Literal

from pydantic import Field

from advisor.architecture.stack.build import Build, Signal
from advisor.architecture.stack.layers import Label, Layer, Small, Width
from advisor.architecture.stack.pointwise import Activation, Function
from advisor.architecture.table.operators import OperatorKind, SavedFormat, SavedTensor, SavedWhen
from advisor.architecture.table.rows import (
    COMPUTE,
    RMS_NORM_LAUNCHES,
    RMS_NORM_PASSES,
    STREAM,
    TENSOR,
    kept,
)

Heads = Annotated[int, Field(ge=1, le=65_536)]

GATES = {"lstm": 4, "gru": 3}
"""Matrices of a cell. Each has an input part and a recurrent part."""

CELL_TENSORS = {"lstm": 10, "gru": 7.5}
"""Tensors that each step keeps besides gates and input, in hidden widths. For an LSTM, it is the
rest of PyTorch's own accounting of 4 layers; a GRU keeps the same amount per gate."""


class Embedding(Layer):
    """A table with one vector for each token of the vocabulary."""

    entries: Width
    width: Width
    tied: bool = False
    """Whether the head uses the same table. Its use then counts there."""
    shared: bool = False
    """Whether it shares the table of an earlier look-up."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        elements = 0 if self.shared else self.entries * self.width
        build.memory_bound(
            "embedding",
            kind=OperatorKind.EMBEDDING,
            moved=2.0 * self.width * signal.positions,
            parameters=elements,
            active_parameters=0 if self.tied else elements,
        )
        build.put(Signal(self.width, signal.grid, STREAM))


class Recurrent(Layer):
    """One layer of a recurrent network over the tokens of a sequence.

    One product serves all inputs; the recurrent one runs step by step.
    """

    cell: Literal["lstm", "gru"] = "lstm"
    hidden: Width

    def _append(self, build: Build) -> None:
        if build.whole:
            what = "a recurrent layer needs tokens of a sequence as input"
            build.fail(what, "image", "tokens")
        signal, hidden = build.signal, self.hidden
        gates = GATES[self.cell] * hidden
        build.product(
            f"{self.cell}_input",
            depth=signal.width,
            columns=gates,
            positions=1,
            biases=gates,
            input_gradient=signal.gradient,
            saved=build.keep(signal, COMPUTE, ("linear",)),
        )
        elements = gates + CELL_TENSORS[self.cell] * hidden
        build.product(
            f"{self.cell}_recurrence",
            kind=OperatorKind.RECURRENCE,
            depth=hidden,
            columns=gates,
            positions=1,
            biases=gates,
            saved=(kept("gates", elements, COMPUTE),),
            state_elements_per_sequence={"lstm": 2.0, "gru": 1.0}[self.cell] * hidden,
        )
        build.put(Signal(hidden, signal.grid, COMPUTE))


class Attention(Layer):
    """Projections, scores and output of attention between all positions."""

    heads: Heads
    width: Width | None = None
    """Total width of all query heads; None takes the width of the input."""
    kept_heads: Heads | None = None
    """Heads that remain after pruning; None means all."""
    bias: bool = True
    """Whether the projections of queries, keys and values have biases."""
    key_bias: bool = True
    output_bias: bool = True
    causal: bool = False
    window: Heads | None = None
    """Number of keys in a local window (Swin)."""
    memory: Label | None = None
    """Name of the saved tensor that supplies keys and values (cross attention)."""
    joint: Label | None = None
    """Name of a saved tensor whose keys and values join the layer's own (Flux, SD 3)."""
    head_norm: bool = False
    """Whether queries and keys are normalised for each head."""
    dropout: bool = False
    """Whether training drops some probabilities; flash kernels recompute the mask."""
    materialised: bool = False
    """Whether scores are always in memory, with any kernel (T5 adds a learned bias)."""
    cached: bool = False
    """Whether generation caches keys and values."""
    output: bool = True
    """False if a later matrix replaces the output projection."""

    def _append(self, build: Build) -> None:
        signal, width = build.signal, self.width or build.signal.width
        if width % self.heads:
            build.fail("heads do not divide the width of attention", self.heads, f"of {width:,}")
        heads = self.kept_heads or self.heads
        dim = width // self.heads
        width = heads * dim
        memory = signal if self.memory is None else build.saved_signal(self.memory)
        self._project(build, width, signal, memory)
        if self.head_norm:
            build.memory_bound(
                "head_norms",
                kind=OperatorKind.NORMALIZATION,
                division=TENSOR,
                moved=4.0 * width * signal.positions,
                unfused=2.0 * RMS_NORM_PASSES * width * signal.positions,
                launches=2 * RMS_NORM_LAUNCHES,
                parameters=2 * dim,
                saved=(
                    kept("input", 2.0 * width * signal.positions, COMPUTE),
                    kept("statistics", 2.0 * heads * signal.positions, SavedFormat.FP32),
                ),
            )
        self._score(build, width, heads, signal, memory)
        mixed = signal.fresh(width=width, form=COMPUTE)
        mixed.kept.add(COMPUTE)
        cast = kept("input", mixed.elements, COMPUTE, read_by=("o",), when=SavedWhen.ADAPTER_COPY)
        if self.output:
            build.product(
                "output",
                depth=width,
                columns=signal.width,
                positions=signal.positions,
                biases=signal.width if self.output_bias else 0,
                target="o",
                saved=(cast,),
            )
            mixed = signal.fresh(form=COMPUTE)
        build.put(mixed)

    def _project(self, build: Build, width: int, signal: Signal, memory: Signal) -> None:
        own = memory is signal
        for name in ("query", "key", "value"):
            source = signal if name == "query" else memory
            biased = self.bias and (self.key_bias or name != "key")
            readers = ("q", "k", "v") if own else ("q",) if name == "query" else ("k", "v")
            build.product(
                name,
                depth=source.width,
                columns=width,
                positions=source.positions,
                biases=width if biased else 0,
                # Image networks have one matrix for what reads the same tensor.
                source=None if name == "value" or (own and name == "key") else source,
                target=name[0],
                input_gradient=source.gradient,
                saved=build.keep(source, COMPUTE, readers)
                if name == "query" or (name == "key" and not own)
                else (),
            )

    def _score(self, build: Build, width: int, heads: int, signal: Signal, memory: Signal) -> None:
        queries, read = width * signal.positions, width * memory.positions
        keys = memory.positions
        if self.joint is not None:
            keys += build.saved_signal(self.joint).positions
        fixed = None
        if build.whole or memory is not signal:
            fixed = self.window**2 if self.window else keys
        build.add_row(
            "scores",
            OperatorKind.ATTENTION,
            division=TENSOR,
            positions_per_token=signal.positions,
            flops_per_token_per_key=4.0 * queries,
            causal=self.causal and not build.whole,
            keys=fixed,
            moved_elements_per_token=2.0 * queries + 2.0 * read,
            heads=heads,
            cache_heads=heads if self.cached else 0,
            cache_elements_per_token=2.0 * read if self.cached else 0.0,
            saved=self._kept(queries, read, heads * signal.positions),
        )

    def _kept(self, queries: int, read: int, scores: int) -> tuple[SavedTensor, ...]:
        """Return what the backward pass of softmax(q k) v needs."""
        eager = SavedWhen.ALWAYS if self.materialised else SavedWhen.EAGER_ATTENTION
        per_key: dict[str, Any] = {"when": eager, "per_key": True}
        freed: dict[str, Any] = {**per_key, "backward": -1.0}
        after = [kept("probabilities_cast", scores, copy_of=STREAM, **freed)]
        if self.dropout:
            mask = kept("dropout_mask", scores, SavedFormat.BYTE, **freed)
            after = [mask, kept("dropped", scores, **freed)]
        return (
            *(kept("query", queries), kept("key", read), kept("value", read)),
            kept("output", queries),
            kept("log_sum_exp", scores, SavedFormat.FP32, when=SavedWhen.FLASH_ATTENTION),
            kept("probabilities", scores, STREAM, backward=2.0, **per_key),
            *after,
        )


class Condition(Layer):
    """Projects a saved vector, which is then added to every position or scales it."""

    source: Label
    chunks: Small = 1
    """Number of resulting vectors of the current width (shift, scale and gate)."""
    function: Function | None = "silu"

    def _append(self, build: Build) -> None:
        signal = build.signal
        build.signal = build.saved_signal(self.source)
        if self.function is not None:
            Activation(function=self.function).append(build)
        vector = build.signal
        build.product(
            "condition",
            depth=vector.width,
            columns=self.chunks * signal.width,
            positions=vector.positions,
            biases=self.chunks * signal.width,
            saved=build.keep(vector, COMPUTE, ("linear",)),
        )
        scales = self.chunks > 1
        build.memory_bound(
            "modulation" if scales else "shift",
            moved=2.0 * signal.elements,
            # Single kernels shift, scale and gate, each for one of the vectors.
            unfused=2.0 * self.chunks * signal.elements,
            launches=self.chunks,
            saved=build.keep(signal, signal.format) if scales else (),
        )
        build.put(signal.fresh())
